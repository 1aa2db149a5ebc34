//! A relay in front of each node that can cut links one way, as a network that swallows packets.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Which links swallow what is sent over them, and what was sent.
#[derive(Default, Clone)]
pub struct Links {
    cut: Arc<Mutex<BTreeSet<(u64, u64)>>>,
    /// Bytes relayed towards each node, all together.
    pub relayed: Arc<AtomicU64>,
    /// Changes one byte of the next large piece of a message.
    pub spoils: Arc<AtomicBool>,
    /// Has the connection of the next large piece stand still for ever, unnoticed by either end.
    pub stalls: Arc<AtomicBool>,
}

/// Only raft snapshots and large entries come in such pieces.
const LARGE: usize = 32 << 10;

impl Links {
    pub fn cut(&self, from: u64, to: u64) {
        self.cut.lock().insert((from, to));
    }

    pub fn isolate(&self, node: u64, others: &[u64]) {
        for other in others {
            self.cut(node, *other);
            self.cut(*other, node);
        }
    }

    pub fn heal(&self) {
        self.cut.lock().clear();
    }

    fn is_cut(&self, from: u64, to: u64) -> bool {
        self.cut.lock().contains(&(from, to))
    }
}

/// Relays connections to node `to`, which listens on `target`.
pub async fn relay(listener: TcpListener, target: SocketAddr, to: u64, links: Links) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(pair(client, target, to, links.clone()));
    }
}

async fn pair(mut client: TcpStream, target: SocketAddr, to: u64, links: Links) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    // The server speaks first, then the client says who it is: `from` follows 24 bytes of frame
    // head, 4 of version and the cluster id with its length.
    let mut buffer = vec![0; 4096];
    let Ok(first) = server.read(&mut buffer).await else { return };
    if client.write_all(&buffer[..first]).await.is_err() {
        return;
    }
    let Ok(size) = client.read(&mut buffer).await else { return };
    if size < 24 + 12 {
        return;
    }
    let name = u64::from_le_bytes(buffer[28..36].try_into().unwrap()) as usize;
    let at = 36 + name;
    if size < at + 8 {
        return;
    }
    let from = u64::from_le_bytes(buffer[at..at + 8].try_into().unwrap());
    while links.is_cut(from, to) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if server.write_all(&buffer[..size]).await.is_err() {
        return;
    }
    let (client_reader, client_writer) = client.into_split();
    let (server_reader, server_writer) = server.into_split();
    let there = pump(client_reader, server_writer, from, to, links.clone());
    let back = pump(server_reader, client_writer, to, from, links);
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

async fn pump(
    mut reader: impl AsyncReadExt + Unpin,
    mut writer: impl AsyncWriteExt + Unpin,
    from: u64,
    to: u64,
    links: Links,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(size) = reader.read(&mut buffer).await else { return };
        if size == 0 {
            return;
        }
        if links.is_cut(from, to) {
            // What was swallowed leaves a hole: the connection dies when the link heals.
            while links.is_cut(from, to) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            return;
        }
        if size >= LARGE && links.spoils.swap(false, Ordering::Relaxed) {
            buffer[size / 2] ^= 1;
        }
        if size >= LARGE && links.stalls.swap(false, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        links.relayed.fetch_add(size as u64, Ordering::Relaxed);
        if writer.write_all(&buffer[..size]).await.is_err() {
            return;
        }
    }
}
