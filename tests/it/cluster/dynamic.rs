//! A leader that is killed between the reservation, the start and the end of a further replica.

use std::time::Duration;

use mooncake_ha::model::{ClientId, SegmentId, Uuid};
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig, Segment, SoftPinAction};
use mooncake_ha::wire::{Call, calls as c, requests as r};
use serde_json::Value as Json;
use tokio::runtime::{Builder, Runtime};

use super::trio::{ELECTED, Trio};
use crate::support::{Got, Value, WriteConfig, eventually_within};

const CLIENT: ClientId = ClientId(Uuid { first: 8, second: 1 });
const TENANT: &[u8] = b"default";
const FLAGS: &[&str] = &["--dynamic_replication_mode=enforce", "--client_ttl=600"];

/// A client that knows only RPCs, talking to whoever leads.
struct Caller<'a> {
    trio: &'a Trio,
    runtime: Runtime,
}

impl<'a> Caller<'a> {
    fn of(trio: &'a Trio) -> Self {
        Caller { trio, runtime: Builder::new_current_thread().enable_all().build().unwrap() }
    }

    fn ask<C: Call>(&self, request: &C::Request<'_>) -> C::Response {
        let address = self.trio.plain(self.trio.leader());
        self.runtime.block_on(async {
            let rpc = RpcClient::connect(&address).await.unwrap();
            rpc.call::<C>(request).await.unwrap()
        })
    }

    /// Two segments, and a soft-pinned object on the first.
    fn prepare(&self) {
        let segment = |n: u64, name: &'static [u8]| Segment {
            id: SegmentId(Uuid { first: n, second: 5 }),
            name,
            base: n << 40,
            size: 1 << 20,
            te_endpoint: name,
            protocol: b"tcp".as_slice(),
            host_id: b"",
        };
        let segments = vec![segment(1, b"s1"), segment(2, b"s2")];
        let request = r::ReMountSegmentRequest { segments, client_id: CLIENT };
        self.ask::<c::ReMountSegment>(&request).unwrap();
        let config = ReplicateConfig {
            soft_pin_action: SoftPinAction::ENABLE,
            preferred_segments: vec![b"s1".as_slice()],
            ..ReplicateConfig::default()
        };
        let (client_id, key, tenant_id) = (CLIENT, b"k".as_slice(), TENANT);
        let start = r::PutStartRequest { client_id, key, slice_length: 100, config, tenant_id };
        self.ask::<c::PutStart>(&start).unwrap();
        let object_meta = ObjectMeta { key, object_checksum: None };
        let replica_type = ReplicaType::ALL;
        let end = r::PutEndRequest { client_id, object_meta, replica_type, tenant_id };
        self.ask::<c::PutEnd>(&end).unwrap();
    }

    /// How many replicas a reader is told of.
    fn read(&self) -> usize {
        let request = r::KeyRequest { key: b"k".as_slice(), tenant_id: TENANT };
        self.ask::<c::GetReplicaList>(&request).unwrap().replicas.len()
    }

    /// The token of the one task.
    fn fetch(&self) -> (Uuid, u64) {
        let request = r::FetchTasksRequest { client_id: CLIENT, batch_size: 9 };
        let tasks = self.ask::<c::FetchTasks>(&request).unwrap();
        assert_eq!(tasks.len(), 1);
        let payload: Json = serde_json::from_slice(&tasks[0].payload).unwrap();
        let number = |name: &str| payload[format!("dynamic_replication_{name}")].as_u64().unwrap();
        let lease = Uuid { first: number("lease_id_high"), second: number("lease_id_low") };
        (lease, number("version_epoch"))
    }

    fn start(&self, (lease_id, version_epoch): (Uuid, u64)) {
        let request = r::DynamicReplicaCopyStartRequest {
            client_id: CLIENT,
            key: b"k".as_slice(),
            tenant_id: TENANT,
            src_segment: b"s1",
            tgt_segments: vec![b"s2".as_slice()],
            lease_id,
            version_epoch,
        };
        assert_eq!(self.ask::<c::DynamicReplicaCopyStart>(&request).unwrap().targets.len(), 1);
    }

    fn end(&self, (lease_id, version_epoch): (Uuid, u64)) {
        let request = r::DynamicReplicaCopyRequest {
            client_id: CLIENT,
            key: b"k".as_slice(),
            tenant_id: TENANT,
            lease_id,
            version_epoch,
        };
        self.ask::<c::DynamicReplicaCopyEnd>(&request).unwrap();
    }
}

#[test]
fn a_leader_that_is_killed_amid_a_further_replica_leaves_it_to_the_next() {
    let mut trio = Trio::start(FLAGS);
    let caller = Caller::of(&trio);
    caller.prepare();
    let before = trio.told();
    let caller = Caller::of(&trio);
    (0..8).for_each(|_| assert_eq!(caller.read(), 1));
    eventually_within(ELECTED, "it is reserved", || {
        trio.metric("master_dynamic_replication_reserved") == 1
    });
    trio.fail_over();
    let caller = Caller::of(&trio);
    let token = caller.fetch();
    trio.fail_over();
    let caller = Caller::of(&trio);
    caller.start(token);
    trio.fail_over();
    let caller = Caller::of(&trio);
    assert_eq!(trio.metric("master_allocated_bytes"), 200);
    caller.end(token);
    assert_eq!(caller.read(), 2);
    for (name, value) in [
        ("master_dynamic_replicas", 1),
        ("master_dynamic_replication_reserved", 0),
        ("master_dynamic_replication_completed_total", 1),
        ("master_dynamic_replication_expired_total", 0),
    ] {
        assert_eq!(trio.metric(name), value, "{name}");
    }
    assert_eq!(trio.told().pins, before.pins, "no pin is moved");
}

#[test]
fn stock_clients_replicate_what_is_hot_over_the_death_of_a_leader() {
    let mut trio = Trio::start(FLAGS);
    let Some(mut source) = trio.client("source", &trio.etcd(), 64) else { return };
    let Some(mut target) = trio.client("target", &trio.etcd(), 64) else { return };
    let values = Value::several("hot/", 30, 100_000);
    let config = WriteConfig::soft_pin_for(3_600_000).on(source.segment());
    for value in &values {
        assert_eq!(source.put_with(value, &config), 0);
    }
    let before = trio.told();
    let keys: Vec<String> = values.iter().map(|value| value.key.clone()).collect();
    (0..8).for_each(|_| assert_eq!(target.batch_replicas(&keys).len(), keys.len()));
    // Reservations are there, and no client has had the time to carry all of them out.
    eventually_within(ELECTED, "copies are reserved", || {
        trio.metric("master_dynamic_replication_reserved_total") > 0
    });
    let leader = trio.leader();
    trio.kill(leader);
    assert_ne!(trio.leader(), leader);
    // What was handed out by the dead leader and never heard of again is wished for once more after its rest.
    let rested = Duration::from_secs(120);
    eventually_within(rested, "every value has two copies", || {
        let found = target.batch_replicas(&keys);
        found.len() == keys.len() && found.iter().all(|(_, copies)| copies.len() == 2)
    });
    trio.start_again(leader);
    trio.settled();
    assert_eq!(trio.told().pins, before.pins, "no pin is moved");
    assert_eq!(source.close(), 0);
    for value in &values {
        assert_eq!(target.get(value), Got::Right, "{}", value.key);
    }
}
