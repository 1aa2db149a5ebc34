//! Scenes of segments, snapshots and starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::memory::rest;
use super::stage::{KEY_BYTES, Side, Stage, VALUE_BYTES};
use crate::bench::BenchError;
use crate::bench::keys::KeyShape;
use crate::bench::report::millis;
use crate::bench::server::Server;
use crate::bench::store::{Store, StoreShape, connect, is_known, mount, new_client, new_segment};
use crate::bench::work::PinWish;
use crate::clock::Clock;
use crate::wire::calls::BatchExistKey;
use crate::wire::requests::KeysRequest;

/// Bytes of a large segment.
const LARGE_BYTES: u64 = 64 << 30;

/// Segments of the store of a start.
const SEGMENTS: usize = 16;

/// Catalog snapshots in a directory of the test's own.
const SNAPSHOTS: [&str; 2] = ["--enable_snapshot=true", "--snapshot_object_store_type=local"];

/// A master that takes snapshots by the clock only takes one so often; one that takes them when asked does not.
const INTERVAL_FLAG: &str = "--snapshot_interval_seconds=5";
const NEVER_FLAG: &str = "--snapshot_interval_seconds=86400";

/// A snapshot is published in this time, its interval included.
const SNAPSHOT_MAX: Duration = Duration::from_secs(40);

/// Between two looks at a directory, and at a master that starts.
const LOOK_STEP: Duration = Duration::from_millis(100);
const START_STEP: Duration = Duration::from_millis(5);

/// A start must be over in this time.
const START_MAX: Duration = Duration::from_secs(120);

/// Leases that outlast a scene: the other master restores objects under a lease only.
const LEASE_FLAG: &str = "--default_kv_lease_ttl=86400000";

/// Keys of one call that gives leases.
const LEASE_BATCH: u64 = 1_000;

/// Folders below the root of snapshots that are looked into, and entries in each.
const DEPTH_MAX: usize = 4;
const ENTRIES_MAX: usize = 10_000;

/// The tenant of every key.
const TENANT: &[u8] = b"default";

/// Mounts large segments.
pub async fn mounts(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let server = stage.start(side, &[]).await?;
    let before = rest(&server).await?;
    let client = connect(&server.address).await?;
    let owner = new_client();
    let mut times = Vec::new();
    for number in 0..stage.options.large_segments.max(1) {
        let segment = new_segment(number as u64, LARGE_BYTES);
        let began = stage.clock.monotonic();
        mount(&client, owner.id, &segment).await?;
        times.push(stage.clock.monotonic().saturating_sub(began));
    }
    let after = server.look()?.unwrap_or_default();
    times.sort();
    let count = times.len() as f64;
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    let each = |before: u64, after: u64| (after as f64 - before as f64) / count;
    stage.note("mount-time", side, millis(middle));
    stage.note("mount-rss", side, each(before.rss_bytes, after.rss_bytes));
    stage.note("mount-reserved", side, each(before.virtual_bytes, after.virtual_bytes));
    Ok(())
}

/// A catalog snapshot of a large store in large segments.
pub async fn snapshot(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let interval = if side == Side::Ours { NEVER_FLAG } else { INTERVAL_FLAG };
    let server = stage.start(side, &[SNAPSHOTS[0], SNAPSHOTS[1], interval]).await?;
    let segments = stage.options.large_segments.max(1);
    let shape = StoreShape { clients: 1, segments, segment_bytes: LARGE_BYTES };
    let store = Store::open(&server.address, &shape, 0).await?;
    let shape = stage.shape(KEY_BYTES, PinWish::None)?;
    store.load(&shape, stage.options.objects, &stage.clock).await?;
    let works = match take_snapshot(stage, &server).await {
        Ok(()) => 1.0,
        Err(BenchError::TooLong(_)) => 0.0,
        Err(error) => return Err(error),
    };
    stage.note("snapshot-large", side, works);
    Ok(())
}

