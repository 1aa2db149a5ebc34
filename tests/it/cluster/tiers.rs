//! A leader that is killed in the middle of an offload or a promotion: no copy on disk is lost, and nothing of
//! what was under way is left over.

use mooncake_ha::model::{ClientId, SegmentId, Uuid};
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::Call;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{
    Descriptor, ObjectMeta, OffloadTaskItem, ReplicaType, ReplicateConfig, Segment,
    StorageObjectMetadata,
};
use tokio::runtime::{Builder, Runtime};

use super::trio::{ELECTED, Trio};
use crate::support::eventually_within;

const CLIENT: ClientId = ClientId(Uuid { first: 8, second: 1 });
const TENANT: &[u8] = b"default";
const BYTES: u64 = 1 << 20;
const FLAGS: &[&str] = &[
    "--enable_offload",
    "--promotion_on_hit",
    "--put_start_release_timeout_sec=31",
    "--client_ttl=600",
];

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The client, talking to whoever leads.
struct Disk<'a> {
    trio: &'a Trio,
    runtime: Runtime,
}

impl<'a> Disk<'a> {
    fn of(trio: &'a Trio) -> Self {
        Disk { trio, runtime: runtime() }
    }

    fn ask<C: Call>(&self, request: &C::Request<'_>) -> C::Response {
        let address = self.trio.plain(self.trio.leader());
        self.runtime.block_on(async {
            let rpc = RpcClient::connect(&address).await.unwrap();
            rpc.call::<C>(request).await.unwrap()
        })
    }

    /// A segment and a disk.
    fn mount(&self) {
        let segment = Segment {
            id: SegmentId(CLIENT.0),
            name: b"s".as_slice(),
            base: 1 << 40,
            size: BYTES,
            te_endpoint: b"s",
            protocol: b"tcp",
            host_id: b"",
        };
        let request = r::ReMountSegmentRequest { segments: vec![segment], client_id: CLIENT };
        self.ask::<c::ReMountSegment>(&request).unwrap();
        let request = r::LocalDiskRequest { client_id: CLIENT, enable_offloading: true };
        self.ask::<c::MountLocalDiskSegment>(&request).unwrap();
    }

    fn put(&self, key: &str) {
        let start = r::PutStartRequest {
            client_id: CLIENT,
            key: key.as_bytes(),
            slice_length: 100,
            config: ReplicateConfig::default(),
            tenant_id: TENANT,
        };
        self.ask::<c::PutStart>(&start).unwrap();
        let object_meta = ObjectMeta { key: key.as_bytes(), object_checksum: None };
        let replica_type = ReplicaType::ALL;
        let end =
            r::PutEndRequest { client_id: CLIENT, object_meta, replica_type, tenant_id: TENANT };
        self.ask::<c::PutEnd>(&end).unwrap();
    }

    /// Keys that the client is to write to its disk.
    fn to_offload(&self) -> Vec<String> {
        let request = r::LocalDiskRequest { client_id: CLIENT, enable_offloading: true };
        let items = self.ask::<c::OffloadObjectHeartbeat>(&request).unwrap();
        items.iter().map(|item| String::from_utf8(item.key.to_vec()).unwrap()).collect()
    }

    fn offloaded(&self, key: &str) {
        let task = OffloadTaskItem { tenant_id: TENANT, key: key.as_bytes(), size: 100 };
        let metadata = StorageObjectMetadata {
            bucket_id: 0,
            offset: 0,
            key_size: 1,
            data_size: 100,
            transport_endpoint: b"d:1".as_slice(),
        };
        let request = r::NotifyOffloadSuccessRequest {
            client_id: CLIENT,
            tasks: vec![task],
            metadatas: vec![metadata],
        };
        self.ask::<c::NotifyOffloadSuccess>(&request).unwrap();
    }

    /// M for each readable memory replica, L for a file on a client's disk.
    fn kinds(&self, key: &str) -> String {
        let request = r::KeyRequest { key: key.as_bytes(), tenant_id: TENANT };
        let Ok(found) = self.ask::<c::GetReplicaList>(&request) else { return String::new() };
        let kind = |descriptor: &Descriptor<Box<[u8]>>| match descriptor {
            Descriptor::Memory(_) => 'M',
            _ => 'L',
        };
        found.replicas.iter().map(|replica| kind(&replica.descriptor)).collect()
    }

    /// Keys that the client is to read back.
    fn to_promote(&self) -> Vec<String> {
        let items = self.ask::<c::PromotionObjectHeartbeat>(&CLIENT).unwrap();
        items.iter().map(|item| String::from_utf8(item.key.to_vec()).unwrap()).collect()
    }

    fn about<'k>(&self, key: &'k str) -> r::ClientKeyRequest<&'k [u8]> {
        r::ClientKeyRequest { client_id: CLIENT, key: key.as_bytes(), tenant_id: TENANT }
    }

    fn stage(&self, key: &str) -> bool {
        let request = r::PromotionAllocStartRequest {
            client_id: CLIENT,
            key: key.as_bytes(),
            tenant_id: TENANT,
            size: 100,
            preferred_segments: Vec::new(),
        };
        self.ask::<c::PromotionAllocStart>(&request).is_ok()
    }
}

#[test]
fn a_leader_that_is_killed_amid_offloads_loses_no_copy_and_hands_out_what_is_left() {
    let mut trio = Trio::start(FLAGS);
    let disk = Disk::of(&trio);
    disk.mount();
    disk.put("done");
    assert_eq!(disk.to_offload(), ["done"]);
    disk.offloaded("done");
    disk.put("fetched");
    assert_eq!(disk.to_offload(), ["fetched"]);
    disk.put("queued");
    trio.fail_over();
    let disk = Disk::of(&trio);
    assert_eq!(disk.kinds("done"), "ML");
    assert_eq!(disk.to_offload(), ["queued"]);
    disk.offloaded("fetched");
    disk.offloaded("queued");
    assert_eq!((disk.kinds("fetched"), disk.kinds("queued")), ("ML".into(), "ML".into()));
    assert_eq!(trio.metric("master_offloads_in_flight"), 0);
    assert_eq!(trio.metric("master_local_disks"), 1);
}

#[test]
fn a_leader_that_is_killed_amid_promotions_loses_no_object_and_no_memory() {
    let mut trio = Trio::start(FLAGS);
    let disk = Disk::of(&trio);
    disk.mount();
    for key in ["ends", "never ends"] {
        disk.offloaded(key);
        assert_eq!((disk.kinds(key), disk.kinds(key)), ("L".into(), "L".into()));
        eventually_within(ELECTED, "it is handed out", || disk.to_promote() == [key]);
        assert!(disk.stage(key));
    }
    trio.fail_over();
    let disk = Disk::of(&trio);
    assert_eq!(trio.metric("master_promotion_in_flight"), 2);
    disk.ask::<c::NotifyPromotionSuccess>(&disk.about("ends")).unwrap();
    assert_eq!(disk.kinds("ends"), "LM");
    assert_eq!(trio.metric("master_allocated_bytes"), 200);
    // The memory of the other one comes back by the release timeout, half a minute here.
    let minute = 3 * ELECTED;
    eventually_within(minute, "the other one is over", || {
        trio.metric("master_promotion_in_flight") == 0
    });
    eventually_within(ELECTED, "its memory is free", || {
        trio.metric("master_allocated_bytes") == 100
    });
    assert_eq!((disk.kinds("ends"), disk.kinds("never ends")), ("LM".into(), "L".into()));
}
