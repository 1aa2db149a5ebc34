//! Memory: every allocation inside its segment, none overlapping, every node table as the
//! allocations say.
//!
//! The allocation record of a replica says the same place in three ways (address, offset, node) and
//! its size twice; it is believed only if they agree. The node table is derived data: where it
//! differs, it gives way.

use std::collections::BTreeMap;

use super::{Losses, leave_out, segment_of};
use crate::error::{SnapshotError, SnapshotFile};
use crate::finding::{DropReason, Effect, Findings};
use crate::image::{
    Globals, HandleImage, Image, ReplicaImage, ReplicaPlace, SegmentImage, Uuid, multiplier_bits,
    size_class_up, size_of_class,
};
use crate::table::{self, LiveNode};

/// Who holds a memory range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Object { shard: u16, position: usize },
    Discarded { item: usize },
}

/// A memory range that is spoken for.
#[derive(Clone, Copy, Debug)]
struct Claim {
    live: LiveNode,
    bytes: u64,
    owner: Owner,
}

/// Discarded items to be left out, by position.
type ItemLosses = BTreeMap<usize, String>;
/// Claims by segment.
type Claims = BTreeMap<Uuid, Vec<Claim>>;

/// What a handle is judged by.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    base: u64,
    bits: u32,
    units: u32,
    entries: usize,
}

impl Geometry {
    /// The geometry of a segment whose three descriptions of it agree.
    fn of(segment: &SegmentImage) -> Result<Self, &'static str> {
        let allocator = segment.allocator.as_ref().ok_or("the segment has no allocator")?;
        let offset = &allocator.offset;
        if segment.base != allocator.base || segment.base != offset.base {
            return Err("the segment and its allocator differ in their base address");
        }
        if segment.size != allocator.total_bytes || segment.size != offset.capacity {
            return Err("the segment and its allocator differ in their size");
        }
        let bits = multiplier_bits(segment.size);
        if bits != offset.multiplier_bits || segment.size >> bits != u64::from(offset.table.size) {
            return Err("the allocator's unit or space does not fit the segment's size");
        }
        let (base, units, entries) = (segment.base, offset.table.size, offset.table.nodes.len());
        Ok(Geometry { base, bits, units, entries })
    }

    /// The range of an allocation, if its record agrees with itself and the segment.
    pub(super) fn range(
        &self,
        size: u64,
        address: u64,
        handle: &HandleImage,
    ) -> Result<LiveNode, String> {
        if handle.size != size || handle.address != address {
            return Err("the replica and its allocation differ in address or size".into());
        }
        let expected = u64::from(handle.offset)
            .checked_mul(1 << self.bits)
            .and_then(|bytes| self.base.checked_add(bytes));
        if expected != Some(address) {
            return Err(format!("address {address:#x} is not at offset {}", handle.offset));
        }
        let wanted = size.div_ceil(1 << self.bits);
        let wanted = u32::try_from(wanted).ok().filter(|&units| units > 0 && units <= self.units);
        let wanted = wanted.ok_or_else(|| format!("{size} bytes do not fit the segment"))?;
        let covered = size_of_class(size_class_up(wanted));
        let covered = u32::try_from(covered).unwrap_or(u32::MAX);
        if u64::from(handle.offset) + u64::from(covered) > u64::from(self.units) {
            return Err("the allocation exceeds the segment".into());
        }
        if handle.node as usize >= self.entries {
            return Err(format!("allocator node {} lies outside of the table", handle.node));
        }
        Ok(LiveNode { offset: handle.offset, size: covered, node: handle.node })
    }
}

/// Makes objects, discarded replicas and allocators agree.
pub(super) fn settle_memory(
    image: &mut Image,
    findings: &mut Findings,
) -> Result<(), SnapshotError> {
    let geometries = geometries(&image.globals, findings);
    drop_lost_replicas(image, &geometries, findings);
    let segments = &mut image.globals.segments.segments;
    segments.retain(|segment| geometries.contains_key(&segment.id));
    let mut losses = Losses::new();
    let mut item_losses = BTreeMap::new();
    let mut claims = collect(image, &geometries, &mut losses, &mut item_losses);
    let mut conflicts = Conflicts { losses: &mut losses, item_losses: &mut item_losses };
    for claims in claims.values_mut() {
        conflicts.find(claims);
    }
    let is_whole = losses.is_empty() && item_losses.is_empty();
    leave_out(image, losses, findings);
    drop_items(&mut image.globals, &item_losses, findings);
    let notes = if is_whole {
        refit_to(&mut image.globals, claims)?
    } else {
        drop(claims);
        refit_allocators(image)?
    };
    for (segment, what) in notes {
        findings.item(SnapshotFile::Segments, segment, Effect::Repaired, what);
    }
    Ok(())
}

