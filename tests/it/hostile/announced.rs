//! Much is announced and little is sent, on very many connections of every port: memory is what has arrived, and
//! nobody else waits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use mooncake_ha::wire::pack::NoArguments;
use mooncake_ha::wire::{calls, encode_request};

use crate::support::{Master, eventually, free_port};

/// Connections to each port, and what each of them announces.
const CONNECTIONS: usize = 200;
const ANNOUNCED: u32 = 60 << 20;
/// What each sends of it.
const SENT: usize = 2_000;
/// All together announce 48 GB; more than this, connections included, the node must not take.
const MEMORY_MAX: u64 = 64 << 20;

/// Opens connections to a port and sends the same on each; they stay open until they are dropped.
fn crowd(port: u16, bytes: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        // A port may close at once, which is as good.
        let _ = stream.write_all(bytes);
        stream
    };
    (0..CONNECTIONS).map(connect).collect()
}

fn rpc() -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request::<calls::ServiceReady>(1, &NoArguments, &mut frame);
    frame[12..16].copy_from_slice(&ANNOUNCED.to_le_bytes());
    frame.resize(SENT, 0);
    frame
}

fn http(path: &str) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {ANNOUNCED}\r\n\r\n");
    let mut request = head.into_bytes();
    request.resize(SENT, b'x');
    request
}

/// The preface of HTTP/2, empty settings, then headers of the greatest length that a frame can have.
fn discovery() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(b"\xff\xff\xff\x01\x04\0\0\0\x01");
    bytes.resize(SENT, 0);
    bytes
}

/// The head of a frame between nodes.
fn raft() -> Vec<u8> {
    let mut bytes = b"RFN1\x02\0\0\0".to_vec();
    bytes.extend_from_slice(&ANNOUNCED.to_le_bytes());
    bytes.resize(SENT, 0);
    bytes
}

fn is_served(master: &Master) -> bool {
    let mut stream = TcpStream::connect(master.address()).unwrap();
    let mut frame = Vec::new();
    encode_request::<calls::ServiceReady>(1, &NoArguments, &mut frame);
    stream.write_all(&frame).unwrap();
    stream.read_exact(&mut [0; 16]).is_ok()
}

#[test]
fn what_is_announced_and_not_sent_takes_no_memory_and_keeps_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let (discovery_port, raft_port) = (free_port(), free_port());
    let flags = [
        format!("--discovery_port={discovery_port}"),
        format!("--peers=1=127.0.0.1:{raft_port}"),
        "--enable_http_metadata_server".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let master = Master::ours(dir.path(), &flags);
    assert!(is_served(&master));
    let before = master.resident_bytes();
    let port = |address: &str| address.rsplit(':').next().unwrap().parse().unwrap();
    let admin = master.http().url("");
    let metadata = master.metadata_http().url("");
    let crowds = [
        crowd(port(&master.address()), &rpc()),
        crowd(port(&admin), &http("/api/v1/restore")),
        crowd(port(&metadata), &http("/metadata?key=k")),
        crowd(discovery_port, &discovery()),
        crowd(raft_port, &raft()),
    ];
    for _ in 0..20 {
        assert!(is_served(&master));
        assert_eq!(master.http().get("/health").0, 200);
        let taken = master.resident_bytes().saturating_sub(before);
        assert!(taken < MEMORY_MAX, "{taken} bytes for {CONNECTIONS} connections a port");
    }
    println!("{} KiB", master.resident_bytes().saturating_sub(before) >> 10);
    drop(crowds);
    eventually("the node serves afterwards", || is_served(&master));
}
