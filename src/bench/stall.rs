//! `bench stall`: how long a call waits at most while something large happens.
//!
//! A store of many objects is loaded, a probe calls all the time, and then something happens to the objects
//! that the probe has nothing to do with. What the probe sees before it is the machine's own noise.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::BenchError;
use super::keys::KeyShape;
use super::probe::{Probe, ProbeShape, Seen};
use super::report::millis;
use super::server::{ProcessLook, Server};
use super::store::{Store, StoreShape, connect};
use super::work::{PinWish, WorkShape};
use crate::clock::{Clock, SystemClock};
use crate::wire::calls::RemoveByRegex;
use crate::wire::requests::RemoveByRegexRequest;

/// The probe looks this long before something happens, unless told otherwise.
pub const QUIET_DEFAULT: Duration = Duration::from_secs(4);

/// Between two looks at the server's counts.
const LOOK_STEP: Duration = Duration::from_millis(20);

/// What was started must be over in this time.
const OVER_MAX: Duration = Duration::from_secs(180);

/// Keys that the probe reads, and keys that it may put.
const PROBE_KEYS: u64 = 1_000;
const PROBE_PUTS: u64 = 1_000_000;

/// Keys that the probe may put meanwhile: so many may be left when all others are gone.
const SLACK_KEYS: u64 = 20_000;

/// The probe's memory, in parts of the objects' and at least and at most: so little that it hardly moves the
/// watermark, and enough for what a probe puts.
const PROBE_PART: u64 = 64;
const PROBE_BYTES_MIN: u64 = 256 << 10;
const PROBE_BYTES_MAX: u64 = 4 << 20;

/// Numbers of the segments of the probe and of the idle client, far from the store's.
const PROBE_SEGMENT: u64 = 4_000;
const IDLE_SEGMENT: u64 = 5_000;

/// Keys that one pattern removes.
const REGEX_KEYS: u64 = 100_000;

/// How full the store is before eviction is provoked, in thousandths: below the default watermark of both masters.
const FILLED: u64 = 885;

/// The default watermark of both masters, in tenths.
const WATERMARK_TENTHS: u64 = 9;

/// Steps of a thousandth of the objects by which it is filled until something is evicted.
const PROVOKE_STEPS_MAX: u32 = 100;

/// Bytes in use: the name is the peer's.
const ALLOCATED: &str = "master_allocated_bytes";

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The store is filled over the watermark, and five hundredths of it are evicted.
    Evict,
    /// The client that owns the memory of all objects dies.
    OwnerDies,
    /// A client with an empty segment dies.
    IdleDies,
    /// A hundred thousand keys are removed by a pattern.
    Regex,
    /// The one segment that holds all objects is unmounted.
    Unmount,
    /// The soft pins of all objects end at once.
    Pins,
    /// A catalog snapshot is taken.
    Snapshot,
    /// A raft snapshot is made.
    RaftSnapshot,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Scenario; 8] = [
        Scenario::Evict,
        Scenario::OwnerDies,
        Scenario::IdleDies,
        Scenario::Regex,
        Scenario::Unmount,
        Scenario::Pins,
        Scenario::Snapshot,
        Scenario::RaftSnapshot,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Evict => "evict",
            Scenario::OwnerDies => "owner-dies",
            Scenario::IdleDies => "idle-dies",
            Scenario::Regex => "regex",
            Scenario::Unmount => "unmount",
            Scenario::Pins => "pins",
            Scenario::Snapshot => "snapshot",
            Scenario::RaftSnapshot => "raft-snapshot",
        }
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Scenario::ALL.into_iter().find(|scenario| scenario.name() == text);
        let names = Scenario::ALL.map(Scenario::name).join(", ");
        found.ok_or_else(|| format!("no scenario {text:?}; there are {names}"))
    }
}

/// How large and on what.
#[derive(Clone, Debug)]
pub struct StallOptions {
    /// Objects in the store.
    pub objects: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of an object.
    pub value_bytes: u64,
    /// The server's `client_ttl`.
    pub client_ttl: Duration,
    /// How long the probe looks before something happens.
    pub quiet: Duration,
    /// When the pins of [`Scenario::Pins`] end, from the first put; `None` for a time that always suffices.
    pub pins_after: Option<Duration>,
}

