//! Which snapshots there are: ids, listing, publishing, retiring (snapshot format 2).
//!
//! Guards three promises: `latest.txt` never names an incomplete snapshot, retiring never removes
//! the last good one, and a new id sorts after all earlier ones although wall clocks step back. The
//! peer can read the same root at any time.

mod backup;
mod id;
mod index;

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

pub use backup::{FETCHED_DIRECTORY, UNSAVED_DIRECTORY};
pub use id::SnapshotId;
pub use index::SnapshotIndex;

use backup::Backup;

use crate::codec::manifest::{Descriptor, check_manifest, write_manifest};
use crate::codec::{Limits, Payloads, decode_exact};
use crate::error::{SnapshotError, SnapshotFile};
use crate::settle::decode_image;
use crate::store::{ObjectStore, StoreError};

/// Where all snapshots of all clusters lie, below the root.
pub const SNAPSHOT_DIRECTORY: &str = "mooncake_master_snapshot";
/// The peer's default cluster id.
pub const CLUSTER_ID_DEFAULT: &str = "mooncake_cluster";
/// Greatest size of a text file that is read.
const TEXT_BYTES_MAX: u64 = 4096;
/// An unfinished snapshot younger than this may still be in the making on another node.
pub const DEBRIS_AGE_MS_MIN: u64 = 600_000;

/// A published snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its id.
    pub id: SnapshotId,
    /// What its descriptor says.
    pub descriptor: Descriptor,
}

/// What retiring removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retired {
    /// Complete snapshots beyond the number to keep.
    pub old: Vec<SnapshotId>,
    /// Directories of attempts that never became complete.
    pub debris: Vec<SnapshotId>,
}

/// The snapshots of one cluster in one store.
pub struct Catalog {
    store: Arc<dyn ObjectStore>,
    /// Says what the latest is; `latest.txt` does without it.
    index: Option<Arc<dyn SnapshotIndex>>,
    /// Keeps what the store did not take and what was fetched for a restore.
    backup: Option<Backup>,
    /// Key prefix of the cluster, without a slash at its end.
    prefix: String,
    limits: Limits,
}

impl Catalog {
    /// The catalog of a cluster; an empty id means no directory of its own, as at the peer.
    pub fn new(store: Arc<dyn ObjectStore>, cluster_id: &str, limits: Limits) -> Self {
        let prefix = match cluster_id.trim_matches('/') {
            "" => SNAPSHOT_DIRECTORY.to_string(),
            id => format!("{SNAPSHOT_DIRECTORY}/{id}"),
        };
        Catalog { store, index: None, backup: None, prefix, limits }
    }

    /// The same catalog with an index in place of `latest.txt`.
    #[must_use]
    pub fn with_index(self, index: Arc<dyn SnapshotIndex>) -> Self {
        Catalog { index: Some(index), ..self }
    }

    /// The same catalog with the peer's backup directory, which is made when it is needed: files that
    /// could not be stored are kept there, and those that are fetched for a restore.
    #[must_use]
    pub fn with_backup(self, dir: PathBuf) -> Self {
        Catalog { backup: Some(Backup::new(dir)), ..self }
    }

