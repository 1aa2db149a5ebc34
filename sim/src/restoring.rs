//! A cold restore while faults happen: a candidate that is damaged, then one that is good, proposed
//! as the restorer proposes them.

use std::sync::Arc;

use mooncake_ha::alloc::Strategy;
use mooncake_ha::model::{
    ClientId, Millis, PinRequest, ReplicaSelect, Segment, SegmentId, Ttl, Uuid,
};
use mooncake_ha::node::MasterNode;
use mooncake_ha::node::error::NodeError;
use mooncake_ha::state::command::{
    Command, End, EndItem, Entry, Key, Stamp, Start, StartItem, WriteConfig, WriteRules,
};
use mooncake_ha::state::restore::{
    PART_BYTES_MAX, RestoreBegin, RestoreFinish, RestoreOutcome, RestorePart,
};
use mooncake_ha::state::{Reply, State};
use parking_lot::Mutex;

/// Objects of the image.
const OBJECTS: u64 = 20;
/// How long their pins last.
const PIN_MS: u64 = 60_000;
/// Who wrote them; nobody of that name lives.
const WRITER: ClientId = ClientId(Uuid { first: 99, second: 77 });

/// How a restore stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Progress {
    /// Nobody is at it.
    #[default]
    Idle,
    /// A leader is at it.
    Running,
    /// It is done.
    Done,
}

/// Shared between the run and the task that restores.
pub type Shared = Arc<Mutex<Progress>>;

/// Marks the end of a task, however it ends.
struct Ended(Shared);

impl Drop for Ended {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        if *progress == Progress::Running {
            *progress = Progress::Idle;
        }
    }
}

fn image(now: Millis) -> Vec<u8> {
    let mut state = State::default();
    let segment = Segment {
        id: SegmentId(WRITER.0),
        name: Arc::from("restored"),
        base: 1 << 50,
        size: 1 << 20,
        endpoint: Arc::from("restored"),
        protocol: Arc::from("tcp"),
        host_id: Arc::from(""),
    };
    let rules = WriteRules {
        discard_timeout_ms: PIN_MS,
        release_timeout_ms: PIN_MS,
        strategy: Strategy::Random,
    };
    let config = WriteConfig {
        replica_num: 1,
        pin: PinRequest::Enable(Ttl(PIN_MS)),
        is_hard_pinned: false,
        data_type: 0,
        preferred: Vec::new(),
        is_same_node_preferred: false,
        host_id: Arc::from(""),
    };
    let key = |number: u64| Key(format!("restored/{number}").into_bytes());
    let item = |number| StartItem { key: key(number), size: 1_024, group: None };
    let items = (0..OBJECTS).map(item).collect();
    let start = Start { client: WRITER, tenant: None, items, config, rules };
    let ends = (0..OBJECTS).map(|number| EndItem { key: key(number), checksum: None }).collect();
    let end = End { client: WRITER, tenant: None, items: ends, select: ReplicaSelect::All };
    let commands = vec![
        Command::MountSegment { segment, client: WRITER },
        Command::PutStart(start),
        Command::PutEnd(end),
    ];
    state.apply_entry(&Entry { stamp: Stamp { now, seed: 1 }, commands });
    let mut bytes = Vec::new();
    // A vector takes everything.
    let _ = state.freeze().save(&mut bytes);
    bytes
}

/// Restores on the leader; what is not done when it dies is begun again by the next.
pub fn restore(
    master: MasterNode,
    attempt: u64,
    shared: Shared,
) -> impl Future<Output = ()> + Send + 'static {
    // Now and not in the task: it may be dropped before it begins.
    let ended = Ended(shared);
    async move { restore_until(&master, attempt, &ended).await }
}

async fn restore_until(master: &MasterNode, attempt: u64, ended: &Ended) {
    let now = master.clock().now(master.machine().view().clock());
    let good = image(now);
    let mut damaged = good.clone();
    damaged.truncate(good.len() / 2);
    let damaged = take_over(master, attempt * 2, damaged, now).await;
    if let Ok(Reply::Restore(Err(_))) = damaged {
        // Refused as it must be: the next candidate.
        if let Ok(Reply::Restore(Ok(()))) = take_over(master, attempt * 2 + 1, good, now).await {
            *ended.0.lock() = Progress::Done;
        }
    }
}

async fn take_over(
    master: &MasterNode,
    attempt: u64,
    image: Vec<u8>,
    now: Millis,
) -> Result<Reply, NodeError> {
    let crc32 = crc32fast::hash(&image);
    let parts: Vec<&[u8]> = image.chunks(PART_BYTES_MAX.min(1_000)).collect();
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    let snapshot = Arc::from("simulated");
    let begin = RestoreBegin { attempt, snapshot, now, parts: count, crc32 };
    master.propose(&Command::RestoreBegin(begin)).await?;
    for (number, bytes) in (0..).zip(parts) {
        let part = RestorePart { attempt, number, bytes: Key(bytes.to_vec()) };
        master.propose(&Command::RestorePart(part)).await?;
    }
    let (leases_until, outcome) = (Millis(0), RestoreOutcome::Restored);
    let report = Key(Vec::new());
    let finish = RestoreFinish { attempt, leases_until, outcome, report };
    master.propose(&Command::RestoreFinish(finish)).await
}
