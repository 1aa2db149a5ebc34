//! Crash points of the real process: killed at each of them, and without power where log and vote are concerned,
//! then started again. Everything that was acknowledged must be there, and the node must serve.

mod cluster;
mod image;
mod ledger;
mod single;
mod victim;

use std::collections::BTreeSet;

use mooncake_ha_crash::Point;

/// Points that a test visits: all it lists, or it fails.
struct Tour {
    planned: &'static [Point],
    visited: BTreeSet<Point>,
}

impl Tour {
    fn of(planned: &'static [Point]) -> Self {
        Tour { planned, visited: BTreeSet::new() }
    }

    /// A process has died there.
    fn visited(&mut self, point: Point) {
        println!("visited {}", point.name());
        self.visited.insert(point);
    }

    /// Every point of the plan was visited.
    fn end(self) {
        let missed = self.planned.iter().filter(|point| !self.visited.contains(point));
        assert_eq!(missed.collect::<Vec<_>>(), Vec::<&Point>::new(), "never visited");
    }
}

/// A point that is added to the program must be added to a tour.
#[test]
fn every_crash_point_is_on_the_tour_of_a_test() {
    let tours = [single::LOG_TOUR, single::JOURNAL_TOUR, single::FILES_TOUR, cluster::TOUR];
    let planned: BTreeSet<Point> = tours.into_iter().flatten().copied().collect();
    let all: BTreeSet<Point> = Point::ALL.iter().copied().collect();
    assert_eq!(planned, all);
}
