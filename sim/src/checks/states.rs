//! The states of nodes: their own invariants, equality at equal positions of the log, soft pins.

use std::collections::BTreeMap;

use mooncake_ha::model::Object;
use mooncake_ha::model::ids::SHARD_COUNT;
use mooncake_ha::node::MasterNode;

use crate::history::{History, Log};
use crate::net::Host;
use crate::node::Node;

/// Positions whose image is remembered.
const IMAGES_MAX: usize = 20_000;

/// What was seen of states so far.
#[derive(Default)]
pub struct States {
    /// Digest of the image at a position of the log, and who showed it first.
    images: BTreeMap<u64, (u32, Host)>,
    /// Deadline of the pin of a write, as first seen.
    deadlines: BTreeMap<u64, u64>,
    /// States walked.
    pub walked: u64,
    /// Images made.
    pub made: u64,
    /// Images compared with that of another node.
    pub compared: u64,
    /// Soft pins compared with what was asked.
    pub pins: u64,
    /// Moments at which a node could answer reads.
    pub leases: u64,
}

/// Position of a node in the log.
pub fn applied(node: &MasterNode) -> Option<u64> {
    node.status().log.applied
}

impl States {
    /// At no moment may two nodes answer reads without asking the others.
    pub fn look_for_leases(&mut self, now_ms: u64, nodes: &[Node], history: &History) {
        let lease = |node: &Node| Some((node.host(), node.master()?.raft().read_lease()?.term()));
        let held: Vec<(Host, u64)> = nodes.iter().filter_map(lease).collect();
        self.leases += held.len() as u64;
        if held.len() > 1 {
            let told: Vec<String> =
                held.iter().map(|(host, term)| format!("{host} in term {term}")).collect();
            let what = format!("nodes {} may answer reads at {now_ms} ms", told.join(" and "));
            history.log.lock().note(false, what);
        }
    }

    /// Walks a state and compares its soft pins with what clients were told.
    pub fn walk(&mut self, host: Host, node: &MasterNode, history: &History) {
        self.walked += 1;
        let found = node.look(|state| state.check());
        let mut log = history.log.lock();
        let what = format!("node {host}: {}", found.join("; "));
        log.note(found.is_empty(), what);
        let clock = node.machine().view().clock().0;
        for shard in 0..SHARD_COUNT {
            node.machine().view().table.look_shard(shard, |shard| {
                for object in shard.objects().filter(|object| !object.is_processing) {
                    self.pin(host, object, clock, &mut log);
                }
            });
        }
    }

    fn pin(&mut self, host: Host, object: &Object, clock: u64, log: &mut Log) {
        let Some(id) = object.checksum() else { return };
        let Some(claim) = log.pins.get(&id).cloned() else { return };
        self.pins += 1;
        let (least, most) = (claim.not_before + claim.ttl_ms, claim.not_after + claim.ttl_ms);
        let known = self.deadlines.get(&id).copied();
        let key = &claim.key;
        match object.pin() {
            Some(deadline) => {
                let first = *self.deadlines.entry(id).or_insert(deadline.0);
                let is_right = first == deadline.0 && (least..=most).contains(&deadline.0);
                log.note(is_right, format!(
                    "node {host}: the pin of {key} (write {id}) ends at {}, seen before {first}, due {least}..={most}",
                    deadline.0
                ));
            }
            None => {
                let due = known.unwrap_or(least);
                log.note(
                    clock >= due,
                    format!(
                        "node {host}: the pin of {key} (write {id}) is gone at {clock}, due {due}"
                    ),
                );
            }
        }
    }

    /// Compares a state with that of whoever was at the same position before.
    pub fn compare(&mut self, host: Host, node: &MasterNode, history: &History) {
        let Some(index) = applied(node) else { return };
        if self.images.get(&index).is_some_and(|(_, first)| *first == host) {
            return;
        }
        let mut image = Vec::new();
        if let Err(error) = node.freeze().save(&mut image) {
            history.log.lock().note(false, format!("node {host}: no image: {error}"));
            return;
        }
        self.made += 1;
        let digest = crc32fast::hash(&image);
        match self.images.get(&index) {
            Some((other, first)) => {
                self.compared += 1;
                let what = format!("nodes {host} and {first} differ after entry {index}");
                history.log.lock().note(digest == *other, what);
            }
            None => {
                self.images.insert(index, (digest, host));
                if self.images.len() > IMAGES_MAX {
                    self.images.pop_first();
                }
            }
        }
    }
}
