//! Connections: very many, very slow, abandoned.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use mooncake_ha::rpc::client::RawConnection;
use mooncake_ha::wire::pack::NoArguments;
use mooncake_ha::wire::{calls, encode_request};

use crate::support::NodeProcess;
use crate::support::node::{TestNode, plain};

const IDLE_WANTED: u64 = 10_000;
/// Descriptors for everything else in this process.
const SPARE: u64 = 500;

fn ready(sequence: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request::<calls::ServiceReady>(sequence, &NoArguments, &mut frame);
    frame
}

async fn is_served(connection: &mut RawConnection) -> bool {
    connection.send(&ready(1)).await.is_ok() && matches!(connection.receive().await, Ok(Some(_)))
}

/// Raises this process's limit as far as it goes; how many connections that allows.
fn connections_possible() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = (IDLE_WANTED + SPARE).min(hard);
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).unwrap();
    }
    IDLE_WANTED.min(wanted.max(soft).saturating_sub(SPARE))
}

#[test]
fn ten_thousand_idle_connections_leave_the_node_serving() {
    let count = connections_possible();
    if count < IDLE_WANTED {
        eprintln!("SCALED DOWN: {count} instead of {IDLE_WANTED}: the descriptor limit is lower");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut process = NodeProcess::start(dir.path(), &dir.path().join("data"), &[]);
    let address = process.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut idle = Vec::new();
        for n in 0..count {
            let mut connection = RawConnection::connect(&*address).await.unwrap();
            // An answer shows that all before it were accepted, so the kernel's queue never overflows.
            if n % 250 == 0 {
                assert!(is_served(&mut connection).await, "connection {n}");
            }
            idle.push(connection);
        }
        let mut one_more = RawConnection::connect(&*address).await.unwrap();
        assert!(is_served(&mut one_more).await);
        for connection in idle.iter_mut().step_by(997) {
            assert!(is_served(connection).await, "an idle one wakes up");
        }
        drop(idle);
        assert!(is_served(&mut one_more).await, "after all have gone");
    });
    assert_eq!(process.terminate().code(), Some(0));
}

#[tokio::test]
async fn hundreds_of_half_frames_keep_nobody_from_being_served() {
    let node = TestNode::start(&[]).await;
    let mut slow = Vec::new();
    for n in 0..400_usize {
        let mut connection = node.raw().await;
        connection.send(&ready(1)[..1 + n % 19]).await.unwrap();
        slow.push(connection);
    }
    let writer = node.owner(1, 1 << 20).await;
    writer.put("k", &plain()).await;
    assert!(writer.exists("k").await);
    // One that finishes after all is answered after all.
    let rest = ready(1).split_off(1);
    slow[0].send(&rest).await.unwrap();
    assert_eq!(slow[0].receive().await.unwrap().unwrap().head.sequence, 1);
}

#[tokio::test]
async fn a_client_that_never_reads_its_answers_keeps_nobody_from_being_served() {
    let node = TestNode::start(&[]).await;
    let mut deaf = node.raw().await;
    let many: Vec<u8> = (0..2_000).flat_map(ready).collect();
    // The server stops reading once nobody takes its answers; then this stops, too.
    let flood = async {
        loop {
            if deaf.send(&many).await.is_err() {
                return;
            }
        }
    };
    let served = async {
        let writer = node.owner(1, 1 << 20).await;
        for n in 0..50 {
            writer.put(&format!("k{n}"), &plain()).await;
        }
    };
    tokio::select! {
        () = flood => panic!("the connection was closed"),
        () = served => {}
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_call_leaves_a_whole_write() {
    let node = TestNode::start(&[]).await;
    let writer = node.owner(1, 1 << 20).await;
    for n in 0..20 {
        let key = format!("k{n}");
        let caller = node.caller(1).await;
        let config = plain();
        let start = caller.start(&key, 10, &config);
        // Dropped at some point between writing the request and reading the answer.
        let _ = tokio::time::timeout(std::time::Duration::from_micros(n * 40), start).await;
    }
    writer.put("last", &plain()).await;
    node.assert_sound();
}
