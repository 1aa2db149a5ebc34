//! A machine to replicate, and waiting for conditions.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_ha_raft::{Config, Machine, MachineError, Node};
use parking_lot::Mutex;

/// Longest wait of `eventually`: generous, for machines shared with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts entries and remembers which numbers were added, so that loss, doubling and reordering
/// all show.
#[derive(Default)]
pub struct Counter {
    state: Mutex<State>,
}

#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Number added -> index of its entry.
    pub added: BTreeMap<u64, u64>,
    /// Chained over everything applied, in order.
    pub digest: u64,
    /// Bytes that a raft snapshot is made larger by.
    pub ballast: u64,
}

/// An entry that makes raft snapshots larger.
pub fn ballast(bytes: u64) -> bytes::Bytes {
    (BALLAST | bytes).to_le_bytes().to_vec().into()
}

/// A number that makes the machine panic.
pub const PANIC: u64 = 13 << 50;
const BALLAST: u64 = 1 << 63;

impl Counter {
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }

    pub fn has(&self, number: u64) -> bool {
        self.state.lock().added.contains_key(&number)
    }

    pub fn len(&self) -> usize {
        self.state.lock().added.len()
    }
}

/// An entry that adds a number, with padding of any size.
pub fn add(number: u64, padding: usize) -> bytes::Bytes {
    let mut entry = number.to_le_bytes().to_vec();
    entry.resize(8 + padding, 0xa5);
    entry.into()
}

impl Machine for Counter {
    type Reply = u64;
    type Frozen = State;

    fn apply(&self, index: u64, entry: &[u8]) -> Result<u64, MachineError> {
        let Some((number, _)) = entry.split_first_chunk::<8>() else {
            return Err(MachineError::new(format!("{} bytes", entry.len())));
        };
        let number = u64::from_le_bytes(*number);
        assert_ne!(number, PANIC, "asked to panic");
        let mut state = self.state.lock();
        state.digest = state.digest.wrapping_mul(31).wrapping_add(number).wrapping_add(index);
        if number & BALLAST == 0 {
            state.added.insert(number, index);
        } else {
            state.ballast = number & !BALLAST;
        }
        Ok(number)
    }

    fn freeze(&self) -> State {
        self.state()
    }

    fn save(frozen: State, to: &mut dyn Write) -> std::io::Result<()> {
        to.write_all(&frozen.digest.to_le_bytes())?;
        to.write_all(&frozen.ballast.to_le_bytes())?;
        std::io::copy(&mut std::io::repeat(7).take(frozen.ballast), to)?;
        for (number, index) in &frozen.added {
            to.write_all(&number.to_le_bytes())?;
            to.write_all(&index.to_le_bytes())?;
        }
        Ok(())
    }

    fn load(&self, from: &mut dyn Read) -> Result<(), MachineError> {
        let text = |e: std::io::Error| MachineError::new(e.to_string());
        let mut head = [0; 16];
        from.read_exact(&mut head).map_err(text)?;
        let digest = u64::from_le_bytes(head[..8].try_into().unwrap());
        let ballast = u64::from_le_bytes(head[8..].try_into().unwrap());
        std::io::copy(&mut from.take(ballast), &mut std::io::sink()).map_err(text)?;
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map_err(text)?;
        let words: Vec<u64> =
            bytes.chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
        let added = words.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        *self.state.lock() = State { added, digest, ballast };
        Ok(())
    }
}

/// A node with its machine.
pub struct Member {
    pub node: Node<Counter>,
    pub machine: Arc<Counter>,
}

impl Member {
    pub async fn open(config: Config) -> Self {
        Self::try_open(config).await.unwrap()
    }

    pub async fn try_open(config: Config) -> Result<Self, mooncake_ha_raft::OpenError> {
        let machine = Arc::new(Counter::default());
        let node = Node::open(config, Arc::clone(&machine)).await?;
        Ok(Self { node, machine })
    }

    pub async fn open_on(
        listener: tokio::net::TcpListener,
        config: Config,
    ) -> Result<Self, mooncake_ha_raft::OpenError> {
        let machine = Arc::new(Counter::default());
        let node = Node::open_on(Some(listener), config, Arc::clone(&machine)).await?;
        Ok(Self { node, machine })
    }

    pub async fn add(&self, number: u64) {
        assert_eq!(self.node.propose(add(number, 0)).await.unwrap(), number);
    }
}

pub fn single(dir: &Path) -> Config {
    Config::new(1, "test", dir)
}

/// Waits until `condition` holds.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "did not happen in {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
