//! A master of ours that publishes events, and a client that knows only RPCs.

use mooncake_ha::model::{ClientId, SegmentId, Uuid};
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::Call;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig, Segment};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{Master, free_port};

/// A running master with its events port.
pub struct Store {
    pub master: Master,
    pub port: u16,
    pub client: Client,
    _dir: TempDir,
}

impl Store {
    /// Starts a master with two segments mounted by two clients.
    pub fn start(flags: &[&str]) -> Self {
        let (dir, port) = (TempDir::new().unwrap(), free_port());
        let mut all = publishing(port);
        all.extend(flags.iter().map(|&flag| flag.to_owned()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let master = Master::ours(dir.path(), &all);
        let client = Client::connect(&master.address());
        client.mount(1);
        client.mount(2);
        Store { master, port, client, _dir: dir }
    }
}

/// The flags of a publisher at that port.
pub fn publishing(port: u16) -> Vec<String> {
    let endpoint = format!("--kv_events_bind_endpoint=tcp://127.0.0.1:{port}");
    vec!["--enable_kv_events".into(), endpoint, "--kv_events_backend_id=cache-a".into()]
}

/// A client without memory: what is in its objects nobody knows.
pub struct Client {
    client: RpcClient,
    runtime: Runtime,
}

pub fn id(n: u64) -> ClientId {
    ClientId(Uuid { first: 7, second: n })
}

pub fn segment_id(n: u64) -> SegmentId {
    SegmentId(Uuid { first: 3, second: n })
}

impl Client {
    pub fn connect(address: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let client = runtime.block_on(RpcClient::connect(address)).unwrap();
        Client { client, runtime }
    }

    /// One call; the connection must stand.
    pub fn call<C: Call>(&self, request: &C::Request<'_>) -> C::Response {
        self.runtime.block_on(self.client.call::<C>(request)).unwrap()
    }

    /// Client `n` offers segment `n`, 32 MiB.
    pub fn mount(&self, n: u64) {
        let name = format!("10.0.0.{n}:12345");
        let segment = Segment {
            id: segment_id(n),
            name: name.as_bytes(),
            base: n << 36,
            size: 32 << 20,
            te_endpoint: name.as_bytes(),
            protocol: b"tcp".as_slice(),
            host_id: b"".as_slice(),
        };
        self.call::<c::MountSegment>(&r::MountSegmentRequest { segment, client_id: id(n) })
            .unwrap();
    }

    /// Client 1 begins to write 1000 bytes on segment `n`.
    pub fn start_on(&self, n: u64, key: &str) {
        let segment = format!("10.0.0.{n}:12345");
        let config =
            ReplicateConfig { preferred_segment: segment.as_bytes(), ..ReplicateConfig::default() };
        self.call::<c::PutStart>(&start(key, 1000, config)).unwrap();
    }

    /// Ends it.
    pub fn end(&self, key: &str) {
        let end = r::PutEndRequest {
            client_id: id(1),
            object_meta: ObjectMeta { key: key.as_bytes(), object_checksum: None },
            replica_type: ReplicaType::ALL,
            tenant_id: b"".as_slice(),
        };
        self.call::<c::PutEnd>(&end).unwrap();
    }

    /// Writes 1000 bytes on segment 1.
    pub fn put(&self, key: &str) {
        self.start_on(1, key);
        self.end(key);
    }

    /// Begins to replace an object by one of `size` bytes.
    pub fn upsert_start(&self, key: &str, size: u64) {
        self.call::<c::UpsertStart>(&start(key, size, ReplicateConfig::default())).unwrap();
    }

    /// Removes an object, read or not.
    pub fn remove(&self, key: &str) {
        let remove =
            r::RemoveRequest { key: key.as_bytes(), force: true, tenant_id: b"".as_slice() };
        self.call::<c::Remove>(&remove).unwrap();
    }
}

fn start<'a>(
    key: &'a str,
    slice_length: u64,
    config: ReplicateConfig<&'a [u8]>,
) -> r::PutStartRequest<&'a [u8]> {
    let key = key.as_bytes();
    r::PutStartRequest { client_id: id(1), key, slice_length, config, tenant_id: b"" }
}
