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
}

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
        let mut state = self.state.lock();
        state.digest = state.digest.wrapping_mul(31).wrapping_add(number).wrapping_add(index);
        state.added.insert(number, index);
        Ok(number)
    }

    fn freeze(&self) -> State {
        self.state()
    }

    fn save(frozen: State, to: &mut dyn Write) -> std::io::Result<()> {
        to.write_all(&frozen.digest.to_le_bytes())?;
        for (number, index) in &frozen.added {
            to.write_all(&number.to_le_bytes())?;
            to.write_all(&index.to_le_bytes())?;
        }
        Ok(())
    }

    fn load(&self, from: &mut dyn Read) -> Result<(), MachineError> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map_err(|e| MachineError::new(e.to_string()))?;
        let words: Vec<u64> =
            bytes.chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
        let (digest, rest) = words.split_first().ok_or(MachineError::new("empty"))?;
        let added = rest.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        *self.state.lock() = State { added, digest: *digest };
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