impl StallOptions {
    fn pins_after(&self) -> Duration {
        self.pins_after.unwrap_or(Duration::from_secs(30 + self.objects / 20_000))
    }
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct StallRow {
    /// Which scenario.
    pub scenario: &'static str,
    /// Objects in the store.
    pub objects: u64,
    /// From the first sign of it to its end; an eviction's first sign is that the watermark is crossed.
    pub whole_ms: f64,
    /// CPU that the server spent from its cause to its end, the probe's calls included; `null` if its process
    /// is not known.
    pub server_cpu_ms: Option<f64>,
    /// The same without what the probe and this tool's looks cost in a quiet time of that length.
    pub server_cpu_net_ms: Option<f64>,
    /// Memory that each object took, before it happened.
    pub rss_bytes_per_object: Option<f64>,
    /// Before.
    pub quiet: Seen,
    /// Meanwhile.
    pub meanwhile: Seen,
}

/// The parts of a scenario.
struct Scene<'s> {
    server: &'s Server,
    clock: Arc<SystemClock>,
    options: &'s StallOptions,
    shape: WorkShape,
    owner: Store,
}

/// Plays one scenario on a fresh server.
///
/// Errors: by cause, see [`BenchError`].
pub async fn stall(
    server: &Server,
    scenario: Scenario,
    options: &StallOptions,
) -> Result<StallRow, BenchError> {
    let clock = Arc::new(SystemClock::default());
    let pins_end = clock.monotonic() + options.pins_after();
    let pin = if scenario == Scenario::Pins { PinWish::Until(pins_end) } else { PinWish::None };
    let shape = work_shape("bench-", options, pin)?;
    let owner = Store::open(&server.address, &store_shape(scenario, options), 0).await?;
    let empty = server.look()?;
    owner.load(&shape, options.objects, &clock).await?;
    let (probe_store, probe) = probe(server, options, &clock).await?;
    let mut scene = Scene { server, clock, options, shape, owner };
    let (quiet, quiet_cpu) = scene.look_quietly(probe.clone()).await?;
    let loaded = server.look()?;
    scene.prepare(scenario, pins_end).await?;
    let (before, began) = (server.look()?, scene.clock.monotonic());
    let running = Probe::start(probe)?;
    let whole = scene.play(scenario).await;
    let meanwhile = running.finish()?;
    let (after, ended) = (server.look()?, scene.clock.monotonic());
    drop(probe_store);
    let cpu = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
    let own = quiet_cpu.map(|share| ended.saturating_sub(began).mul_f64(share));
    let grown = |(empty, loaded): (ProcessLook, ProcessLook)| {
        loaded.rss_bytes as f64 - empty.rss_bytes as f64
    };
    Ok(StallRow {
        scenario: scenario.name(),
        objects: options.objects,
        whole_ms: millis(whole?),
        server_cpu_ms: cpu.map(millis),
        server_cpu_net_ms: cpu.zip(own).map(|(cpu, own)| millis(cpu.saturating_sub(own))),
        rss_bytes_per_object: empty.zip(loaded).map(|both| grown(both) / options.objects as f64),
        quiet,
        meanwhile,
    })
}

fn work_shape(prefix: &str, options: &StallOptions, pin: PinWish) -> Result<WorkShape, BenchError> {
    Ok(WorkShape {
        keys: KeyShape::new(prefix, options.key_bytes)?,
        batch: 1,
        is_always_batch: false,
        value_bytes: options.value_bytes,
        replicas: 1,
        pin,
        group_size: 0,
    })
}

fn store_shape(scenario: Scenario, options: &StallOptions) -> StoreShape {
    let StallOptions { objects, value_bytes, .. } = *options;
    match scenario {
        Scenario::Evict => {
            let bytes = objects * value_bytes * 1_000 / FILLED;
            StoreShape {
                clients: 1,
                segments: 16,
                segment_bytes: (bytes / 16).next_multiple_of(4_096),
            }
        }
        Scenario::Unmount => StoreShape::for_objects(1, 1, objects, value_bytes),
        _ => StoreShape::for_objects(1, 16, objects, value_bytes),
    }
}

