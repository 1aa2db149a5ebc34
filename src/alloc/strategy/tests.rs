//! The strategies against small made-up pools.

use super::*;

/// Each name has segments with a number of free pieces; a try takes one.
struct Shelf {
    pieces: Vec<Vec<u32>>,
    tried: Vec<usize>,
}

impl Shelf {
    fn new(pieces: &[&[u32]]) -> Self {
        Shelf { pieces: pieces.iter().map(|name| name.to_vec()).collect(), tried: Vec::new() }
    }
}

impl Shelf {
    /// `names` names with one segment of that many pieces each.
    fn of(names: usize, pieces: u32) -> Self {
        Shelf { pieces: vec![vec![pieces]; names], tried: Vec::new() }
    }
}

impl Pool for Shelf {
    type Space = u32;

    fn names(&self) -> usize {
        self.pieces.len()
    }

    fn members(&self, name: usize) -> usize {
        self.pieces[name].len()
    }

    fn free_ratio(&self, name: usize, _: Strategy) -> FreeRatio {
        let free = self.pieces[name].iter().sum::<u32>();
        FreeRatio { free: free.into(), total: 10 * self.pieces[name].len() as u64 }
    }

    fn try_allocate(&mut self, name: usize, member: usize) -> Option<u32> {
        self.tried.push(name);
        let pieces = &mut self.pieces[name][member];
        *pieces = pieces.checked_sub(1)?;
        Some(*pieces)
    }
}

fn names(
    strategy: Strategy,
    replicas: u64,
    preferred: &[usize],
    seed: u64,
    shelf: &mut Shelf,
) -> Result<Vec<usize>, ErrorCode> {
    let placed = place(strategy, replicas, preferred, &mut Rng::new(seed), shelf)?;
    Ok(placed.into_iter().map(|placed| placed.name).collect())
}

const ALL: [Strategy; 4] =
    [Strategy::Random, Strategy::LocalFirst, Strategy::FreeRatioFirst, Strategy::SsdFreeRatioFirst];

#[test]
fn preferred_names_come_first_and_in_order() {
    for strategy in ALL {
        let mut shelf = Shelf::of(6, 5);
        let got = names(strategy, 3, &[4, 4, 99, 2], 1, &mut shelf).unwrap();
        assert_eq!(got[..2], [4, 2]);
        assert_eq!(got.len(), 3);
        assert!(![2, 4].contains(&got[2]));
    }
}

#[test]
fn each_replica_goes_to_another_name_and_too_few_names_are_accepted() {
    for strategy in ALL {
        for seed in 0..20 {
            let mut shelf = Shelf::new(&[&[5, 5], &[0], &[1]]);
            let mut got = names(strategy, u64::MAX, &[0], seed, &mut shelf).unwrap();
            got.sort_unstable();
            assert_eq!(got, [0, 2]);
        }
    }
}

#[test]
fn no_names_no_space_and_no_replicas_are_refused() {
    for strategy in ALL {
        let mut none = Shelf::new(&[]);
        let refused = Err(ErrorCode::NoAvailableHandle);
        assert_eq!(names(strategy, 1, &[0], 1, &mut none), refused);
        let mut full = Shelf::new(&[&[0], &[0, 0]]);
        assert_eq!(names(strategy, 1, &[1], 1, &mut full), refused);
        let mut some = Shelf::new(&[&[1]]);
        let invalid = Err(ErrorCode::InvalidParams);
        assert_eq!(names(strategy, 0, &[], 1, &mut some), invalid);
        assert_eq!(names(strategy, 3, &[7], 1, &mut some), Ok(vec![0]));
    }
}

#[test]
fn a_name_with_several_segments_is_tried_all_round() {
    for seed in 0..20 {
        let mut shelf = Shelf::new(&[&[0, 0, 1, 0]]);
        let mut rng = Rng::new(seed);
        let placed = place(Strategy::Random, 1, &[], &mut rng, &mut shelf).unwrap();
        assert_eq!(placed[0].member, 2);
    }
}

#[test]
fn a_random_sweep_visits_at_most_a_hundred_names_once_each() {
    let mut shelf = Shelf::of(250, 0);
    assert!(names(Strategy::Random, 1, &[], 3, &mut shelf).is_err());
    assert_eq!(shelf.tried.len(), 100);
    for pair in shelf.tried.windows(2) {
        assert_eq!(pair[1], (pair[0] + 1) % 250);
    }
}

#[test]
fn random_starts_spread_over_all_names() {
    let mut hits = [0_u32; 8];
    for seed in 0..800 {
        let got = names(Strategy::Random, 1, &[], seed, &mut Shelf::of(8, 1)).unwrap();
        hits[got[0]] += 1;
    }
    assert!(hits.iter().all(|hits| (60..140).contains(hits)), "{hits:?}");
}

#[test]
fn the_emptiest_of_the_sample_is_taken() {
    for seed in 0..20 {
        let mut shelf = Shelf::new(&[&[3], &[9], &[8], &[10, 2], &[7]]);
        let got = names(Strategy::FreeRatioFirst, 2, &[], seed, &mut shelf).unwrap();
        assert_eq!(got, [1, 2]);
    }
}

#[test]
fn equal_seeds_choose_equally_and_the_choice_is_fixed_for_ever() {
    let chosen: Vec<usize> = (0..12)
        .map(|seed| names(Strategy::Random, 1, &[], seed, &mut Shelf::of(10, 1)).unwrap()[0])
        .collect();
    assert_eq!(chosen, GOLDEN);
}

const GOLDEN: [usize; 12] = [8, 5, 5, 1, 4, 3, 7, 3, 6, 6, 0, 3];

#[test]
fn ratios_are_compared_exactly_where_a_float_would_not_tell_them_apart() {
    let ratio = |free, total| FreeRatio { free, total };
    let big = u64::MAX;
    assert_eq!(ratio(big - 1, big).compare(ratio(big - 2, big)), Ordering::Greater);
    assert_eq!(ratio(1, 2).compare(ratio(2, 4)), Ordering::Equal);
    assert_eq!(ratio(0, 0).compare(ratio(1, 100)), Ordering::Less);
    assert_eq!(ratio(1, 100).compare(ratio(5, 0)), Ordering::Greater);
    assert_eq!(ratio(5, 0).compare(ratio(0, 7)), Ordering::Equal);
    assert_eq!(FreeRatio::ALL_FREE.compare(ratio(9, 10)), Ordering::Greater);
}

#[test]
fn flag_values_name_the_strategies() {
    assert_eq!(Strategy::parse("local_first"), Strategy::LocalFirst);
    assert_eq!(Strategy::parse("free_ratio_first"), Strategy::FreeRatioFirst);
    assert_eq!(Strategy::parse("nonsense"), Strategy::Random);
    assert!(Strategy::LocalFirst.is_local(1, false));
    assert!(!Strategy::LocalFirst.is_local(2, true));
    assert!(Strategy::Random.is_local(1, true));
}