/// Removes discarded items, with a finding for each.
fn drop_items(globals: &mut Globals, losses: &ItemLosses, findings: &mut Findings) {
    let mut position = 0;
    globals.discarded.retain(|_| {
        let loss = losses.get(&position);
        if let Some(what) = loss {
            let item = format!("discarded item {position}");
            findings.item(SnapshotFile::Metadata, item, Effect::ItemDropped, what);
        }
        position += 1;
        loss.is_none()
    });
}

/// What handles are judged by; segments that contradict themselves become findings instead.
pub(super) fn geometries(globals: &Globals, findings: &mut Findings) -> BTreeMap<Uuid, Geometry> {
    let mut geometries = BTreeMap::new();
    for segment in &globals.segments.segments {
        match Geometry::of(segment) {
            Ok(geometry) => {
                geometries.insert(segment.id, geometry);
            }
            Err(why) => {
                let what = format!("{why}; its replicas are lost");
                findings.item(SnapshotFile::Segments, segment.id, Effect::ItemDropped, what);
            }
        }
    }
    geometries
}

/// Removes replicas whose memory is gone; objects left without a replica go, too.
fn drop_lost_replicas(
    image: &mut Image,
    geometries: &BTreeMap<Uuid, Geometry>,
    findings: &mut Findings,
) {
    let is_there = |replica: &ReplicaImage| match &replica.place {
        ReplicaPlace::Memory { segment, handle, .. } => {
            handle.is_some() && geometries.contains_key(segment)
        }
        _ => true,
    };
    let mut losses = Losses::new();
    for (shard, objects) in &mut image.shards {
        for (position, object) in objects.iter_mut().enumerate() {
            let lost = object.replicas.iter().find(|replica| !is_there(replica));
            let what = match lost {
                Some(replica) => lost_words(replica),
                None if object.replicas.is_empty() => "it has no replica".to_string(),
                None => continue,
            };
            object.replicas.retain(is_there);
            if object.replicas.is_empty() {
                losses.insert((*shard, position), (DropReason::SegmentUnusable, what));
            } else {
                let (file, name) = (SnapshotFile::Metadata, &object.name);
                findings.item(file, name, Effect::ItemDropped, what);
            }
        }
    }
    leave_out(image, losses, findings);
    for item in &mut image.globals.discarded {
        item.replicas.retain(is_there);
    }
    image.globals.discarded.retain(|item| !item.replicas.is_empty());
}

fn lost_words(replica: &ReplicaImage) -> String {
    match segment_of(&replica.place) {
        Some(segment) => format!("replica {} lies on unusable segment {segment}", replica.id),
        None => format!("replica {} is lost", replica.id),
    }
}

/// All memory ranges; objects and items whose record contradicts itself become losses.
fn collect(
    image: &Image,
    geometries: &BTreeMap<Uuid, Geometry>,
    losses: &mut Losses,
    item_losses: &mut ItemLosses,
) -> Claims {
    let mut claims = Claims::new();
    for (shard, objects) in &image.shards {
        for (position, object) in objects.iter().enumerate() {
            let owner = Owner::Object { shard: *shard, position };
            if let Err(what) = claim_all(&object.replicas, owner, geometries, &mut claims) {
                losses.insert((*shard, position), (DropReason::DamagedAllocation, what));
            }
        }
    }
    for (item, discarded) in image.globals.discarded.iter().enumerate() {
        let owner = Owner::Discarded { item };
        if let Err(what) = claim_all(&discarded.replicas, owner, geometries, &mut claims) {
            item_losses.insert(item, what);
        }
    }
    claims
}

fn claim_all(
    replicas: &[ReplicaImage],
    owner: Owner,
    geometries: &BTreeMap<Uuid, Geometry>,
    claims: &mut Claims,
) -> Result<(), String> {
    for replica in replicas {
        let ReplicaPlace::Memory { size, address, segment, handle: Some(handle) } = &replica.place
        else {
            continue;
        };
        let Some(geometry) = geometries.get(segment) else { continue };
        let live = geometry
            .range(*size, *address, handle)
            .map_err(|what| format!("replica {}: {what}", replica.id))?;
        claims.entry(*segment).or_default().push(Claim { live, bytes: *size, owner });
    }
    Ok(())
}

/// Finds claims that exclude each other. Which of two objects is right cannot be known, so both go;
/// memory that must not be reused yet stays so.
struct Conflicts<'a> {
    losses: &'a mut Losses,
    item_losses: &'a mut ItemLosses,
}

