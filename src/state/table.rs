//! The object table: 1024 shards, each behind its own lock, copied on write while a frozen state holds it.
//!
//! Apply is the only writer, so a reader locks one shard and nothing else. Guards: a key has at most one
//! object; an [`ObjectRef`] names the same object from insert to remove. Who may read is decided in `node`.
//!
//! Lock order: a shard lock is a leaf here; never lock a second shard while holding one.

use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::RwLock;

use crate::model::ids::{SHARD_COUNT, key_hash, placement_hash, shard_of};
use crate::model::object::Lease;
use crate::model::{Object, ObjectRef, Tenant, TenantIdx};

const SHARD_BITS: u32 = SHARD_COUNT.trailing_zeros();

/// Objects that one shard can hold: what is left of a 32-bit reference. A full shard refuses the insert.
pub const OBJECTS_PER_SHARD_MAX: usize = 1 << (u32::BITS - SHARD_BITS);

/// Objects of a chunk: so many that it just fills a size class of the memory allocator. More of them would have to
/// be copied for the first change after a freeze.
const CHUNK_OBJECTS: usize = 21;

/// An empty shard that had no more slots than this keeps its tables.
const SLOTS_KEPT: u32 = 64;

/// The hash by which a key is filed in the live table. Groups play no part here, so one look-up finds any
/// key; they matter only for the shard number in a catalog snapshot.
pub fn table_hash(tenant: &Tenant, key: &[u8]) -> u64 {
    if tenant.is_default() { key_hash(key) } else { placement_hash(tenant, key, b"") }
}

