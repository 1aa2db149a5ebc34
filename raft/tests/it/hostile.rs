//! Strangers at the port for peers.

use std::net::SocketAddr;
use std::time::Duration;

use mooncake_ha_raft::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::support::{Member, eventually};

fn plain(_: &mut Config) {}

/// Sends `bytes` after the server's first word; true if the server closes within a while.
async fn is_closed(addr: SocketAddr, bytes: &[u8]) -> bool {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let mut buffer = [0; 4096];
    assert!(stream.read(&mut buffer).await.unwrap() > 0, "the server speaks first");
    stream.write_all(bytes).await.unwrap();
    let end = async {
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), end).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_huge_lengths_and_silence_close_only_their_own_connection() {
    let cluster = Cluster::start(3, plain).await;
    cluster.add(1, 0).await;
    let leader = cluster.leader().await;
    let term = cluster.members[&leader].node.status().term;
    let addr = cluster.config(leader).listen.unwrap();
    assert!(is_closed(addr, b"GET / HTTP/1.1\r\nhost: example\r\n\r\n").await);
    let mut huge = b"RFN1\x02\0\0\0".to_vec();
    huge.extend_from_slice(&u32::MAX.to_le_bytes());
    huge.extend_from_slice(&[0; 12]);
    assert!(is_closed(addr, &huge).await);
    assert!(is_closed(addr, &[0; 100]).await);
    assert!(is_closed(addr, b"").await, "who says nothing is not kept");
    cluster.add(2, 0).await;
    assert_eq!(cluster.members[&leader].node.status().term, term, "the leader was disturbed");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_cluster_or_with_another_secret_stays_outside() {
    let mut cluster = Cluster::start(3, |config| config.secret = Some("one".into())).await;
    cluster.add(1, 0).await;
    let leader = cluster.leader().await;
    let out = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(out).await;
    for (name, secret) in [("other", "one"), ("test", "two")] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = cluster.config(out);
        config.cluster_id = name.into();
        config.secret = Some(secret.into());
        config.data_dir = dir.path().to_owned();
        let listener = TcpListener::bind(config.listen.unwrap()).await.unwrap();
        let stranger = Member::open_on(listener, config).await.unwrap();
        cluster.add(2, 0).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(stranger.machine.len(), 0, "{name}");
        stranger.node.shutdown().await;
    }
    cluster.open(out).await;
    let node = &cluster.members[&out];
    eventually("the real node is let in", || node.machine.has(2)).await;
    cluster.shutdown().await;
}

/// Strangers at a door, more than it lets in, who say nothing and come back when they are sent away. They are of
/// another host than the nodes.
fn crowd(addr: SocketAddr) -> JoinSet<()> {
    let mut crowd = JoinSet::new();
    for _ in 0..300 {
        crowd.spawn(async move {
            loop {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
                if let Ok(mut stream) = socket.connect(addr).await {
                    let mut buffer = [0; 256];
                    while matches!(stream.read(&mut buffer).await, Ok(read) if read > 0) {}
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    crowd
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_fill_the_port_for_peers_keep_no_peer_out() {
    let mut cluster = Cluster::start(3, plain).await;
    cluster.add(1, 0).await;
    cluster.settle().await;
    let leader = cluster.leader().await;
    let gone = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(gone).await;
    let left: Vec<u64> = (1..=3).filter(|id| *id != gone).collect();
    let crowds: Vec<_> = left.iter().map(|id| crowd(cluster.config(*id).listen.unwrap())).collect();
    // By then all of them are in, or have been.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    // Before the first of the crowd has been there for so long that it is sent away, others come: a node that has a
    // place hears first, and only then says who it is.
    for id in &left {
        for number in 0..10 {
            let mut stream = TcpStream::connect(cluster.config(*id).listen.unwrap()).await.unwrap();
            let mut byte = [0];
            let heard = stream.read(&mut byte);
            let heard = tokio::time::timeout(Duration::from_secs(1), heard).await;
            assert!(matches!(heard, Ok(Ok(1))), "the door of node {id} is shut to peer {number}");
        }
    }
    // The two that are needed lose each other, and have to come in anew.
    cluster.links.isolate(left[0], &left[1..]);
    tokio::time::sleep(Duration::from_millis(400)).await;
    cluster.links.heal();
    let added = tokio::time::timeout(Duration::from_millis(2_500), cluster.add(2, 0)).await;
    assert_eq!(added, Ok(()), "a peer is kept out");
    drop(crowds);
    cluster.settle().await;
    cluster.shutdown().await;
}
