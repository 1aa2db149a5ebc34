//! From a directory to a running node: lock, check, load, replay, start.
//!
//! Guards: nothing is started on a log and a raft snapshot that do not fit together; a restart
//! applies everything that was known to be committed before anybody is served; a sole voter is
//! open only when it leads. Leaves to `node.rs` life after that.

use std::sync::Arc;
use std::time::Duration;

use openraft::{BasicNode, SnapshotPolicy};
use tokio::sync::watch;

use crate::adapter::Adapter;
use crate::config::{Config, ENTRY_BYTES_MAX};
use crate::dir::DataDir;
use crate::error::OpenError;
use crate::log::LogStore;
use crate::machine::ErasedMachine;
use crate::net::peers::Peers;
use crate::snapshot_file::SnapshotDir;

/// Bytes of entries read at once for the replay.
const REPLAY_BYTES_MAX: usize = 4 << 20;
/// Entries in one message to a peer; bytes are bounded by the log's reader.
const MESSAGE_ENTRIES_MAX: u64 = 4096;
/// openraft's limit on a whole transfer; ours is on standing still, see `snapshot_idle`.
const TRANSFER_MAX: Duration = Duration::from_secs(24 * 3600);

/// What is on disk, opened and replayed.
pub(crate) struct Stored {
    pub(crate) dir: DataDir,
    pub(crate) log: LogStore,
    pub(crate) snapshots: SnapshotDir,
    pub(crate) adapter: Adapter,
    pub(crate) peers: Arc<Peers>,
}

/// Opens everything on disk; blocking.
pub(crate) fn open_stored(
    config: &Config,
    machine: Arc<dyn ErasedMachine>,
    fatal: &watch::Sender<Option<String>>,
) -> Result<Stored, OpenError> {
    let dir = DataDir::open(config)?;
    let snapshots = SnapshotDir::open(config.world.clone(), dir.snapshot())?;
    let note = fatal.clone();
    let fail = Box::new(move |reason: String| {
        note.send_if_modified(|old| old.is_none() && old.replace(reason).is_none());
    });
    let mut adapter = Adapter::open(machine, snapshots.clone(), fail)
        .map_err(crate::snapshot_file::SnapshotError::into_open_error)?;
    let peers = Arc::new(Peers::open(config, &dir)?);
    let heard = Arc::clone(&peers);
    adapter.on_members = Box::new(move |members| heard.members_changed(members));
    let log = LogStore::open(&dir.log(), &dir.mark(), &dir.journal(), config, fatal.clone())?;
    if log.purged().map(|id| id.index) > adapter.last().map(|id| id.index) {
        let purged = log.purged().map_or(0, |id| id.index);
        let found = adapter.last().map_or("none".to_owned(), |id| id.index.to_string());
        let detail =
            format!("the log begins after index {purged}, the raft snapshot ends at {found}");
        return Err(OpenError::damaged("raft snapshot missing or too old", dir.snapshot(), detail));
    }
    replay(&log, &mut adapter)?;
    Ok(Stored { dir, log, snapshots, adapter, peers })
}

/// Applies what was known to be committed. Without this a restarted node would show a state that
/// it had already left behind.
fn replay(log: &LogStore, adapter: &mut Adapter) -> Result<(), OpenError> {
    let Some(committed) = log.committed() else { return Ok(()) };
    let mut next = adapter.last().map_or(0, |id| id.index.saturating_add(1));
    // What the raft snapshot already holds may still be in the log, never the other way round.
    let end = committed.index.saturating_add(1);
    while next < end {
        let entries = log
            .read_blocking(next, end, REPLAY_BYTES_MAX)
            .map_err(|e| OpenError::Raft(e.to_string()))?;
        let Some(last) = entries.last().map(|entry| entry.log_id.index) else {
            return Err(OpenError::Raft(format!("entry {next} is missing in the log")));
        };
        for entry in entries {
            adapter.apply_one(entry).map_err(|e| OpenError::Raft(e.to_string()))?;
        }
        next = last.saturating_add(1);
    }
    Ok(())
}

/// Our settings in openraft's words.
pub(crate) fn raft_config(config: &Config) -> Result<openraft::Config, OpenError> {
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let lease = ms(config.lease());
    let ours = openraft::Config {
        cluster_name: config.cluster_id.clone(),
        heartbeat_interval: ms(config.heartbeat),
        election_timeout_min: ms(config.election_min),
        election_timeout_max: ms(config.election_max),
        install_snapshot_timeout: ms(TRANSFER_MAX),
        max_payload_entries: MESSAGE_ENTRIES_MAX,
        snapshot_policy: SnapshotPolicy::Never,
        // `compact.rs` purges by bytes; openraft must not purge by count.
        max_in_snapshot_log_to_keep: u64::MAX,
        enable_pre_vote: Some(true),
        // A leader that restarts asks for votes like everybody else: the blank entry of the new
        // term is what proves that everything acknowledged before is applied.
        enable_leader_restore: Some(false),
        // A leader that lost its quorum falls silent, so that followers elect another.
        quorum_loss_probe_interval: Some(lease.saturating_mul(2)),
        ..openraft::Config::default()
    };
    ours.validate().map_err(|e| OpenError::Raft(e.to_string()))
}

/// The voters of a new cluster.
pub(crate) fn first_members(config: &Config) -> std::collections::BTreeMap<u64, BasicNode> {
    if config.peers.is_empty() {
        let addr = config.listen.map(|addr| addr.to_string()).unwrap_or_default();
        return [(config.node_id, BasicNode { addr })].into();
    }
    config.peers.iter().map(|(id, addr)| (*id, BasicNode { addr: addr.clone() })).collect()
}

/// True if an entry of this size may be proposed.
pub(crate) fn fits(size: usize) -> bool {
    size <= ENTRY_BYTES_MAX
}
