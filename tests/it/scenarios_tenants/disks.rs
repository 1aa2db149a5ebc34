//! I15: files on clients' disks and tenants that may not write.

use mooncake_ha::model::ErrorCode as E;
use mooncake_ha::state::command::Command;
use mooncake_ha::state::tenants::TenantChange;
use mooncake_ha::wire::Answer;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{OffloadTaskItem, StorageObjectMetadata};

use super::{account, charged, node, of, refused};
use crate::support::node::{Caller, plain};

const MIB: u64 = 1 << 20;

impl Caller {
    async fn mount_disk_of_tenants(&self) {
        let request = r::LocalDiskRequest { client_id: self.id, enable_offloading: true };
        self.call::<c::MountLocalDiskSegment>(&request).await.unwrap();
    }

    /// Reports a file of 1 KiB for each name of a tenant and a key.
    async fn found(&self, files: &[(&str, &str)]) -> Answer<()> {
        let tasks = files.iter().map(|(tenant, key)| OffloadTaskItem {
            tenant_id: tenant.as_bytes(),
            key: key.as_bytes(),
            size: 1024,
        });
        let tasks: Vec<_> = tasks.collect();
        let metadata = StorageObjectMetadata {
            bucket_id: 0,
            offset: 0,
            key_size: 1,
            data_size: 1024,
            transport_endpoint: b"d:1".as_slice(),
        };
        let metadatas = vec![metadata; tasks.len()];
        let request = r::NotifyOffloadSuccessRequest { client_id: self.id, tasks, metadatas };
        self.call::<c::NotifyOffloadSuccess>(&request).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_a_file_of_a_tenant_without_a_policy_makes_no_object() {
    let node = node(&[("t", MIB)], &["--enable_offload"]).await;
    let disk = node.owner(1, MIB).await;
    disk.mount_disk_of_tenants().await;
    let files = [("stranger", "ghost"), ("t", "found"), ("", "ghost")];
    assert_eq!(disk.found(&files).await, refused(E::TenantNotRegistered));
    assert_eq!(node.keys(), 1, "no ghost, and the other file is taken all the same");
    assert!(of(&node, 1, "t").await.exists("found").await);
    assert!(!of(&node, 1, "stranger").await.exists("ghost").await);
    assert_eq!(account(&node, "stranger").map(|account| account.usage.objects), None);
    assert_eq!(charged(&node, "t"), 0, "files are charged to nobody");
    assert_eq!(disk.found(&[("t", "found")]).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_an_object_whose_tenant_has_lost_its_policy_still_goes_to_disk() {
    let node = node(&[("t", MIB)], &["--enable_offload"]).await;
    let disk = node.owner(1, MIB).await;
    disk.mount_disk_of_tenants().await;
    let t = of(&node, 1, "t").await;
    t.put("k", &plain()).await;
    let request = r::LocalDiskRequest { client_id: disk.id, enable_offloading: true };
    let items = disk.call::<c::OffloadObjectHeartbeat>(&request).await.unwrap();
    let told: Vec<_> = items.iter().map(|item| (&*item.tenant_id, &*item.key)).collect();
    assert_eq!(told, [(b"t".as_slice(), b"k".as_slice())]);
    // Only a policy file takes a policy from a tenant that has objects.
    let none = TenantChange::Setup { is_enforced: true, file: None, policies: Some(Vec::new()) };
    node.master().propose(&Command::Tenants(none)).await.unwrap();
    assert_eq!(disk.found(&[("t", "k")]).await, Ok(()));
    assert_eq!(t.replicas("k").await.unwrap().replicas.len(), 2);
    node.assert_sound();
}
