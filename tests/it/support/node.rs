//! A whole node inside the test's process: real sockets, real log in a temporary directory, a clock in the
//! test's hand.
//!
//! The node is made of the same rooms as `serve` makes it; only time is ours, so that no test waits for a TTL.
//! [`Caller`] is one Mooncake client as the master sees it, with the calls made terse.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mooncake_ha::clock::ManualClock;
use mooncake_ha::config::{Config, Loaded, load};
use mooncake_ha::metrics::Metrics;
use mooncake_ha::model::{ClientId, Millis, SegmentId, Uuid};
use mooncake_ha::node::MasterNode;
use mooncake_ha::node::settings::NodeSettings;
use mooncake_ha::rpc::client::{ClientError, RawConnection, RpcClient};
use mooncake_ha::rpc::{Service, StorageAnswer, serve};
use mooncake_ha::state::State;
use mooncake_ha::wire::calls::{self as c};
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{
    Descriptor, GetReplicaListResponse, ObjectDataType, ObjectMeta, ReplicaDescriptor, ReplicaType,
    ReplicateConfig, Segment, SegmentStatus, SoftPinAction,
};
use mooncake_ha::wire::{Answer, Call};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The wall clock when a test begins.
pub const START_MS: u64 = 1_800_000_000_000;

/// Pause between two looks at a condition, and how many looks: 15 s.
const POLL: std::time::Duration = std::time::Duration::from_millis(10);
const POLLS_MAX: u32 = 1_500;

/// Waits until `condition` holds, giving the node's own tasks time; fails the test after 15 s.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..POLLS_MAX {
        if condition().await {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
    panic!("not within 15 s: {what}");
}

struct Running {
    node: MasterNode,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    door: JoinHandle<()>,
}

/// A node, its directory and its clock.
pub struct TestNode {
    dir: TempDir,
    config: Config,
    clock: Arc<ManualClock>,
    now: AtomicU64,
    running: Option<Running>,
}

impl TestNode {
    /// Starts a node on an empty directory with further flags.
    pub async fn start(flags: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let mut args = vec![format!("--data_dir={}", dir.path().join("data").display())];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let Ok(Loaded::Settings(settings)) = load(&args, []) else { panic!("{args:?}") };
        let mut config = settings.config;
        config.soft_pins.sweep_interval_ms = 10;
        let clock = Arc::new(ManualClock::at(Millis(START_MS)));
        let now = AtomicU64::new(START_MS);
        let mut node = TestNode { dir, config, clock, now, running: None };
        node.open().await;
        node
    }

    async fn open(&mut self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let data = self.dir.path().join("data");
        let mut raft = mooncake_ha_raft::Config::new(1, "test", data);
        raft.durability = mooncake_ha_raft::Durability::Async;
        let settings = NodeSettings::new(&self.config, &address.to_string(), "");
        let node = MasterNode::open(raft, settings, self.clock.clone()).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let metrics = Arc::new(Metrics::default());
        let service = Service::new(node.clone(), metrics, StorageAnswer::default(), None, true);
        let door = tokio::spawn(serve(listener, Arc::new(service), stopping));
        self.running = Some(Running { node, address, stop, door });
        // What is written in the millisecond of a take-over counts as promised to readers.
        self.pass(1);
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    /// Stops the node in order and starts it on the same directory, on another port.
    pub async fn restart(&mut self) {
        self.assert_sound();
        let Running { node, stop, door, .. } = self.running.take().unwrap();
        stop.send(true).unwrap();
        door.await.unwrap();
        node.shutdown().await;
        drop(node);
        self.open().await;
        self.assert_sound();
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.running().address
    }

    /// The master itself, for its counts.
    pub fn master(&self) -> &MasterNode {
        &self.running().node
    }

    /// Looks at the state.
    pub fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        self.running().node.look(look)
    }

    /// Every invariant holds.
    pub fn assert_sound(&self) {
        assert_eq!(self.look(State::check), Vec::<String>::new());
    }

    /// The gauge of soft pins.
    pub fn pins(&self) -> usize {
        self.look(|state| state.deadlines().len())
    }

    /// Objects, readable or not.
    pub fn keys(&self) -> u64 {
        self.look(|state| state.totals().keys)
    }

    /// Whether a key is in the table; reads nothing.
    pub fn has(&self, key: &str) -> bool {
        use mooncake_ha::model::Tenant;
        use mooncake_ha::state::table::table_hash;
        let hash = table_hash(&Tenant::default(), key.as_bytes());
        self.look(|state| {
            let tenant = state.tenant_idx(None).unwrap();
            state.view().table.look(hash, tenant, key.as_bytes(), |object| object.is_some())
        })
    }

    /// The committed deadline of a key.
    pub fn deadline(&self, key: &str) -> Option<u64> {
        use mooncake_ha::model::{Object, Tenant};
        use mooncake_ha::state::table::table_hash;
        let hash = table_hash(&Tenant::default(), key.as_bytes());
        let pin = |object: Option<&Object>| object.and_then(Object::pin).map(|d| d.0);
        self.look(|state| {
            let tenant = state.tenant_idx(None).unwrap();
            state.view().table.look(hash, tenant, key.as_bytes(), pin)
        })
    }

