//! The state machine as openraft wants it, over an [`ErasedMachine`].
//!
//! Guards: the applied index is published after the machine's effect and before the reply, so
//! whoever has a reply finds its effect under a leader lease; an entry that cannot be understood
//! stops the node. A failed raft snapshot does not: files are made by `compact.rs`, openraft
//! hears of finished ones. Leaves to the machine what entries mean.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use parking_lot::Mutex;

use crate::clock;
use crate::machine::{AnyReply, ErasedMachine, MachineError, SaveFn};
use crate::snapshot_file::{SnapshotDir, SnapshotFile};
use crate::types::{
    CommittedLeaderId, Entry, LogId, Membership, NodeId, Payload, SnapshotMeta, StoredMembership,
    TypeConfig,
};

/// How long the worker applies before it lets other tasks of its thread run. Those that it has just woken
/// may be bound to this thread until then.
const APPLY_BURST_MAX: Duration = Duration::from_micros(200);

/// What openraft calls a snapshot.
pub(crate) type RaftSnapshot =
    Snapshot<CommittedLeaderId, NodeId, openraft::BasicNode, SnapshotFile>;

/// What the rest of the node may see of the adapter.
pub(crate) struct Applied {
    /// Index of the newest applied entry plus one; 0 before the first.
    next: AtomicU64,
    current: Mutex<Current>,
}

/// The current raft snapshot, and since when.
#[derive(Default, Clone)]
pub(crate) struct Current {
    pub(crate) file: Option<SnapshotFile>,
    pub(crate) at_ms: Option<u64>,
}

impl Applied {
    /// Index of the newest applied entry.
    pub(crate) fn index(&self) -> Option<u64> {
        self.next.load(Ordering::Acquire).checked_sub(1)
    }

    pub(crate) fn current(&self) -> Current {
        self.current.lock().clone()
    }

    /// Makes `file` the current raft snapshot unless a newer one is.
    pub(crate) fn set_current(&self, file: SnapshotFile) {
        let mut current = self.current.lock();
        let old = current.file.as_ref().and_then(|old| old.meta.last_log_id);
        if old <= file.meta.last_log_id {
            *current = Current { file: Some(file), at_ms: Some(clock::wall_ms()) };
        }
    }
}

/// See the file's head.
pub(crate) struct Adapter {
    machine: Arc<dyn ErasedMachine>,
    dir: SnapshotDir,
    applied: Arc<Applied>,
    last: Option<LogId>,
    membership: StoredMembership,
    fatal: Box<dyn Fn(String) + Send + Sync>,
    /// Hears of every membership that is applied.
    pub(crate) on_members: Box<dyn Fn(&Membership) + Send + Sync>,
}

impl Adapter {
    /// Loads the raft snapshot, if there is one; blocking.
    pub(crate) fn open(
        machine: Arc<dyn ErasedMachine>,
        dir: SnapshotDir,
        fatal: Box<dyn Fn(String) + Send + Sync>,
    ) -> Result<Self, crate::snapshot_file::SnapshotError> {
        let file = dir.newest()?;
        let applied = Arc::new(Applied {
            next: AtomicU64::new(0),
            current: Mutex::new(Current { file: file.clone(), at_ms: None }),
        });
        let mut this = Self {
            machine,
            dir,
            applied,
            last: None,
            membership: StoredMembership::default(),
            fatal,
            on_members: Box::new(|_| {}),
        };
        if let Some(file) = file {
            file.load_into(this.machine.as_ref())?;
            this.moved_to(&file.meta);
        }
        Ok(this)
    }

    pub(crate) fn applied(&self) -> Arc<Applied> {
        Arc::clone(&self.applied)
    }

    pub(crate) fn last(&self) -> Option<LogId> {
        self.last
    }

    fn moved_to(&mut self, meta: &SnapshotMeta) {
        self.last = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.publish();
    }

    fn publish(&self) {
        let next = self.last.as_ref().map_or(0, |id| id.index.saturating_add(1));
        self.applied.next.store(next, Ordering::Release);
    }

    /// Applies one entry and publishes that.
    pub(crate) fn apply_one(&mut self, entry: Entry) -> io::Result<AnyReply> {
        let id = entry.log_id;
        let reply = match entry.payload {
            Payload::Blank => AnyReply::none(),
            Payload::Normal(bytes) => self.apply_bytes(id.index, &bytes.0)?,
            Payload::Membership(membership) => {
                (self.on_members)(&membership);
                self.membership = StoredMembership::new(Some(id), membership);
                AnyReply::none()
            }
        };
        self.last = Some(id);
        self.publish();
        Ok(reply)
    }

