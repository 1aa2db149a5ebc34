//! The HTTP listener: a bounded number of connections, none of which may stand still for ever.
//!
//! At the bound no more connections are accepted until one ends, so the kernel's queue holds the rest back. A
//! connection on which nothing moves for [`IDLE_MAX`] is closed, whatever it was waiting for; that is longer
//! than any page takes. So is one that asks for longer than [`REQUEST_MAX`], a byte now and then.

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

/// How long after the first byte of a request the first byte of its answer must be there.
const REQUEST_MAX: Duration = Duration::from_secs(180);

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
                    return (Connection::new(socket, place), peer);
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
    /// When an answer must have begun, if something is being asked.
    due: Option<Instant>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(socket: TcpStream, place: OwnedSemaphorePermit) -> Self {
        let idle = Box::pin(sleep(IDLE_MAX));
        Connection { socket, idle, due: None, _place: place }
    }

    /// Passes a poll on; a pending one fails once nothing has moved for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            let now = Instant::now();
            if self.due.is_some_and(|due| due <= now) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let idle = now + IDLE_MAX;
            self.idle.as_mut().reset(self.due.map_or(idle, |due| due.min(idle)));
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
        if polled.is_ready() {
            self.due.get_or_insert_with(|| Instant::now() + REQUEST_MAX);
        }
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
        if polled.is_ready() {
            self.due = None;
        }
        self.watch(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// How long the server keeps a client that sends a byte every half minute; an answer follows every
    /// `answered`th byte.
    async fn kept(bytes: u32, answered: Option<u32>) -> Option<Duration> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // Else bytes wait for real time, of which none passes.
        client.set_nodelay(true).unwrap();
        let (mut server, _) = BoundedListener::new(listener).accept().await;
        let begun = Instant::now();
        let serving = async {
            for byte in 1.. {
                if server.read_u8().await.is_err() {
                    break;
                }
                if answered.is_some_and(|every| byte % every == 0) {
                    server.write_all(b"answer").await.unwrap();
                }
            }
            begun.elapsed()
        };
        let asking = async {
            for _ in 0..bytes {
                // The server may have closed it meanwhile.
                let _ = client.write_all(b"x").await;
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
        };
        tokio::select! {
            kept = serving => Some(kept),
            () = asking => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_a_byte_now_and_then_does_not_hold_its_place_for_ever() {
        let kept_for = kept(60, None).await.expect("it is closed");
        let pause = Duration::from_secs(30);
        assert!(kept_for >= REQUEST_MAX && kept_for <= REQUEST_MAX + pause, "{kept_for:?}");
        assert_eq!(kept(60, Some(3)).await, None, "whoever is answered stays");
    }
}
