//! Behaviour 8.6 over the real wire: objects that are read often get one more replica in memory. Failovers are in
//! `cluster/dynamic.rs`, stock clients in `stock_client/tasks.rs`.

mod answers;
mod heat;
mod places;

use mooncake_ha::model::{ErrorCode, Uuid};
use mooncake_ha::wire::Answer;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{CopyStartResponse, ReplicateConfig, TaskAssignment};
use serde_json::Value as Json;

use crate::support::node::{Caller, TestNode, pinned, place, until};

type Owned = Box<[u8]>;
const TENANT: &[u8] = b"default";
const MIB: u64 = 1 << 20;
const ENFORCE: &str = "--dynamic_replication_mode=enforce";

/// A refusal as a client gets it.
fn refused<T>(code: ErrorCode) -> Answer<T> {
    Err(code.into())
}

/// What a task tells its client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    key: String,
    source: String,
    targets: Vec<String>,
    lease: Uuid,
    epoch: u64,
}

fn told(task: &TaskAssignment<Owned>) -> Told {
    let payload: Json = serde_json::from_slice(&task.payload).unwrap();
    let text = |name: &str| payload[name].as_str().unwrap().to_owned();
    let number = |name: &str| payload[format!("dynamic_replication_{name}")].as_u64().unwrap();
    let targets = payload["targets"].as_array().unwrap().iter();
    Told {
        key: text("key"),
        source: text("source"),
        targets: targets.map(|target| target.as_str().unwrap().to_owned()).collect(),
        lease: Uuid { first: number("lease_id_high"), second: number("lease_id_low") },
        epoch: number("version_epoch"),
    }
}

fn start_request<'a>(
    caller: &Caller,
    told: &'a Told,
) -> r::DynamicReplicaCopyStartRequest<&'a [u8]> {
    r::DynamicReplicaCopyStartRequest {
        client_id: caller.id,
        key: told.key.as_bytes(),
        tenant_id: TENANT,
        src_segment: told.source.as_bytes(),
        tgt_segments: told.targets.iter().map(String::as_bytes).collect(),
        lease_id: told.lease,
        version_epoch: told.epoch,
    }
}

fn end_request<'a>(caller: &Caller, told: &'a Told) -> r::DynamicReplicaCopyRequest<&'a [u8]> {
    r::DynamicReplicaCopyRequest {
        client_id: caller.id,
        key: told.key.as_bytes(),
        tenant_id: TENANT,
        lease_id: told.lease,
        version_epoch: told.epoch,
    }
}

impl Caller {
    /// The next task, once there is one.
    async fn next_task(&self) -> TaskAssignment<Owned> {
        let mut found = None;
        until("there is a task", async || {
            found = self.tasks().await.into_iter().next();
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    async fn tasks(&self) -> Vec<TaskAssignment<Owned>> {
        let request = r::FetchTasksRequest { client_id: self.id, batch_size: 1 };
        self.call::<c::FetchTasks>(&request).await.unwrap()
    }

    async fn begin(&self, told: &Told) -> Answer<CopyStartResponse<Owned>> {
        self.call::<c::DynamicReplicaCopyStart>(&start_request(self, told)).await
    }

    async fn finish(&self, told: &Told) -> Answer<()> {
        self.call::<c::DynamicReplicaCopyEnd>(&end_request(self, told)).await
    }

    async fn give_up(&self, told: &Told) -> Answer<()> {
        self.call::<c::DynamicReplicaCopyRevoke>(&end_request(self, told)).await
    }

    /// Reads a key so many times.
    async fn read(&self, key: &str, times: u32) {
        for _ in 0..times {
            self.replicas(key).await.unwrap();
        }
    }

    /// Segments that a reader is told of, in order. A read like any other.
    async fn lies(&self, key: &str) -> Vec<String> {
        let found = self.replicas(key).await.unwrap();
        found.replicas.iter().map(|replica| place(replica).0).collect()
    }

    /// Writes 1 KiB to `s1` under a soft pin.
    async fn put_on_s1(&self, key: &str) {
        let preferred_segments = vec![b"s1".as_slice()];
        self.put(key, &ReplicateConfig { preferred_segments, ..pinned(Some(3_600_000)) }).await;
    }
}

/// A node and two clients with a segment each; `k` lies on `s1`.
async fn scene(flags: &[&str]) -> (TestNode, Caller, Caller) {
    let node = TestNode::start(flags).await;
    let (a, b) = (node.owner(1, MIB).await, node.owner(2, MIB).await);
    a.put_on_s1("k").await;
    (node, a, b)
}

fn hot(node: &TestNode) -> u64 {
    node.master().dynamic_stats().hot.load(std::sync::atomic::Ordering::Relaxed)
}

/// Waits until the leader has looked at what is hot, so often.
async fn looked_at(node: &TestNode, times: u64) {
    until("the leader has looked", async || {
        let stats = node.master().dynamic_stats();
        let load = |counter: &std::sync::atomic::AtomicU64| {
            counter.load(std::sync::atomic::Ordering::Relaxed)
        };
        load(&stats.planned) + load(&stats.unplanned) >= times
    })
    .await;
}