    /// A panic in the machine counts as an entry that it cannot read.
    fn apply_bytes(&self, index: u64, bytes: &[u8]) -> io::Result<AnyReply> {
        let apply = AssertUnwindSafe(|| self.machine.apply(index, bytes));
        let applied = catch_unwind(apply).unwrap_or_else(|panic| {
            Err(MachineError::new(crate::log::store::panic_text(panic.as_ref())))
        });
        applied.map_err(|e| {
            let text = format!(
                "entry {index} cannot be applied: {e}; this node has stopped, start the program \
                 version that its peers run (docs/raft.md#unreadable-entry)"
            );
            (self.fatal)(text.clone());
            io::Error::other(text)
        })
    }

    /// Freezes the state together with its position.
    pub(crate) fn freeze(&self) -> (SnapshotMeta, SaveFn) {
        let meta =
            SnapshotMeta { last_log_id: self.last, last_membership: self.membership.clone() };
        (meta, self.machine.freeze())
    }
}

impl RaftStateMachine<TypeConfig> for Adapter {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + Send,
    {
        let burst_max = u64::try_from(APPLY_BURST_MAX.as_nanos()).unwrap_or(u64::MAX);
        let mut since = self.dir.world.boot_ns();
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let reply = self.apply_one(entry)?;
            if let Some(responder) = responder {
                responder.send(reply);
            }
            if self.dir.world.boot_ns().saturating_sub(since) >= burst_max {
                tokio::task::yield_now().await;
                since = self.dir.world.boot_ns();
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        if force {
            return Some(self.get_snapshot_builder().await);
        }
        self.applied.current().file.map(Builder::Finished)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let (meta, save) = self.freeze();
        let (dir, applied) = (self.dir.clone(), self.applied());
        Builder::Frozen(Some(Box::new(Frozen { meta, save: Mutex::new(save), dir, applied })))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotFile,
    ) -> Result<(), io::Error> {
        let machine = Arc::clone(&self.machine);
        let dir = self.dir.clone();
        let install = move || {
            snapshot.load_into(machine.as_ref())?;
            // Only now: a file that the machine cannot read must not become the current one.
            dir.adopt(&snapshot.path)
        };
        let installed = self.dir.world.blocking(install).await.map_err(io::Error::other)?;
        let file = installed.map_err(|e| {
            let text = format!("{e}; this node has stopped, {}", crate::error::REMEDY);
            (self.fatal)(text.clone());
            io::Error::other(text)
        })?;
        self.applied.set_current(file);
        (self.on_members)(meta.last_membership.membership());
        self.moved_to(meta);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<RaftSnapshot>, io::Error> {
        let current = self.applied.current().file;
        Ok(current.map(|file| Snapshot { meta: file.meta.clone(), snapshot: file }))
    }
}

/// How openraft comes to a raft snapshot.
pub(crate) enum Builder {
    /// It only hears of one that is on disk, made by `compact.rs`.
    Finished(SnapshotFile),
    /// It insists on one at a start without any; a failure is fatal then.
    Frozen(Option<Box<Frozen>>),
}

/// A state about to be written.
pub(crate) struct Frozen {
    meta: SnapshotMeta,
    /// In a mutex only because openraft wants builders to be `Sync`.
    save: Mutex<SaveFn>,
    dir: SnapshotDir,
    applied: Arc<Applied>,
}

impl Frozen {
    fn write(self) -> Result<SnapshotFile, crate::snapshot_file::SnapshotError> {
        let file = self.dir.write(&self.meta, self.save.into_inner())?;
        self.applied.set_current(file.clone());
        Ok(file)
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> Result<RaftSnapshot, io::Error> {
        let file = match self {
            Self::Finished(file) => file.clone(),
            Self::Frozen(frozen) => {
                let frozen = frozen.take().ok_or_else(|| io::Error::other("built already"))?;
                let world = frozen.dir.world.clone();
                let write = world.blocking(move || frozen.write());
                write.await.map_err(io::Error::other)?.map_err(io::Error::other)?
            }
        };
        Ok(Snapshot { meta: file.meta.clone(), snapshot: file })
    }
}

#[cfg(test)]
mod tests;
