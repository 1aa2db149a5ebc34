//! An index of snapshots beside the store that holds their files (snapshot format 2.4).
//!
//! The peer's embedded index is `latest.txt` in the store; then there is none of these. Where one is given it
//! says which snapshot is the latest, in place of `latest.txt`. What can be listed is what has a readable
//! descriptor in the store either way, so an index that was lost costs no snapshot.

use super::SnapshotId;
use crate::store::StoreError;

/// Which snapshot is the latest, kept elsewhere than in the store.
pub trait SnapshotIndex: Send + Sync {
    /// The id that was published last, or that a removal pointed back to.
    ///
    /// Errors: the index cannot be asked.
    fn latest(&self) -> Result<Option<SnapshotId>, StoreError>;

    /// All ids that it holds, in any order.
    ///
    /// Errors: the index cannot be asked.
    fn ids(&self) -> Result<Vec<SnapshotId>, StoreError>;

    /// Adds the id and makes it the latest, in one step. Adding it again changes nothing.
    ///
    /// Errors: the index cannot be changed, or no answer came and it may be.
    fn publish(&self, id: SnapshotId) -> Result<(), StoreError>;

    /// Takes the id out. If it was the latest, the greatest of the others is, in the same step.
    ///
    /// Errors: the index cannot be changed, or no answer came and it may be.
    fn remove(&self, id: SnapshotId) -> Result<(), StoreError>;
}
