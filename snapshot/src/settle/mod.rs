//! A whole image from payloads, made consistent: what does not fit is left out and named.
//!
//! Guards everything that needs more than one shard: names, places, segments, memory ranges, node
//! tables. After this an image can be loaded without further checks. Objects pay for their own
//! faults only; what time does to them is `normalize`'s business. For snapshots whose every fault
//! must be fatal (the log's own), use [`crate::Decoder`] and refuse findings.

mod memory;
mod names;
mod sound;

use std::collections::BTreeMap;

use crate::codec::{Decoder, Limits, Payloads};
use crate::error::{SnapshotError, SnapshotFile};
use crate::finding::{DropReason, Effect, Findings};
use crate::image::{Image, ObjectImage, ReplicaPlace};

pub use memory::refit_allocators;

/// An image and how it came about.
#[derive(Debug)]
pub struct Decoded {
    /// The image, consistent.
    pub image: Image,
    /// What was odd or left out.
    pub findings: Findings,
    /// Objects in the files, those left out included.
    pub objects_seen: u64,
    /// Bytes of the objects whose record could be read.
    pub bytes_seen: u64,
}

/// Why an object is left out.
type Loss = (DropReason, String);
/// Objects to be left out, by shard and position in it.
type Losses = BTreeMap<(u16, usize), Loss>;

/// Reads a whole image and makes it consistent.
///
/// Errors: a fault of a whole file. Anything smaller becomes a finding.
pub fn decode_image(payloads: &Payloads, limits: &Limits) -> Result<Decoded, SnapshotError> {
    let mut decoder = Decoder::open(payloads, limits)?;
    let (filing, last_id) = read_shards(&mut decoder)?;
    let (globals, mut findings) = decoder.finish();
    let unreadable: u64 = findings.dropped.values().map(|tally| tally.objects).sum();
    let mut image = Image { shards: BTreeMap::new(), globals };
    let (objects, bytes_seen) = filing.totals();
    let has_groups = filing.has_groups();
    let last_id = last_id.filter(|_| filing.is_in_order());
    image.shards = filing.finish(&mut findings);
    let is_whole = !has_groups || !leave_out_twice(&mut image, &mut findings);
    let last_id = match last_id.filter(|_| is_whole) {
        Some(last_id) => last_id,
        None => {
            memory::settle_memory(&mut image, &mut findings)?;
            last_replica_id(&image)
        }
    };
    raise_replica_counter(&mut image, last_id, &mut findings);
    drop_dangling_segments(&mut image, &mut findings);
    Ok(Decoded { image, findings, objects_seen: objects + unreadable, bytes_seen })
}

/// Files the objects of all shards. Answers the greatest id of a replica, too, if memory need not be
/// settled as long as nothing else is left out.
fn read_shards(decoder: &mut Decoder<'_>) -> Result<(names::Filing, Option<u64>), SnapshotError> {
    // The allocators are compared with the objects while these are on their way.
    let globals = decoder.take_globals();
    let ground = sound::Ground::of(&globals);
    let new = || (names::Filing::default(), ground.as_ref().map(sound::Seen::new));
    let halves = decoder.fold_shards(new, |(filing, seen), shard| {
        if let (Some(ground), Some(seen)) = (&ground, seen) {
            seen.shard(ground, &shard.objects);
        }
        filing.add(shard);
    })?;
    let mut all = names::Filing::default();
    let mut seen = Vec::new();
    for (filing, half) in halves {
        all.append(filing);
        seen.extend(half);
    }
    let last_id = ground.as_ref().and_then(|ground| ground.agrees(seen));
    decoder.put_globals(globals);
    Ok((all, last_id))
}

/// Leaves out objects whose name is in another shard, too; answers whether there were any.
fn leave_out_twice(image: &mut Image, findings: &mut Findings) -> bool {
    let losses = names::twice_across_shards(image);
    let is_any = !losses.is_empty();
    leave_out(image, losses, findings);
    is_any
}

/// Removes objects, with a finding for each.
fn leave_out(image: &mut Image, losses: Losses, findings: &mut Findings) {
    if losses.is_empty() {
        return;
    }
    for (shard, objects) in &mut image.shards {
        let mut position = 0;
        objects.retain(|object| {
            let loss = losses.get(&(*shard, position));
            position += 1;
            if let Some((reason, what)) = loss {
                findings.lost(*shard, Some(&object.name), object.size, *reason, what.clone());
            }
            loss.is_none()
        });
    }
    image.shards.retain(|_, objects| !objects.is_empty());
}

fn last_replica_id(image: &Image) -> u64 {
    let live = image.objects().flat_map(|(_, object)| &object.replicas);
    let discarded = image.globals.discarded.iter().flat_map(|item| &item.replicas);
    live.chain(discarded).map(|replica| replica.id).max().unwrap_or(0)
}

/// Replica ids are never reused, so the counter must be above all of them.
fn raise_replica_counter(image: &mut Image, last_id: u64, findings: &mut Findings) {
    let needed = last_id.saturating_add(1);
    if image.globals.replica_next_id < needed {
        let what = format!(
            "the next replica id {} is in use already, raised to {needed}",
            image.globals.replica_next_id
        );
        findings.note(SnapshotFile::Metadata, Effect::Repaired, what);
        image.globals.replica_next_id = needed;
    }
}

/// Clients may only name segments that exist.
fn drop_dangling_segments(image: &mut Image, findings: &mut Findings) {
    let segments = &mut image.globals.segments;
    let mut clients = std::mem::take(&mut segments.clients);
    for (client, ids) in &mut clients {
        ids.retain(|id| {
            let is_known = segments.segment(*id).is_some();
            if !is_known {
                let what = format!("client {client} names a segment that is not there");
                findings.item(SnapshotFile::Segments, id, Effect::ItemDropped, what);
            }
            is_known
        });
    }
    segments.clients = clients;
}

/// The segment of a memory replica.
fn segment_of(place: &ReplicaPlace) -> Option<crate::image::Uuid> {
    match place {
        ReplicaPlace::Memory { segment, .. } => Some(*segment),
        _ => None,
    }
}

/// Sum of sizes.
fn bytes_of(objects: &[ObjectImage]) -> u64 {
    objects.iter().fold(0, |sum, object| sum.saturating_add(object.size))
}
