//! The store that a load works on: clients with memory that nobody has, kept alive, and the keys put so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::BenchError;
use super::campaign::Campaign;
use super::drive::Mix;
use super::keys::Dice;
use super::progress::say;
use super::work::{Operation, WorkShape};
use crate::clock::SystemClock;
use crate::model::ids::{ClientId, SegmentId, Uuid};
use crate::rpc::client::RpcClient;
use crate::wire::calls::{ExistKey, MountSegment, Ping, ReMountSegment, UnmountSegment};
use crate::wire::requests::{
    KeyRequest, MountSegmentRequest, ReMountSegmentRequest, UnmountSegmentRequest,
};
use crate::wire::types::{ClientStatus, Segment};

/// Between two heartbeats of a client; the stock client's.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// Address of the first segment; the others follow.
const FIRST_BASE: u64 = 1 << 40;

/// How keys are put before a measurement: fast on any master.
const LOAD_BATCH: usize = 128;
const LOAD_CONNECTIONS: usize = 4;
const LOAD_DEPTH: usize = 2;

/// A load's time limit; every key is put long before.
const LOAD_TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

/// An unmount may take as long as it takes to drop the objects.
const UNMOUNT_TIME_MAX: Duration = Duration::from_secs(180);

/// Which keys exist. Reads take any of those that were loaded; writes take new ones in order.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Keys below were loaded and stay.
    loaded: AtomicU64,
    /// The next key to put.
    put_next: AtomicU64,
    /// No key from here on is put.
    put_end: AtomicU64,
    /// The next key to remove; all below are gone or were loaded.
    remove_next: AtomicU64,
    /// The next key to upsert.
    upsert_next: AtomicU64,
}

impl Numbers {
    /// Numbers for a unit; `None` when they are used up.
    pub fn take(&self, operation: Operation, batch: usize, dice: &mut Dice) -> Option<Vec<u64>> {
        let loaded = self.loaded.load(Ordering::Relaxed);
        let many = batch as u64;
        match operation {
            Operation::Ready => Some(vec![0]),
            Operation::Exist | Operation::Get => {
                Some((0..batch).map(|_| dice.below(loaded)).collect())
            }
            Operation::Upsert => {
                let first = self.upsert_next.fetch_add(many, Ordering::Relaxed);
                Some((first..first + many).map(|number| number % loaded.max(1)).collect())
            }
            Operation::Put => take(&self.put_next, self.put_end.load(Ordering::Relaxed), many),
            Operation::Remove => {
                take(&self.remove_next, self.put_next.load(Ordering::Relaxed), many)
            }
        }
    }

    /// Keys that were loaded.
    pub fn loaded(&self) -> u64 {
        self.loaded.load(Ordering::Relaxed)
    }

    /// Keys that were put after the load and not removed.
    pub fn fresh(&self) -> u64 {
        let put = self.put_next.load(Ordering::Relaxed);
        put.saturating_sub(self.remove_next.load(Ordering::Relaxed))
    }

    /// Spares the next `count` of them: they are not removed any more.
    pub fn spare(&self, count: u64) {
        self.remove_next.fetch_add(count, Ordering::Relaxed);
    }

