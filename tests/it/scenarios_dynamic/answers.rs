//! What a client is answered, by this master and by the real one: `TEST_MASTER=peer` runs the same against that.

use mooncake_ha::model::{ClientId, ErrorCode as E, SegmentId, Uuid};
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::types::{
    ObjectMeta, ReplicaType, ReplicateConfig, Segment, TaskCompleteRequest, TaskStatus,
};
use mooncake_ha::wire::{Answer, Call, calls as c, requests as r};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{ENFORCE, MIB, TENANT, Told, refused, told};
use crate::support::{Master, eventually, venv};

/// Client 1 owns `s1`, client 2 `s2`, client 3 `s3`.
fn client(n: u64) -> ClientId {
    ClientId(Uuid { first: n, second: 9 })
}

struct Scene {
    master: Master,
    runtime: Runtime,
    _dir: TempDir,
}

impl Scene {
    /// A master with three segments; `None` if the real one is asked for and is not here.
    fn start(flags: &[&str]) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let flags = [flags, &["--client_ttl=600"]].concat();
        let master = match std::env::var("TEST_MASTER").as_deref() {
            Ok("peer") => Master::peer(&venv::find()?.peer_master, dir.path(), &flags),
            _ => Master::ours(dir.path(), &flags),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let scene = Scene { master, runtime, _dir: dir };
        (1..=3).for_each(|n| scene.mount(n));
        Some(scene)
    }

    fn ask<C: Call>(&self, request: &C::Request<'_>) -> C::Response {
        self.runtime.block_on(async {
            let rpc = RpcClient::connect(self.master.address()).await.unwrap();
            rpc.call::<C>(request).await.unwrap()
        })
    }

    fn mount(&self, n: u64) {
        let name = format!("s{n}");
        let segment = Segment {
            id: SegmentId(Uuid { first: n, second: 5 }),
            name: name.as_bytes(),
            base: n << 40,
            size: 16 * MIB,
            te_endpoint: name.as_bytes(),
            protocol: b"tcp",
            host_id: b"",
        };
        let request = r::ReMountSegmentRequest { segments: vec![segment], client_id: client(n) };
        self.ask::<c::ReMountSegment>(&request).unwrap();
    }

    fn write(&self, key: &str, is_upsert: bool) {
        let config = ReplicateConfig {
            preferred_segments: vec![b"s1".as_slice()],
            ..ReplicateConfig::default()
        };
        let (client_id, tenant_id, key) = (client(1), TENANT, key.as_bytes());
        let start = r::PutStartRequest { client_id, key, slice_length: 1_000, config, tenant_id };
        match is_upsert {
            false => self.ask::<c::PutStart>(&start).unwrap(),
            true => self.ask::<c::UpsertStart>(&start).unwrap(),
        };
        let object_meta = ObjectMeta { key, object_checksum: None };
        let replica_type = ReplicaType::ALL;
        let end = r::PutEndRequest { client_id, object_meta, replica_type, tenant_id };
        self.ask::<c::PutEnd>(&end).unwrap();
    }

    /// How many replicas a reader is told of.
    fn read(&self, key: &str) -> usize {
        let request = r::KeyRequest { key: key.as_bytes(), tenant_id: TENANT };
        self.ask::<c::GetReplicaList>(&request).unwrap().replicas.len()
    }

    /// Makes a key hot; what its task tells client 1.
    fn hot(&self, key: &str) -> Told {
        let mut found = None;
        eventually("a copy is wished for", || {
            self.read(key);
            let request = r::FetchTasksRequest { client_id: client(1), batch_size: 9 };
            let tasks = self.ask::<c::FetchTasks>(&request).unwrap();
            let task = tasks.into_iter().find(|task| told(task).key == key);
            found = found.take().or(task);
            found.is_some()
        });
        let task = found.unwrap();
        let request = TaskCompleteRequest {
            id: task.id,
            status: TaskStatus::SUCCESS,
            message: b"".as_slice(),
        };
        let request = r::MarkTaskToCompleteRequest { client_id: client(1), request };
        self.ask::<c::MarkTaskToComplete>(&request).unwrap();
        told(&task)
    }

