//! The machine that a node runs on: its clocks, its disks, its place in the network.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mooncake_ha_raft::{Disk, MemoryLog, ReadHalf, Surroundings, WriteHalf};
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::SmallRng;

use crate::chance;
use crate::disk::MemoryDisk;
use crate::net::{Host, Net, RAFT};
use crate::time::NodeClock;

/// Longest time that a healthy disk takes for a group of writes, in ms.
const WRITE_MS_MAX: u64 = 3;

/// See the file's head.
pub struct Hardware {
    /// Its name in the network.
    pub host: Host,
    /// Its clocks.
    pub clock: Arc<NodeClock>,
    /// Files.
    pub disk: MemoryDisk,
    /// The log.
    pub log: MemoryLog,
    /// The network.
    pub net: Net,
    /// Milliseconds that each write takes longer than it should.
    pub slow_ms: AtomicU64,
    /// A planted bug; see [`Surroundings::is_gate_skipped`].
    pub skips_gate: AtomicBool,
    /// Dice for disk times and for what survives a crash.
    pub dice: Mutex<SmallRng>,
}

impl Hardware {
    /// A machine with empty disks. `incarnation` tells it from those of that name before it.
    pub fn new(seed: u64, host: Host, net: &Net, clock: Arc<NodeClock>, incarnation: u64) -> Self {
        let dice = chance::dice(seed, 1_000 + u64::from(host) + (incarnation << 20));
        Hardware {
            host,
            clock,
            disk: MemoryDisk::default(),
            log: Default::default(),
            net: net.clone(),
            slow_ms: Default::default(),
            skips_gate: Default::default(),
            dice: Mutex::new(dice),
        }
    }

    /// The node is gone: what it has not brought to the disk may be lost.
    pub fn crash(&self, is_power_cut: bool) {
        let mut dice = self.dice.lock();
        self.log.crash(is_power_cut, |least, most| dice.random_range(least..=most));
        if is_power_cut {
            self.disk.cut(&mut dice);
        }
    }

    /// Whether nothing can be written.
    pub fn set_full(&self, is_full: bool) {
        self.disk.set_full(is_full);
        self.log.set_full(is_full);
    }

    /// Whether nothing can be read.
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.disk.set_unreadable(is_unreadable);
        self.log.set_unreadable(is_unreadable);
    }
}

type Connecting =
    std::pin::Pin<Box<dyn Future<Output = io::Result<(ReadHalf, WriteHalf)>> + Send + 'static>>;

impl Surroundings for Hardware {
    fn boot_ns(&self) -> u64 {
        self.clock.boot_ns()
    }

    fn monotonic_ns(&self) -> u64 {
        self.clock.boot_ns()
    }

    fn wall_ns(&self) -> u64 {
        self.clock.wall_ns()
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    fn log(&self) -> MemoryLog {
        self.log.clone()
    }

    fn log_write_time(&self) -> Duration {
        let healthy = self.dice.lock().random_range(0..=WRITE_MS_MAX);
        Duration::from_millis(healthy + self.slow_ms.load(Ordering::Relaxed))
    }

    fn connect(&self, addr: &str) -> Connecting {
        Box::pin(self.net.clone().connect(self.host, addr.to_owned()))
    }

    fn accept(&self) -> Connecting {
        Box::pin(self.net.clone().accept(self.host, RAFT))
    }

    fn is_gate_skipped(&self) -> bool {
        self.skips_gate.load(Ordering::Relaxed)
    }
}