    /// Lets puts take this many keys more.
    pub fn allow_puts(&self, count: u64) {
        self.put_end.store(self.put_next.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// Makes what was put since the last time keys to read, which are not removed.
    pub fn keep(&self) {
        let put = self.put_next.load(Ordering::Relaxed);
        self.loaded.store(put, Ordering::Relaxed);
        self.remove_next.store(put, Ordering::Relaxed);
    }
}

fn take(next: &AtomicU64, end: u64, many: u64) -> Option<Vec<u64>> {
    let step = |first: u64| (first < end).then(|| (first + many).min(end));
    let first = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()?;
    Some((first..(first + many).min(end)).collect())
}

/// What to set up.
#[derive(Clone, Debug)]
pub struct StoreShape {
    /// Clients that own the segments in turns.
    pub clients: usize,
    /// Segments.
    pub segments: usize,
    /// Bytes of each.
    pub segment_bytes: u64,
}

impl StoreShape {
    /// Room for `objects` of `value_bytes` with some to spare, in `segments` segments of `clients` clients.
    pub fn for_objects(clients: usize, segments: usize, objects: u64, value_bytes: u64) -> Self {
        const GRAIN: u64 = 64 << 20;
        let each = value_bytes.next_multiple_of(64).max(64);
        let wanted = objects.saturating_mul(each).saturating_mul(3) / 2;
        let bytes = (wanted / segments.max(1) as u64).next_multiple_of(GRAIN).max(GRAIN);
        StoreShape { clients, segments, segment_bytes: bytes }
    }
}

/// A client of the load with its segments.
#[derive(Clone, Debug)]
pub struct BenchClient {
    /// Its id.
    pub id: ClientId,
    /// What it mounted.
    pub segments: Vec<Segment<Vec<u8>>>,
}

impl BenchClient {
    fn borrowed(&self) -> Vec<Segment<&[u8]>> {
        self.segments.iter().map(borrow).collect()
    }
}

fn borrow(segment: &Segment<Vec<u8>>) -> Segment<&[u8]> {
    Segment {
        id: segment.id,
        name: &segment.name,
        base: segment.base,
        size: segment.size,
        te_endpoint: &segment.te_endpoint,
        protocol: &segment.protocol,
        host_id: &segment.host_id,
    }
}

/// Clients that are alive for as long as this lives.
#[derive(Debug)]
pub struct Store {
    /// Of the master.
    pub address: String,
    /// The clients.
    pub clients: Vec<BenchClient>,
    /// The keys.
    pub numbers: Arc<Numbers>,
    heartbeats: Option<tokio::task::AbortHandle>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.fall_silent();
    }
}

impl Store {
    /// Mounts the segments and keeps their clients alive. `first` tells stores on one master apart.
    ///
    /// Errors: the master cannot be reached or refuses a segment.
    pub async fn open(address: &str, shape: &StoreShape, first: u64) -> Result<Self, BenchError> {
        let client = connect(address).await?;
        let mut clients: Vec<BenchClient> =
            (0..shape.clients.max(1)).map(|_| new_client()).collect();
        let count = clients.len();
        for at in 0..shape.segments {
            let segment = new_segment(first + at as u64, shape.segment_bytes);
            let Some(owner) = clients.get_mut(at % count) else { break };
            mount(&client, owner.id, &segment).await?;
            owner.segments.push(segment);
        }
        heartbeat(&client, &clients).await?;
        let heartbeats = tokio::spawn(stay_alive(client, clients.clone()));
        Ok(Store {
            address: address.to_owned(),
            clients,
            numbers: Arc::default(),
            heartbeats: Some(heartbeats.abort_handle()),
        })
    }

    /// The clients' ids.
    pub fn ids(&self) -> Vec<ClientId> {
        self.clients.iter().map(|client| client.id).collect()
    }

    /// Ends the heartbeats: to the master all clients of this store are dead from now on.
    pub fn fall_silent(&mut self) {
        if let Some(heartbeats) = self.heartbeats.take() {
            heartbeats.abort();
        }
    }

    /// Takes every segment away from the master, and with it all objects on it.
    ///
    /// Errors: the master cannot be reached or refuses.
    pub async fn unmount(&self) -> Result<(), BenchError> {
        let client = connect(&self.address).await?.with_timeout(UNMOUNT_TIME_MAX);
        for (owner, segment) in self
            .clients
            .iter()
            .flat_map(|one| one.segments.iter().map(move |segment| (one.id, segment.id)))
        {
            let request = UnmountSegmentRequest { segment_id: segment, client_id: owner };
            let lost = |error| BenchError::Call { call: "UnmountSegment", error };
            let answer = client.call::<UnmountSegment>(&request).await.map_err(lost)?;
            answer.map_err(|code| BenchError::Refused {
                what: "an unmount".into(),
                why: code.to_string(),
            })?;
        }
        Ok(())
    }

