//! The loop of one connection: keeps units of work on their way and measures each from when it was due.
//!
//! Closed loop: a unit is due when the one before it in its place is done. Open loop: units are due at a fixed
//! rate, whatever the server does; what is late because the server was busy counts as latency. An open loop
//! looks again and again instead of sleeping, because timers are coarser than calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::BenchError;
use super::keys::Dice;
use super::link::Link;
use super::store::Numbers;
use super::tally::Tally;
use super::work::{Operation, Step, Unit, WorkShape};
use crate::clock::{Clock, SystemClock};
use crate::model::ClientId;

/// Units on one connection at most.
pub const DEPTH_MAX: usize = 4_096;

/// Shares of operations.
#[derive(Clone, Debug)]
pub struct Mix {
    shares: Vec<(Operation, u64)>,
    total: u64,
}

impl Mix {
    /// Operations with their shares. Errors: none has one.
    pub fn new(shares: Vec<(Operation, u64)>) -> Result<Self, BenchError> {
        let total = shares.iter().map(|(_, share)| share).sum();
        match total {
            0 => Err(BenchError::Usage("a mix needs an operation with a share over 0".into())),
            _ => Ok(Mix { shares, total }),
        }
    }

    /// Only this operation.
    pub fn only(operation: Operation) -> Self {
        Mix { shares: vec![(operation, 1)], total: 1 }
    }

    /// The operations in it.
    pub fn operations(&self) -> impl Iterator<Item = Operation> {
        self.shares.iter().filter(|(_, share)| *share > 0).map(|(operation, _)| *operation)
    }

    /// Picks an operation.
    pub fn roll(&self, dice: &mut Dice) -> Operation {
        let mut at = if self.shares.len() == 1 { 0 } else { dice.below(self.total) };
        for (operation, share) in &self.shares {
            if at < *share {
                return *operation;
            }
            at -= share;
        }
        Operation::Ready
    }
}

/// What one connection is to do.
#[derive(Debug)]
pub struct Task {
    /// What every unit has in common.
    pub shape: Arc<WorkShape>,
    /// Which operations.
    pub mix: Mix,
    /// Where keys come from.
    pub numbers: Arc<Numbers>,
    /// On whose behalf.
    pub client: ClientId,
    /// Units on their way.
    pub depth: usize,
    /// Time between two units of this connection; `None` for a closed loop.
    pub interval: Option<Duration>,
    /// When to begin, and to send nothing new.
    pub span: (Duration, Duration),
    /// For picking keys and operations.
    pub dice: Dice,
    /// Keys done so far, for people.
    pub done: Arc<AtomicU64>,
}

/// One connection at work.
struct Driver<'c> {
    task: Task,
    link: Link,
    clock: &'c SystemClock,
    slots: Vec<Option<Unit>>,
    free: Vec<u32>,
    next_due: Duration,
    /// No unit is to be begun any more.
    is_over: bool,
    tally: Tally,
    failed: Vec<i32>,
}

/// Works until the task's end or until its keys are used up.
///
/// Errors: the connection fails, or the server answers nonsense.
pub async fn drive(
    link: Link,
    task: Task,
    clock: &SystemClock,
    address: &str,
) -> Result<Tally, BenchError> {
    let lost = |error| BenchError::Connection { address: address.to_owned(), error };
    let depth = task.depth.clamp(1, DEPTH_MAX);
    let mut driver = Driver {
        next_due: task.span.0,
        task,
        link,
        clock,
        slots: vec![None; depth],
        free: (0..u32::try_from(depth).unwrap_or(1)).rev().collect(),
        is_over: false,
        tally: Tally::default(),
        failed: Vec::new(),
    };
    loop {
        driver.begin_due();
        driver.link.flush().await.map_err(lost)?;
        if driver.is_over && driver.free.len() == driver.slots.len() {
            return Ok(driver.tally);
        }
        match driver.task.interval {
            None => driver.link.receive().await.map_err(lost)?,
            Some(_) if driver.link.try_receive().map_err(lost)? => {}
            Some(_) => tokio::task::yield_now().await,
        }
        while let Some(frame) = driver.link.next_answer().map_err(lost)? {
            driver.take(&frame)?;
        }
    }
}

impl Driver<'_> {
    /// Begins every unit that is due and has a free place.
    fn begin_due(&mut self) {
        while !self.is_over && !self.free.is_empty() {
            let now = self.clock.monotonic();
            let due = if self.task.interval.is_some() { self.next_due } else { now };
            if due > now {
                return;
            }
            if due >= self.task.span.1 {
                self.is_over = true;
                return;
            }
            let task = &mut self.task;
            let operation = task.mix.roll(&mut task.dice);
            let batch = task.shape.batch;
            let Some(numbers) = task.numbers.take(operation, batch, &mut task.dice) else {
                self.is_over = true;
                return;
            };
            self.next_due += task.interval.unwrap_or_default();
            let Some(slot) = self.free.pop() else { return };
            let unit = Unit::new(operation, due, numbers, &task.shape);
            task.shape.send(&unit, slot, task.client, now, &mut self.link);
            if let Some(place) = self.slots.get_mut(slot as usize) {
                *place = Some(unit);
            }
        }
    }

    /// Takes an answer.
    fn take(&mut self, frame: &crate::rpc::client::ResponseFrame) -> Result<(), BenchError> {
        let slot = frame.head.sequence;
        let place = self.slots.get_mut(slot as usize);
        let unasked = || BenchError::Server(format!("an answer came to call {slot}, never made"));
        let place = place.ok_or_else(unasked)?;
        let unit = place.as_mut().ok_or_else(unasked)?;
        self.failed.clear();
        let keys = unit.numbers.len().max(1) as u64;
        let step = self.task.shape.judge(unit, frame, &mut self.failed)?;
        let operation = unit.operation;
        self.tally.answer(operation, &self.failed)?;
        let now = self.clock.monotonic();
        if step == Step::Again {
            self.task.shape.send(unit, slot, self.task.client, now, &mut self.link);
            return Ok(());
        }
        let latency = now.saturating_sub(unit.due);
        self.tally.finish(operation, latency, keys)?;
        self.task.done.fetch_add(keys, Ordering::Relaxed);
        *place = None;
        self.free.push(slot);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_rolls_each_operation_about_as_often_as_its_share_says() {
        let mix = Mix::new(vec![(Operation::Get, 3), (Operation::Put, 1)]).unwrap();
        let mut dice = Dice::new(7);
        let gets = (0..4_000).filter(|_| mix.roll(&mut dice) == Operation::Get).count();
        assert!((2_800..3_200).contains(&gets), "{gets}");
        assert!(Mix::new(vec![(Operation::Get, 0)]).is_err());
    }
}
