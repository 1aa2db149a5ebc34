//! Our client against a toy server that answers as each test says.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{ClientError, RawConnection, RpcClient};
use crate::model::error_code::ErrorCode;
use crate::wire::frame::{RequestHead, RpcError};
use crate::wire::requests::KeyRequest;
use crate::wire::{Answer, calls, decode_request, encode_response, encode_rpc_error};

/// A server that takes one connection and hands it to `serve`.
async fn server<F: Future<Output = ()> + Send + 'static>(
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream).await;
    });
    address
}

/// The next `count` requests for ExistKey: number and key.
async fn requests(stream: &mut TcpStream, count: usize) -> Vec<(u32, Vec<u8>)> {
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    while found.len() < count {
        while let Some((head, length)) = RequestHead::parse(&bytes).unwrap()
            && length <= bytes.len()
        {
            let request = decode_request::<calls::ExistKey>(head.body(&bytes)).unwrap();
            found.push((head.sequence, request.key.to_vec()));
            bytes.drain(..length);
        }
        if found.len() < count {
            stream.read_buf(&mut bytes).await.unwrap();
        }
    }
    found
}

async fn exists(client: &RpcClient, key: &str) -> Result<Answer<bool>, ClientError> {
    let request = KeyRequest { key: key.as_bytes(), tenant_id: b"default".as_slice() };
    client.call::<calls::ExistKey>(&request).await
}

#[tokio::test]
async fn answers_reach_the_calls_of_their_numbers_in_any_order() {
    let address = server(async |mut stream: TcpStream| {
        let mut out = Vec::new();
        for (sequence, key) in requests(&mut stream, 3).await.into_iter().rev() {
            let answer: Result<bool, ErrorCode> = match key.as_slice() {
                b"yes" => Ok(true),
                b"no" => Ok(false),
                _ => Err(ErrorCode::ObjectNotFound),
            };
            encode_response::<calls::ExistKey, _>(sequence, &answer, &mut out);
        }
        stream.write_all(&out).await.unwrap();
    })
    .await;
    let client = RpcClient::connect(address).await.unwrap();
    let (yes, no, error) =
        tokio::join!(exists(&client, "yes"), exists(&client, "no"), exists(&client, "?"));
    assert_eq!(yes.unwrap(), Ok(true));
    assert_eq!(no.unwrap(), Ok(false));
    assert_eq!(error.unwrap(), Err(ErrorCode::ObjectNotFound.into()));
}

#[tokio::test]
async fn an_rpc_error_fails_its_call_only() {
    let address = server(async |mut stream: TcpStream| {
        let mut out = Vec::new();
        for (sequence, key) in requests(&mut stream, 2).await {
            match key.as_slice() {
                b"bad" => encode_rpc_error(sequence, RpcError::InvalidArguments, &mut out),
                _ => {
                    encode_response::<calls::ExistKey, Answer<bool>>(sequence, &Ok(true), &mut out)
                }
            }
        }
        stream.write_all(&out).await.unwrap();
    })
    .await;
    let client = RpcClient::connect(address).await.unwrap();
    let (bad, good) = tokio::join!(exists(&client, "bad"), exists(&client, "good"));
    let error = bad.unwrap_err();
    assert!(
        matches!(&error, ClientError::Rpc { code: 4, text } if text == "invalid rpc arg"),
        "{error}"
    );
    assert_eq!(good.unwrap(), Ok(true));
}

#[tokio::test]
async fn a_closed_connection_fails_calls_under_way_and_later_ones() {
    let address = server(async |mut stream: TcpStream| {
        requests(&mut stream, 1).await;
    })
    .await;
    let client = RpcClient::connect(address).await.unwrap();
    for _ in 0..2 {
        let error = exists(&client, "k").await.unwrap_err();
        assert!(matches!(error, ClientError::Io(_)), "{error}");
        assert!(client.is_closed());
    }
}

#[tokio::test]
async fn a_silent_server_costs_the_time_limit_and_its_late_answer_is_dropped() {
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let address = server(async |mut stream: TcpStream| {
        let first = requests(&mut stream, 1).await;
        gone.await.unwrap();
        let mut out = Vec::new();
        let late: Answer<bool> = Ok(false);
        for (sequence, _) in first {
            encode_response::<calls::ExistKey, _>(sequence, &late, &mut out);
        }
        for (sequence, _) in requests(&mut stream, 1).await {
            let answer: Answer<bool> = Ok(true);
            encode_response::<calls::ExistKey, _>(sequence, &answer, &mut out);
        }
        stream.write_all(&out).await.unwrap();
    })
    .await;
    let limit = Duration::from_millis(20);
    let client = RpcClient::connect(address).await.unwrap().with_timeout(limit);
    let error = exists(&client, "k").await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout(time) if time == limit), "{error}");
    let client = client.with_timeout(Duration::from_secs(60));
    go.send(()).unwrap();
    assert_eq!(exists(&client, "k").await.unwrap(), Ok(true));
}

#[tokio::test]
async fn a_raw_connection_sends_anything_and_sees_the_close() {
    let address = server(async |mut stream: TcpStream| {
        let mut first = [0; 4];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"GET ");
        let mut out = Vec::new();
        encode_rpc_error(7, RpcError::NotRegistered, &mut out);
        stream.write_all(&out).await.unwrap();
    })
    .await;
    let mut raw = RawConnection::connect(address).await.unwrap();
    raw.send(b"GET ").await.unwrap();
    let frame = raw.receive().await.unwrap().unwrap();
    assert_eq!((frame.head.rpc_error, frame.head.sequence), (11, 7));
    assert!(raw.receive().await.unwrap().is_none());
}
