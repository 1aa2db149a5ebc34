//! A raft snapshot on its way to a peer.
//!
//! Guards: the file arrives whole or is not installed (its checksums are verified before raft
//! hears of it); a broken transfer goes on where it stopped; standing still ends it, taking long
//! does not. Leaves to the adapter the installing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mooncake_ha_crash::{Point, reach};
use openraft::storage::Snapshot;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::files::How;
use crate::net::client::{Connection, Wire, body_of};
use crate::net::frame::{Frame, HELLO_BYTES_MAX, Kind};
use crate::net::message::{Channel, SnapshotBegin, SnapshotResume, SnapshotSay};
use crate::net::server::{Server, pack};
use crate::record::{MetaRecord, VoteRecord};
use crate::snapshot_file::{SnapshotDir, SnapshotFile};
use crate::types::{NodeId, Vote};
use crate::world::World;

/// Bytes in one frame of a transfer.
const CHUNK_BYTES: usize = 1 << 20;
/// How often the receiver shows that it is still installing.
const ALIVE: Duration = Duration::from_secs(1);
/// Largest frame a receiver takes: a chunk.
const FRAME_BYTES_MAX: usize = CHUNK_BYTES + HELLO_BYTES_MAX;

/// Sends a file; returns the vote of the peer once it is installed there.
pub(crate) async fn send(
    connection: &Connection,
    vote: Vote,
    file: &SnapshotFile,
) -> std::io::Result<Vote> {
    let idle = connection.peers.config.snapshot_idle;
    let mut wire = connection.connect(Channel::Snapshot).await?;
    let begin = SnapshotBegin {
        vote: VoteRecord::from(&vote),
        meta: MetaRecord::from(&file.meta),
        bytes: file.bytes,
        crc: file.content_crc().map_err(std::io::Error::other)?,
    };
    within(idle, wire.send(&Frame::new(Kind::SnapshotBegin, 0, pack(&begin)?))).await?;
    let resume = within(idle, wire.receive(HELLO_BYTES_MAX)).await?;
    let resume: SnapshotResume = body_of(&resume, Kind::SnapshotResume)?;
    let mut offset = resume.offset.min(file.bytes);
    tracing::info!(to = connection.to, bytes = file.bytes, offset, "sending a raft snapshot");
    while offset < file.bytes {
        let chunk = read_chunk(&connection.peers.config.world, file, offset).await?;
        let next = offset.saturating_add(chunk.len() as u64);
        within(idle, wire.send(&Frame::new(Kind::SnapshotChunk, offset, chunk))).await?;
        offset = next;
    }
    within(idle, wire.send(&Frame::new(Kind::SnapshotEnd, 0, Bytes::new()))).await?;
    loop {
        let frame = within(idle, wire.receive(HELLO_BYTES_MAX)).await?;
        if frame.kind == Kind::SnapshotAlive {
            continue;
        }
        let say: SnapshotSay = body_of(&frame, Kind::SnapshotReply)?;
        return say.map(Vote::from).map_err(std::io::Error::other);
    }
}

async fn within<T>(
    idle: Duration,
    work: impl Future<Output = std::io::Result<T>>,
) -> std::io::Result<T> {
    let stands = || std::io::Error::new(std::io::ErrorKind::TimedOut, "the transfer stands still");
    timeout(idle, work).await.map_err(|_| stands())?
}