    /// Lets time pass, in small steps as time does.
    pub fn pass(&self, ms: u64) {
        self.clock.advance_ms(ms);
        self.now.fetch_add(ms, Ordering::Relaxed);
    }

    /// What the wall clock shows.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Client `n` on a connection of its own.
    pub async fn caller(&self, n: u64) -> Caller {
        let rpc = RpcClient::connect(self.address()).await.unwrap();
        Caller { rpc, id: ClientId(Uuid { first: n, second: 77 }), tenant: TENANT }
    }

    /// Client `n` with one segment, named `s<n>`, at `n << 40`.
    pub async fn owner(&self, n: u64, bytes: u64) -> Caller {
        let caller = self.caller(n).await;
        let name = format!("s{n}");
        assert_eq!(caller.mount(&segment(n, &name, bytes)).await, Ok(()));
        caller
    }

    /// A connection for arbitrary bytes.
    pub async fn raw(&self) -> RawConnection {
        RawConnection::connect(self.address()).await.unwrap()
    }
}

/// The id of segment `n`.
pub fn segment_id(n: u64) -> SegmentId {
    SegmentId(Uuid { first: n, second: 55 })
}

/// Segment `n` under a name that is its endpoint, too.
pub fn segment(n: u64, name: &str, size: u64) -> Segment<&[u8]> {
    Segment {
        id: segment_id(n),
        name: name.as_bytes(),
        base: n << 40,
        size,
        te_endpoint: name.as_bytes(),
        protocol: b"tcp",
        host_id: b"",
    }
}

/// One copy, nothing special.
pub fn plain() -> ReplicateConfig<&'static [u8]> {
    ReplicateConfig {
        replica_num: 1,
        nof_replica_num: 0,
        dfs_replica_num: 0,
        soft_pin_action: SoftPinAction::PRESERVE,
        soft_pin_ttl_ms: None,
        with_hard_pin: false,
        preferred_segments: Vec::new(),
        preferred_segment: b"",
        preferred_nof_segments: Vec::new(),
        prefer_alloc_in_same_node: false,
        data_type: ObjectDataType::UNKNOWN,
        host_id: b"",
        group_ids: None,
    }
}

/// One copy under a soft pin; `None` leaves its length to the master.
pub fn pinned(ttl_ms: Option<u64>) -> ReplicateConfig<&'static [u8]> {
    let soft_pin_action = SoftPinAction::ENABLE;
    ReplicateConfig { soft_pin_action, soft_pin_ttl_ms: ttl_ms, ..plain() }
}

/// Some copies.
pub fn copies(replica_num: u64) -> ReplicateConfig<&'static [u8]> {
    ReplicateConfig { replica_num, ..plain() }
}

type Owned = Box<[u8]>;

/// Replicas as a client is told of them.
pub type Replicas = Vec<ReplicaDescriptor<Owned>>;

/// Endpoint, address and size of a memory replica.
pub fn place(replica: &ReplicaDescriptor<Owned>) -> (String, u64, u64) {
    match &replica.descriptor {
        Descriptor::Memory(memory) => {
            let at = &memory.buffer_descriptor;
            let endpoint = String::from_utf8(at.transport_endpoint.to_vec()).unwrap();
            (endpoint, at.buffer_address, at.size)
        }
        other => panic!("{other:?}"),
    }
}

/// One Mooncake client as the master sees it.
pub struct Caller {
    pub rpc: RpcClient,
    /// Who it says it is.
    pub id: ClientId,
    /// The tenant that it names in every call.
    pub tenant: &'static [u8],
}

const TENANT: &[u8] = b"default";

impl Caller {
    /// Any call; its outcome is told by the layer that refused it.
    pub async fn try_call<C: Call>(
        &self,
        request: &C::Request<'_>,
    ) -> Result<C::Response, ClientError> {
        self.rpc.call::<C>(request).await
    }

    /// Any call that the RPC layer accepts.
    pub async fn call<C: Call>(&self, request: &C::Request<'_>) -> C::Response {
        self.try_call::<C>(request).await.unwrap()
    }

    pub async fn mount(&self, segment: &Segment<&[u8]>) -> Answer<()> {
        let (segment, client_id) = (segment.clone(), self.id);
        self.call::<c::MountSegment>(&r::MountSegmentRequest { segment, client_id }).await
    }

    pub async fn remount(&self, segments: &[Segment<&[u8]>]) -> Answer<()> {
        let (segments, client_id) = (segments.to_vec(), self.id);
        self.call::<c::ReMountSegment>(&r::ReMountSegmentRequest { segments, client_id }).await
    }