/// The hash by which a shard's index files an object: of its key alone, so that the index can grow without knowing
/// the names of tenants. The low bits may have picked the shard already, so they are mixed with the others.
fn bucket_hash(key_hash: u64) -> u64 {
    (key_hash ^ (key_hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The same from what a caller knows already.
fn bucket_of(hash: u64, tenant: TenantIdx, key: &[u8]) -> u64 {
    // The default tenant's objects are filed by the hash of their key.
    bucket_hash(if tenant == TenantIdx(0) { hash } else { key_hash(key) })
}

/// Objects side by side, without a pointer to each.
#[derive(Clone, Debug)]
struct Chunk {
    /// Invariant: the number of filled places, not 0 while the chunk is listed.
    filled: u32,
    objects: [Option<Object>; CHUNK_OBJECTS],
}

impl Chunk {
    fn new() -> Self {
        Chunk { filled: 0, objects: std::array::from_fn(|_| None) }
    }
}

/// A handle of one object, as it was in a frozen shard.
#[derive(Clone, Debug)]
pub struct Kept {
    chunk: Arc<Chunk>,
    place: usize,
}

impl Kept {
    /// The object.
    pub fn get(&self) -> Option<&Object> {
        self.chunk.objects.get(self.place)?.as_ref()
    }
}

/// One shard: slots that hold objects, and an index from key to slot.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    /// Slots in chunks; a chunk is there while one of its slots is filled.
    chunks: Vec<Option<Arc<Chunk>>>,
    /// Slots handed out so far, free ones included.
    slots: u32,
    free: Vec<u32>,
    /// The filled slots. Invariant: each exactly once.
    index: HashTable<u32>,
}

/// The chunk of a slot, and the place in it.
fn place_of(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK_OBJECTS, slot as usize % CHUNK_OBJECTS)
}

fn object_in(chunks: &[Option<Arc<Chunk>>], slot: u32) -> Option<&Object> {
    let (chunk, place) = place_of(slot);
    chunks.get(chunk)?.as_deref()?.objects.get(place)?.as_ref()
}

/// Where the object of a slot is filed in the index.
fn bucket_in(chunks: &[Option<Arc<Chunk>>], slot: u32) -> u64 {
    object_in(chunks, slot).map_or(0, |object| bucket_hash(key_hash(&object.key)))
}

impl Shard {
    fn slot_of(&self, hash: u64, tenant: TenantIdx, key: &[u8]) -> Option<u32> {
        let is_wanted = |slot: &u32| {
            let object = self.object(*slot);
            object.is_some_and(|object| object.tenant == tenant && *object.key == *key)
        };
        self.index.find(bucket_of(hash, tenant, key), is_wanted).copied()
    }

    fn object(&self, slot: u32) -> Option<&Object> {
        object_in(&self.chunks, slot)
    }

    fn object_mut(&mut self, slot: u32) -> Option<&mut Object> {
        let (chunk, place) = place_of(slot);
        let chunk = Arc::make_mut(self.chunks.get_mut(chunk)?.as_mut()?);
        chunk.objects.get_mut(place)?.as_mut()
    }

    /// The object of a key.
    pub fn find(&self, hash: u64, tenant: TenantIdx, key: &[u8]) -> Option<&Object> {
        self.object(self.slot_of(hash, tenant, key)?)
    }

    /// Every object, in no order that may reach a decision.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.slotted().map(|(_, object)| object)
    }

    /// Every object with its slot.
    fn slotted(&self) -> impl Iterator<Item = (u32, &Object)> {
        let chunks = self.chunks.iter().zip((0_u32..).step_by(CHUNK_OBJECTS));
        chunks.filter_map(|(chunk, first)| Some((chunk.as_deref()?, first))).flat_map(
            |(chunk, first)| {
                let places = chunk.objects.iter().zip(first..);
                places.filter_map(|(object, slot)| Some((slot, object.as_ref()?)))
            },
        )
    }

    /// Handles of the chosen objects, in no order that may reach a decision. They outlive the shard.
    pub fn keep(&self, is_chosen: impl Fn(&Object) -> bool) -> impl Iterator<Item = Kept> {
        let chosen = self.slotted().filter(move |(_, object)| is_chosen(object));
        chosen.filter_map(|(slot, _)| {
            let (chunk, place) = place_of(slot);
            Some(Kept { chunk: Arc::clone(self.chunks.get(chunk)?.as_ref()?), place })
        })
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the shard holds nothing.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn make_room(&mut self, objects: usize) {
        self.chunks.reserve_exact(objects.div_ceil(CHUNK_OBJECTS));
        let chunks = &self.chunks;
        self.index.reserve(objects, |slot| bucket_in(chunks, *slot));
    }

    fn insert(&mut self, hash: u64, object: Object) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if (self.slots as usize) < OBJECTS_PER_SHARD_MAX => {
                self.slots += 1;
                self.slots - 1
            }
            None => return None,
        };
        let (chunk, place) = place_of(slot);
        if chunk >= self.chunks.len() {
            self.chunks.resize(chunk + 1, None);
        }
        let chunk = self.chunks.get_mut(chunk)?.get_or_insert_with(|| Arc::new(Chunk::new()));
        let chunk = Arc::make_mut(chunk);
        let bucket = bucket_of(hash, object.tenant, &object.key);
        *chunk.objects.get_mut(place)? = Some(object);
        chunk.filled += 1;
        let chunks = &self.chunks;
        self.index.insert_unique(bucket, slot, |slot| bucket_in(chunks, *slot));
        Some(slot)
    }

    fn remove(&mut self, slot: u32, hash: u64) -> Option<Object> {
        let (chunk_at, place) = place_of(slot);
        let listed = self.chunks.get_mut(chunk_at)?;
        let chunk = Arc::make_mut(listed.as_mut()?);
        let object = chunk.objects.get_mut(place)?.take()?;
        chunk.filled -= 1;
        if chunk.filled == 0 {
            *listed = None;
        }
        let bucket = bucket_of(hash, object.tenant, &object.key);
        if let Ok(entry) = self.index.find_entry(bucket, |other| *other == slot) {
            entry.remove();
        }
        self.free.push(slot);
        self.give_back();
        Some(object)
    }

    /// Gives memory back after many removals, so that an emptied store is small again.
    fn give_back(&mut self) {
        if self.index.is_empty() && self.slots > SLOTS_KEPT {
            *self = Shard::default();
        } else if self.index.len() * 8 < self.index.capacity() {
            let (target, chunks) = (self.index.len() * 2, &self.chunks);
            self.index.shrink_to(target, |slot| bucket_in(chunks, *slot));
        }
    }
}

/// All objects.
#[derive(Debug)]
pub struct ObjectTable {
    shards: Box<[RwLock<Arc<Shard>>]>,
}

impl Default for ObjectTable {
    fn default() -> Self {
        ObjectTable { shards: (0..SHARD_COUNT).map(|_| RwLock::default()).collect() }
    }
}

fn split(object: ObjectRef) -> (usize, u32) {
    ((object.0 as usize) % SHARD_COUNT, object.0 >> SHARD_BITS)
}

impl ObjectTable {
    fn shard(&self, index: usize) -> Option<&RwLock<Arc<Shard>>> {
        self.shards.get(index % SHARD_COUNT)
    }

