//! Linearizability of each key: is there an order of all calls, each between its begin and its end,
//! in which a key that does one thing at a time would have told what clients were told?
//!
//! The search is that of Wing and Gong with remembered dead ends (Lowe). A call without an answer
//! may take effect at any moment after its begin, once, or never.

use std::collections::HashSet;

use crate::history::{Act, ClientNo, Op, Told};

/// Calls of one key; clients turn to another key before.
pub const OPS_MAX: usize = 120;

/// Steps of one search. A search that ends here has decided nothing, and is counted.
const STEPS_MAX: usize = 300_000;

/// What a key can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Absent,
    Writing(ClientNo),
    /// Whose write it is, and which.
    Present(ClientNo, u64),
}

/// What the search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Linearizable,
    /// There is none; what the longest attempt could not explain.
    Contradiction(String),
    /// The search was given up.
    Undecided,
}

/// The key after a call that was answered so; `None` if a key in that state would not answer so.
fn answered(key: Key, op: &Op) -> Option<Key> {
    let is_mine = matches!(key, Key::Writing(writer) if writer == op.client);
    let keeps = |is_right: bool| is_right.then_some(key);
    match (op.act, op.told) {
        (Act::PutStart, Told::Yes) => (key == Key::Absent).then_some(Key::Writing(op.client)),
        (Act::PutStart, Told::Exists) => keeps(key != Key::Absent),
        (Act::UpsertStart, Told::Yes) => Some(Key::Writing(op.client)),
        (Act::End(id), Told::Yes) => match key {
            Key::Writing(writer) | Key::Present(writer, _) if writer == op.client => {
                Some(Key::Present(writer, id))
            }
            _ => None,
        },
        (Act::Revoke, Told::Yes) => is_mine.then_some(Key::Absent),
        (Act::End(_) | Act::Revoke, Told::NotFound) => keeps(key == Key::Absent),
        (Act::End(_) | Act::Revoke, _) => keeps(!is_mine),
        (Act::Remove, Told::Yes) => matches!(key, Key::Present(..)).then_some(Key::Absent),
        // A write in place may have begun over a running lease.
        (Act::Remove, Told::Leased) => keeps(key != Key::Absent),
        (Act::Remove, Told::NotReady) => keeps(matches!(key, Key::Writing(_))),
        (Act::Remove | Act::Get, Told::NotFound) => keeps(key == Key::Absent),
        (Act::Get, Told::Seen(id)) => keeps(matches!(key, Key::Present(_, seen) if seen == id)),
        (Act::Get, Told::NotReady) => keeps(matches!(key, Key::Writing(_))),
        (Act::Exist, Told::Yes) => keeps(matches!(key, Key::Present(..))),
        (Act::Exist, Told::No) => keeps(!matches!(key, Key::Present(..))),
        // A refusal that the key does not decide: for want of memory, for instance.
        _ => Some(key),
    }
}

/// The key after a call without an answer has taken effect; `None` if it would have none.
fn unanswered(key: Key, op: &Op) -> Option<Key> {
    let told = match op.act {
        Act::Get | Act::Exist => return None,
        _ => Told::Yes,
    };
    answered(key, &Op { told, ..op.clone() })
}

struct Search<'o> {
    ops: &'o [Op],
    seen: HashSet<(u128, Key)>,
    steps: usize,
    /// The most calls that could be put in order, and what then was the key.
    best: (u32, u128, Key),
}

/// Looks for an order of the calls of a key, at most [`OPS_MAX`] of them.
pub fn check(ops: &[Op]) -> Verdict {
    if ops.len() > OPS_MAX {
        return Verdict::Undecided;
    }
    let (seen, best) = (HashSet::new(), (0, 0, Key::Absent));
    let mut search = Search { ops, seen, steps: 0, best };
    if search.go(0, Key::Absent) {
        return Verdict::Linearizable;
    }
    if search.steps >= STEPS_MAX {
        return Verdict::Undecided;
    }
    Verdict::Contradiction(search.explain())
}