async fn read_chunk(world: &World, file: &SnapshotFile, offset: u64) -> std::io::Result<Bytes> {
    let left = usize::try_from(file.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
    let handle = Arc::clone(&file.file);
    let read = move || {
        let mut chunk = vec![0; left.min(CHUNK_BYTES)];
        handle.read_exact_at(&mut chunk, offset)?;
        Ok(chunk.into())
    };
    world.blocking(read).await.map_err(std::io::Error::other)?
}

/// Part of a raft snapshot that arrived before its connection broke.
struct Partial {
    begin: SnapshotBegin,
    path: PathBuf,
    offset: u64,
}

/// Where raft snapshots arrive.
pub(crate) struct Inbox {
    dir: SnapshotDir,
    /// At most one unfinished file is kept.
    partial: Mutex<Option<Partial>>,
    counter: AtomicU64,
    /// Number of the newest transfer. A sender may be back before its lost connection is noticed
    /// here: the older transfer then leaves what it has to the newer one.
    newest: watch::Sender<u64>,
    /// Held by the one transfer that receives.
    turn: tokio::sync::Mutex<()>,
}

impl Inbox {
    pub(crate) fn new(dir: SnapshotDir) -> Self {
        Self {
            dir,
            partial: Mutex::new(None),
            counter: AtomicU64::new(0),
            newest: watch::Sender::new(0),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    /// Makes this the newest transfer.
    fn enter(&self) -> Turn {
        let newest = self.newest.subscribe();
        let mut number = 0;
        self.newest.send_modify(|newest| {
            *newest = newest.saturating_add(1);
            number = *newest;
        });
        Turn { number, newest }
    }

    /// Takes up the unfinished file if it is of the same raft snapshot, else starts a new one.
    fn begin(&self, begin: SnapshotBegin) -> std::io::Result<Partial> {
        if let Some(partial) = self.partial.lock().take() {
            let (old, new) = (&partial.begin, &begin);
            if (old.bytes, old.crc, &old.meta) == (new.bytes, new.crc, &new.meta) {
                return Ok(Partial { begin, ..partial });
            }
            self.dir.world.disk().remove(&partial.path)?;
        }
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.temp(&format!("receiving-{number}"));
        self.dir.world.disk().open(&path, How::Create)?;
        Ok(Partial { begin, path, offset: 0 })
    }

    /// Keeps an unfinished file, unless another transfer has left one meanwhile.
    fn keep(&self, partial: Partial) {
        let mut slot = self.partial.lock();
        if slot.is_none() {
            *slot = Some(partial);
        } else {
            // It is removed at the next start if this fails.
            let _ = self.dir.world.disk().remove(&partial.path);
        }
    }
}

/// The place of a transfer among those that arrive.
struct Turn {
    number: u64,
    newest: watch::Receiver<u64>,
}

impl Turn {
    /// Waits until a newer transfer has begun.
    async fn is_over(&mut self) {
        let number = self.number;
        if self.newest.wait_for(|newest| *newest > number).await.is_err() {
            // The inbox is gone, and with it everything that could be newer.
            std::future::pending().await
        }
    }
}

/// Receives a file and has it installed.
pub(crate) async fn receive(server: &Server, mut wire: Wire, from: NodeId) -> std::io::Result<()> {
    let idle = server.peers.config.snapshot_idle;
    let frame = within(idle, wire.receive(HELLO_BYTES_MAX)).await?;
    let begin: SnapshotBegin = body_of(&frame, Kind::SnapshotBegin)?;
    let mut turn = server.inbox.enter();
    let receiving = within(idle, async { Ok(server.inbox.turn.lock().await) }).await?;
    let mut partial = server.inbox.begin(begin)?;
    let (bytes, offset) = (partial.begin.bytes, partial.offset);
    tracing::info!(from, bytes, offset, "receiving a raft snapshot");
    if let Err(e) = receive_file(server, &mut wire, &mut partial, &mut turn).await {
        server.inbox.keep(partial);
        return Err(e);
    }
    drop(receiving);
    let say = install(server, &mut wire, &partial).await;
    // Installed it has another name by now; refused it is of no use.
    let _ = server.inbox.dir.world.disk().remove(&partial.path);
    if let Err(reason) = &say {
        tracing::warn!(from, "raft snapshot was not installed: {reason}");
    }
    wire.send(&Frame::new(Kind::SnapshotReply, 0, pack(&say)?)).await
}

async fn receive_file(
    server: &Server,
    wire: &mut Wire,
    partial: &mut Partial,
    turn: &mut Turn,
) -> std::io::Result<()> {
    let idle = server.peers.config.snapshot_idle;
    let world = &server.inbox.dir.world;
    let (disk, path) = (world.disk(), partial.path.clone());
    let opened = world.blocking(move || disk.open(&path, How::Update)).await;
    let file = opened.map_err(std::io::Error::other)??;
    let resume = pack(&SnapshotResume { offset: partial.offset })?;
    within(idle, wire.send(&Frame::new(Kind::SnapshotResume, 0, resume))).await?;
    loop {
        let frame = tokio::select! {
            biased;
            frame = within(idle, wire.receive(FRAME_BYTES_MAX)) => frame?,
            () = turn.is_over() => return Err(std::io::Error::other("a newer transfer goes on")),
        };
        match frame.kind {
            Kind::SnapshotChunk => {
                let end = partial.offset.saturating_add(frame.body.len() as u64);
                if frame.id != partial.offset || end > partial.begin.bytes {
                    return Err(std::io::Error::other("chunk out of place"));
                }
                let (file, at) = (Arc::clone(&file), partial.offset);
                let write = world.blocking(move || file.write_at(&frame.body, at)).await;
                write.map_err(std::io::Error::other)??;
                reach(Point::ReceivedPart);
                // Only now, so that it never says more than the file holds.
                partial.offset = end;
            }
            Kind::SnapshotEnd if partial.offset == partial.begin.bytes => {
                reach(Point::ReceivedAll);
                let synced = world.blocking(move || file.sync()).await;
                synced.map_err(std::io::Error::other)??;
                reach(Point::ReceivedSynced);
                return Ok(());
            }
            other => return Err(std::io::Error::other(format!("{other:?} in a transfer"))),
        }
    }
}

/// Verifies the file, then passes it to raft, with signs of life to the sender meanwhile.
async fn install(server: &Server, wire: &mut Wire, partial: &Partial) -> SnapshotSay {
    let path = partial.path.clone();
    let dir = server.inbox.dir.clone();
    let world = dir.world.clone();
    let open = move || {
        let file = dir.open_file(&path)?;
        file.verify()?;
        Ok::<_, crate::snapshot_file::SnapshotError>(file)
    };
    let vote = Vote::from(partial.begin.vote);
    let raft = server.raft.clone();
    let work = async move {
        let opened = world.blocking(open).await.map_err(|e| e.to_string())?;
        let file = opened.map_err(|e| e.to_string())?;
        let snapshot = Snapshot { meta: file.meta.clone(), snapshot: file };
        let installed = raft.install_full_snapshot(vote, snapshot).await;
        installed.map(|done| VoteRecord::from(&done.vote)).map_err(|e| e.to_string())
    };
    tokio::pin!(work);
    let mut alive = tokio::time::interval(ALIVE);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = alive.tick() => {
                // A sender that is gone does not stop the installing.
                let _ = wire.send(&Frame::new(Kind::SnapshotAlive, 0, Bytes::new())).await;
            }
        }
    }
}