    /// Looks at a key under the shard's shared lock.
    pub fn look<R>(
        &self,
        hash: u64,
        tenant: TenantIdx,
        key: &[u8],
        look: impl FnOnce(Option<&Object>) -> R,
    ) -> R {
        match self.shard(shard_of(hash)) {
            Some(shard) => look(shard.read().find(hash, tenant, key)),
            None => look(None),
        }
    }

    /// Looks at a key and where it is filed, under the shard's shared lock.
    pub fn look_filed<R>(
        &self,
        hash: u64,
        tenant: TenantIdx,
        key: &[u8],
        look: impl FnOnce(Option<(ObjectRef, &Object)>) -> R,
    ) -> R {
        let index = shard_of(hash);
        let Some(shard) = self.shard(index) else { return look(None) };
        let shard = shard.read();
        let found = shard.slot_of(hash, tenant, key).and_then(|slot| {
            let at = ObjectRef((slot << SHARD_BITS) | u32::try_from(index).ok()?);
            Some((at, shard.object(slot)?))
        });
        look(found)
    }

    /// Looks at one whole shard under its shared lock.
    pub fn look_shard<R>(&self, index: usize, look: impl FnOnce(&Shard) -> R) -> Option<R> {
        self.shard(index).map(|shard| look(&shard.read()))
    }

    /// How many objects of a shard are chosen, under its shared lock.
    pub fn count_in_shard(
        &self,
        index: usize,
        is_chosen: impl Fn(ObjectRef, &Object) -> bool,
    ) -> usize {
        let low = (index % SHARD_COUNT) as u32;
        let count = |shard: &Shard| {
            let at = |slot: u32| ObjectRef((slot << SHARD_BITS) | low);
            shard.slotted().filter(|(slot, object)| is_chosen(at(*slot), object)).count()
        };
        self.look_shard(index, count).unwrap_or(0)
    }

    /// Where a key's object is.
    pub fn locate(&self, hash: u64, tenant: TenantIdx, key: &[u8]) -> Option<ObjectRef> {
        let index = shard_of(hash);
        let slot = self.shard(index)?.read().slot_of(hash, tenant, key)?;
        Some(ObjectRef((slot << SHARD_BITS) | u32::try_from(index).ok()?))
    }

    /// Looks at an object by reference.
    pub fn peek<R>(&self, object: ObjectRef, look: impl FnOnce(&Object) -> R) -> Option<R> {
        let (index, slot) = split(object);
        self.shard(index)?.read().object(slot).map(look)
    }

    /// Changes an object in place. Only apply calls this.
    pub(super) fn edit<R>(
        &self,
        object: ObjectRef,
        edit: impl FnOnce(&mut Object) -> R,
    ) -> Option<R> {
        let (index, slot) = split(object);
        let mut guard = self.shard(index)?.write();
        Some(edit(Arc::make_mut(&mut guard).object_mut(slot)?))
    }

    /// Files a new object. `None` if the shard is full. The caller made sure that the key is free.
    pub(super) fn insert(&self, hash: u64, object: Object) -> Option<ObjectRef> {
        let index = shard_of(hash);
        let mut guard = self.shard(index)?.write();
        let slot = Arc::make_mut(&mut guard).insert(hash, object)?;
        Some(ObjectRef((slot << SHARD_BITS) | u32::try_from(index).ok()?))
    }

    /// Puts an object in the place of another of the same key, whose removal fence it takes over. Readers see the one
    /// or the other, never neither. `None`, with nothing changed, if there is no such object.
    pub(super) fn swap(&self, object: ObjectRef, mut heir: Object) -> Option<Object> {
        let (index, slot) = split(object);
        let mut guard = self.shard(index)?.write();
        let place = Arc::make_mut(&mut guard).object_mut(slot)?;
        if place.lease.is_fenced() {
            heir.lease = Lease::fenced();
        }
        Some(std::mem::replace(place, heir))
    }

    /// Makes room for so many more objects in a shard, so that it need not grow with each of them.
    pub(super) fn make_room(&self, index: usize, objects: usize) {
        if let Some(shard) = self.shard(index) {
            Arc::make_mut(&mut shard.write()).make_room(objects);
        }
    }

    /// Takes an object out.
    pub(super) fn remove(&self, object: ObjectRef, hash: u64) -> Option<Object> {
        let (index, slot) = split(object);
        let mut guard = self.shard(index)?.write();
        Arc::make_mut(&mut guard).remove(slot, hash)
    }

