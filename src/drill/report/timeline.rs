//! What the page draws: who led, what clients saw, how long calls took, how many pins there were.

use crate::drill::history::{ClientHistory, Outcome};
use crate::drill::moment::Moment;
use crate::drill::watch::{NodeLook, NodeState};

/// Columns that a page has room for.
const BUCKETS_WANTED: u64 = 400;
/// Narrower ones would be mostly empty.
const BUCKET_US_MIN: u64 = 100_000;

/// Everything that is drawn, in microseconds since the scenario began.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Its length.
    pub length: u64,
    /// Width of a bucket.
    pub bucket: u64,
    /// For each node, what it was.
    pub nodes: Vec<Vec<Span>>,
    /// For each client, what it saw.
    pub clients: Vec<ClientLine>,
    /// The slowest write of each bucket, 0 if none ended in it.
    pub slowest_write: Vec<u64>,
    /// The slowest read.
    pub slowest_read: Vec<u64>,
    /// Active pins: when and how many.
    pub pins: Vec<(u64, usize)>,
}

/// A time in which a node was one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From.
    pub from: u64,
    /// To.
    pub to: u64,
    /// What.
    pub state: NodeState,
}

/// A client's line.
#[derive(Clone, Debug, Default)]
pub struct ClientLine {
    /// Who.
    pub name: String,
    /// What it saw.
    pub buckets: Vec<Bucket>,
}

/// What a client saw in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Calls that were answered in it.
    pub answered: u32,
    /// Calls that were given up in it.
    pub unanswered: u32,
}

impl Timeline {
    /// Draws nothing yet.
    pub fn new(start: Moment, end: Moment) -> Self {
        let length = end.since(start).max(1);
        let bucket = (length / BUCKETS_WANTED).max(BUCKET_US_MIN);
        Timeline { length, bucket, ..Timeline::default() }
    }

    fn buckets(&self) -> usize {
        usize::try_from(self.length / self.bucket).unwrap_or(0) + 1
    }

    fn bucket_at(&self, start: Moment, at: Moment) -> usize {
        usize::try_from(at.since(start) / self.bucket).unwrap_or(usize::MAX)
    }

    /// Adds what clients saw.
    pub fn add_clients(&mut self, start: Moment, clients: &[ClientHistory]) {
        let count = self.buckets();
        self.slowest_write = vec![0; count];
        self.slowest_read = vec![0; count];
        for client in clients {
            let mut buckets = vec![Bucket::default(); count];
            for (_, ended) in client.answered() {
                if let Some(bucket) = buckets.get_mut(self.bucket_at(start, ended)) {
                    bucket.answered += 1;
                }
            }
            for failed in &client.failed {
                if let Some(bucket) = buckets.get_mut(self.bucket_at(start, failed.ended)) {
                    bucket.unanswered += 1;
                }
            }
            self.clients.push(ClientLine { name: client.name.clone(), buckets });
            for write in client.writes.iter().filter(|write| write.outcome == Outcome::Done) {
                let at = self.bucket_at(start, write.ended);
                raise(&mut self.slowest_write, at, write.ended.since(write.begun));
            }
            for read in &client.reads {
                let at = self.bucket_at(start, read.ended);
                raise(&mut self.slowest_read, at, read.ended.since(read.begun));
            }
        }
    }

    /// Adds what nodes were.
    pub fn add_nodes(&mut self, start: Moment, looks: &[NodeLook]) {
        for look in looks {
            while self.nodes.len() <= look.node {
                self.nodes.push(Vec::new());
            }
            let Some(spans) = self.nodes.get_mut(look.node) else { continue };
            let (begun, ended) = (look.begun.since(start), look.ended.since(start));
            match spans.last_mut() {
                Some(last) if last.state == look.state => last.to = ended,
                last => {
                    // What it was between two looks is not known; half of the time each is as good as any.
                    let from = match last {
                        Some(last) => {
                            let middle = last.to.midpoint(begun);
                            last.to = middle;
                            middle
                        }
                        None => begun,
                    };
                    spans.push(Span { from, to: ended, state: look.state });
                }
            }
        }
    }
}

fn raise(values: &mut [u64], at: usize, to: u64) {
    if let Some(value) = values.get_mut(at) {
        *value = to.max(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_spans_without_holes() {
        let look =
            |at: u64, state| NodeLook { node: 0, begun: Moment(at), ended: Moment(at + 10), state };
        let mut timeline = Timeline::new(Moment(0), Moment(1_000));
        let looks = [
            look(0, NodeState::Standby),
            look(100, NodeState::Standby),
            look(200, NodeState::Serving { term: Some(2) }),
        ];
        timeline.add_nodes(Moment(0), &looks);
        let spans: Vec<(u64, u64)> = timeline.nodes[0].iter().map(|s| (s.from, s.to)).collect();
        assert_eq!(spans, [(0, 155), (155, 210)]);
    }
}