impl Search<'_> {
    fn go(&mut self, done: u128, key: Key) -> bool {
        let is_open = |at: usize| done & (1 << at) == 0;
        let open = self.ops.iter().enumerate().filter(|(at, _)| is_open(*at));
        // Whatever began after the first end of an open call comes after that call.
        let Some(limit) = open.map(|(_, op)| op.ended).min().filter(|end| *end != u64::MAX) else {
            return true;
        };
        self.steps += 1;
        if self.steps >= STEPS_MAX || !self.seen.insert((done, key)) {
            return false;
        }
        if done.count_ones() > self.best.0 {
            self.best = (done.count_ones(), done, key);
        }
        for (at, op) in self.ops.iter().enumerate() {
            if !is_open(at) || op.begun > limit {
                continue;
            }
            let is_known = op.told != Told::Unknown;
            let next = if is_known { answered(key, op) } else { unanswered(key, op) };
            if let Some(next) = next
                && self.go(done | (1 << at), next)
            {
                return true;
            }
        }
        false
    }

    fn explain(&self) -> String {
        let (_, done, key) = self.best;
        let open = self.ops.iter().enumerate().filter(|(at, _)| done & (1 << at) == 0);
        let known = open.filter(|(_, op)| op.ended != u64::MAX);
        let next: Vec<String> = known
            .take(4)
            .map(|(_, op)| {
                let Op { client, begun_ms, ended_ms, act, told, .. } = op;
                format!("client {client} {begun_ms}..{ended_ms} ms {act:?} -> {told:?}")
            })
            .collect();
        format!("after {} calls the key is {key:?}, then: {}", done.count_ones(), next.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(client: ClientNo, begun: u64, ended: u64, act: Act, told: Told) -> Op {
        let ended = if told == Told::Unknown { u64::MAX } else { ended };
        Op { client, begun, ended, begun_ms: begun, ended_ms: ended, act, told }
    }

    fn written() -> Vec<Op> {
        vec![op(1, 1, 2, Act::PutStart, Told::Yes), op(1, 3, 4, Act::End(7), Told::Yes)]
    }

    #[test]
    fn a_read_after_an_acknowledged_write_must_see_it() {
        let mut ops = written();
        ops.push(op(2, 5, 6, Act::Get, Told::Seen(7)));
        assert_eq!(check(&ops), Verdict::Linearizable);
        ops.push(op(2, 7, 8, Act::Get, Told::NotFound));
        assert!(matches!(check(&ops), Verdict::Contradiction(_)));
    }

    #[test]
    fn a_read_during_a_write_may_see_either_but_not_back_and_forth() {
        let mut ops = written();
        ops.push(op(1, 5, 20, Act::Remove, Told::Yes));
        ops.push(op(2, 6, 7, Act::Get, Told::NotFound));
        assert_eq!(check(&ops), Verdict::Linearizable);
        ops.push(op(2, 8, 9, Act::Get, Told::Seen(7)));
        assert!(matches!(check(&ops), Verdict::Contradiction(_)));
    }

    #[test]
    fn a_call_without_an_answer_may_take_effect_late_but_once() {
        let mut ops = written();
        ops.push(op(1, 5, 0, Act::Remove, Told::Unknown));
        ops.push(op(2, 6, 7, Act::Get, Told::Seen(7)));
        ops.push(op(2, 8, 9, Act::Get, Told::NotFound));
        assert_eq!(check(&ops), Verdict::Linearizable);
        ops.push(op(1, 10, 11, Act::PutStart, Told::Yes));
        ops.push(op(1, 12, 13, Act::End(8), Told::Yes));
        ops.push(op(2, 14, 15, Act::Get, Told::NotFound));
        assert!(matches!(check(&ops), Verdict::Contradiction(_)), "it would have to remove twice");
    }

    #[test]
    fn a_write_that_was_done_twice_shows_in_what_its_client_was_told() {
        let mut ops = written();
        ops.push(op(1, 5, 6, Act::Remove, Told::NotFound));
        assert!(matches!(check(&ops), Verdict::Contradiction(_)));
        let ops = [op(1, 1, 2, Act::PutStart, Told::Exists)];
        assert!(matches!(check(&ops), Verdict::Contradiction(_)));
    }
}
