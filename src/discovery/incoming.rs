//! Accepted connections, counted: at most [`CONNECTIONS_MAX`] are open at once.
//!
//! Guards that a process out of file descriptors does not spin, and that the door cannot use up what the
//! clients' door needs. What is said on a connection is left to `service`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::{CONNECTIONS_MAX, stopped};

/// Connections accepted and not yet taken over by the server.
const WAITING_MAX: usize = 16;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the node stops or the stream is dropped; the listener is closed then.
pub(super) fn accept(
    listener: TcpListener,
    stop: Receiver<bool>,
) -> ReceiverStream<Result<Connection, Infallible>> {
    let (accepted, incoming) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        tokio::select! {
            () = accept_into(listener, &accepted) => {}
            () = accepted.closed() => {}
            () = stopped(stop) => {}
        }
    });
    ReceiverStream::new(incoming)
}

async fn accept_into(
    listener: TcpListener,
    accepted: &mpsc::Sender<Result<Connection, Infallible>>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    tracing::warn!(%peer, limit = CONNECTIONS_MAX, "too many discovery connections");
                    continue;
                };
                // Only costs a little speed if it cannot be set.
                let _ = socket.set_nodelay(true);
                if accepted.send(Ok(Connection { socket, _place: place })).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a discovery connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection that gives its place back when it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
