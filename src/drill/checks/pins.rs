//! Soft pins: none is lost before its time, none moves by a millisecond.
//!
//! Pinned keys of a drill are written once and left alone, so the deadline that is seen first must be seen ever
//! after. Where clients and masters share a clock, the first one is checked too.

use std::collections::BTreeMap;

use super::{Gone, Looked};
use crate::drill::finding::{Findings, Kind};
use crate::drill::history::{ClientHistory, KeyNo, Outcome, Write, Written};
use crate::drill::moment::Moment;

/// Wall clocks of one machine are one, but a leader's clock closes a gap slowly after a take-over.
const CLOCK_SLACK_MS: u64 = 2_000;

/// All pins of this drill at one moment, as the node that led told them.
#[derive(Clone, Debug, Default)]
pub struct PinSample {
    /// Before the question.
    pub begun: Moment,
    /// Unix milliseconds of this machine then.
    pub wall_ms: u64,
    /// Deadlines in Unix milliseconds.
    pub deadlines: BTreeMap<KeyNo, u64>,
}

/// Compares each look at the pins with what was acknowledged before it, and with the looks before.
pub fn check_pins(
    clients: &[ClientHistory],
    samples: &[PinSample],
    gone: &Gone,
    has_one_clock: bool,
    run: &str,
    looked: &mut Looked,
    findings: &mut Findings,
) {
    let mut first_seen: BTreeMap<KeyNo, u64> = BTreeMap::new();
    let mut lost: BTreeMap<KeyNo, ()> = BTreeMap::new();
    let writes = clients.iter().flat_map(|client| &client.writes);
    let pinned: Vec<(&Write, u64)> = writes.filter_map(pinned).collect();
    for sample in samples {
        looked.pin_looks += 1;
        for (write, ttl_ms) in &pinned {
            let name = || write.key.name(run);
            match (sample.deadlines.get(&write.key), first_seen.get(&write.key)) {
                (Some(now), Some(first)) if now != first => {
                    let what = format!(
                        "the pin of {} ended at {first}, at {:.3} s it ends at {now}",
                        name(),
                        sample.begun.seconds()
                    );
                    findings.add(Kind::PinMoved, sample.begun, what);
                    first_seen.insert(write.key, *now);
                }
                (Some(now), None) => {
                    first_seen.insert(write.key, *now);
                    looked.pins += 1;
                    if has_one_clock && !window(write, *ttl_ms).contains(now) {
                        let what = format!(
                            "the pin of {} was to start between {} and {} and last {ttl_ms} ms, but ends at {now}",
                            name(),
                            write.wall_ms,
                            write.wall_ms + span_ms(write),
                        );
                        findings.add(Kind::PinMoved, sample.begun, what);
                    }
                }
                (None, _) if gone.allows(write, sample.begun) => {}
                (None, _)
                    if write.ended < sample.begun
                        && !is_over(write, *ttl_ms, sample)
                        && lost.insert(write.key, ()).is_none() =>
                {
                    let at = sample.begun.seconds();
                    let what = format!("{} is not pinned any more at {at:.3} s", name());
                    findings.add(Kind::PinLost, sample.begun, what);
                }
                _ => {}
            }
        }
    }
}

/// An acknowledged write that started a pin, and of how many milliseconds.
fn pinned(write: &Write) -> Option<(&Write, u64)> {
    match write.written {
        Written::Object { pin_ttl_ms: Some(ttl), .. } if write.outcome == Outcome::Done => {
            Some((write, ttl))
        }
        _ => None,
    }
}

/// How long the last call of a write took.
fn span_ms(write: &Write) -> u64 {
    match write.written {
        Written::Object { placed, .. } => write.ended.since(placed) / 1000 + 1,
        Written::Removal => 0,
    }
}

/// The deadlines that a pin may have.
fn window(write: &Write, ttl_ms: u64) -> std::ops::RangeInclusive<u64> {
    let earliest = write.wall_ms + ttl_ms;
    earliest.saturating_sub(CLOCK_SLACK_MS)..=earliest + span_ms(write) + CLOCK_SLACK_MS
}

/// Whether a pin may have ended by itself.
fn is_over(write: &Write, ttl_ms: u64, sample: &PinSample) -> bool {
    sample.wall_ms + CLOCK_SLACK_MS >= write.wall_ms + ttl_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::history::ClientNo;

    const KEY: KeyNo = KeyNo { client: ClientNo(0), number: 0 };
    const TTL_MS: u64 = 60_000;

    fn kinds(samples: &[(u64, Option<u64>)]) -> Vec<Kind> {
        let pin_ttl_ms = Some(TTL_MS);
        let written = Written::Object { id: 1, place: None, placed: Moment(1_000), pin_ttl_ms };
        let mut client = ClientHistory::new(ClientNo(0), String::new(), Moment(0));
        client.writes.push(Write {
            key: KEY,
            begun: Moment(0),
            ended: Moment(5_000),
            wall_ms: 1_000_000,
            written,
            outcome: Outcome::Done,
        });
        let sample = |(ms, deadline): &(u64, Option<u64>)| PinSample {
            begun: Moment(ms * 1_000),
            wall_ms: 1_000_000 + ms,
            deadlines: deadline.iter().map(|deadline| (KEY, *deadline)).collect(),
        };
        let samples: Vec<_> = samples.iter().map(sample).collect();
        let mut findings = Findings::default();
        check_pins(
            &[client],
            &samples,
            &Gone::default(),
            true,
            "r",
            &mut Looked::default(),
            &mut findings,
        );
        findings.told().iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn a_pin_that_stands_is_no_finding_and_one_that_moves_by_a_millisecond_is() {
        assert_eq!(kinds(&[(10, Some(1_060_003)), (900, Some(1_060_003))]), []);
        assert_eq!(kinds(&[(10, Some(1_060_003)), (900, Some(1_060_004))]), [Kind::PinMoved]);
    }

    #[test]
    fn a_pin_that_is_gone_is_lost_once_and_one_that_is_over_is_not() {
        assert_eq!(kinds(&[(10, None), (20, None)]), [Kind::PinLost]);
        assert_eq!(kinds(&[(1, None), (10, Some(1_060_003)), (70_000, None)]), []);
    }

    #[test]
    fn a_pin_that_starts_at_another_time_than_its_write_ended_has_moved() {
        assert_eq!(kinds(&[(10, Some(1_090_000))]), [Kind::PinMoved]);
        assert_eq!(kinds(&[(10, Some(1_050_000))]), [Kind::PinMoved]);
    }
}
