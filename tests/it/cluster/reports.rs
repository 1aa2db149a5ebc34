//! What users of the peer have reported about its failovers, as small cases: keys and used bytes gone, clients
//! forgotten, calls that wait for a host that is gone, writes that only one disk has.

use std::time::Duration;

use mooncake_ha::clock::{Clock, SystemClock};
use mooncake_ha::drill::load::{Doors, Load, LoadPlan, Shared};
use mooncake_ha::drill::moment::Stopwatch;
use mooncake_ha::model::{ClientId, SegmentId, Uuid};
use mooncake_ha::rpc::client::{ClientError, RpcClient};
use mooncake_ha::wire::calls::{Ping, PutEnd, PutStart, ReMountSegment};
use mooncake_ha::wire::requests::{PutEndRequest, PutStartRequest, ReMountSegmentRequest};
use mooncake_ha::wire::types::{ClientStatus, ObjectMeta, ReplicaType, ReplicateConfig, Segment};
use nix::sys::signal::Signal;
use serde_json::Value as Json;
use tokio::runtime::{Builder, Runtime};

use super::trio::{ELECTED, Trio};
use crate::support::eventually_within;

const CLIENT: ClientId = ClientId(Uuid { first: 4, second: 2 });
const BYTES: u64 = 64 << 20;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Lets clients write until there are `keys`, and stops them.
fn fill(trio: &Trio, keys: usize) {
    let doors = Doors::new((0..3).map(|at| trio.plain(at)).collect());
    let shared = Shared::new(Stopwatch::default());
    let plan = LoadPlan { has_readers: false, pause: Duration::ZERO, ..LoadPlan::new("fill") };
    runtime().block_on(async {
        let mut load = Load::start(&plan, &doors, &shared);
        while shared.board.len() < keys {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        load.stop().await;
        load.end(&mut []).await;
    });
}

/// Used bytes of each segment, as the leader tells them.
fn segments(trio: &Trio) -> Json {
    trio.http(trio.leader()).json("/get_segments_detail")
}

fn segment() -> Segment<&'static [u8]> {
    Segment {
        id: SegmentId(CLIENT.0),
        name: b"reported",
        base: 1 << 40,
        size: BYTES,
        te_endpoint: b"reported",
        protocol: b"tcp",
        host_id: b"",
    }
}

fn put_start() -> PutStartRequest<&'static [u8]> {
    PutStartRequest {
        client_id: CLIENT,
        key: b"k",
        slice_length: 100,
        config: ReplicateConfig::default(),
        tenant_id: b"default",
    }
}

/// Makes the client alive, with its segment.
async fn remount(rpc: &RpcClient) {
    let request = ReMountSegmentRequest { segments: vec![segment()], client_id: CLIENT };
    rpc.call::<ReMountSegment>(&request).await.unwrap().unwrap();
}

#[test]
fn after_a_failover_keys_pins_segments_and_used_bytes_are_as_before() {
    // The clients that fill it are gone afterwards.
    let mut trio = Trio::start(&["--client_ttl=600"]);
    fill(&trio, 300);
    let (told, used) = (trio.told(), segments(&trio));
    assert!(told.keys.len() > 200 && told.pins.len() > 20 && told.segments.len() == 4, "{told:?}");
    let leader = trio.leader();
    trio.kill(leader);
    assert_ne!(trio.leader(), leader);
    assert_eq!(trio.told(), told);
    assert_eq!(segments(&trio), used);
}

#[test]
fn a_client_that_is_silent_for_longer_than_its_ttl_around_a_failover_keeps_its_segment() {
    let mut trio = Trio::start(&["--client_ttl=3"]);
    let runtime = runtime();
    let first = trio.leader();
    let ping = |address: String| {
        runtime.block_on(async {
            let rpc = RpcClient::connect(address).await.unwrap();
            let answer = rpc.call::<Ping>(&CLIENT).await.unwrap().unwrap();
            answer.client_status
        })
    };
    runtime.block_on(async {
        remount(&RpcClient::connect(trio.plain(first)).await.unwrap()).await;
    });
    assert_eq!(ping(trio.plain(first)), ClientStatus::OK);
    let clock = SystemClock::default();
    trio.kill(first);
    let second = trio.leader();
    // The new leader must take note of the silence, or nothing is shown: it lasts for two TTLs.
    eventually_within(ELECTED, "two TTLs go by", || clock.monotonic() > Duration::from_secs(6));
    assert_eq!(trio.told().segments, ["reported"]);
    assert_eq!(ping(trio.plain(second)), ClientStatus::OK, "it need not mount again");
}

/// Longer than an election, and shorter than a node waits for the answer of a leader.
const NEXT_LEADER: Duration = Duration::from_secs(20);

#[test]
fn a_call_that_waits_for_a_vanished_leader_does_not_outlast_the_next_election() {
    let trio = Trio::start(&[]);
    let (leader, through) = (trio.leader(), trio.follower());
    let runtime = runtime();
    let rpc = runtime.block_on(async {
        let rpc = RpcClient::connect(trio.plain(through)).await.unwrap().with_timeout(NEXT_LEADER);
        remount(&rpc).await;
        rpc
    });
    trio.signal(leader, Signal::SIGSTOP);
    let start = put_start();
    let (read, write) = runtime
        .block_on(async { tokio::join!(rpc.call::<Ping>(&CLIENT), rpc.call::<PutStart>(&start)) });
    let is_late = |error: &ClientError| matches!(error, ClientError::Timeout(_));
    // Answers come in order of the requests: the read is sent again to the next leader, then the write, whose
    // outcome nobody knows, ends with its connection.
    assert_eq!(read.unwrap().unwrap().client_status, ClientStatus::OK);
    assert!(write.as_ref().is_ok_and(Result::is_ok) || !is_late(write.as_ref().unwrap_err()));
    trio.signal(leader, Signal::SIGCONT);
    trio.settled();
}

#[test]
fn no_write_is_answered_while_only_one_node_has_it() {
    let trio = Trio::start(&[]);
    let leader = trio.leader();
    let runtime = runtime();
    let others = || (0..3).filter(|at| *at != leader);
    let rpc = runtime.block_on(async {
        let rpc = RpcClient::connect(trio.plain(leader)).await.unwrap();
        remount(&rpc).await;
        rpc.with_timeout(Duration::from_millis(1_500))
    });
    runtime.block_on(rpc.call::<PutStart>(&put_start())).unwrap().unwrap();
    others().for_each(|at| trio.signal(at, Signal::SIGSTOP));
    let end = PutEndRequest {
        client_id: CLIENT,
        object_meta: ObjectMeta { key: b"k".as_slice(), object_checksum: None },
        replica_type: ReplicaType::ALL,
        tenant_id: b"default",
    };
    let ended = runtime.block_on(rpc.call::<PutEnd>(&end));
    assert!(ended.is_err(), "an answer without a majority: {ended:?}");
    others().for_each(|at| trio.signal(at, Signal::SIGCONT));
    trio.settled();
    // Whatever became of it, the end can be told again and then holds.
    eventually_within(ELECTED, "the write ends", || {
        runtime.block_on(async {
            let Ok(rpc) = RpcClient::connect(trio.plain(trio.leader())).await else { return false };
            matches!(rpc.call::<PutEnd>(&end).await, Ok(Ok(())))
        })
    });
    assert_eq!(trio.told().keys, ["k"]);
}
