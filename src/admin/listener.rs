//! The HTTP listener: a bounded number of connections, none of which may stand still for ever.
//!
//! At the bound no more connections are accepted until one ends, so the kernel's queue holds the rest back. A
//! connection on which nothing moves for [`IDLE_MAX`] is closed, whatever it was waiting for; that is longer
//! than any page takes.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections served at once by one HTTP server.
pub const HTTP_CONNECTIONS_MAX: usize = 4_096;

/// How long a connection may stand still.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// Pause after a failed accept, so that a process out of file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener that accepts up to its bound.
pub struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl BoundedListener {
    /// Bounds a listener.
    pub fn new(listener: TcpListener) -> Self {
        BoundedListener { listener, places: Arc::new(Semaphore::new(HTTP_CONNECTIONS_MAX)) }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // The semaphore is never closed, so waiting cannot fail.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                std::future::pending::<()>().await;
                continue;
            };
            match self.listener.accept().await {
                Ok((socket, peer)) => {
                    // Only a delay is lost without it.
                    let _ = socket.set_nodelay(true);
                    let idle = Box::pin(sleep(IDLE_MAX));
                    return (Connection { socket, idle, _place: place }, peer);
                }
                Err(error) => {
                    tracing::warn!(%error, "an HTTP connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One accepted connection and its place.
pub struct Connection {
    socket: TcpStream,
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Passes a poll on; a pending one fails once nothing has moved for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE_MAX);
            return polled;
        }
        match self.idle.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        self.watch(context, polled)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.watch(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
