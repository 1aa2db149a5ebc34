//! Names and shards: each object where the peer's hash puts it, no name twice.
//!
//! A record under a wrong shard number is taken (another build of the peer may hash differently),
//! but if its name exists at the right place, the misfiled one is the damaged one: its name was
//! changed by an error.

use std::collections::BTreeMap;

use super::{Losses, bytes_of};
use crate::codec::DecodedShard;
use crate::error::SnapshotFile;
use crate::finding::{DropReason, Effect, Finding, Findings};
use crate::image::{Image, ObjectImage, ObjectName};
use crate::placement::{shard_of, shard_of_name};

/// Files objects under their shards.
#[derive(Default)]
pub(super) struct Filing {
    shards: BTreeMap<u16, Vec<ObjectImage>>,
    /// Shards whose objects do not ascend by name.
    unordered: Vec<u16>,
    /// Objects found under another number than their own.
    misfiled: Vec<(u16, ObjectImage)>,
    objects: u64,
    bytes: u64,
    /// Whether any object has a group.
    has_groups: bool,
}

impl Filing {
    /// Adds a shard as it was stored.
    pub fn add(&mut self, shard: DecodedShard) {
        self.objects += shard.objects.len() as u64;
        self.bytes = self.bytes.saturating_add(bytes_of(&shard.objects));
        self.has_groups |= shard.objects.iter().any(|object| !object.group.is_empty());
        let mut objects = shard.objects;
        for moved in objects.extract_if(.., |object| shard_of(object) != shard.stored) {
            self.misfiled.push((shard.stored, moved));
        }
        if !objects.is_sorted_by(|first, second| first.name < second.name) {
            self.unordered.push(shard.stored);
        }
        if !objects.is_empty() {
            self.shards.insert(shard.stored, objects);
        }
    }

    /// Adds what was filed after this, of other shards.
    pub fn append(&mut self, mut later: Filing) {
        self.shards.append(&mut later.shards);
        self.unordered.append(&mut later.unordered);
        self.misfiled.append(&mut later.misfiled);
        self.objects += later.objects;
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.has_groups |= later.has_groups;
    }

    /// Whether all objects are where they belong.
    pub fn is_in_order(&self) -> bool {
        self.unordered.is_empty() && self.misfiled.is_empty()
    }

    /// Whether any object has a group, so that its name may be in another shard, too.
    pub fn has_groups(&self) -> bool {
        self.has_groups
    }

    /// Objects and bytes added.
    pub fn totals(&self) -> (u64, u64) {
        (self.objects, self.bytes)
    }

    /// All objects by their own shard, ascending by name, no name twice in a shard.
    pub fn finish(mut self, findings: &mut Findings) -> BTreeMap<u16, Vec<ObjectImage>> {
        // Ascending, as findings are told.
        self.unordered.sort_unstable();
        for shard in &self.unordered {
            if let Some(objects) = self.shards.get_mut(shard) {
                order(*shard, objects, findings);
            }
        }
        for (stored, object) in self.misfiled {
            let shard = shard_of(&object);
            let objects = self.shards.entry(shard).or_default();
            match objects.binary_search_by(|other| other.name.cmp(&object.name)) {
                Ok(_) => {
                    let what = format!("its shard is {shard}, where its name is taken already");
                    let name = Some(&object.name);
                    findings.lost(stored, name, object.size, DropReason::DuplicateName, what);
                }
                Err(position) => {
                    findings.add(Finding {
                        file: SnapshotFile::Metadata,
                        shard: Some(stored),
                        key: Some(object.name.to_string()),
                        what: format!("its shard is {shard}"),
                        effect: Effect::Accepted,
                    });
                    objects.insert(position, object);
                }
            }
        }
        self.shards
    }
}

/// Sorts a shard by name, keeping the first of equal ones, as the peer does.
fn order(shard: u16, objects: &mut Vec<ObjectImage>, findings: &mut Findings) {
    objects.sort_by(|first, second| first.name.cmp(&second.name));
    objects.dedup_by(|later, earlier| {
        let is_twice = later.name == earlier.name;
        if is_twice {
            let what = "its name appears twice in the shard; the first record counts";
            let name = Some(&later.name);
            findings.lost(shard, name, later.size, DropReason::DuplicateName, what);
        }
        is_twice
    });
}

/// Grouped objects whose name exists in another shard, too: under another group, or without one.
pub(super) fn twice_across_shards(image: &Image) -> Losses {
    let mut grouped: Vec<(&ObjectName, u16, usize)> = Vec::new();
    for (shard, objects) in &image.shards {
        for (position, object) in objects.iter().enumerate() {
            if !object.group.is_empty() {
                grouped.push((&object.name, *shard, position));
            }
        }
    }
    grouped.sort();
    let mut losses = Losses::new();
    let mut last: Option<&ObjectName> = None;
    for (name, shard, position) in grouped {
        let plain_shard = shard_of_name(&name.tenant, &name.key, b"");
        let plain = image.shards.get(&plain_shard).filter(|_| plain_shard != shard);
        let is_plain = plain.is_some_and(|objects| {
            objects.binary_search_by(|object| object.name.cmp(name)).is_ok()
        });
        if is_plain || last == Some(name) {
            let what = "its name appears in another shard, too".to_string();
            losses.insert((shard, position), (DropReason::DuplicateName, what));
        }
        last = Some(name);
    }
    losses
}
