//! `bench restore`: a catalog snapshot of a loaded master, and cold restores from it, by the clock.
//!
//! A restore is timed from the start of the process to the first right answer about an object, so nothing of it
//! can hide before the log begins or behind its end. Memory is the kernel's count, its peak included.

use std::time::Duration;

use serde::Serialize;

use super::BenchError;
use super::keys::KeyShape;
use super::report::millis;
use super::server::{Launch, ProcessLook, Server};
use super::store::{Store, StoreShape, is_known};
use super::work::{PinWish, WorkShape};
use crate::clock::{Clock, SystemClock};

/// What the master that is loaded is started with.
const TAKE_FLAGS: &str = "--enable_snapshot=true --snapshot_object_store_type=local \
                          --snapshot_interval_seconds=86400";

/// What the masters that restore are started with: every object survives, so that time drops none.
const RESTORE_FLAGS: &str = "--enable_snapshot_restore=true --snapshot_object_store_type=local \
                             --restore_survival=complete";

/// Segments of the store.
const SEGMENTS: usize = 16;

/// What a master frees after a load has this long to go back to the system.
const REST: Duration = Duration::from_secs(2);

/// Between two questions to a master that starts, and how long it may take.
const START_STEP: Duration = Duration::from_millis(5);
const START_MAX: Duration = Duration::from_secs(300);

/// What to measure.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Shell command that starts the master.
    pub command: String,
    /// Objects in the snapshot.
    pub objects: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of an object.
    pub value_bytes: u64,
    /// Restores from the one snapshot.
    pub rounds: u32,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct RestoreRows {
    /// Objects in the snapshot.
    pub objects: u64,
    /// The snapshot, from the request to its answer.
    pub snapshot_ms: f64,
    /// Resident memory of the loaded master before it.
    pub rss_bytes: u64,
    /// The most while it was taken.
    pub snapshot_rss_peak_bytes: u64,
    /// One after the other.
    pub restores: Vec<RestoreRow>,
}

/// One restore.
#[derive(Clone, Debug, Serialize)]
pub struct RestoreRow {
    /// From the start of the process to its first right answer about an object.
    pub ready_ms: f64,
    /// CPU that the process had used by then.
    pub cpu_ms: f64,
    /// Resident memory then.
    pub rss_bytes: u64,
    /// The most until then.
    pub rss_peak_bytes: u64,
}

/// Loads a master, takes a snapshot, and restores it into new masters.
///
/// Errors: by cause, see [`BenchError`].
pub async fn restore(options: &RestoreOptions) -> Result<RestoreRows, BenchError> {
    let clock = std::sync::Arc::new(SystemClock::default());
    let command = with_flags(&options.command, TAKE_FLAGS);
    let mut server = Server::start(Launch { command, core: None }).await?;
    let shape = WorkShape {
        keys: KeyShape::new("bench-", options.key_bytes)?,
        batch: 1,
        is_always_batch: false,
        value_bytes: options.value_bytes,
        replicas: 1,
        pin: PinWish::None,
        group_size: 0,
    };
    let RestoreOptions { objects, value_bytes, .. } = *options;
    let memory = StoreShape::for_objects(1, SEGMENTS, objects, value_bytes);
    let mut store = Store::open(&server.address, &memory, 0).await?;
    store.load(&shape, objects, &clock).await?;
    tokio::time::sleep(REST).await;
    let before = look(&server)?;
    server.forget_peak()?;
    let began = clock.monotonic();
    server.page("POST", "/api/v1/snapshots").await?;
    let took = clock.monotonic().saturating_sub(began);
    let after = look(&server)?;
    store.fall_silent();
    let key = shape.keys.key(objects.saturating_sub(1));
    let mut restores = Vec::new();
    for _ in 0..options.rounds {
        let began = clock.monotonic();
        server.start_anew(&with_flags(&options.command, RESTORE_FLAGS))?;
        let starting = clock.monotonic();
        while !is_known(&server.address, &key).await {
            server.require_running()?;
            if clock.monotonic().saturating_sub(began) > START_MAX {
                return Err(BenchError::TooLong(format!("it did not serve in {START_MAX:?}")));
            }
            tokio::time::sleep(START_STEP).await;
        }
        let took = clock.monotonic().saturating_sub(starting);
        let ProcessLook { cpu, rss_bytes, rss_peak_bytes, .. } = look(&server)?;
        let (ready_ms, cpu_ms) = (millis(took), millis(cpu));
        restores.push(RestoreRow { ready_ms, cpu_ms, rss_bytes, rss_peak_bytes });
    }
    Ok(RestoreRows {
        objects,
        snapshot_ms: millis(took),
        rss_bytes: before.rss_bytes,
        snapshot_rss_peak_bytes: after.rss_peak_bytes,
        restores,
    })
}

fn look(server: &Server) -> Result<ProcessLook, BenchError> {
    let unknown = || BenchError::Internal("the process of a started master is not known".into());
    server.look()?.ok_or_else(unknown)
}

/// A command with flags where `{flags}` stands, or else at its end.
fn with_flags(command: &str, flags: &str) -> String {
    match command.contains("{flags}") {
        true => command.replace("{flags}", flags),
        false => format!("{command} {flags}"),
    }
}

/// The results as text.
pub fn table(rows: &RestoreRows) -> String {
    let mib = |bytes: u64| bytes >> 20;
    let RestoreRows { objects, snapshot_ms, rss_bytes, snapshot_rss_peak_bytes, restores } = rows;
    let share = *snapshot_rss_peak_bytes as f64 / (*rss_bytes).max(1) as f64;
    let mut text = format!(
        "snapshot of {objects} objects: {snapshot_ms:.0} ms, memory {} MiB, at most {} MiB ({share:.2}x)\n",
        mib(*rss_bytes),
        mib(*snapshot_rss_peak_bytes),
    );
    for row in restores {
        let (memory, most) = (mib(row.rss_bytes), mib(row.rss_peak_bytes));
        let RestoreRow { ready_ms, cpu_ms, .. } = row;
        text += &format!(
            "restore to the first answer: {ready_ms:.0} ms, {cpu_ms:.0} ms of CPU, memory {memory} MiB, \
             at most {most} MiB\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_stand_where_the_command_wants_them() {
        assert_eq!(with_flags("serve --a", "--b"), "serve --a --b");
        assert_eq!(with_flags("sh -c 'serve {flags} 2>x'", "--b"), "sh -c 'serve --b 2>x'");
    }
}
