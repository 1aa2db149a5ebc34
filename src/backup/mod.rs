//! Where catalog snapshots are kept: opens the store and the index that settings, or the arguments of a tool, name.
//!
//! The snapshot crate knows stores only by their face; what lies behind a network is here: S3 (feature `s3`) and
//! Redis (feature `redis`). Guards that the peer's own variables mean here what they mean to the peer, and that a
//! store that is not built into this program is refused with that reason instead of being taken for another one.

mod place;
#[cfg(feature = "redis")]
mod redis_index;
#[cfg(feature = "s3")]
mod s3;
mod s3_settings;

use std::sync::Arc;

use mooncake_ha_snapshot as snapshot;
use snapshot::store::{LocalStore, ObjectStore};
use snapshot::{Catalog, Limits, SnapshotIndex};

use crate::config::Config;
pub use place::Place;

/// The variable that names the root of a local store, as the peer has it.
pub const LOCAL_PATH_VARIABLE: &str = "MOONCAKE_SNAPSHOT_LOCAL_PATH";

/// Why a store or an index cannot be opened, as a sentence that says what to change.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BackupError(pub String);

/// A value of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The place that the settings name.
///
/// Errors: the settings and the environment name none, or contradict each other.
pub fn configured_place(config: &Config) -> Result<Place, BackupError> {
    let settings = &config.snapshot;
    match settings.object_store_type.as_str() {
        "" | "local" => {
            let path = Some(settings.local_path.clone()).filter(|path| !path.is_empty());
            let path = path.or_else(|| variable(LOCAL_PATH_VARIABLE)).ok_or_else(|| {
                BackupError(format!(
                    "set {LOCAL_PATH_VARIABLE} or snapshot_local_path to the directory for snapshots"
                ))
            })?;
            Ok(Place::Local(path.into()))
        }
        "s3" if !settings.s3_root.is_empty() => match Place::parse(&settings.s3_root)? {
            // A path would silently be a directory.
            Place::Local(_) => Err(BackupError(format!(
                "snapshot_s3_root={} is refused; write s3://bucket/prefix",
                settings.s3_root
            ))),
            place => Ok(place),
        },
        "s3" => match variable(s3_settings::BUCKET_VARIABLE) {
            Some(bucket) => Place::parse(&format!("s3://{bucket}")),
            None => Err(BackupError(format!(
                "set {} or snapshot_s3_root=s3://bucket/prefix to where snapshots go",
                s3_settings::BUCKET_VARIABLE
            ))),
        },
        other => Err(BackupError(format!(
            "snapshot_object_store_type={other:?} is not offered; use local or s3"
        ))),
    }
}

/// Whether the settings name a catalog, if they ask for one; a directory is not looked at.
///
/// Errors: as [`open`], without those of the directory.
pub fn check(config: &Config) -> Result<(), BackupError> {
    let settings = &config.snapshot;
    if !settings.is_enabled && !settings.is_restore_enabled {
        return Ok(());
    }
    let place = configured_place(config)?;
    if place.is_shared() {
        open_store(&place, false)?;
    }
    configured_index(config).map(|_| ())
}

/// The index that the settings name; `None` for the one beside the files.
fn configured_index(config: &Config) -> Result<Option<Arc<dyn SnapshotIndex>>, BackupError> {
    let address = &config.snapshot.catalog_store_connstring;
    match config.snapshot.catalog_store_type.as_str() {
        "redis" if address.is_empty() => Err(BackupError(
            "set snapshot_catalog_store_connstring to the address of the Redis, such as \
             redis://127.0.0.1:6379"
                .into(),
        )),
        "redis" => open_index(address, &config.storage.cluster_id).map(Some),
        _ => Ok(None),
    }
}

/// Opens the catalog that the settings name. Nothing is sent over a network yet.
///
/// Errors: no place is named, it cannot be used, or its kind is not built into this program.
pub fn open(config: &Config) -> Result<Catalog, BackupError> {
    let store = open_store(&configured_place(config)?, true)?;
    let cluster = &config.storage.cluster_id;
    let mut catalog = Catalog::new(store, cluster, Limits::default());
    let backup = &config.snapshot.backup_dir;
    if !backup.is_empty() {
        catalog = catalog.with_backup(backup.into());
    }
    match configured_index(config)? {
        Some(index) => Ok(catalog.with_index(index)),
        None => Ok(catalog),
    }
}

/// Opens the store at a place; `makes` says whether a directory that is missing is made.
///
/// Errors: the directory cannot be used, or the kind is not built into this program.
pub fn open_store(place: &Place, makes: bool) -> Result<Arc<dyn ObjectStore>, BackupError> {
    open_store_with(place, makes, &variable)
}

/// As [`open_store`], with variables that `get` looks up.
///
/// Errors: as there.
pub fn open_store_with(
    place: &Place,
    makes: bool,
    get: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn ObjectStore>, BackupError> {
    match place {
        Place::Local(path) => {
            let opened = match makes {
                true => LocalStore::open(path),
                false => LocalStore::open_existing(path),
            };
            Ok(Arc::new(opened.map_err(|error| BackupError(error.to_string()))?))
        }
        Place::S3 { bucket, prefix } => open_s3(bucket, prefix, get),
    }
}

#[cfg(feature = "s3")]
fn open_s3(
    bucket: &str,
    prefix: &str,
    get: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn ObjectStore>, BackupError> {
    let settings = s3_settings::S3Settings::read(bucket, prefix, get)?;
    Ok(Arc::new(s3::S3Store::open(settings)?))
}

#[cfg(not(feature = "s3"))]
fn open_s3(
    bucket: &str,
    _prefix: &str,
    _get: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn ObjectStore>, BackupError> {
    Err(BackupError(format!(
        "this program is built without S3, so s3://{bucket} cannot be used; build it with the feature s3"
    )))
}

/// The index in a Redis.
///
/// Errors: the address cannot be read, or Redis is not built into this program.
#[cfg(feature = "redis")]
pub fn open_index(address: &str, cluster_id: &str) -> Result<Arc<dyn SnapshotIndex>, BackupError> {
    let index = redis_index::RedisIndex::open(address, cluster_id, &variable)?;
    Ok(Arc::new(index))
}

/// The index in a Redis.
///
/// Errors: Redis is not built into this program.
#[cfg(not(feature = "redis"))]
pub fn open_index(
    _address: &str,
    _cluster_id: &str,
) -> Result<Arc<dyn SnapshotIndex>, BackupError> {
    Err(BackupError("this program is built without Redis; build it with the feature redis".into()))
}
