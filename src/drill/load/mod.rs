//! Clients as a master sees them: each mounts a segment, keeps pinging, puts, upserts, removes and reads.
//!
//! No byte of an object moves: there is no transfer engine in this program. A client notes instead where the
//! master told it to write, and a reader whether the master sends it to the same place. Guards that everything a
//! client saw is in its history, answered or not; what it means is left to `checks`.

mod caller;
mod heart;
mod pulse;
mod reader;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::SmallRng;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use caller::{Caller, Doors, Failure};
pub use pulse::{Pulse, PulseNow};
pub use reader::read_all;
pub use writer::remove_all;

use super::history::{ClientHistory, ClientNo, KeyNo};
use super::moment::{Moment, Stopwatch};
use crate::model::{ClientId, Uuid};

/// The name space of keys that clients use without multi-tenancy.
const TENANT: &[u8] = b"default";

/// How long a call waits before its client looks for another node.
pub const CALL_MAX: Duration = Duration::from_millis(2_000);
/// The same for readers that stay with one node: they must be back soon after it is.
pub const READ_MAX: Duration = Duration::from_millis(500);

/// Pause between two looks whether held writers are done.
const HOLD_LOOK: Duration = Duration::from_millis(10);

/// Keys of one drill; writers put no new ones beyond it.
pub const KEYS_MAX: usize = 50_000;

/// Shape of the traffic.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Names this run in every key and segment.
    pub run: String,
    /// Number of the first client; the others count on.
    pub first: u32,
    /// Clients that write and read.
    pub writers: u32,
    /// Whether one more client stays with each door and reads there only.
    pub has_readers: bool,
    /// Pause after every operation.
    pub pause: Duration,
    /// Bytes of each writer's segment; 0 mounts none.
    pub segment_bytes: u64,
    /// Whether objects are hard-pinned, so that eviction on a full store takes none.
    pub is_hard_pinned: bool,
    /// Keys of each writer at most; beyond, names of removed keys are used again. `None` is as many as it likes.
    pub keys_each_max: Option<u32>,
    /// Length of soft pins.
    pub pin_ttl_ms: u64,
}

impl LoadPlan {
    /// A few clients of a small store.
    pub fn new(run: &str) -> Self {
        LoadPlan {
            run: run.to_owned(),
            first: 0,
            writers: 4,
            has_readers: true,
            pause: Duration::from_millis(10),
            segment_bytes: 1 << 30,
            is_hard_pinned: false,
            keys_each_max: None,
            pin_ttl_ms: 3_600_000,
        }
    }
}

impl LoadPlan {
    /// Name and endpoint of a client's segment.
    pub fn segment_name(&self, client: u32) -> String {
        format!("drill-{}-{client}", self.run)
    }
}

/// Keys that somebody has written, for those who look for something to read.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Vec<KeyNo>>>);

impl Board {
    fn add(&self, key: KeyNo) {
        self.0.lock().push(key);
    }

    fn any(&self, dice: &mut SmallRng) -> Option<KeyNo> {
        let keys = self.0.lock();
        if keys.is_empty() {
            return None;
        }
        keys.get(dice.random_range(0..keys.len())).copied()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn all(&self) -> Vec<KeyNo> {
        self.0.lock().clone()
    }
}

/// What all clients of a drill share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// One clock for all.
    pub stopwatch: Stopwatch,
    /// Keys to read.
    pub board: Board,
    /// What goes on now.
    pub pulse: Arc<Pulse>,
    writers: Arc<Writers>,
}

/// Writers can be held for a while.
#[derive(Debug, Default)]
struct Writers {
    is_held: AtomicBool,
    /// Writers in the middle of an operation.
    busy: AtomicUsize,
}

impl Shared {
    /// Nothing was written yet.
    pub fn new(stopwatch: Stopwatch) -> Self {
        let (board, pulse, writers) = (Board::default(), Arc::default(), Arc::default());
        Shared { stopwatch, board, pulse, writers }
    }

    /// Lets writers finish what they do and begin nothing more, until they are released.
    pub async fn hold_writers(&self) {
        self.writers.is_held.store(true, Ordering::SeqCst);
        while self.writers.busy.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(HOLD_LOOK).await;
        }
    }

    /// Lets held writers go on.
    pub fn release_writers(&self) {
        self.writers.is_held.store(false, Ordering::SeqCst);
    }
}

/// Running clients.
#[derive(Debug)]
pub struct Load {
    stop: watch::Sender<bool>,
    rest: watch::Sender<bool>,
    clients: Vec<JoinHandle<ClientHistory>>,
    hearts: Vec<(ClientNo, JoinHandle<Vec<Moment>>)>,
}

impl Load {
    /// Starts the clients; they mount their segments by themselves.
    pub fn start(plan: &LoadPlan, doors: &Doors, shared: &Shared) -> Self {
        let (stop, stopping) = watch::channel(false);
        let (rest, resting) = watch::channel(false);
        let (mut clients, mut hearts) = (Vec::new(), Vec::new());
        let mut next = plan.first;
        let mut number = || {
            next += 1;
            ClientNo(next - 1)
        };
        for turn in 0..plan.writers as usize {
            let client = number();
            let caller = || Caller::new(doors.clone(), turn, false, CALL_MAX);
            let writer = writer::Writer::new(client, plan.clone(), shared.clone(), caller());
            clients.push(tokio::spawn(writer.run(stopping.clone())));
            let heart = heart::Heart::new(plan, client);
            let beating = heart.beat(caller(), shared.clone(), resting.clone());
            hearts.push((client, tokio::spawn(beating)));
        }
        for door in 0..if plan.has_readers { doors.len() } else { 0 } {
            let caller = Caller::new(doors.clone(), door, true, READ_MAX);
            let reader = reader::Reader::new(number(), door, plan, shared.clone(), caller);
            clients.push(tokio::spawn(reader.run(stopping.clone())));
        }
        Load { stop, rest, clients, hearts }
    }

    /// Lets every client finish the call it is in; answers what they saw. They live on, so that their memory stays.
    pub async fn stop(&mut self) -> Vec<ClientHistory> {
        self.stop.send_replace(true);
        let mut histories = Vec::new();
        for client in self.clients.drain(..) {
            // A client that panicked is a bug of the drill; its missing history shows in the numbers.
            histories.extend(client.await.ok());
        }
        histories
    }

    /// Ends the heartbeats, too; adds to the clients' histories what they were told.
    pub async fn end(self, histories: &mut [ClientHistory]) {
        self.rest.send_replace(true);
        for (client, heart) in self.hearts {
            let told = heart.await.unwrap_or_default();
            if let Some(history) = histories.iter_mut().find(|history| history.client == client) {
                history.forgotten = told;
            }
        }
    }
}

/// The id by which masters know a client: random enough to meet nobody else's, and the same all through a run.
fn client_id(run: &str, client: ClientNo) -> ClientId {
    ClientId(Uuid { first: fingerprint(run), second: u64::from(client.0) + 1 })
}

/// FNV-1a, for ids and seeds.
fn fingerprint(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Waits, unless the load is being stopped; answers whether it is.
async fn pause(time: Duration, stopping: &mut watch::Receiver<bool>) -> bool {
    let stopped = stopping.wait_for(|is_stopping| *is_stopping);
    tokio::time::timeout(time, stopped).await.is_ok()
}
