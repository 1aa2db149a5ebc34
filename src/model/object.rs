//! An object: the entry of one key, kept as small as its fields allow because there are millions.
//!
//! Replicated fields change only in apply. `lease` is leader-local: reads raise it under a shard's shared
//! lock, apply never reads it, no Raft image holds it (architecture: "leases on the hot path").

use std::sync::atomic::{AtomicU64, Ordering};

use super::key_bytes::KeyBytes;
use super::replica::{Replica, ReplicaKind};
use super::replicas::Replicas;
use super::soft_pin::PendingPin;
use super::time::{Deadline, Millis};

/// Names a tenant inside the state; 0 is the default tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantIdx(pub u32);

/// Names a writing client inside the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriterIdx(pub u32);

/// Names a group inside the state; 0 means no group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupIdx(pub u32);

impl GroupIdx {
    /// The object belongs to no group.
    pub const NONE: GroupIdx = GroupIdx(0);
}

/// The read lease and the removal fence of an object.
///
/// Invariant: the fence bit is set only while a removal proposed by this leader is in flight; while it is
/// set no lease is granted.
#[derive(Debug, Default)]
pub struct Lease(AtomicU64);

const FENCED: u64 = 1 << 63;

/// Why a lease was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced;

/// Why a fence was not raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceRefused {
    /// Somebody may still be reading.
    Leased,
    /// Another removal of the object is in flight.
    AlreadyFenced,
}

impl Lease {
    /// A lease that ends at `until`.
    pub fn until(until: Millis) -> Self {
        Lease(AtomicU64::new(until.0 & !FENCED))
    }

    /// A lease that never was, closed by a removal in flight.
    pub fn fenced() -> Self {
        Lease(AtomicU64::new(FENCED))
    }

    /// Whether a removal is in flight.
    pub fn is_fenced(&self) -> bool {
        self.0.load(Ordering::Acquire) & FENCED != 0
    }

    /// When the lease ends or ended; 0 if there never was one.
    pub fn end(&self) -> Millis {
        Millis(self.0.load(Ordering::Acquire) & !FENCED)
    }

    /// Raises the lease to `until`; it never gets shorter.
    ///
    /// Errors: [`Fenced`] while a removal is in flight; nothing changes then.
    pub fn grant(&self, until: Deadline) -> Result<(), Fenced> {
        let raise = |current: u64| {
            let is_fenced = current & FENCED != 0;
            (!is_fenced && current < until.0).then_some(until.0)
        };
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, raise) {
            Err(current) if current & FENCED != 0 => Err(Fenced),
            _ => Ok(()),
        }
    }

    /// Records that the object was used at `now`, fenced or not. Grants nothing beyond `now`.
    pub fn stamp(&self, now: Millis) {
        let raise = |current: u64| {
            let (fence, end) = (current & FENCED, current & !FENCED);
            (end < now.0).then_some(now.0 | fence)
        };
        // Err means that the lease already reaches further.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, raise);
    }

    /// Closes the object to new leases; refused while one is running at `now` unless `force`.
    pub fn fence(&self, now: Millis, force: bool) -> Result<(), FenceRefused> {
        let close = |current: u64| {
            let is_leased = (current & !FENCED) > now.0;
            let is_free = current & FENCED == 0 && (force || !is_leased);
            is_free.then_some(current | FENCED)
        };
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, close) {
            Ok(_) => Ok(()),
            Err(current) if current & FENCED != 0 => Err(FenceRefused::AlreadyFenced),
            Err(_) => Err(FenceRefused::Leased),
        }
    }

    /// Opens the object to leases again.
    pub fn unfence(&self) {
        self.0.fetch_and(!FENCED, Ordering::AcqRel);
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        Lease(AtomicU64::new(self.0.load(Ordering::Acquire)))
    }
}

/// What few objects have at a time.
#[derive(Clone, Debug, Default)]
struct Extra {
    pending: Option<PendingPin>,
    checksum: Option<u64>,
}

/// One key's entry.
#[derive(Clone, Debug)]
pub struct Object {
    /// The key within its tenant.
    pub key: KeyBytes,
    /// The copies. Invariant: not empty while the object is in the table.
    pub replicas: Replicas,
    /// Bytes. Invariant: not 0; never changes for one incarnation.
    pub size: u64,
    /// When the write that made or last rewrote it began.
    pub put_start: Millis,
    /// Leader-local: who may still be reading.
    pub lease: Lease,
    /// Committed soft-pin deadline in milliseconds, 0 for none; see [`Object::pin`].
    pin_ms: u64,
    /// A pending pin and a checksum. Invariant: one of them is there if this is.
    extra: Option<Box<Extra>>,
    /// Name space.
    pub tenant: TenantIdx,
    /// The client that may end or revoke the write.
    pub writer: WriterIdx,
    /// Group, or [`GroupIdx::NONE`].
    pub group: GroupIdx,
    /// The wire's data type byte, stored and returned, never interpreted.
    pub data_type: u8,
    /// Never evicted.
    pub is_hard_pinned: bool,
    /// A write is in progress: Ends and Revokes are accepted, removals are not.
    pub is_processing: bool,
}

/// What a new entry starts with; everything else follows from the write.
#[derive(Debug)]
pub struct NewObject {
    /// See [`Object::key`].
    pub key: KeyBytes,
    /// See [`Object::tenant`].
    pub tenant: TenantIdx,
    /// See [`Object::size`].
    pub size: u64,
    /// See [`Object::put_start`].
    pub put_start: Millis,
    /// See [`Object::writer`].
    pub writer: WriterIdx,
    /// See [`Object::group`].
    pub group: GroupIdx,
    /// See [`Object::data_type`].
    pub data_type: u8,
    /// See [`Object::is_hard_pinned`].
    pub is_hard_pinned: bool,
    /// See [`Object::replicas`].
    pub replicas: Replicas,
}