    /// The code of a start; 0 for one that is granted.
    fn start_as(&self, n: u64, told: &Told) -> Answer<usize> {
        let request = r::DynamicReplicaCopyStartRequest {
            client_id: client(n),
            key: told.key.as_bytes(),
            tenant_id: TENANT,
            src_segment: told.source.as_bytes(),
            tgt_segments: told.targets.iter().map(String::as_bytes).collect(),
            lease_id: told.lease,
            version_epoch: told.epoch,
        };
        self.ask::<c::DynamicReplicaCopyStart>(&request).map(|started| started.targets.len())
    }

    fn end_as(&self, n: u64, told: &Told, is_done: bool) -> Answer<()> {
        let request = r::DynamicReplicaCopyRequest {
            client_id: client(n),
            key: told.key.as_bytes(),
            tenant_id: TENANT,
            lease_id: told.lease,
            version_epoch: told.epoch,
        };
        match is_done {
            true => self.ask::<c::DynamicReplicaCopyEnd>(&request),
            false => self.ask::<c::DynamicReplicaCopyRevoke>(&request),
        }
    }

    fn plain(&self, key: &str, is_move: bool) -> Answer<()> {
        let (client_id, key, tenant_id, src_segment) =
            (client(1), key.as_bytes(), TENANT, b"s1".as_slice());
        if is_move {
            let tgt_segment = b"s3".as_slice();
            let request =
                r::MoveStartRequest { client_id, key, tenant_id, src_segment, tgt_segment };
            return self.ask::<c::MoveStart>(&request).map(|_| ());
        }
        let tgt_segments = vec![b"s3".as_slice()];
        let request = r::CopyStartRequest { client_id, key, tenant_id, src_segment, tgt_segments };
        self.ask::<c::CopyStart>(&request).map(|_| ())
    }

    fn plain_end(&self, key: &str) -> Answer<()> {
        let (client_id, tenant_id) = (client(1), TENANT);
        let request = r::ClientKeyRequest { client_id, key: key.as_bytes(), tenant_id };
        self.ask::<c::CopyEnd>(&request)
    }
}

fn bent(told: &Told) -> Told {
    Told { lease: Uuid { first: told.lease.first ^ 1, ..told.lease }, ..told.clone() }
}

#[test]
fn a_copy_is_started_and_ended_by_the_token_of_its_task_and_by_nothing_else() {
    let Some(scene) = Scene::start(&[ENFORCE]) else { return };
    scene.write("k", false);
    let told = scene.hot("k");
    assert_eq!((told.source.as_str(), told.targets.len()), ("s1", 1));
    let start = |told: &Told| scene.start_as(1, told);
    assert_eq!(start(&bent(&told)), refused(E::InvalidVersion));
    let other = Told { epoch: told.epoch + 1, ..told.clone() };
    assert_eq!(start(&other), refused(E::InvalidVersion));
    let elsewhere = if told.targets == ["s2"] { "s3" } else { "s2" };
    let both = [told.targets.clone(), vec![elsewhere.to_owned()]].concat();
    for targets in [vec![elsewhere.to_owned()], Vec::new(), both] {
        let wrong = Told { targets, ..told.clone() };
        assert_eq!(start(&wrong), refused(E::ObjectHasReplicationTask), "{wrong:?}");
    }
    let wrong = Told { source: elsewhere.to_owned(), ..told.clone() };
    assert_eq!(start(&wrong), refused(E::ObjectHasReplicationTask));
    assert_eq!(scene.start_as(2, &told), refused(E::IllegalClient));
    assert_eq!(scene.plain("k", false), refused(E::ObjectHasReplicationTask), "a copy");
    assert_eq!(start(&told), Ok(1));
    assert_eq!(start(&told), refused(E::ObjectHasReplicationTask));
    assert_eq!(scene.plain_end("k"), refused(E::InvalidVersion));
    assert_eq!(scene.end_as(1, &bent(&told), true), refused(E::InvalidVersion));
    assert_eq!(scene.end_as(2, &told, true), refused(E::IllegalClient));
    assert_eq!(scene.end_as(1, &told, true), Ok(()));
    assert_eq!(scene.end_as(1, &told, true), refused(E::ObjectNoReplicationTask));
    assert_eq!(scene.read("k"), 2);
}

