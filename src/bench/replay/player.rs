//! The replay itself: requests come due, a connection each takes one, and what they saw is added up.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::trace::{Request, Requests};
use super::{CONNECTIONS_MAX, ReplayOptions, ReplayRow};
use crate::bench::BenchError;
use crate::bench::keys::KeyShape;
use crate::bench::link::Link;
use crate::bench::progress::Progress;
use crate::bench::report::Latency;
use crate::bench::server::Server;
use crate::clock::{Clock, SystemClock};
use crate::model::{ClientId, ErrorCode};
use crate::wire::calls::{BatchExistKey, BatchGetReplicaList, BatchPutEnd, BatchPutStart};
use crate::wire::requests::{BatchPutEndRequest, BatchPutStartRequest, KeysRequest};
use crate::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig, SoftPinAction};
use crate::wire::{Call, decode_response};

/// Requests that are due and wait for a connection at most; the trace is not read further meanwhile.
const WAITING_MAX: usize = 256;

/// Bytes of a block's key: a prefix and a number.
const KEY_BYTES: usize = 21;

/// The longest latency that is told apart from longer ones, in nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// The tenant of every key.
const TENANT: &[u8] = b"default";

/// A request and when it was due.
struct Due {
    at: Duration,
    request: Request,
}

/// What one connection saw.
#[derive(Clone, Debug, Default)]
struct Seen {
    requests: u64,
    blocks: u64,
    hit_blocks: u64,
    puts: u64,
    pinned_puts: u64,
    no_room: u64,
    raced: u64,
    failures: BTreeMap<i32, u64>,
    histograms: BTreeMap<&'static str, Histogram<u64>>,
}

/// What all connections need.
struct Play {
    address: String,
    client: ClientId,
    keys: KeyShape,
    shared: Option<HashSet<u64>>,
    pin_ttl: Duration,
    block_bytes: u64,
    clock: Arc<SystemClock>,
    done: Arc<AtomicU64>,
}

/// Plays the trace. Errors: as [`super::replay`].
pub async fn play(
    server: &Server,
    options: &ReplayOptions,
    client: ClientId,
    total: u64,
    shared: Option<HashSet<u64>>,
    clock: &Arc<SystemClock>,
) -> Result<ReplayRow, BenchError> {
    let pins = shared.is_some();
    let what = if pins { "requests, with pins" } else { "requests, without pins" };
    let progress = Progress::start(what.to_owned(), Some(total));
    let pin_ttl = match options.speed > 0.0 {
        true => options.pin_ttl.div_f64(options.speed).max(Duration::from_millis(1)),
        false => options.pin_ttl,
    };
    let play = Arc::new(Play {
        address: server.address.clone(),
        client,
        keys: KeyShape::new("block-", KEY_BYTES)?,
        shared,
        pin_ttl,
        block_bytes: options.block_bytes,
        clock: Arc::clone(clock),
        done: progress.counter(),
    });
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    let mut workers = JoinSet::new();
    for _ in 0..options.connections.clamp(1, CONNECTIONS_MAX) {
        workers.spawn(work(Arc::clone(&play), Arc::clone(&receiver)));
    }
    drop(receiver);
    let start = clock.monotonic();
    let fed = feed(options, sender, start, clock).await;
    let mut seen = Seen::default();
    while let Some(one) = workers.join_next().await {
        seen.add(one.map_err(|error| BenchError::Internal(error.to_string()))??)?;
    }
    fed?;
    Ok(seen.row(pins, clock.monotonic().saturating_sub(start)))
}