    /// Handles of every shard as it is now. Later writes copy a shard on first touch.
    pub fn freeze(&self) -> Vec<Arc<Shard>> {
        self.shards.iter().map(|shard| Arc::clone(&shard.read())).collect()
    }

    /// Takes over every shard of `other`, one after the other.
    pub(super) fn replace_with(&self, other: &ObjectTable) {
        for (mine, theirs) in self.shards.iter().zip(&other.shards) {
            *mine.write() = std::mem::take(&mut *theirs.write());
        }
    }

    /// References of every object in a shard, in no order that may reach a decision.
    pub fn refs_in_shard(&self, index: usize) -> Vec<ObjectRef> {
        let Some(shard) = self.shard(index) else { return Vec::new() };
        let refs = |shard: &Shard| {
            let low = (index % SHARD_COUNT) as u32;
            shard.slotted().map(|(slot, _)| ObjectRef((slot << SHARD_BITS) | low)).collect()
        };
        refs(&shard.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GroupIdx, Millis, NewObject, WriterIdx};

    fn object(key: &[u8]) -> Object {
        Object::new(NewObject {
            key: key.into(),
            tenant: TenantIdx(0),
            size: 1,
            put_start: Millis(0),
            writer: WriterIdx(0),
            group: GroupIdx::NONE,
            data_type: 0,
            is_hard_pinned: false,
            replicas: Default::default(),
        })
    }

    fn hash(key: &[u8]) -> u64 {
        table_hash(&Tenant::default(), key)
    }

    #[test]
    fn a_chunk_fills_a_size_class() {
        // What an `Arc` puts before it: two counts.
        let bytes = size_of::<Chunk>() + 2 * size_of::<usize>();
        assert!((2_500..=2_560).contains(&bytes), "{bytes}");
    }

    #[test]
    fn chunks_go_with_the_last_of_their_objects() {
        let table = ObjectTable::default();
        let keys: Vec<Vec<u8>> = (0..40_000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        let refs: Vec<_> = keys.iter().map(|k| table.insert(hash(k), object(k)).unwrap()).collect();
        let listed = || {
            let shards = table.freeze().into_iter();
            shards.map(|shard| shard.chunks.iter().flatten().count()).sum::<usize>()
        };
        let all = listed();
        // Four slots of a shard stay.
        for (key, at) in keys.iter().zip(&refs).filter(|(_, at)| split(**at).1 >= 4) {
            table.remove(*at, hash(key)).unwrap();
        }
        assert_eq!((all > SHARD_COUNT, listed()), (true, SHARD_COUNT));
        for (key, at) in keys.iter().zip(&refs).filter(|(_, at)| split(**at).1 < 4) {
            assert_eq!(table.locate(hash(key), TenantIdx(0), key), Some(*at));
        }
    }

    #[test]
    fn a_frozen_shard_does_not_see_later_writes() {
        let table = ObjectTable::default();
        let (a, b) = (b"a", b"b");
        let at = table.insert(hash(a), object(a)).unwrap();
        let frozen = table.freeze();
        table.edit(at, |object| object.size = 9).unwrap();
        table.insert(hash(b), object(b)).unwrap();
        let kept: Vec<u64> = frozen.iter().flat_map(|s| s.objects()).map(|o| o.size).collect();
        assert_eq!(kept, [1]);
        assert_eq!(table.peek(at, |object| object.size), Some(9));
    }

    #[test]
    fn keys_of_one_shard_are_told_apart_and_slots_are_used_again() {
        let table = ObjectTable::default();
        let keys: Vec<Vec<u8>> = (0..20_000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        let refs: Vec<_> = keys.iter().map(|k| table.insert(hash(k), object(k)).unwrap()).collect();
        for (key, at) in keys.iter().zip(&refs) {
            assert_eq!(table.locate(hash(key), TenantIdx(0), key), Some(*at));
            assert_eq!(table.locate(hash(key), TenantIdx(1), key), None);
        }
        for (key, at) in keys.iter().zip(&refs) {
            assert_eq!(*table.remove(*at, hash(key)).unwrap().key, **key);
            assert_eq!(table.peek(*at, |_| ()), None);
        }
        assert!(table.freeze().iter().all(|shard| shard.is_empty()));
        assert!(table.insert(hash(b"x"), object(b"x")).is_some());
    }
}