    pub async fn unmount(&self, n: u64) -> Answer<()> {
        let (segment_id, client_id) = (segment_id(n), self.id);
        self.call::<c::UnmountSegment>(&r::UnmountSegmentRequest { segment_id, client_id }).await
    }

    /// The status number of a segment by name.
    pub async fn status(&self, name: &str) -> Answer<SegmentStatus> {
        self.call::<c::QuerySegmentStatus>(&name.as_bytes()).await
    }

    pub async fn start(
        &self,
        key: &str,
        slice_length: u64,
        config: &ReplicateConfig<&[u8]>,
    ) -> Answer<Replicas> {
        let (client_id, key, config) = (self.id, key.as_bytes(), config.clone());
        let tenant_id = self.tenant;
        let request = r::PutStartRequest { client_id, key, slice_length, config, tenant_id };
        self.call::<c::PutStart>(&request).await
    }

    pub async fn end(&self, key: &str) -> Answer<()> {
        self.end_with(key, ReplicaType::ALL, None).await
    }

    pub async fn end_with(
        &self,
        key: &str,
        replica_type: ReplicaType,
        object_checksum: Option<u64>,
    ) -> Answer<()> {
        let object_meta = ObjectMeta { key: key.as_bytes(), object_checksum };
        let (client_id, tenant_id) = (self.id, self.tenant);
        let request = r::PutEndRequest { client_id, object_meta, replica_type, tenant_id };
        self.call::<c::PutEnd>(&request).await
    }

    pub async fn revoke(&self, key: &str, replica_type: ReplicaType) -> Answer<()> {
        let (client_id, key, tenant_id) = (self.id, key.as_bytes(), self.tenant);
        let request = r::PutRevokeRequest { client_id, key, replica_type, tenant_id };
        self.call::<c::PutRevoke>(&request).await
    }

    /// Writes 1 KiB from start to end.
    pub async fn put(&self, key: &str, config: &ReplicateConfig<&[u8]>) {
        self.start(key, 1024, config).await.unwrap();
        self.end(key).await.unwrap();
    }

    pub async fn replicas(&self, key: &str) -> Answer<GetReplicaListResponse<Owned>> {
        let request = r::KeyRequest { key: key.as_bytes(), tenant_id: self.tenant };
        self.call::<c::GetReplicaList>(&request).await
    }

    pub async fn exists(&self, key: &str) -> bool {
        let request = r::KeyRequest { key: key.as_bytes(), tenant_id: self.tenant };
        self.call::<c::ExistKey>(&request).await.unwrap()
    }

    pub async fn remove(&self, key: &str, force: bool) -> Answer<()> {
        let request = r::RemoveRequest { key: key.as_bytes(), force, tenant_id: self.tenant };
        self.call::<c::Remove>(&request).await
    }

    pub async fn remove_all(&self, force: bool) -> i64 {
        self.call::<c::RemoveAll>(&r::RemoveAllRequest { force, tenant_id: b"" }).await
    }

    pub async fn batch_start(
        &self,
        keys: &[&str],
        slice_lengths: &[u64],
        config: &ReplicateConfig<&[u8]>,
    ) -> Vec<Answer<Replicas>> {
        let request = r::BatchPutStartRequest {
            client_id: self.id,
            keys: bytes(keys),
            slice_lengths: slice_lengths.to_vec(),
            config: config.clone(),
            tenant_id: self.tenant,
        };
        self.call::<c::BatchPutStart>(&request).await
    }

    pub async fn batch_end(&self, keys: &[&str]) -> Vec<Answer<()>> {
        let metas = bytes(keys).into_iter().map(|key| ObjectMeta { key, object_checksum: None });
        let object_metas = metas.collect();
        let (client_id, replica_type) = (self.id, ReplicaType::ALL);
        let tenant_id = self.tenant;
        let request = r::BatchPutEndRequest { client_id, object_metas, replica_type, tenant_id };
        self.call::<c::BatchPutEnd>(&request).await
    }

    pub async fn batch_revoke(&self, keys: &[&str]) -> Vec<Answer<()>> {
        let (client_id, keys, replica_type) = (self.id, bytes(keys), ReplicaType::ALL);
        let tenant_id = self.tenant;
        let request = r::BatchPutRevokeRequest { client_id, keys, replica_type, tenant_id };
        self.call::<c::BatchPutRevoke>(&request).await
    }

    pub async fn batch_exists(&self, keys: &[&str]) -> Vec<Answer<bool>> {
        let request = r::KeysRequest { keys: bytes(keys), tenant_id: self.tenant };
        self.call::<c::BatchExistKey>(&request).await
    }

    pub async fn batch_remove(&self, keys: &[&str], force: bool) -> Vec<Answer<()>> {
        let request = r::BatchRemoveRequest { keys: bytes(keys), force, tenant_id: self.tenant };
        self.call::<c::BatchRemove>(&request).await
    }
}

fn bytes<'a>(keys: &[&'a str]) -> Vec<&'a [u8]> {
    keys.iter().map(|key| key.as_bytes()).collect()
}
