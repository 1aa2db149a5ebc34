//! `bench compare`: this master and another one, side by side on the same machine, as ratios.
//!
//! Both are started in turn, again and again, on one core, with the load on another; a value is the median of
//! the rounds. A scene that fails leaves its rows without a value and with the reason; nothing is made up.

mod calls;
mod events;
mod memory;
mod report;
pub mod rows;
mod stage;
mod starts;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use report::{CompareRow, Report, table};
pub use stage::Side;

use self::rows::{ROWS, RowSpec, Scene};
use self::stage::Stage;
use super::BenchError;
use super::cores::{self, Cores};
use super::progress::say;
use crate::clock::{Clock, SystemClock};

/// Rounds of a scene at most.
pub const ROUNDS_MAX: usize = 99;

/// What to compare, and how thoroughly.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// The command that starts this master. `{flags}` stands for the flags that a scene needs; without it they
    /// are appended. The rest as in [`super::server::Launch`].
    pub ours: String,
    /// The command that starts the other.
    pub peer: String,
    /// Rows to measure; empty for all.
    pub rows: Vec<String>,
    /// Objects of the smaller store.
    pub keys: u64,
    /// Objects of the larger store.
    pub objects: u64,
    /// Time of one measurement of reads.
    pub time: Duration,
    /// Rounds of scenes on the smaller store.
    pub rounds: usize,
    /// Rounds of scenes on the larger store.
    pub rounds_large: usize,
    /// How long a probe looks before something happens.
    pub quiet: Duration,
    /// No scene is begun after this; `None` for no limit.
    pub budget: Option<Duration>,
    /// The masters' `client_ttl`.
    pub client_ttl: Duration,
    /// Live clients where many are asked for.
    pub clients: usize,
    /// Segments of 64 GiB where large ones are asked for.
    pub large_segments: usize,
    /// Where server and load run; `None` leaves it to the system.
    pub cores: Option<Cores>,
}

impl CompareOptions {
    /// Every row, at the sizes that its target is stated for, medians of five.
    pub fn thorough(ours: String, peer: String) -> Self {
        CompareOptions {
            ours,
            peer,
            rows: Vec::new(),
            keys: 100_000,
            objects: 1_000_000,
            time: Duration::from_secs(2),
            rounds: 5,
            rounds_large: 5,
            quiet: Duration::from_secs(4),
            budget: None,
            client_ttl: Duration::from_secs(5),
            clients: 512,
            large_segments: 16,
            cores: None,
        }
    }

    /// Every row in less than eight minutes.
    pub fn quick(ours: String, peer: String) -> Self {
        CompareOptions {
            time: Duration::from_millis(600),
            rounds: 2,
            rounds_large: 1,
            quiet: Duration::from_secs(2),
            // A scene on the larger store takes up to forty seconds more.
            budget: Some(Duration::from_secs(420)),
            client_ttl: Duration::from_secs(3),
            ..CompareOptions::thorough(ours, peer)
        }
    }

    /// The rows asked for with those they lean on.
    ///
    /// Errors: there is no such row.
    fn wanted(&self) -> Result<BTreeSet<&'static str>, BenchError> {
        if self.rows.is_empty() {
            return Ok(ROWS.iter().map(|row| row.name).collect());
        }
        let mut wanted = BTreeSet::new();
        for name in &self.rows {
            let unknown = || {
                let names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
                BenchError::Usage(format!("no row {name:?}; there are {}", names.join(", ")))
            };
            let row = rows::find(name).ok_or_else(unknown)?;
            wanted.insert(row.name);
            wanted.extend(row.beside.into_iter().chain(row.less));
        }
        Ok(wanted)
    }
}

/// Compares.
///
/// Errors: the options make no sense. What fails on a master is in the report.
pub async fn compare(options: &CompareOptions) -> Result<Report, BenchError> {
    let wanted = options.wanted()?;
    if let Some(cores) = options.cores {
        cores::bind(cores.load)?;
    }
    let clock = Arc::new(SystemClock::default());
    let began = clock.monotonic();
    let mut stage = Stage::new(options, wanted, Arc::clone(&clock));
    for scene in Scene::ALL {
        let rounds = if scene.is_large() { options.rounds_large } else { options.rounds };
        for round in 1..=rounds.clamp(1, ROUNDS_MAX) {
            for side in sides(scene) {
                let took = clock.monotonic().saturating_sub(began);
                if !stage.is_wanted(scene, side) {
                    continue;
                }
                if options.budget.is_some_and(|budget| took > budget) {
                    stage.failed(scene, *side, round, "the time of --quick was over");
                    continue;
                }
                say(&format!(
                    "{:>4} s: {scene:?}, {}, round {round} of {rounds}",
                    took.as_secs(),
                    side.name()
                ));
                if let Err(error) = play(&mut stage, scene, side).await {
                    say(&format!("  {error}"));
                    stage.failed(scene, *side, round, &error.to_string());
                }
            }
        }
    }
    let seconds = clock.monotonic().saturating_sub(began).as_secs_f64();
    let asked = |row: &&RowSpec| {
        options.rows.is_empty() || options.rows.iter().any(|name| name == row.name)
    };
    Ok(Report::of(&stage, ROWS.iter().filter(asked), seconds))
}

/// Whom a scene is played for, in order: the reads beside writes need the other's maximum first.
fn sides(scene: Scene) -> &'static [Side] {
    match scene {
        Scene::SyncCalls => &[Side::Ours],
        Scene::Writing => &[Side::Peer, Side::Ours],
        _ => &[Side::Ours, Side::Peer],
    }
}

async fn play(stage: &mut Stage<'_>, scene: Scene, side: &Side) -> Result<(), BenchError> {
    match scene {
        Scene::Calls => calls::calls(stage, *side).await,
        Scene::SyncCalls => calls::sync_calls(stage).await,
        Scene::Clients => calls::many_clients(stage, *side).await,
        Scene::Writing => calls::reads_beside_writes(stage, *side).await,
        Scene::Million => memory::million(stage, *side).await,
        Scene::LongKeys => memory::long_keys(stage, *side, "rss-100").await,
        Scene::LongPins => memory::long_keys(stage, *side, "rss-pin-100").await,
        Scene::Evict => events::evict(stage, *side).await,
        Scene::OwnerDies => events::owner_dies(stage, *side).await,
        Scene::Pins => events::pins(stage, *side).await,
        Scene::Mount => starts::mounts(stage, *side).await,
        Scene::Snapshot => starts::snapshot(stage, *side).await,
        Scene::ColdStart => starts::cold_start(stage, *side).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_brings_those_that_it_leans_on_and_an_unknown_one_is_named() {
        let mut options = CompareOptions::quick(String::new(), String::new());
        assert_eq!(options.wanted().unwrap().len(), ROWS.len());
        options.rows = vec!["put-cpu-sync".into()];
        assert_eq!(Vec::from_iter(options.wanted().unwrap()), ["put-cpu", "put-cpu-sync"]);
        options.rows = vec!["speed".into()];
        let error = options.wanted().unwrap_err().to_string();
        assert!(error.contains("speed") && error.contains("get-cpu"), "{error}");
    }
}