impl Object {
    /// An entry with no lease, no pin and no checksum.
    pub fn new(new: NewObject) -> Self {
        Object {
            key: new.key,
            replicas: new.replicas,
            size: new.size,
            put_start: new.put_start,
            lease: Lease::default(),
            pin_ms: 0,
            extra: None,
            tenant: new.tenant,
            writer: new.writer,
            group: new.group,
            data_type: new.data_type,
            is_hard_pinned: new.is_hard_pinned,
            is_processing: false,
        }
    }

    /// The committed soft-pin deadline, reached or not.
    pub fn pin(&self) -> Option<Deadline> {
        (self.pin_ms != 0).then_some(Deadline(self.pin_ms))
    }

    /// Replaces the committed deadline. The caller settles the index with the matching `PinChange`.
    pub fn set_pin(&mut self, pin: Option<Deadline>) {
        self.pin_ms = pin.map_or(0, |deadline| deadline.0);
    }

    /// The checksum that the writer gave at End.
    pub fn checksum(&self) -> Option<u64> {
        self.extra.as_deref()?.checksum
    }

    /// Replaces the checksum.
    pub fn set_checksum(&mut self, checksum: Option<u64>) {
        if checksum != self.checksum() {
            self.extra.get_or_insert_default().checksum = checksum;
            self.drop_idle_extra();
        }
    }

    /// The soft-pin request of a write that is not readable yet.
    pub fn pending(&self) -> Option<&PendingPin> {
        self.extra.as_deref()?.pending.as_ref()
    }

    /// The same, to change.
    pub fn pending_mut(&mut self) -> Option<&mut PendingPin> {
        self.extra.as_deref_mut()?.pending.as_mut()
    }

    /// Replaces the soft-pin request.
    pub fn set_pending(&mut self, pending: Option<PendingPin>) {
        if pending.is_some() || self.pending().is_some() {
            self.extra.get_or_insert_default().pending = pending;
            self.drop_idle_extra();
        }
    }

    /// Takes the soft-pin request out.
    pub fn take_pending(&mut self) -> Option<PendingPin> {
        let taken = self.extra.as_deref_mut()?.pending.take();
        self.drop_idle_extra();
        taken
    }

    fn drop_idle_extra(&mut self) {
        let is_idle = |extra: &Extra| extra.pending.is_none() && extra.checksum.is_none();
        if self.extra.as_deref().is_some_and(is_idle) {
            self.extra = None;
        }
    }

    /// Whether any replica is COMPLETE, valid or not.
    pub fn has_complete(&self) -> bool {
        self.replicas.iter().any(Replica::is_complete)
    }

    /// Whether every replica is COMPLETE.
    pub fn is_all_complete(&self) -> bool {
        self.replicas.iter().all(Replica::is_complete)
    }

    /// Takes the chosen replicas out; the others keep their order.
    pub fn take_replicas(&mut self, is_chosen: impl Fn(&Replica) -> bool) -> Vec<Replica> {
        let mut taken = Vec::new();
        for replica in std::mem::take(&mut self.replicas) {
            if is_chosen(&replica) {
                taken.push(replica);
            } else {
                self.replicas.push(replica);
            }
        }
        taken
    }

    /// Whether eviction may ever take it: it has readable memory and no hard pin.
    pub fn is_candidate(&self) -> bool {
        !self.is_hard_pinned && self.complete_count(ReplicaKind::Memory) > 0
    }

    /// Whether eviction would free something now, leases and soft pins aside.
    pub fn is_evictable(&self) -> bool {
        !self.is_hard_pinned && self.replicas.iter().any(Replica::is_evictable)
    }

    /// Number of COMPLETE replicas of a kind.
    pub fn complete_count(&self, kind: ReplicaKind) -> usize {
        let is_counted = |r: &&Replica| r.is_complete() && r.place.kind() == kind;
        self.replicas.iter().filter(is_counted).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_and_a_running_lease_exclude_each_other() {
        let lease = Lease::default();
        lease.grant(Deadline(10)).unwrap();
        assert_eq!(lease.fence(Millis(9), false), Err(FenceRefused::Leased));
        assert_eq!(lease.fence(Millis(10), false), Ok(()));
        assert_eq!(lease.grant(Deadline(20)), Err(Fenced));
        assert_eq!(lease.fence(Millis(10), false), Err(FenceRefused::AlreadyFenced));
        lease.unfence();
        lease.grant(Deadline(20)).unwrap();
        assert_eq!(lease.end(), Millis(20));
    }

    #[test]
    fn a_lease_never_gets_shorter() {
        let lease = Lease::until(Millis(30));
        lease.grant(Deadline(20)).unwrap();
        lease.stamp(Millis(10));
        assert_eq!(lease.end(), Millis(30));
    }

    #[test]
    fn force_fences_a_leased_object() {
        let lease = Lease::until(Millis(30));
        assert_eq!(lease.fence(Millis(1), true), Ok(()));
        lease.stamp(Millis(40));
        assert_eq!(lease.grant(Deadline(50)), Err(Fenced));
    }

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<Object>() <= 120, "{}", size_of::<Object>());
        assert!(size_of::<Replica>() <= 40, "{}", size_of::<Replica>());
    }
}
