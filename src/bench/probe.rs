//! A user who looks all the time: one call after the other, and how long the longest took.
//!
//! Runs on a thread of its own, so that what this program does beside it is not measured. How late the thread
//! itself was woken is kept too: on a busy machine that is the floor of what a probe can see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

use super::BenchError;
use super::drive::Mix;
use super::keys::Dice;
use super::link::Link;
use super::report::millis;
use super::store::Numbers;
use super::work::{Operation, Step, Unit, WorkShape};
use crate::clock::{Clock, SystemClock};
use crate::model::ClientId;

/// Pause between two calls.
const PAUSE: Duration = Duration::from_millis(1);

/// What a probe saw.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Seen {
    /// The longest get, in milliseconds.
    pub get_max_ms: f64,
    /// The longest put: Start and End.
    pub put_max_ms: f64,
    /// The longest time that the probe itself was late.
    pub own_delay_max_ms: f64,
    /// Calls that failed, such as a put that found no room.
    pub failed: u64,
    /// Units.
    pub units: u64,
}

/// A probe at work.
#[derive(Debug)]
pub struct Probe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen, BenchError>>,
}

/// Where and as whom it calls.
#[derive(Clone, Debug)]
pub struct ProbeShape {
    /// Of the master.
    pub address: String,
    /// How its keys look; one key a call.
    pub shape: WorkShape,
    /// Its keys.
    pub numbers: Arc<Numbers>,
    /// On whose behalf it puts.
    pub client: ClientId,
}

impl Probe {
    /// Starts one. Errors: no thread can be started.
    pub fn start(shape: ProbeShape) -> Result<Self, BenchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("probe".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| BenchError::Internal(error.to_string()))?;
            runtime.block_on(look(shape, until))
        });
        let thread = thread.map_err(|error| BenchError::Internal(error.to_string()))?;
        Ok(Probe { stop, thread })
    }

    /// Ends it. Errors: its connection failed meanwhile.
    pub fn finish(self) -> Result<Seen, BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        let broken = |_| BenchError::Internal("the probe broke down".into());
        self.thread.join().map_err(broken)?
    }
}

async fn look(probe: ProbeShape, stop: Arc<AtomicBool>) -> Result<Seen, BenchError> {
    let address = probe.address.clone();
    let lost = |error| BenchError::Connection { address: address.clone(), error };
    let clock = SystemClock::default();
    let mut link = Link::connect(&probe.address).await.map_err(lost)?;
    let mut dice = Dice::new(1);
    let mix = Mix::new(vec![(Operation::Get, 3), (Operation::Put, 1)])?;
    let mut seen = Seen::default();
    let (mut get_max, mut put_max) = (Duration::ZERO, Duration::ZERO);
    let mut own_delay = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let before = clock.monotonic();
        tokio::time::sleep(PAUSE).await;
        let now = clock.monotonic();
        own_delay = own_delay.max(now.saturating_sub(before + PAUSE));
        let operation = mix.roll(&mut dice);
        let Some(numbers) = probe.numbers.take(operation, 1, &mut dice) else { break };
        let mut unit = Unit::new(operation, now, numbers, &probe.shape);
        let mut failed = Vec::new();
        loop {
            probe.shape.send(&unit, 0, probe.client, now, &mut link);
            link.flush().await.map_err(lost)?;
            let frame = loop {
                if let Some(frame) = link.next_answer().map_err(lost)? {
                    break frame;
                }
                link.receive().await.map_err(lost)?;
            };
            if probe.shape.judge(&mut unit, &frame, &mut failed)? == Step::Done {
                break;
            }
        }
        let took = clock.monotonic().saturating_sub(now);
        let longest = if operation == Operation::Get { &mut get_max } else { &mut put_max };
        *longest = took.max(*longest);
        seen.failed += failed.len() as u64;
        seen.units += 1;
    }
    seen.get_max_ms = millis(get_max);
    seen.put_max_ms = millis(put_max);
    seen.own_delay_max_ms = millis(own_delay);
    Ok(seen)
}