/// A store of the probe's own.
async fn probe(
    server: &Server,
    options: &StallOptions,
    clock: &Arc<SystemClock>,
) -> Result<(Store, ProbeShape), BenchError> {
    let part = options.objects.saturating_mul(options.value_bytes) / PROBE_PART;
    let bytes = part.clamp(PROBE_BYTES_MIN, PROBE_BYTES_MAX).next_multiple_of(4_096);
    let shape = StoreShape { clients: 1, segments: 1, segment_bytes: bytes };
    let store = Store::open(&server.address, &shape, PROBE_SEGMENT).await?;
    let options = StallOptions { value_bytes: 64, ..options.clone() };
    let shape = work_shape("probe-", &options, PinWish::None)?;
    store.load(&shape, PROBE_KEYS, clock).await?;
    store.numbers.keep();
    store.numbers.allow_puts(PROBE_PUTS);
    let client = store.ids().first().copied().unwrap_or_default();
    let numbers = Arc::clone(&store.numbers);
    let probe = ProbeShape { address: server.address.clone(), shape, numbers, client };
    Ok((store, probe))
}

impl Scene<'_> {
    /// What the probe sees while nothing happens but this tool's own looks, and the share of a core that the
    /// server spends on both.
    async fn look_quietly(&self, probe: ProbeShape) -> Result<(Seen, Option<f64>), BenchError> {
        let (before, began) = (self.server.look()?, self.clock.monotonic());
        let probe = Probe::start(probe)?;
        loop {
            self.gauge("master_key_count").await?;
            if self.clock.monotonic().saturating_sub(began) >= self.options.quiet {
                break;
            }
            tokio::time::sleep(LOOK_STEP).await;
        }
        let seen = probe.finish()?;
        let (after, ended) = (self.server.look()?, self.clock.monotonic());
        let took = ended.saturating_sub(began).as_secs_f64().max(1e-9);
        let cpu = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        Ok((seen, cpu.map(|cpu| cpu.as_secs_f64() / took)))
    }

    /// What must be so before the clock runs.
    async fn prepare(&mut self, scenario: Scenario, pins_end: Duration) -> Result<(), BenchError> {
        if scenario == Scenario::Pins {
            let wait = pins_end.saturating_sub(self.clock.monotonic());
            if wait.is_zero() {
                let why = "the pins ended before all of them were put; take fewer objects";
                return Err(BenchError::TooLong(why.into()));
            }
            tokio::time::sleep(wait.saturating_sub(Duration::from_secs(1))).await;
        }
        Ok(())
    }

    /// Makes it happen and waits until it is over; the time that it took.
    async fn play(&mut self, scenario: Scenario) -> Result<Duration, BenchError> {
        let (objects, keys) = (self.options.objects, "master_key_count");
        match scenario {
            Scenario::Evict => {
                let gone = (objects / 20 - objects / 200) * self.options.value_bytes;
                // Together: the pass may be over before the last key is put.
                let total = self.gauge("master_total_capacity_bytes").await?;
                let crossed = total / 10 * WATERMARK_TENTHS;
                let evicted = self.wait_for_fall(ALLOCATED, gone, crossed);
                tokio::try_join!(self.provoke_eviction(), evicted).map(|((), fell)| fell)
            }
            Scenario::OwnerDies => {
                self.owner.fall_silent();
                self.wait_for_fall(keys, objects - SLACK_KEYS.min(objects / 10), u64::MAX).await
            }
            Scenario::IdleDies => {
                let shape = StoreShape { clients: 1, segments: 1, segment_bytes: 64 << 20 };
                let mut idle = Store::open(&self.server.address, &shape, IDLE_SEGMENT).await?;
                idle.fall_silent();
                let total = "master_total_capacity_bytes";
                self.wait_for_fall(total, shape.segment_bytes, u64::MAX).await
            }
            Scenario::Regex => self.remove_by_regex().await,
            Scenario::Unmount => self.unmount().await,
            Scenario::Pins => {
                self.wait_for_fall("master_soft_pin_key_count", objects, u64::MAX).await
            }
            Scenario::Snapshot => self.post("/api/v1/snapshots").await,
            Scenario::RaftSnapshot => self.post("/api/v1/cluster/snapshot").await,
        }
    }

    /// Puts a little at a time until something is evicted.
    async fn provoke_eviction(&self) -> Result<(), BenchError> {
        let step = (self.options.objects / 1_000).max(1);
        let mut before = 0;
        for _ in 0..PROVOKE_STEPS_MAX {
            self.owner.load(&self.shape, step, &self.clock).await?;
            let allocated = self.gauge(ALLOCATED).await?;
            if allocated < before {
                return Ok(());
            }
            before = allocated;
        }
        Err(BenchError::TooLong("nothing is evicted; is the watermark 0.9?".into()))
    }

    async fn remove_by_regex(&self) -> Result<Duration, BenchError> {
        let client = connect(&self.server.address).await?.with_timeout(OVER_MAX);
        let pattern = format!("^bench-0*[0-9]{{{}}}$", REGEX_KEYS.ilog10());
        let wanted = REGEX_KEYS.min(self.options.objects);
        let (regex, tenant_id) = (pattern.as_bytes(), b"default".as_slice());
        let request = RemoveByRegexRequest { regex, force: false, tenant_id };
        let start = self.clock.monotonic();
        let lost = |error| BenchError::Call { call: "RemoveByRegex", error };
        let answer = client.call::<RemoveByRegex>(&request).await.map_err(lost)?;
        match answer {
            Ok(removed) if u64::try_from(removed) == Ok(wanted) => {
                Ok(self.clock.monotonic().saturating_sub(start))
            }
            Ok(removed) => Err(BenchError::Server(format!("{removed} of {wanted} keys went"))),
            Err(code) => {
                Err(BenchError::Refused { what: format!("{pattern:?}"), why: code.to_string() })
            }
        }
    }

    async fn unmount(&self) -> Result<Duration, BenchError> {
        let (keys, objects) = ("master_key_count", self.options.objects);
        let left = self.gauge(keys).await?.saturating_sub(objects) + SLACK_KEYS.min(objects / 10);
        let start = self.clock.monotonic();
        self.owner.unmount().await?;
        self.wait_until(keys, left).await?;
        Ok(self.clock.monotonic().saturating_sub(start))
    }

    async fn post(&self, path: &str) -> Result<Duration, BenchError> {
        let start = self.clock.monotonic();
        self.server.page("POST", path).await?;
        Ok(self.clock.monotonic().saturating_sub(start))
    }

    async fn gauge(&self, name: &'static str) -> Result<u64, BenchError> {
        self.server.gauge(name).await
    }

    /// Waits until a gauge has fallen by `amount`; the time since it was first seen above `sign`, or else last seen
    /// at its height: too long by one look at most, never too short.
    async fn wait_for_fall(
        &self,
        name: &'static str,
        amount: u64,
        sign: u64,
    ) -> Result<Duration, BenchError> {
        let began = self.clock.monotonic();
        let (mut highest, mut crossed, mut height) = (0, None, began);
        while self.clock.monotonic().saturating_sub(began) < OVER_MAX + self.options.client_ttl {
            let value = self.gauge(name).await?;
            let now = self.clock.monotonic();
            if value > sign {
                crossed.get_or_insert(now);
            }
            if value >= highest {
                (highest, height) = (value, now);
            } else if highest - value >= amount {
                return Ok(now.saturating_sub(crossed.unwrap_or(height)));
            }
            tokio::time::sleep(LOOK_STEP).await;
        }
        Err(BenchError::TooLong(format!("{name} did not fall by {amount} in {OVER_MAX:?}")))
    }

    async fn wait_until(&self, name: &'static str, limit: u64) -> Result<(), BenchError> {
        let began = self.clock.monotonic();
        while self.clock.monotonic().saturating_sub(began) < OVER_MAX {
            if self.gauge(name).await? <= limit {
                return Ok(());
            }
            tokio::time::sleep(LOOK_STEP).await;
        }
        Err(BenchError::TooLong(format!("{name} did not fall to {limit} in {OVER_MAX:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_found_by_its_name() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.name().parse(), Ok(scenario));
        }
        assert!("sleep".parse::<Scenario>().is_err());
    }
}
