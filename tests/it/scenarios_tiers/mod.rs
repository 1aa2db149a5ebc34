//! RPC-level scenarios about disks over the real wire: B11, E23, E25, F10 and chapter 10 of the behaviour notes,
//! with restarts in the middle; failovers are in `cluster/tiers.rs`.

mod disks;
mod eviction;
mod promotion;
mod shared;

use mooncake_ha::model::{ErrorCode, ReplicaId};
use mooncake_ha::wire::Answer;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{
    Descriptor, OffloadTaskItem, PromotionAllocStartResponse, PromotionTaskItem, ReplicaDescriptor,
    ReplicaType, StorageObjectMetadata,
};

use crate::support::node::{Caller, Replicas, TestNode, plain};

type Owned = Box<[u8]>;
const TENANT: &[u8] = b"default";
const MIB: u64 = 1 << 20;

/// A refusal as a client gets it.
fn refused<T>(code: ErrorCode) -> Answer<T> {
    Err(code.into())
}

/// The kinds of replicas: M memory, D shared file, L client's disk.
fn kinds(replicas: &[ReplicaDescriptor<Owned>]) -> String {
    let kind = |replica: &ReplicaDescriptor<Owned>| match &replica.descriptor {
        Descriptor::Memory(_) => 'M',
        Descriptor::Disk(_) => 'D',
        Descriptor::LocalDisk(_) => 'L',
        other => panic!("{other:?}"),
    };
    replicas.iter().map(kind).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A node on which disks are used, and client 1 with a segment and a disk.
async fn scene(flags: &[&str]) -> (TestNode, Caller) {
    let flags = [&["--enable_offload"], flags].concat();
    let node = TestNode::start(&flags).await;
    let a = node.owner(1, MIB).await;
    assert_eq!(a.mount_disk(true).await, Ok(()));
    (node, a)
}

impl Caller {
    async fn mount_disk(&self, enable_offloading: bool) -> Answer<()> {
        let request = r::LocalDiskRequest { client_id: self.id, enable_offloading };
        self.call::<c::MountLocalDiskSegment>(&request).await
    }

    async fn unmount_disk(&self) -> Answer<()> {
        self.call::<c::UnmountLocalDiskSegment>(&self.id).await
    }

    async fn capacity(&self, ssd_total_capacity_bytes: i64) -> Answer<()> {
        let request = r::ReportSsdCapacityRequest { client_id: self.id, ssd_total_capacity_bytes };
        self.call::<c::ReportSsdCapacity>(&request).await
    }

    async fn offload_beat(&self, enable_offloading: bool) -> Answer<Vec<OffloadTaskItem<Owned>>> {
        let request = r::LocalDiskRequest { client_id: self.id, enable_offloading };
        self.call::<c::OffloadObjectHeartbeat>(&request).await
    }

    /// Keys to write to disk.
    async fn to_offload(&self) -> Vec<String> {
        let items = self.offload_beat(true).await.unwrap();
        items.iter().map(|item| text(&item.key)).collect()
    }

    /// Reports 1 KiB of each key on disk.
    async fn offloaded(&self, keys: &[&str]) -> Answer<()> {
        let sizes: Vec<(&str, i64)> = keys.iter().map(|key| (*key, 1024)).collect();
        self.report(&sizes).await
    }

    /// Reports keys with the sizes on disk; a negative one for a failure.
    async fn report(&self, sizes: &[(&str, i64)]) -> Answer<()> {
        let (mut tasks, mut metadatas) = (Vec::new(), Vec::new());
        for (key, size) in sizes {
            let (key, size) = (key.as_bytes(), *size);
            tasks.push(OffloadTaskItem { tenant_id: TENANT, key, size });
            metadatas.push(StorageObjectMetadata {
                bucket_id: 0,
                offset: 0,
                key_size: i64::try_from(key.len()).unwrap(),
                data_size: size,
                transport_endpoint: b"d:1".as_slice(),
            });
        }
        let request = r::NotifyOffloadSuccessRequest { client_id: self.id, tasks, metadatas };
        self.call::<c::NotifyOffloadSuccess>(&request).await
    }

    async fn upsert_start(&self, key: &str, slice_length: u64) -> Answer<Replicas> {
        let request = r::PutStartRequest {
            client_id: self.id,
            key: key.as_bytes(),
            slice_length,
            config: plain(),
            tenant_id: TENANT,
        };
        self.call::<c::UpsertStart>(&request).await
    }

    async fn ping(&self) {
        self.call::<c::Ping>(&self.id).await.unwrap();
    }

    async fn evict_file(&self, key: &str, replica_type: ReplicaType) -> Answer<()> {
        let request = r::EvictDiskReplicaRequest {
            client_id: self.id,
            key: key.as_bytes(),
            tenant_id: TENANT,
            replica_type,
        };
        self.call::<c::EvictDiskReplica>(&request).await
    }

    async fn poll_wipe(&self) -> Answer<bool> {
        self.call::<c::PollRemoveAll>(&self.id).await
    }

    async fn promotions(&self) -> Answer<Vec<PromotionTaskItem<Owned>>> {
        self.call::<c::PromotionObjectHeartbeat>(&self.id).await
    }

    /// Keys to read back.
    async fn to_promote(&self) -> Vec<String> {
        let items = self.promotions().await.unwrap();
        items.iter().map(|item| text(&item.key)).collect()
    }

    async fn stage(&self, key: &str, size: u64) -> Answer<PromotionAllocStartResponse<Owned>> {
        let request = r::PromotionAllocStartRequest {
            client_id: self.id,
            key: key.as_bytes(),
            tenant_id: TENANT,
            size,
            preferred_segments: Vec::new(),
        };
        self.call::<c::PromotionAllocStart>(&request).await
    }

    async fn promoted(&self, key: &str) -> Answer<()> {
        self.call::<c::NotifyPromotionSuccess>(&self.about(key)).await
    }

    async fn not_promoted(&self, key: &str) -> Answer<()> {
        self.call::<c::NotifyPromotionFailure>(&self.about(key)).await
    }

    fn about<'a>(&self, key: &'a str) -> r::ClientKeyRequest<&'a [u8]> {
        r::ClientKeyRequest { client_id: self.id, key: key.as_bytes(), tenant_id: TENANT }
    }

    /// The kinds of replicas that a reader is told of.
    async fn kinds(&self, key: &str) -> Answer<String> {
        Ok(kinds(&self.replicas(key).await?.replicas))
    }

    /// Writes 1 KiB and has it on disk, too.
    async fn put_on_disk(&self, key: &str) {
        self.put(key, &plain()).await;
        assert_eq!(self.to_offload().await, [key]);
        assert_eq!(self.offloaded(&[key]).await, Ok(()));
    }
}

/// The first replica's number.
fn first(replicas: &[ReplicaDescriptor<Owned>]) -> ReplicaId {
    replicas[0].id
}