impl Conflicts<'_> {
    /// Looks at the claims of one segment.
    fn find(&mut self, claims: &mut Vec<Claim>) {
        claims.retain(|claim| !self.is_lost(claim.owner));
        claims.sort_unstable_by_key(|claim| claim.live.offset);
        let mut reach: Option<(u64, Owner)> = None;
        for claim in claims.iter() {
            let end = u64::from(claim.live.offset) + u64::from(claim.live.size);
            match reach {
                Some((until, holder)) if u64::from(claim.live.offset) < until => {
                    self.exclude(holder, claim.owner, "memory");
                    if end > until {
                        reach = Some((end, claim.owner));
                    }
                }
                _ => reach = Some((end, claim.owner)),
            }
        }
        claims.retain(|claim| !self.is_lost(claim.owner));
        let entries = claims.iter().map(|claim| claim.live.node as usize + 1).max().unwrap_or(0);
        let mut holders: Vec<Option<u32>> = vec![None; entries];
        for (position, claim) in claims.iter().enumerate() {
            let Some(holder) = holders.get_mut(claim.live.node as usize) else { continue };
            match holder.and_then(|holder| claims.get(holder as usize)) {
                Some(first) => self.exclude(first.owner, claim.owner, "the allocator node"),
                None => *holder = u32::try_from(position).ok(),
            }
        }
    }

    fn is_lost(&self, owner: Owner) -> bool {
        match owner {
            Owner::Object { shard, position } => self.losses.contains_key(&(shard, position)),
            Owner::Discarded { item } => self.item_losses.contains_key(&item),
        }
    }

    fn exclude(&mut self, first: Owner, second: Owner, what: &str) {
        for (owner, other) in [(first, second), (second, first)] {
            if let Owner::Object { shard, position } = owner {
                let what = format!("it shares {what} with {}", words(other));
                let loss = (DropReason::OverlappingMemory, what);
                self.losses.entry((shard, position)).or_insert(loss);
            }
        }
        if let (Owner::Discarded { .. }, Owner::Discarded { item }) = (first, second) {
            self.item_losses.insert(item, format!("it shares {what} with another item"));
        }
    }
}

fn words(owner: Owner) -> String {
    match owner {
        Owner::Object { shard, position } => format!("object {position} of shard {shard}"),
        Owner::Discarded { item } => format!("discarded item {item}"),
    }
}

/// Makes every allocator hold exactly the allocations of the image's objects and discarded
/// replicas.
///
/// A sound table that does so already stays as it is, node for node; any other is made new. Returns
/// the segments whose allocator changed, with the reason.
///
/// Errors: two allocations overlap or share a node, which [`decode_image`](super::decode_image)
/// rules out.
pub fn refit_allocators(image: &mut Image) -> Result<Vec<(Uuid, String)>, SnapshotError> {
    let mut ignored = Findings::default();
    let geometries = geometries(&image.globals, &mut ignored);
    let mut claims = collect(image, &geometries, &mut Losses::new(), &mut ItemLosses::new());
    for claims in claims.values_mut() {
        claims.sort_unstable_by_key(|claim| claim.live.offset);
    }
    refit_to(&mut image.globals, claims)
}

/// Makes every allocator hold exactly these claims, which are ascending by offset.
fn refit_to(
    globals: &mut Globals,
    mut claims: Claims,
) -> Result<Vec<(Uuid, String)>, SnapshotError> {
    let mut notes = Vec::new();
    for segment in &mut globals.segments.segments {
        let claims = claims.remove(&segment.id).unwrap_or_default();
        let note = refit(segment, &claims).map_err(|what| {
            let place = format!("segment {}", segment.id);
            SnapshotError::damaged(SnapshotFile::Segments, place, what)
        })?;
        if let Some(what) = note {
            notes.push((segment.id, what));
        }
    }
    Ok(notes)
}

fn refit(segment: &mut SegmentImage, claims: &[Claim]) -> Result<Option<String>, String> {
    let Some(allocator) = &mut segment.allocator else { return Ok(None) };
    let live: Vec<LiveNode> = claims.iter().map(|claim| claim.live).collect();
    let bytes = claims.iter().fold(0_u64, |sum, claim| sum.saturating_add(claim.bytes));
    let offset = &mut allocator.offset;
    let note = match table::check(&offset.table) {
        Err(what) => Some(format!("the node table was made new: {what}")),
        Ok(()) if !table::holds_exactly(&offset.table, &live) => {
            let used = offset.table.nodes.iter().filter(|node| node.used).count();
            Some(format!("the node table had {used} allocations, the objects have {}", live.len()))
        }
        Ok(()) => None,
    };
    if note.is_some() {
        offset.table = table::rebuild(&offset.table, &live)?;
    }
    let count = live.len() as u64;
    let is_summed = offset.allocated_bytes == bytes
        && offset.allocation_count == count
        && allocator.used_bytes == bytes;
    offset.allocated_bytes = bytes;
    offset.allocation_count = count;
    allocator.used_bytes = bytes;
    if note.is_none() && !is_summed {
        return Ok(Some("the sums differed from the allocations".into()));
    }
    Ok(note)
}