#[test]
fn a_start_without_a_reservation_is_refused_and_so_is_one_of_an_unknown_key() {
    for flags in
        [&[ENFORCE], &["--dynamic_replication_mode=off"], &["--dynamic_replication_mode=observe"]]
    {
        let Some(scene) = Scene::start(flags) else { return };
        scene.write("k", false);
        let told = |key: &str| Told {
            key: key.to_owned(),
            source: "s1".to_owned(),
            targets: vec!["s2".to_owned()],
            lease: Uuid { first: 1, second: 2 },
            epoch: 3,
        };
        assert_eq!(scene.start_as(1, &told("k")), refused(E::UnavailableInCurrentStatus));
        assert_eq!(scene.start_as(1, &told("absent")), refused(E::ObjectNotFound));
        let nowhere = Told { targets: vec!["nowhere".to_owned()], ..told("k") };
        assert_eq!(scene.start_as(1, &nowhere), refused(E::UnavailableInCurrentStatus));
        assert_eq!(scene.end_as(1, &told("k"), false), refused(E::ObjectNoReplicationTask));
        assert_eq!(scene.end_as(1, &told("absent"), true), refused(E::ObjectNotFound));
    }
}

#[test]
fn an_object_that_was_written_again_needs_another_reservation() {
    let Some(scene) = Scene::start(&[ENFORCE]) else { return };
    scene.write("k", false);
    let told = scene.hot("k");
    std::thread::sleep(std::time::Duration::from_millis(5));
    scene.write("k", true);
    assert_eq!(scene.start_as(1, &told), refused(E::InvalidVersion));
    assert_eq!(scene.start_as(1, &told), refused(E::UnavailableInCurrentStatus));
    assert_eq!(scene.plain("k", false), Ok(()), "it is in nobody's way any more");
}

#[test]
fn a_move_does_not_wait_for_a_reserved_copy_which_is_kept_meanwhile() {
    let Some(scene) = Scene::start(&[ENFORCE]) else { return };
    scene.write("k", false);
    let told = scene.hot("k");
    assert_eq!(scene.plain("k", true), Ok(()));
    assert_eq!(scene.start_as(1, &told), refused(E::ObjectHasReplicationTask));
    let key = b"k".as_slice();
    let request = r::ClientKeyRequest { client_id: client(1), key, tenant_id: TENANT };
    assert_eq!(scene.ask::<c::MoveRevoke>(&request), Ok(()));
    assert_eq!(scene.start_as(1, &told), Ok(1));
}

#[test]
fn a_start_that_fails_late_uses_the_reservation_up() {
    let Some(scene) = Scene::start(&[ENFORCE]) else { return };
    scene.write("k", false);
    let told = scene.hot("k");
    let n = if told.targets == ["s2"] { 2 } else { 3 };
    let segment_id = SegmentId(Uuid { first: n, second: 5 });
    let request = r::UnmountSegmentRequest { segment_id, client_id: client(n) };
    scene.ask::<c::UnmountSegment>(&request).unwrap();
    assert_eq!(scene.start_as(1, &told), refused(E::SegmentNotFound));
    assert_eq!(scene.start_as(1, &told), refused(E::UnavailableInCurrentStatus));
}

#[test]
fn a_copy_that_is_revoked_leaves_nothing() {
    let Some(scene) = Scene::start(&[ENFORCE]) else { return };
    scene.write("k", false);
    let told = scene.hot("k");
    assert_eq!(scene.start_as(1, &told), Ok(1));
    assert_eq!(scene.end_as(1, &bent(&told), false), refused(E::InvalidVersion));
    assert_eq!(scene.end_as(1, &told, false), Ok(()));
    assert_eq!(scene.end_as(1, &told, false), refused(E::ObjectNoReplicationTask));
    assert_eq!(scene.read("k"), 1);
    eventually("its memory is free", || scene.master.count("master_allocated_bytes") == 1_000);
}
