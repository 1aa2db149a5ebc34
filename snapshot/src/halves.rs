//! Work on many items, shared by two threads, with results as if one had done it.
//!
//! Each thread takes a run of neighbours, so results come in the order of the items and what is
//! found in them can be joined without sorting.

/// Weight below which a second thread costs more than it saves; weights are about bytes.
const WEIGHT_SHARED_MIN: u64 = 64 << 10;

/// What `work` makes of the items: of all of them at once if there is little to do, else of either half; in order.
///
/// `weigh` says about how many bytes are touched for an item.
pub fn in_halves<T: Send, R: Send>(
    mut items: Vec<T>,
    weigh: impl Fn(&T) -> u64,
    work: impl Fn(Vec<T>) -> R + Sync,
) -> Vec<R> {
    let total = items.iter().fold(0_u64, |sum, item| sum.saturating_add(weigh(item)));
    if items.len() < 2 || total < WEIGHT_SHARED_MIN {
        return vec![work(items)];
    }
    let mut before = 0_u64;
    let starts_before_middle = |item: &&T| {
        let start = before;
        before = before.saturating_add(weigh(item));
        start < total / 2
    };
    let middle = items.iter().take_while(starts_before_middle).count().clamp(1, items.len() - 1);
    let second = items.split_off(middle);
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| work(second));
        (work(items), second.join())
    });
    vec![first, second.unwrap_or_else(|panic| std::panic::resume_unwind(panic))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(weights: &[u64]) -> Vec<Vec<u64>> {
        in_halves(weights.to_vec(), |weight| *weight, |half| half)
    }

    #[test]
    fn every_item_is_in_one_half_in_order() {
        let heavy = WEIGHT_SHARED_MIN;
        assert_eq!(ends(&[heavy, heavy, heavy, heavy]), [[heavy; 2], [heavy; 2]]);
        assert_eq!(ends(&[9 * heavy, 1, 2]), [vec![9 * heavy], vec![1, 2]]);
        assert_eq!(ends(&[1, 2, 9 * heavy]), [vec![1, 2], vec![9 * heavy]]);
    }

    #[test]
    fn little_work_is_not_shared() {
        assert_eq!(ends(&[1, 2, 3]), [[1, 2, 3]]);
        assert_eq!(ends(&[u64::MAX]), [[u64::MAX]]);
        assert_eq!(ends(&[]), [[]; 1]);
    }
}