    /// What a reader of this catalog accepts at most.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn key(&self, id: SnapshotId, file: SnapshotFile) -> String {
        format!("{}/{id}/{file}", self.prefix)
    }

    fn latest_key(&self) -> String {
        format!("{}/{}", self.prefix, SnapshotFile::Latest)
    }

    /// The pointer: `None` if it is absent, empty, not an id, or names a snapshot without
    /// descriptor.
    ///
    /// Errors: the store fails.
    pub fn latest(&self) -> Result<Option<Listed>, StoreError> {
        if let Some(index) = &self.index {
            return index.latest()?.map_or(Ok(None), |id| self.listed(id));
        }
        let Some(text) = self.text(&self.latest_key())? else { return Ok(None) };
        let text = String::from_utf8_lossy(&text);
        match SnapshotId::parse(text.trim_ascii()) {
            Some(id) => self.listed(id),
            None => Ok(None),
        }
    }

    /// A small file's content, or `None` if there is none of a sensible size.
    fn text(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.store.get(key, TEXT_BYTES_MAX) {
            Ok(text) => Ok(Some(text)),
            Err(StoreError::NotFound { .. } | StoreError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn listed(&self, id: SnapshotId) -> Result<Option<Listed>, StoreError> {
        let Some(text) = self.text(&self.key(id, SnapshotFile::Descriptor))? else {
            return Ok(None);
        };
        Ok(Descriptor::read(&text).ok().map(|descriptor| Listed { id, descriptor }))
    }

    /// All ids that have a directory, newest first, complete or not.
    ///
    /// Errors: the store fails.
    pub fn ids(&self) -> Result<Vec<SnapshotId>, StoreError> {
        let keys = self.store.list(&self.prefix)?;
        let mut ids: Vec<SnapshotId> = keys
            .iter()
            .filter_map(|key| key.strip_prefix(&self.prefix)?.strip_prefix('/'))
            .filter_map(|below| SnapshotId::parse(below.split_once('/')?.0))
            .collect();
        ids.sort();
        ids.dedup();
        ids.reverse();
        Ok(ids)
    }

    /// All snapshots with a readable descriptor, newest first.
    ///
    /// Errors: the store fails.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut all = Vec::new();
        for id in self.ids()? {
            all.extend(self.listed(id)?);
        }
        Ok(all)
    }

    /// The files of a snapshot, its manifest checked.
    ///
    /// Errors: a file is missing or too large, the manifest is of another format, or the store
    /// fails.
    pub fn fetch(&self, id: SnapshotId) -> Result<Payloads, SnapshotError> {
        self.fetch_with(id, &|_, _| {})
    }

    /// The same for a restore: with a backup directory each file is kept there before it is looked at.
    ///
    /// Errors: as there.
    pub(crate) fn fetch_for_restore(&self, id: SnapshotId) -> Result<Payloads, SnapshotError> {
        match &self.backup {
            Some(backup) => self.fetch_with(id, &|file, bytes| backup.fetched(file, bytes)),
            None => self.fetch(id),
        }
    }

    fn fetch_with(
        &self,
        id: SnapshotId,
        seen: &dyn Fn(SnapshotFile, &[u8]),
    ) -> Result<Payloads, SnapshotError> {
        let read = |file, limit| {
            let bytes = self.store.get(&self.key(id, file), limit)?;
            seen(file, &bytes);
            Ok::<_, StoreError>(bytes)
        };
        let manifest = read(SnapshotFile::Manifest, TEXT_BYTES_MAX)?;
        check_manifest(&manifest)?;
        let get = |file| read(file, self.limits.file_bytes_max);
        let extension = match get(SnapshotFile::Extension) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Payloads {
            metadata: get(SnapshotFile::Metadata)?,
            segments: get(SnapshotFile::Segments)?,
            task_manager: get(SnapshotFile::TaskManager)?,
            extension,
        })
    }

    /// An id for a snapshot taken now, later than every id in the catalog.
    ///
    /// Errors: the store fails.
    pub fn next_id(&self, now_ms: u64) -> Result<SnapshotId, StoreError> {
        let mut ids = self.ids()?;
        if let Some(index) = &self.index {
            ids.extend(index.ids()?);
        }
        let newest = ids.into_iter().filter_map(SnapshotId::instant_ms).max();
        let at_ms = newest.map_or(now_ms, |newest| now_ms.max(newest.saturating_add(1)));
        Ok(SnapshotId::at(at_ms))
    }

    /// Writes a snapshot under this id, then points to it. Until the last step nobody sees it.
    ///
    /// Errors: the store fails. The snapshot's files are removed again as far as possible; what was
    /// the latest before still is, unless the failing store took the new pointer, which is complete
    /// then, too.
    pub fn publish(
        &self,
        id: SnapshotId,
        payloads: &Payloads,
        descriptor: &Descriptor,
    ) -> Result<(), SnapshotError> {
        let go_on = || true;
        self.publish_while(id, payloads, descriptor, &go_on)
    }

    /// As [`Catalog::publish`], but gives up before the next file once `go_on` answers no.
    ///
    /// Errors: as there, and [`StoreError::GivenUp`].
    pub fn publish_while(
        &self,
        id: SnapshotId,
        payloads: &Payloads,
        descriptor: &Descriptor,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), SnapshotError> {
        self.stage(id, payloads, go_on)?;
        self.announce(id, descriptor, go_on)
    }

    /// Writes the files of a snapshot without making it visible: half of [`Catalog::publish`], for a
    /// node that leaves the other half to the one that keeps the catalog in order.
    ///
    /// Errors: the store fails or `go_on` answered no; then the files are removed again as far as
    /// possible.
    pub fn stage(
        &self,
        id: SnapshotId,
        payloads: &Payloads,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), SnapshotError> {
        let staged = self.write_payloads(id, payloads, go_on);
        if staged.is_err() {
            self.discard(id);
        }
        Ok(staged?)
    }

    /// Whether the files of a snapshot can be seen in this store, its descriptor aside.
    ///
    /// Errors: the store fails.
    pub fn is_staged(&self, id: SnapshotId) -> Result<bool, StoreError> {
        let keys = self.store.list(&format!("{}/{id}", self.prefix))?;
        let files = [SnapshotFile::Metadata, SnapshotFile::Segments, SnapshotFile::TaskManager];
        let mut needed = files.into_iter().chain([SnapshotFile::Manifest]);
        Ok(needed.all(|file| keys.contains(&self.key(id, file))))
    }

    /// Whether the snapshot has a readable descriptor.
    ///
    /// Errors: the store fails.
    pub fn is_listed(&self, id: SnapshotId) -> Result<bool, StoreError> {
        Ok(self.listed(id)?.is_some())
    }

    /// Makes a staged snapshot visible, then the latest.
    ///
    /// Errors: the store fails or `go_on` answered no; then the files are removed again. If only
    /// the pointer fails, they stay: whether it was taken may be unknown.
    pub fn announce(
        &self,
        id: SnapshotId,
        descriptor: &Descriptor,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), SnapshotError> {
        // The descriptor makes the snapshot visible to listings, so it comes after its files.
        let described = match go_on() {
            true => {
                let key = self.key(id, SnapshotFile::Descriptor);
                self.store.put(&key, descriptor.write().as_bytes())
            }
            false => Err(StoreError::GivenUp),
        };
        if described.is_err() {
            self.discard(id);
        }
        described?;
        let text = id.to_string();
        let pointed = match &self.index {
            Some(index) => index.publish(id),
            None => self.store.put(&self.latest_key(), text.as_bytes()),
        };
        if let (Err(error), Some(backup)) = (&pointed, &self.backup) {
            backup.unsaved(SnapshotFile::Latest, text.as_bytes(), error);
        }
        Ok(pointed?)
    }

    /// Removes the files of an attempt that failed, best effort; what stays is debris to `retire`.
    pub fn discard(&self, id: SnapshotId) {
        if let Err(error) = self.remove(id) {
            tracing::warn!(%id, %error, "an unfinished snapshot could not be removed");
        }
    }

    fn write_payloads(
        &self,
        id: SnapshotId,
        payloads: &Payloads,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), StoreError> {
        let manifest = write_manifest(&id.to_string());
        let own =
            payloads.extension.iter().map(|bytes| (SnapshotFile::Extension, bytes.as_slice()));
        let manifest = [(SnapshotFile::Manifest, manifest.as_bytes())];
        let mut failed = None;
        for (file, bytes) in payloads.files().into_iter().chain(own).chain(manifest) {
            if !go_on() {
                return Err(StoreError::GivenUp);
            }
            match (self.store.put(&self.key(id, file), bytes), &self.backup) {
                (Ok(()), _) => {}
                (Err(error), None) => return Err(error),
                // The others are tried all the same, so that the backup has what the store has not.
                (Err(error), Some(backup)) => {
                    backup.unsaved(file, bytes, &error);
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether a snapshot can be restored at all: its files are there, sound, and lose no object to
    /// damage.
    ///
    /// One of ours is under checksums and is read shard by shard, so that looking at it costs a node
    /// that serves no memory; only one of the peer's is put together as a whole.
    pub fn is_good(&self, id: SnapshotId) -> bool {
        let Ok(payloads) = self.fetch(id) else { return false };
        if payloads.extension.is_some() {
            return decode_exact(&payloads, &self.limits, |_| Ok::<_, SnapshotError>(())).is_ok();
        }
        let decoded = decode_image(&payloads, &self.limits);
        decoded.is_ok_and(|decoded| decoded.findings.lost_to_damage() == 0)
    }

    /// What [`Catalog::retire`] would remove now.
    ///
    /// The latest always stays. If none of those to be kept is good, the newest good one stays,
    /// too, and if there is no good one at all, all stay. Snapshots later than the latest stay:
    /// they are somebody else's. Debris goes when it is older than [`DEBRIS_AGE_MS_MIN`].
    ///
    /// Errors: the store fails.
    pub fn retirable(&self, keep: usize, now_ms: u64) -> Result<Retired, StoreError> {
        let Some(latest) = self.latest()? else { return Ok(Retired::default()) };
        let listed = self.list()?;
        let candidates: Vec<SnapshotId> =
            listed.iter().map(|listed| listed.id).filter(|id| *id <= latest.id).collect();
        let mut retired = Retired::default();
        if let Some((kept, old)) = candidates.split_at_checked(keep.max(1)) {
            // Looking is dear: every file of a snapshot is read. Nothing to remove, nothing to look at.
            let rescue = match old.is_empty() || kept.iter().any(|id| self.is_good(*id)) {
                true => None,
                false => Some(old.iter().position(|id| self.is_good(*id))),
            };
            let is_old = |position| {
                rescue.is_none_or(|rescue| rescue.is_some_and(|rescued| position != rescued))
            };
            let old = old.iter().enumerate().filter(|(position, _)| is_old(*position));
            retired.old = old.map(|(_, id)| *id).collect();
        }
        for id in self.ids()? {
            let is_listed = listed.iter().any(|listed| listed.id == id);
            let age_ms = id.instant_ms().map(|at_ms| now_ms.saturating_sub(at_ms));
            if !is_listed && id < latest.id && age_ms.is_some_and(|age| age >= DEBRIS_AGE_MS_MIN) {
                retired.debris.push(id);
            }
        }
        Ok(retired)
    }

    /// Removes all but the newest `keep` snapshots (at least one) and old debris; see
    /// [`Catalog::retirable`]. Leftovers of interrupted writes go, too.
    ///
    /// Errors: the store fails; calling again continues.
    pub fn retire(&self, keep: usize, now_ms: u64) -> Result<Retired, StoreError> {
        let retired = self.retirable(keep, now_ms)?;
        for id in retired.old.iter().chain(&retired.debris) {
            self.remove(*id)?;
        }
        if let Some(index) = &self.index {
            // Ids whose files somebody else removed.
            let present = self.ids()?;
            for id in index.ids()?.into_iter().filter(|id| !present.contains(id)) {
                index.remove(id)?;
            }
        }
        self.store.sweep(&self.prefix, now_ms.saturating_sub(DEBRIS_AGE_MS_MIN))?;
        Ok(retired)
    }

    /// Removes a snapshot: out of the index, then its descriptor, so that a half-removed one is
    /// not listed.
    ///
    /// Errors: the store fails.
    fn remove(&self, id: SnapshotId) -> Result<(), StoreError> {
        if let Some(index) = &self.index {
            index.remove(id)?;
        }
        self.store.delete(&self.key(id, SnapshotFile::Descriptor))?;
        self.store.delete_prefix(&format!("{}/{id}", self.prefix))
    }
}

#[cfg(test)]
mod tests;
