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

/// The hash by which a key is filed in the live table. Groups play no part here, so one look-up finds any
/// key; they matter only for the shard number in a catalog snapshot.
pub fn table_hash(tenant: &Tenant, key: &[u8]) -> u64 {
    if tenant.is_default() { key_hash(key) } else { placement_hash(tenant, key, b"") }
}

#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    /// Upper half of the hash; lets a look-up skip other keys and the index grow without visiting objects.
    tag: u32,
    slot: u32,
}

fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The part of the hash that picks a bucket. The low bits picked the shard already.
fn bucket_hash(tag: u32) -> u64 {
    u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// One shard: slots that hold objects, and an index from key to slot.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    slots: Vec<Option<Arc<Object>>>,
    free: Vec<u32>,
    /// Invariant: exactly one entry per filled slot.
    index: HashTable<IndexEntry>,
}

impl Shard {
    fn slot_of(&self, hash: u64, tenant: TenantIdx, key: &[u8]) -> Option<u32> {
        let tag = tag_of(hash);
        let is_wanted = |entry: &IndexEntry| {
            entry.tag == tag
                && self
                    .object(entry.slot)
                    .is_some_and(|object| object.tenant == tenant && *object.key == *key)
        };
        self.index.find(bucket_hash(tag), is_wanted).map(|entry| entry.slot)
    }

    fn object(&self, slot: u32) -> Option<&Object> {
        self.slots.get(slot as usize)?.as_deref()
    }

    /// The object of a key.
    pub fn find(&self, hash: u64, tenant: TenantIdx, key: &[u8]) -> Option<&Object> {
        self.object(self.slot_of(hash, tenant, key)?)
    }

    /// Every object, in no order that may reach a decision.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.slots.iter().flatten().map(Arc::as_ref)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the shard holds nothing.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn insert(&mut self, hash: u64, object: Object) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < OBJECTS_PER_SHARD_MAX => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).ok()?
            }
            None => return None,
        };
        *self.slots.get_mut(slot as usize)? = Some(Arc::new(object));
        let tag = tag_of(hash);
        let entry = IndexEntry { tag, slot };
        self.index.insert_unique(bucket_hash(tag), entry, |entry| bucket_hash(entry.tag));
        Some(slot)
    }

    fn remove(&mut self, slot: u32, hash: u64) -> Option<Arc<Object>> {
        let object = self.slots.get_mut(slot as usize)?.take()?;
        let is_entry = |entry: &IndexEntry| entry.slot == slot;
        if let Ok(entry) = self.index.find_entry(bucket_hash(tag_of(hash)), is_entry) {
            entry.remove();
        }
        self.free.push(slot);
        self.give_back();
        Some(object)
    }

    /// Gives memory back after many removals, so that an emptied store is small again.
    fn give_back(&mut self) {
        if self.index.is_empty() && self.slots.len() > 64 {
            *self = Shard::default();
        } else if self.index.len() * 8 < self.index.capacity() {
            let target = self.index.len() * 2;
            self.index.shrink_to(target, |entry| bucket_hash(entry.tag));
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
            let filled = shard.slots.iter().zip(0_u32..);
            let filled = filled.filter_map(|(slot, number)| Some((number, slot.as_deref()?)));
            let at = |number: u32| ObjectRef((number << SHARD_BITS) | low);
            filled.filter(|(number, object)| is_chosen(at(*number), object)).count()
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
        let shard = Arc::make_mut(&mut guard);
        let object = shard.slots.get_mut(slot as usize)?.as_mut()?;
        Some(edit(Arc::make_mut(object)))
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
    pub(super) fn swap(&self, object: ObjectRef, mut heir: Object) -> Option<Arc<Object>> {
        let (index, slot) = split(object);
        let mut guard = self.shard(index)?.write();
        let place = Arc::make_mut(&mut guard).slots.get_mut(slot as usize)?.as_mut()?;
        if place.lease.is_fenced() {
            heir.lease = Lease::fenced();
        }
        Some(std::mem::replace(place, Arc::new(heir)))
    }

    /// Takes an object out.
    pub(super) fn remove(&self, object: ObjectRef, hash: u64) -> Option<Arc<Object>> {
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
            let filled = shard.slots.iter().zip(0_u32..).filter(|(slot, _)| slot.is_some());
            let low = (index % SHARD_COUNT) as u32;
            filled.map(|(_, slot)| ObjectRef((slot << SHARD_BITS) | low)).collect()
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
