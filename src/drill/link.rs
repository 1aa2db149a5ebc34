//! A TCP relay between the raft ports of two nodes, which can be cut.
//!
//! A cut relay keeps connections open and moves no byte, as a network does that drops packets: nobody is told,
//! everybody waits. One that is cut one way still carries answers that were on their way. What waits is sent when
//! the cut heals, as TCP would do.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// Connections through one relay; two nodes keep a handful.
const CONNECTIONS_MAX: usize = 256;
/// Bytes that one direction of one connection holds while it is cut.
const BUFFER_BYTES: usize = 64 << 10;
/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a relay does with bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Whether bytes towards the target wait.
    pub holds_there: bool,
    /// Whether bytes from the target wait.
    pub holds_back: bool,
    /// How long each piece waits in each direction.
    pub delay: Duration,
}

/// A relay in front of one raft port, for one of the other nodes. It ends when this is dropped.
#[derive(Debug)]
pub struct Link {
    /// Index of the node that connects.
    pub from: usize,
    /// Index of the node behind it.
    pub to: usize,
    flow: watch::Sender<Flow>,
    task: AbortHandle,
}

impl Link {
    /// Relays from `port` of the loopback address to `target`. Errors: the port cannot be bound.
    pub async fn open(from: usize, to: usize, port: u16, target: String) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let (flow, seen) = watch::channel(Flow::default());
        let task = tokio::spawn(relay(listener, target, seen)).abort_handle();
        Ok(Link { from, to, flow, task })
    }

    /// Changes what it does with bytes from now on.
    pub fn set(&self, flow: Flow) {
        self.flow.send_replace(flow);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(listener: TcpListener, target: String, flow: watch::Receiver<Flow>) {
    let target: Arc<str> = target.into();
    // Dropped with the relay, which ends its connections.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((near, _)) if connections.len() < CONNECTIONS_MAX => {
                connections.spawn(connection(near, Arc::clone(&target), flow.clone()));
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One connection until either side closes it.
async fn connection(near: TcpStream, target: Arc<str>, mut flow: watch::Receiver<Flow>) {
    // Through a cut nobody can connect: the near side waits.
    if flow.wait_for(|flow| !flow.holds_there && !flow.holds_back).await.is_err() {
        return;
    }
    let Ok(far) = TcpStream::connect(&*target).await else { return };
    if near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).is_err() {
        return;
    }
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::select! {
        () = carry(near_read, far_write, flow.clone(), |flow| flow.holds_there) => {}
        () = carry(far_read, near_write, flow, |flow| flow.holds_back) => {}
    }
}

/// Carries bytes one way until the end of the stream.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut flow: watch::Receiver<Flow>,
    holds: fn(&Flow) -> bool,
) {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        buffer.clear();
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let delay = flow.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if flow.wait_for(|flow| !holds(flow)).await.is_err() {
            return;
        }
        if to.write_all(&buffer).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A relay in front of a listener.
    async fn relayed() -> (Link, TcpStream, TcpStream) {
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = crate::drill::ports::free_port().unwrap();
        let address = target.local_addr().unwrap().to_string();
        let link = Link::open(0, 1, port, address).await.unwrap();
        let near = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (far, _) = target.accept().await.unwrap();
        (link, near, far)
    }

    #[tokio::test]
    async fn a_link_that_is_cut_one_way_carries_the_other_way_and_delivers_when_it_heals() {
        let (link, mut near, mut far) = relayed().await;
        link.set(Flow { holds_there: true, ..Flow::default() });
        near.write_all(b"there").await.unwrap();
        far.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        near.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"back");
        let mut byte = [0; 1];
        assert!(far.try_read(&mut byte).is_err(), "nothing got through the cut");
        link.set(Flow::default());
        let mut there = [0; 5];
        far.read_exact(&mut there).await.unwrap();
        assert_eq!(&there, b"there");
    }

    #[tokio::test]
    async fn a_link_that_is_dropped_closes_its_connections() {
        let (link, mut near, _far) = relayed().await;
        drop(link);
        let mut byte = [0; 1];
        let read = near.read(&mut byte).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
}