/// Has a snapshot taken of what the master knows now: by asking, or by waiting for the second one from now,
/// because the first may have been begun before.
///
/// Errors: [`BenchError::TooLong`] if none is published.
async fn take_snapshot(stage: &Stage<'_>, server: &Server) -> Result<(), BenchError> {
    if server.page("POST", "/api/v1/snapshots").await.is_ok() {
        return Ok(());
    }
    let root = server.snapshots().unwrap_or_default();
    let mut known = latest(&root);
    for _ in 0..2 {
        let began = stage.clock.monotonic();
        while latest(&root) == known {
            if stage.clock.monotonic().saturating_sub(began) > SNAPSHOT_MAX {
                let why = format!("no snapshot was published in {SNAPSHOT_MAX:?}");
                return Err(BenchError::TooLong(why));
            }
            tokio::time::sleep(LOOK_STEP).await;
        }
        known = latest(&root);
    }
    Ok(())
}

/// What the pointer to the latest snapshot below a root says.
fn latest(root: &Path) -> Option<String> {
    let mut folders: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        if let Ok(text) = fs::read_to_string(folder.join("latest.txt")) {
            return Some(text);
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
        let inner = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        folders.extend(inner.filter(|_| depth < DEPTH_MAX).map(|path| (path, depth + 1)));
    }
    None
}

/// Killed with a large store and started again: to the first right answer about an object.
pub async fn cold_start(stage: &mut Stage<'_>, side: Side) -> Result<(), BenchError> {
    let objects = stage.options.objects;
    let restore = [SNAPSHOTS[0], SNAPSHOTS[1], "--enable_snapshot_restore=true", LEASE_FLAG];
    let flags = match side {
        Side::Ours => Vec::new(),
        Side::Peer => [&restore[..], &[INTERVAL_FLAG]].concat(),
    };
    let mut server = stage.start(side, &flags).await?;
    let shape = StoreShape::for_objects(1, SEGMENTS, objects, VALUE_BYTES);
    let mut store = Store::open(&server.address, &shape, 0).await?;
    let shape = stage.shape(KEY_BYTES, PinWish::None)?;
    store.load(&shape, objects, &stage.clock).await?;
    if side == Side::Peer {
        lease(&server, &shape.keys, objects).await?;
        take_snapshot(stage, &server).await?;
    }
    store.fall_silent();
    let began = stage.clock.monotonic();
    server.respawn()?;
    let key = shape.keys.key(objects.saturating_sub(1));
    while !is_known(&server.address, &key).await {
        let took = stage.clock.monotonic().saturating_sub(began);
        if took > START_MAX {
            return Err(BenchError::TooLong(format!("it did not serve in {START_MAX:?}")));
        }
        tokio::time::sleep(START_STEP).await;
    }
    stage.note("cold-start", side, millis(stage.clock.monotonic().saturating_sub(began)));
    Ok(())
}

/// Gives every object a read lease.
async fn lease(server: &Server, keys: &KeyShape, objects: u64) -> Result<(), BenchError> {
    let client = connect(&server.address).await?;
    let lost = |error| BenchError::Call { call: "BatchExistKey", error };
    for first in (0..objects).step_by(LEASE_BATCH as usize) {
        let last = (first + LEASE_BATCH).min(objects);
        let names: Vec<_> = (first..last).map(|number| keys.key(number)).collect();
        let keys = names.iter().map(Vec::as_slice).collect();
        let request = KeysRequest { keys, tenant_id: TENANT };
        client.call::<BatchExistKey>(&request).await.map_err(lost)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointer_is_found_in_any_folder_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(latest(root.path()), None);
        let folder = root.path().join("snapshots/cluster");
        fs::create_dir_all(folder.join("20260101_000000_000")).unwrap();
        fs::write(folder.join("latest.txt"), "20260101_000000_000").unwrap();
        assert_eq!(latest(root.path()).as_deref(), Some("20260101_000000_000"));
    }
}