    /// Puts `count` new keys.
    ///
    /// Errors: as a campaign's; some keys were refused.
    pub async fn load(
        &self,
        shape: &WorkShape,
        count: u64,
        clock: &Arc<SystemClock>,
    ) -> Result<Duration, BenchError> {
        self.numbers.allow_puts(count);
        let shape = WorkShape { batch: LOAD_BATCH, ..shape.clone() };
        let campaign = Campaign {
            what: "keys put".to_owned(),
            mix: Mix::only(Operation::Put),
            shape: Arc::new(shape),
            numbers: Arc::clone(&self.numbers),
            clients: self.ids(),
            connections: LOAD_CONNECTIONS,
            depth: LOAD_DEPTH,
            rate: None,
            time: LOAD_TIME_MAX,
            total: Some(count),
        };
        let outcome = campaign.run(&self.address, clock).await?;
        match outcome.tally.failed() {
            0 => Ok(outcome.elapsed),
            failed => Err(BenchError::Refused {
                what: format!("{failed} of {count} puts"),
                why: outcome.tally.iter().map(|(_, tally)| tally.failure_text()).collect(),
            }),
        }
    }
}

/// A connection for single calls. Errors: the master cannot be reached.
pub async fn connect(address: &str) -> Result<RpcClient, BenchError> {
    let lost = |error| BenchError::Call { call: "connecting", error };
    RpcClient::connect(address).await.map_err(lost)
}

/// Whether a master answers that it has a key.
pub async fn is_known(address: &str, key: &[u8]) -> bool {
    let Ok(client) = connect(address).await else { return false };
    let request = KeyRequest { key, tenant_id: b"default" };
    matches!(client.call::<ExistKey>(&request).await, Ok(Ok(true)))
}

/// Mounts a segment. Errors: the master cannot be reached or refuses it.
pub async fn mount(
    client: &RpcClient,
    owner: ClientId,
    segment: &Segment<Vec<u8>>,
) -> Result<(), BenchError> {
    let request = MountSegmentRequest { segment: borrow(segment), client_id: owner };
    let answer = client.call::<MountSegment>(&request).await;
    let answer = answer.map_err(|error| BenchError::Call { call: "MountSegment", error })?;
    answer.map_err(|code| BenchError::Refused {
        what: format!("a segment of {} bytes", segment.size),
        why: code.to_string(),
    })
}

/// A client that the master does not know yet.
pub fn new_client() -> BenchClient {
    let id = ClientId(Uuid { first: rand::random(), second: rand::random() });
    BenchClient { id, segments: Vec::new() }
}

/// A segment with the address, name and place of its number.
pub fn new_segment(number: u64, size: u64) -> Segment<Vec<u8>> {
    let name = format!("bench-host-{number}:12345").into_bytes();
    Segment {
        id: SegmentId(Uuid { first: rand::random(), second: rand::random() }),
        te_endpoint: name.clone(),
        name,
        base: FIRST_BASE + number * size.next_power_of_two(),
        size,
        protocol: b"tcp".to_vec(),
        host_id: Vec::new(),
    }
}

async fn stay_alive(client: RpcClient, clients: Vec<BenchClient>) {
    let mut ticks = tokio::time::interval(HEARTBEAT_EVERY);
    loop {
        ticks.tick().await;
        if let Err(error) = heartbeat(&client, &clients).await {
            return say(&format!("the heartbeats have ended: {error}"));
        }
    }
}

/// One heartbeat of each client; those whom the master does not know mount again.
async fn heartbeat(client: &RpcClient, clients: &[BenchClient]) -> Result<(), BenchError> {
    for each in clients {
        let lost = |error| BenchError::Call { call: "Ping", error };
        let answer = client.call::<Ping>(&each.id).await.map_err(lost)?;
        if answer.is_ok_and(|answer| answer.client_status == ClientStatus::NEED_REMOUNT) {
            let request = ReMountSegmentRequest { segments: each.borrowed(), client_id: each.id };
            let lost = |error| BenchError::Call { call: "ReMountSegment", error };
            // A refusal is repeated with the next heartbeat, as the stock client does.
            let _ = client.call::<ReMountSegment>(&request).await.map_err(lost)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_take_each_number_once_and_removals_only_what_was_put() {
        let numbers = Numbers::default();
        let mut dice = Dice::new(1);
        numbers.allow_puts(5);
        assert_eq!(numbers.take(Operation::Remove, 2, &mut dice), None);
        assert_eq!(numbers.take(Operation::Put, 3, &mut dice), Some(vec![0, 1, 2]));
        assert_eq!(numbers.take(Operation::Put, 3, &mut dice), Some(vec![3, 4]));
        assert_eq!(numbers.take(Operation::Put, 3, &mut dice), None);
        assert_eq!(numbers.take(Operation::Remove, 9, &mut dice), Some(vec![0, 1, 2, 3, 4]));
        numbers.keep();
        assert_eq!((numbers.loaded(), numbers.fresh()), (5, 0));
        numbers.allow_puts(1);
        assert_eq!(numbers.take(Operation::Put, 3, &mut dice), Some(vec![5]));
    }

    #[test]
    fn a_store_for_objects_has_room_for_them_with_some_to_spare() {
        let shape = StoreShape::for_objects(1, 16, 1_000_000, 1_000);
        assert!(shape.segment_bytes * 16 > 1_000_000 * 1_024);
        assert_eq!(shape.segment_bytes % 4_096, 0);
    }
}