/// Hands requests out as they come due.
async fn feed(
    options: &ReplayOptions,
    sender: mpsc::Sender<Due>,
    start: Duration,
    clock: &SystemClock,
) -> Result<(), BenchError> {
    let mut requests = Requests::open(&options.trace, options.requests)?;
    while let Some(request) = requests.next()? {
        let at = match options.speed > 0.0 {
            true => start + Duration::from_secs_f64(request.timestamp / 1_000.0 / options.speed),
            false => clock.monotonic(),
        };
        let wait = at.saturating_sub(clock.monotonic());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        if sender.send(Due { at, request }).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// One connection: takes requests until there are no more.
async fn work(
    play: Arc<Play>,
    requests: Arc<Mutex<mpsc::Receiver<Due>>>,
) -> Result<Seen, BenchError> {
    let mut link = Link::connect(&play.address).await.map_err(|error| play.lost(error))?;
    let mut seen = Seen::default();
    loop {
        let due = requests.lock().await.recv().await;
        let Some(due) = due else { return Ok(seen) };
        play.request(&mut link, &due.request, &mut seen).await?;
        seen.took("request", play.clock.monotonic().saturating_sub(due.at))?;
        play.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Play {
    fn lost(&self, error: std::io::Error) -> BenchError {
        BenchError::Connection { address: self.address.clone(), error }
    }

    /// One call and its answer.
    async fn ask<C: Call>(
        &self,
        link: &mut Link,
        request: &C::Request<'_>,
    ) -> Result<C::Response, BenchError> {
        link.request::<C>(0, request);
        link.flush().await.map_err(|error| self.lost(error))?;
        loop {
            if let Some(frame) = link.next_answer().map_err(|error| self.lost(error))? {
                if frame.head.rpc_error != 0 {
                    return Err(BenchError::Rpc(frame.head.rpc_error));
                }
                return Ok(decode_response::<C>(frame.body())?);
            }
            link.receive().await.map_err(|error| self.lost(error))?;
        }
    }

    /// Which blocks are there, fetch the leading ones, put the others.
    async fn request(
        &self,
        link: &mut Link,
        request: &Request,
        seen: &mut Seen,
    ) -> Result<(), BenchError> {
        let mut unique = HashSet::new();
        let blocks = request.hash_ids.iter().copied().filter(|block| unique.insert(*block));
        let keys: Vec<(u64, Vec<u8>)> = blocks.map(|block| (block, self.keys.key(block))).collect();
        seen.requests += 1;
        seen.blocks += keys.len() as u64;
        if keys.is_empty() {
            return Ok(());
        }
        let began = self.clock.monotonic();
        let names = keys.iter().map(|(_, key)| key.as_slice()).collect();
        let ask = KeysRequest { keys: names, tenant_id: TENANT };
        let there = self.ask::<BatchExistKey>(link, &ask).await?;
        seen.took("exist", self.clock.monotonic().saturating_sub(began))?;
        let there: Vec<bool> = there.into_iter().map(|answer| answer.ok() == Some(true)).collect();
        let leading = there.iter().take_while(|there| **there).count();
        let hits = self.fetch(link, keys.get(..leading).unwrap_or_default(), seen).await?;
        seen.hit_blocks += hits;
        let absent = |(one, there): (&(u64, Vec<u8>), &bool)| (!there).then(|| one.clone());
        let missing: Vec<_> = keys.iter().zip(&there).filter_map(absent).collect();
        let is_shared = |block: &u64| self.shared.as_ref().is_some_and(|set| set.contains(block));
        let (pinned, plain): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|(block, _)| is_shared(block));
        self.put(link, &pinned, true, seen).await?;
        self.put(link, &plain, false, seen).await
    }

    /// Fetches the places of blocks; how many of the leading ones are still there.
    async fn fetch(
        &self,
        link: &mut Link,
        keys: &[(u64, Vec<u8>)],
        seen: &mut Seen,
    ) -> Result<u64, BenchError> {
        if keys.is_empty() {
            return Ok(0);
        }
        let began = self.clock.monotonic();
        let names = keys.iter().map(|(_, key)| key.as_slice()).collect();
        let ask = KeysRequest { keys: names, tenant_id: TENANT };
        let answers = self.ask::<BatchGetReplicaList>(link, &ask).await?;
        seen.took("get", self.clock.monotonic().saturating_sub(began))?;
        Ok(answers.into_iter().take_while(Result::is_ok).count() as u64)
    }

    async fn put(
        &self,
        link: &mut Link,
        keys: &[(u64, Vec<u8>)],
        pin: bool,
        seen: &mut Seen,
    ) -> Result<(), BenchError> {
        if keys.is_empty() {
            return Ok(());
        }
        let began = self.clock.monotonic();
        let ttl = u64::try_from(self.pin_ttl.as_millis()).unwrap_or(u64::MAX);
        let action = if pin { SoftPinAction::ENABLE } else { SoftPinAction::PRESERVE };
        let config = ReplicateConfig {
            replica_num: 1,
            soft_pin_action: action,
            soft_pin_ttl_ms: pin.then_some(ttl),
            ..ReplicateConfig::default()
        };
        let start = BatchPutStartRequest {
            client_id: self.client,
            keys: keys.iter().map(|(_, key)| key.as_slice()).collect(),
            slice_lengths: vec![self.block_bytes; keys.len()],
            config,
            tenant_id: TENANT,
        };
        let started = self.ask::<BatchPutStart>(link, &start).await?;
        let mut object_metas = Vec::new();
        for ((_, key), answer) in keys.iter().zip(started) {
            match answer {
                Ok(_) => {
                    object_metas.push(ObjectMeta { key: key.as_slice(), object_checksum: None })
                }
                Err(code) => seen.refused(code.0),
            }
        }
        if object_metas.is_empty() {
            return Ok(());
        }
        let (client_id, replica_type) = (self.client, ReplicaType::ALL);
        let end = BatchPutEndRequest { client_id, object_metas, replica_type, tenant_id: TENANT };
        let ended = self.ask::<BatchPutEnd>(link, &end).await?;
        seen.took("put", self.clock.monotonic().saturating_sub(began))?;
        for answer in ended {
            match answer {
                Ok(()) => seen.puts += 1,
                Err(code) => seen.refused(code.0),
            }
            seen.pinned_puts += u64::from(pin && answer.is_ok());
        }
        Ok(())
    }
}

impl Seen {
    fn refused(&mut self, code: i32) {
        match ErrorCode::from_number(code) {
            Some(ErrorCode::NoAvailableHandle) => self.no_room += 1,
            Some(ErrorCode::ObjectAlreadyExists) => self.raced += 1,
            _ => *self.failures.entry(code).or_default() += 1,
        }
    }

    fn took(&mut self, what: &'static str, time: Duration) -> Result<(), BenchError> {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.histogram(what)?.saturating_record(nanos);
        Ok(())
    }

    fn histogram(&mut self, what: &'static str) -> Result<&mut Histogram<u64>, BenchError> {
        use std::collections::btree_map::Entry;
        Ok(match self.histograms.entry(what) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let made = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3);
                entry.insert(made.map_err(|error| BenchError::Internal(error.to_string()))?)
            }
        })
    }

    fn add(&mut self, other: Seen) -> Result<(), BenchError> {
        self.requests += other.requests;
        self.blocks += other.blocks;
        self.hit_blocks += other.hit_blocks;
        self.puts += other.puts;
        self.pinned_puts += other.pinned_puts;
        self.no_room += other.no_room;
        self.raced += other.raced;
        for (code, count) in other.failures {
            *self.failures.entry(code).or_default() += count;
        }
        for (what, theirs) in other.histograms {
            let added = self.histogram(what)?.add(&theirs);
            added.map_err(|error| BenchError::Internal(error.to_string()))?;
        }
        Ok(())
    }

    fn row(self, pins: bool, took: Duration) -> ReplayRow {
        let name = |code: i32| match ErrorCode::from_number(code) {
            Some(code) => code.name().to_owned(),
            None => format!("code {code}"),
        };
        let histograms = self.histograms.iter();
        let latency = histograms.map(|(what, histogram)| (*what, Latency::of_histogram(histogram)));
        ReplayRow {
            pins,
            requests: self.requests,
            blocks: self.blocks,
            hit_blocks: self.hit_blocks,
            hit_rate: self.hit_blocks as f64 / self.blocks.max(1) as f64,
            puts: self.puts,
            pinned_puts: self.pinned_puts,
            no_room: self.no_room,
            raced: self.raced,
            seconds: took.as_secs_f64(),
            latency_us: latency.collect(),
            failures: self.failures.into_iter().map(|(code, n)| (name(code), n)).collect(),
        }
    }
}
