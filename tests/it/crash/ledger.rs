//! What a node has acknowledged, and the client that asked for it.

use mooncake_ha::model::{ClientId, ErrorCode, Uuid};
use mooncake_ha::rpc::client::{ClientError, RpcClient};
use mooncake_ha::wire::calls::{
    BatchGetReplicaList, BatchPutEnd, BatchPutStart, BatchRemove, MountSegment,
};
use mooncake_ha::wire::requests::{
    BatchPutEndRequest, BatchPutStartRequest, BatchRemoveRequest, KeysRequest, MountSegmentRequest,
};
use mooncake_ha::wire::types::{ObjectMeta, ReplicaType, WireError};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Duration, timeout};

use crate::support::node::{pinned, segment};

const TENANT: &[u8] = b"default";
const SEGMENT_BYTES: u64 = 1 << 30;
/// Keys of one batch, and bytes of a key: some batches fill what the log is purged by.
const BATCH: usize = 100;
const KEY_BYTES: usize = 120;
/// Every key is pinned for longer than a test takes.
const PIN_MS: u64 = 3_600_000;
/// Longer than any answer takes from a node that lives and leads.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// See the file's head.
pub struct Ledger {
    runtime: Runtime,
    client: Option<RpcClient>,
    /// Keys that must be readable, with the checksum of their write.
    acknowledged: Vec<(String, u64)>,
    /// Keys that must be gone.
    removed: Vec<String>,
    next: u64,
}

impl Ledger {
    /// Nothing is acknowledged yet.
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Ledger { runtime, client: None, acknowledged: Vec::new(), removed: Vec::new(), next: 0 }
    }

    fn id() -> ClientId {
        ClientId(Uuid { first: 1, second: 77 })
    }

    /// Talks to the node there from now on.
    pub fn turn_to(&mut self, address: &str) {
        self.client = self.runtime.block_on(RpcClient::connect(address)).ok();
    }

    /// Mounts the one segment.
    pub fn mount(&mut self) {
        let request =
            MountSegmentRequest { segment: segment(1, "s1", SEGMENT_BYTES), client_id: Self::id() };
        let client = self.client.as_ref().unwrap();
        self.runtime.block_on(client.call::<MountSegment>(&request)).unwrap().unwrap();
    }

    /// Writes a batch, and removes some keys of an earlier one. What is not answered is nobody's promise.
    pub fn write(&mut self) {
        let Some(client) = self.client.take() else { return };
        let names: Vec<String> =
            (0..BATCH).map(|at| format!("{:0>KEY_BYTES$}", self.next + at as u64)).collect();
        let first = self.next;
        self.next += BATCH as u64;
        let Ok(written) = self.runtime.block_on(write(&client, &names, first)) else { return };
        assert_eq!(written, Ok(()), "a write is refused");
        self.acknowledged.extend(names.into_iter().zip(first..));
        let some = self.acknowledged.len() / 2;
        let going: Vec<String> =
            self.acknowledged.drain(some..some + 3).map(|(key, _)| key).collect();
        if let Ok(Ok(())) = self.runtime.block_on(remove(&client, &going)) {
            self.removed.extend(going);
            self.client = Some(client);
        }
    }

    /// Asks for a write and waits for no answer.
    pub fn begin_write(&mut self) {
        let client = self.client.take().unwrap();
        let names = vec![format!("unanswered/{}", self.next)];
        let answer = async {
            let asked = write(&client, &names, 0);
            timeout(Duration::from_millis(300), asked).await.map(|answer| answer.is_ok())
        };
        let answered = self.runtime.block_on(answer);
        assert_ne!(answered, Ok(true), "one node alone has acknowledged a write");
    }

    /// Everything acknowledged is as it was, and the node takes writes, which count from now on.
    pub fn check(&mut self, address: &str) {
        assert_eq!(self.wrong_at(address), Vec::<String>::new());
        let before = self.acknowledged.len();
        self.write();
        assert!(self.acknowledged.len() > before, "a write is not acknowledged");
    }

    /// The same of a node of which nobody speaks any more afterwards.
    pub fn check_aside(&mut self, address: &str) {
        assert_eq!(self.wrong_at(address), Vec::<String>::new());
        let client = self.client.take().unwrap();
        let names = vec!["aside".to_owned()];
        let written = self.runtime.block_on(write(&client, &names, 0));
        assert_eq!(written.unwrap(), Ok(()), "a write is not acknowledged");
    }

    /// What is not as it was acknowledged, as a node there tells it.
    pub fn wrong_at(&mut self, address: &str) -> Vec<String> {
        self.turn_to(address);
        let client = self.client.as_ref().expect("a connection to a node that serves");
        let keys: Vec<&str> = self.acknowledged.iter().map(|(key, _)| key.as_str()).collect();
        let found = self.runtime.block_on(read(client, &keys));
        let acknowledged = self.acknowledged.iter().zip(found);
        let lost = acknowledged.filter(|((_, checksum), found)| *found != Ok(Some(*checksum)));
        let mut wrong: Vec<String> =
            lost.map(|((key, _), found)| format!("{key} is {found:?}")).collect();
        let keys: Vec<&str> = self.removed.iter().map(String::as_str).collect();
        for found in self.runtime.block_on(read(client, &keys)) {
            let is_gone = found.as_ref().is_err_and(|code| *code == ErrorCode::ObjectNotFound);
            wrong.extend((!is_gone).then(|| format!("a removed key is back: {found:?}")));
        }
        wrong
    }

    /// Keys that must be readable.
    pub fn len(&self) -> usize {
        self.acknowledged.len()
    }
}

type Outcome = Result<Result<(), WireError>, ClientError>;

fn bytes(keys: &[String]) -> Vec<&[u8]> {
    keys.iter().map(|key| key.as_bytes()).collect()
}

async fn write(client: &RpcClient, names: &[String], first: u64) -> Outcome {
    let request = BatchPutStartRequest {
        client_id: Ledger::id(),
        keys: bytes(names),
        slice_lengths: vec![1_024; names.len()],
        config: pinned(Some(PIN_MS)),
        tenant_id: TENANT,
    };
    let started = client.call::<BatchPutStart>(&request).await?;
    if let Some(error) = started.into_iter().find_map(Result::err) {
        return Ok(Err(error));
    }
    let meta = |(key, checksum)| ObjectMeta { key, object_checksum: Some(checksum) };
    let request = BatchPutEndRequest {
        client_id: Ledger::id(),
        object_metas: bytes(names).into_iter().zip(first..).map(meta).collect(),
        replica_type: ReplicaType::ALL,
        tenant_id: TENANT,
    };
    Ok(client.call::<BatchPutEnd>(&request).await?.into_iter().collect())
}

async fn remove(client: &RpcClient, keys: &[String]) -> Outcome {
    let request = BatchRemoveRequest { keys: bytes(keys), force: true, tenant_id: TENANT };
    Ok(client.call::<BatchRemove>(&request).await?.into_iter().collect())
}

/// The checksum of each key.
async fn read(client: &RpcClient, keys: &[&str]) -> Vec<Result<Option<u64>, WireError>> {
    let mut found = Vec::new();
    for some in keys.chunks(1_000) {
        let keys = some.iter().map(|key| key.as_bytes()).collect();
        let request = KeysRequest { keys, tenant_id: TENANT };
        let answer = timeout(ANSWER_MAX, client.call::<BatchGetReplicaList>(&request)).await;
        let listed = answer.expect("an answer in time").expect("an answer");
        found.extend(listed.into_iter().map(|one| one.map(|object| object.object_checksum)));
    }
    found
}
