//! A master of ours with something in it, put there over the RPC port.

use mooncake_ha::model::{ClientId, SegmentId, Uuid};
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::calls;
use mooncake_ha::wire::requests::{
    MountSegmentRequest, PutEndRequest, PutStartRequest, ReMountSegmentRequest,
};
use mooncake_ha::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig, Segment, SoftPinAction};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{Http, Master};

/// First address of the segment.
pub const BASE: u64 = 0x10_0000_0000;
/// Bytes of the segment.
pub const SIZE: u64 = 32 << 20;
/// Name of the segment, as clients name theirs.
pub const SEGMENT: &str = "10.0.0.1:12345";

const CLIENT: ClientId = ClientId(Uuid { first: 7, second: 9 });

/// A running master, a directory for it and a client that knows only RPCs.
pub struct Seeded {
    pub master: Master,
    client: RpcClient,
    runtime: Runtime,
    _dir: TempDir,
}

impl Seeded {
    /// Starts a master and mounts one segment.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_with(flags, &[])
    }

    /// As [`Seeded::start`], with variables of the environment.
    pub fn start_with(flags: &[&str], env: &[(String, String)]) -> Self {
        let dir = TempDir::new().unwrap();
        let master = Master::ours_with(dir.path(), flags, env);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let client = runtime.block_on(RpcClient::connect(master.address())).unwrap();
        let seeded = Seeded { master, client, runtime, _dir: dir };
        let mount = MountSegmentRequest { segment: segment(), client_id: CLIENT };
        seeded
            .runtime
            .block_on(seeded.client.call::<calls::MountSegment>(&mount))
            .unwrap()
            .unwrap();
        let again = ReMountSegmentRequest { segments: vec![segment()], client_id: CLIENT };
        seeded
            .runtime
            .block_on(seeded.client.call::<calls::ReMountSegment>(&again))
            .unwrap()
            .unwrap();
        seeded
    }

    /// The admin server.
    pub fn http(&self) -> &Http {
        self.master.http()
    }

    /// Starts writing an object; with `ttl_ms` it is to be soft-pinned.
    pub fn put_start(&self, key: &[u8], size: u64, ttl_ms: Option<u64>) {
        let soft_pin_action =
            if ttl_ms.is_some() { SoftPinAction::ENABLE } else { SoftPinAction::PRESERVE };
        let config = ReplicateConfig {
            soft_pin_action,
            soft_pin_ttl_ms: ttl_ms,
            ..ReplicateConfig::default()
        };
        let start =
            PutStartRequest { client_id: CLIENT, key, slice_length: size, config, tenant_id: b"" };
        self.runtime.block_on(self.client.call::<calls::PutStart>(&start)).unwrap().unwrap();
    }

    /// Ends the write of an object.
    pub fn put_end(&self, key: &[u8]) {
        let end = PutEndRequest {
            client_id: CLIENT,
            object_meta: ObjectMeta { key, object_checksum: Some(77) },
            replica_type: ReplicaType::ALL,
            tenant_id: b"",
        };
        self.runtime.block_on(self.client.call::<calls::PutEnd>(&end)).unwrap().unwrap();
    }

    /// Writes an object.
    pub fn put(&self, key: &[u8], size: u64, ttl_ms: Option<u64>) {
        self.put_start(key, size, ttl_ms);
        self.put_end(key);
    }
}

fn segment() -> Segment<&'static [u8]> {
    Segment {
        id: SegmentId(Uuid { first: 3, second: 4 }),
        name: SEGMENT.as_bytes(),
        base: BASE,
        size: SIZE,
        te_endpoint: b"10.0.0.1:15000",
        protocol: b"tcp",
        host_id: b"",
    }
}
