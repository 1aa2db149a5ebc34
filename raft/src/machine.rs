//! What this crate replicates: a state machine that the user brings.
//!
//! Guards: entries reach `apply` in log order, one at a time, and a raft snapshot is taken between
//! two entries. Leaves to the user: what the bytes mean. Inside the crate the type parameters are
//! erased once (`ErasedMachine`), so that openraft is compiled once, not once per user.

use std::any::Any;
use std::io::{Read, Write};
use std::sync::Arc;

use parking_lot::Mutex;

/// Why a machine could not take an entry or a raft snapshot.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub String);

impl MachineError {
    /// An error with a reason that an operator can read.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// The replicated state machine.
pub trait Machine: Send + Sync + 'static {
    /// What applying an entry yields to its proposer on this node; never stored, never sent.
    type Reply: Send + 'static;
    /// Cheap handles to a consistent view of the state.
    type Frozen: Send + 'static;

    /// Applies one entry; called in log order, never concurrently with itself, `freeze` or `load`.
    ///
    /// Must publish its effect before it returns: the proposer may read it right after.
    ///
    /// # Errors
    /// The entry cannot be understood. The node stops, because every later state would differ
    /// from that of its peers.
    fn apply(&self, index: u64, entry: &[u8]) -> Result<Self::Reply, MachineError>;

    /// Takes handles to the state as it is between two entries. Must be quick: applying waits.
    fn freeze(&self) -> Self::Frozen;

    /// Writes a frozen state; runs on a blocking thread while entries go on being applied.
    ///
    /// # Errors
    /// Only those of the writer; the raft snapshot is then given up and tried again later.
    fn save(frozen: Self::Frozen, to: &mut dyn Write) -> std::io::Result<()>;

    /// Replaces the state by what `save` wrote; runs on a blocking thread.
    ///
    /// # Errors
    /// The bytes cannot be understood. The old state must then be untouched.
    fn load(&self, from: &mut dyn Read) -> Result<(), MachineError>;
}

/// A reply whose type only the proposer knows.
///
/// The mutex is never contended: it only makes a `Send` value `Sync`, which openraft asks for.
pub struct AnyReply(Mutex<Option<Box<dyn Any + Send>>>);

impl AnyReply {
    pub(crate) fn none() -> Self {
        Self(Mutex::new(None))
    }

    fn some<T: Send + 'static>(value: T) -> Self {
        Self(Mutex::new(Some(Box::new(value))))
    }

    /// Takes the reply out; `None` if it is not a `T` or was never there.
    pub(crate) fn take<T: 'static>(&self) -> Option<T> {
        let value = self.0.lock().take()?;
        value.downcast::<T>().ok().map(|boxed| *boxed)
    }
}

impl std::fmt::Debug for AnyReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyReply")
    }
}

/// Handles of a frozen state, ready to be written once.
pub(crate) type SaveFn = Box<dyn FnOnce(&mut dyn Write) -> std::io::Result<()> + Send>;

/// [`Machine`] without its type parameters.
pub(crate) trait ErasedMachine: Send + Sync + 'static {
    fn apply(&self, index: u64, entry: &[u8]) -> Result<AnyReply, MachineError>;
    fn freeze(&self) -> SaveFn;
    fn load(&self, from: &mut dyn Read) -> Result<(), MachineError>;
}

pub(crate) struct Erased<M>(pub(crate) Arc<M>);

impl<M: Machine> ErasedMachine for Erased<M> {
    fn apply(&self, index: u64, entry: &[u8]) -> Result<AnyReply, MachineError> {
        self.0.apply(index, entry).map(AnyReply::some)
    }

    fn freeze(&self) -> SaveFn {
        let frozen = self.0.freeze();
        Box::new(move |to| M::save(frozen, to))
    }

    fn load(&self, from: &mut dyn Read) -> Result<(), MachineError> {
        self.0.load(from)
    }
}
