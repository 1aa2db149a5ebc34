//! The invariants of dynamic replication, for `State::check`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::State;
use super::command::DynamicToken;
use crate::model::{Millis, Object, ObjectRef, ReplicaId};
use crate::state::put::KeyAt;

impl State {
    /// Everything here belongs to objects that are there, and is found in the order of its time.
    pub(in crate::state) fn check_dynamic(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let dynamic = &self.dynamic;
        for (at, known) in &dynamic.reservations {
            let found = self.find_filed(KeyAt::new(&known.name.tenant, &known.name.key));
            if found != Some(*at) {
                findings.push(format!("{known:?} is of {at:?}, found {found:?}"));
            }
            if known.token == DynamicToken::default() {
                findings.push(format!("{known:?} has no token"));
            }
        }
        let reserved = dynamic.reservations.iter();
        let by_expiry = reserved.map(|(at, known)| ((known.expires, known.mark), *at));
        check_order("reservations", by_expiry, &dynamic.by_expiry, &mut findings);
        let resting = dynamic.rests.iter().map(|(at, rest)| ((rest.until, rest.mark), *at));
        check_order("rests", resting, &dynamic.by_end, &mut findings);
        for at in dynamic.rests.keys() {
            if self.view.table.peek(*at, |_| ()).is_none() {
                findings.push(format!("{at:?} rests and is not there"));
            }
        }
        let mut all = BTreeSet::new();
        for (at, ids) in &dynamic.copies {
            let is_there = |object: &Object| {
                ids.iter().all(|id| object.replicas.iter().any(|replica| replica.id == *id))
            };
            let is_right = !ids.is_empty() && ids.iter().all(|id| all.insert(*id));
            if !is_right || self.view.table.peek(*at, is_there) != Some(true) {
                findings.push(format!("{at:?} has the dynamic replicas {ids:?}"));
            }
        }
        findings
    }
}

fn check_order(
    what: &str,
    kept: impl Iterator<Item = ((Millis, ReplicaId), ObjectRef)>,
    order: &BTreeMap<(Millis, ReplicaId), ObjectRef>,
    findings: &mut Vec<String>,
) {
    let kept: BTreeMap<_, _> = kept.collect();
    if kept != *order {
        findings.push(format!("{what} are {kept:?}, by time {order:?}"));
    }
}
