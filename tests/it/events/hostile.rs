//! Bytes at the events port that are no subscriber's, and what they must not do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::store::Store;
use crate::support::eventually;

fn greeting(major: u8, mechanism: &[u8]) -> Vec<u8> {
    let mut bytes = [b"\xff\0\0\0\0\0\0\0\0\x7f".as_slice(), &[major, 1], mechanism].concat();
    bytes.resize(64, 0);
    bytes
}

fn ready(kind: &[u8]) -> Vec<u8> {
    let length = u8::try_from(kind.len()).unwrap();
    let body = [b"\x05READY\x0bSocket-Type\0\0\0".as_slice(), &[length], kind].concat();
    [&[4, u8::try_from(body.len()).unwrap()], body.as_slice()].concat()
}

/// Reads the greeting, sends bytes; answers what else comes until the other side closes.
fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut greeted = [0; 64];
    socket.read_exact(&mut greeted).unwrap();
    assert!(greeted.starts_with(b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL\0"), "{greeted:?}");
    // It may be closed before all is sent.
    let _ = socket.write_all(bytes);
    let mut answer = Vec::new();
    match socket.read_to_end(&mut answer) {
        Ok(_) => answer,
        // Closed with bytes of ours unread.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => answer,
        Err(error) => panic!("the connection stays open: {error}"),
    }
}

#[test]
fn whoever_is_no_subscriber_is_closed_and_others_are_served() {
    let store = Store::start(&[]);
    let null = greeting(3, b"NULL");
    let long_frame = [null.clone(), vec![6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]];
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n and some more, so that it is as long as a greeting"
            .to_vec(),
        greeting(1, b"NULL"),
        greeting(3, b"PLAIN"),
        long_frame.concat(),
        [null.clone(), vec![0xf8, 1, 1]].concat(),
        [null.clone(), ready(b"PUSH")].concat(),
        [null.clone(), ready(b"SUB"), vec![2, 0, 0, 0, 0, 0, 1, 0, 0]].concat(),
        [null.clone(), ready(b"SUB"), b"\0\x01\x01".repeat(2_000)].concat(),
    ] {
        let answer = exchange(store.port, &bytes);
        assert!(answer.is_empty() || answer.starts_with(b"\x04\x19\x05READY"), "{answer:?}");
    }
    store.client.put("k");
    let mut socket = TcpStream::connect(("127.0.0.1", store.port)).unwrap();
    let asking = [null, ready(b"SUB"), b"\0\x01\x01".to_vec()].concat();
    // Byte by byte.
    asking.iter().for_each(|byte| socket.write_all(&[*byte]).unwrap());
    let mut answer = vec![0; 64 + 27 + 2 + 10 + 2];
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[64..91], *b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB");
    assert_eq!(answer[91..103], *b"\x01\0\x01\x08\0\0\0\0\0\0\0\x01");
    drop(socket);
    eventually("nobody is left", || store.master.count("master_kv_event_subscribers") == 0);
}
