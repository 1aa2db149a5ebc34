//! Cases that users of the peer have reported about snapshots, tried on this master from puts to a new cluster.

use std::path::Path;
use std::sync::Arc;

use mooncake_ha_snapshot::catalog::CLUSTER_ID_DEFAULT;
use mooncake_ha_snapshot::codec::manifest::Descriptor;
use mooncake_ha_snapshot::store::LocalStore;
use mooncake_ha_snapshot::{
    Catalog, DropReason, Image, Limits, Outcome, ReplicaPlace, Survival, decode_image, encode_image,
};
use tempfile::TempDir;

use super::fresh::Fresh;
use crate::support::node::{START_MS, TestNode, plain};

const COUNT: u64 = 300;

/// What a snapshot of 300 objects holds that nobody has read.
pub async fn image_of_300() -> Image {
    let node = TestNode::start(&[]).await;
    let owner = node.owner(1, 4 << 20).await;
    let keys: Vec<String> = (0..COUNT).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let sizes = vec![1024; keys.len()];
    assert!(owner.batch_start(&keys, &sizes, &plain()).await.iter().all(Result::is_ok));
    assert!(owner.batch_end(&keys).await.iter().all(Result::is_ok));
    let payloads = node.master().freeze().payloads(1, 1, None).unwrap();
    decode_image(&payloads, &Limits::default()).unwrap().image
}

pub fn published(image: &Image) -> TempDir {
    let root = TempDir::new().unwrap();
    publish(image, root.path());
    root
}

fn publish(image: &Image, root: &Path) {
    let store = Arc::new(LocalStore::open(root).unwrap());
    let catalog = Catalog::new(store, CLUSTER_ID_DEFAULT, Limits::default());
    let descriptor = Descriptor { last_included: 0, view_version: 0, created_ms: 0 };
    let id = catalog.next_id(START_MS).unwrap();
    catalog.publish(id, &encode_image(image).unwrap(), &descriptor).unwrap();
}

#[tokio::test]
async fn issue_3761_objects_that_were_never_read_are_counted_as_lost_and_kept_if_the_operator_vouches()
 {
    let root = published(&image_of_300().await);
    let fresh = Fresh::at(START_MS + 60_000, &[]).await;
    let report = fresh.restore(root.path(), Survival::Rfc).await.unwrap();
    let candidate = &report.candidates[0];
    assert_eq!(report.outcome, Outcome::NothingSurvived, "no bare success");
    assert_eq!((candidate.seen.objects, candidate.kept.objects), (COUNT, 0));
    let dropped = candidate.dropped[&DropReason::LeaseAndPinOver];
    assert_eq!((dropped.objects, dropped.bytes), (COUNT, COUNT * 1024));

    let fresh = Fresh::at(START_MS + 60_000, &[]).await;
    let report = fresh.restore(root.path(), Survival::Complete).await.unwrap();
    assert_eq!((report.outcome, report.candidates[0].kept.objects), (Outcome::Restored, COUNT));
    assert_eq!(fresh.keys().len() as u64, COUNT);
}

#[tokio::test]
async fn issue_3760_two_objects_that_claim_one_memory_are_both_dropped_and_named() {
    let mut image = image_of_300().await;
    let place = |image: &Image, key: &str| {
        let found = image.objects().find(|(_, object)| *object.name.key == *key.as_bytes());
        found.unwrap().1.replicas[0].place.clone()
    };
    let taken = place(&image, "k7");
    for object in image.shards.values_mut().flatten() {
        if *object.name.key == *b"k200" {
            object.replicas[0].place = taken.clone();
        }
    }
    assert!(matches!(taken, ReplicaPlace::Memory { .. }));
    let root = published(&image);
    let fresh = Fresh::at(START_MS + 60_000, &[]).await;
    let report = fresh.restore(root.path(), Survival::Complete).await.unwrap();
    let candidate = &report.candidates[0];
    assert_eq!(candidate.kept.objects, COUNT - 2, "{report}");
    assert_eq!(candidate.dropped[&DropReason::OverlappingMemory].objects, 2);
    let named: Vec<_> = candidate.findings.list.iter().filter_map(|f| f.key.as_deref()).collect();
    assert!(named.contains(&"default/k7") && named.contains(&"default/k200"), "{named:?}");
    assert!(!fresh.keys().iter().any(|key| key == "k7" || key == "k200"));
}
