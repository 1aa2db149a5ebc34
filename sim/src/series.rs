//! Many seeds, each in a process of its own, and what is printed of them.

use std::backtrace::Backtrace;
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mooncake_ha::clock::{Clock, SystemClock};
use parking_lot::Mutex;

use crate::outcome::{Counts, Outcome};
use crate::{Args, FOUND, PLANTS};

/// Findings printed of one run.
const SHOWN_MAX: usize = 5;
/// A run that takes longer in real time hangs.
const RUN_MAX: Duration = Duration::from_secs(120);
/// How often processes are looked after.
const LOOK: Duration = Duration::from_millis(2);
/// Processes at a time at most.
const JOBS_MAX: usize = 64;

/// Collects the words of every panic of this process.
pub fn count_panics() -> Arc<Mutex<Vec<String>>> {
    let panics: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&panics);
    std::panic::set_hook(Box::new(move |info| {
        eprintln!("panic: {info}\n{}", Backtrace::capture());
        kept.lock().push(format!("panic: {info}"));
    }));
    panics
}

/// Prints one run.
pub fn print_one(outcome: &Outcome, is_json: bool) {
    if is_json {
        println!("{}", serde_json::to_string(outcome).unwrap_or_default());
        return;
    }
    println!("seed {}: digest {}", outcome.seed, outcome.digest);
    print_counts(&outcome.counts);
    for finding in outcome.findings.iter().take(SHOWN_MAX) {
        println!("FOUND {finding}");
    }
}

fn print_counts(counts: &Counts) {
    let Counts { seeds, simulated_ms, entries, events, .. } = counts;
    let faults: Vec<String> =
        counts.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    println!(
        "{seeds} seeds, {} s simulated, {entries} entries applied, {events} events",
        simulated_ms / 1_000
    );
    println!("faults: {}", faults.join(", "));
    println!(
        "checked: {} calls ({} of unknown outcome) on {} keys ({} undecided), {} states walked, {} images \
         compared, {} pins, {} places, {} placements and removals against leases ({} of them void)",
        counts.answered + counts.unknown,
        counts.unknown,
        counts.keys,
        counts.undecided,
        counts.walked,
        counts.images,
        counts.pins,
        counts.places,
        counts.promises,
        counts.void_promises
    );
}

/// How the run of a seed is repeated.
fn again(args: &Args, seed: u64) -> Vec<String> {
    let mut words = vec!["--seed".to_owned(), seed.to_string()];
    words.extend(["--chaos".to_owned(), args.chaos.to_string()]);
    if let Some(nodes) = args.nodes {
        words.extend(["--nodes".to_owned(), nodes.to_string()]);
    }
    if let Some(plant) = args.plant {
        let name = PLANTS.iter().find(|(_, known)| *known == plant).map(|(name, _)| *name);
        words.extend(["--plant".to_owned(), name.unwrap_or_default().to_owned()]);
    }
    words
}

struct Job {
    seed: u64,
    child: Child,
    since: Duration,
}

/// Runs seeds until the time is over or one finds something.
pub fn run(args: &Args) -> ExitCode {
    let clock = SystemClock::default();
    let limit = Duration::from_secs(args.seconds.unwrap_or(0));
    let mut next = args.seed.unwrap_or(1);
    let (mut jobs, mut counts, mut failed) = (Vec::new(), Counts::default(), Vec::new());
    loop {
        let is_going_on = clock.monotonic() < limit && failed.is_empty();
        while is_going_on && jobs.len() < args.jobs.clamp(1, JOBS_MAX) {
            match spawn(args, next) {
                Ok(child) => jobs.push(Job { seed: next, child, since: clock.monotonic() }),
                Err(error) => {
                    eprintln!("no process can be started: {error}");
                    return ExitCode::from(FOUND);
                }
            }
            next += 1;
        }
        if jobs.is_empty() {
            break;
        }
        std::thread::sleep(LOOK);
        let mut running = Vec::new();
        for job in jobs {
            match finish(job, clock.monotonic()) {
                Ok(outcome) => {
                    counts.add(&outcome.counts);
                    if !outcome.findings.is_empty() {
                        failed.push(outcome);
                    }
                }
                Err(job) => running.push(job),
            }
        }
        jobs = running;
    }
    report(args, &counts, &failed)
}

fn report(args: &Args, counts: &Counts, failed: &[Outcome]) -> ExitCode {
    if args.json {
        let all = serde_json::json!({ "counts": counts, "failed": failed });
        println!("{all}");
    } else {
        print_counts(counts);
        for outcome in failed {
            for finding in outcome.findings.iter().take(SHOWN_MAX) {
                println!("FOUND seed {}: {finding}", outcome.seed);
            }
            println!("repeat: mooncake-ha-sim {}", again(args, outcome.seed).join(" "));
        }
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) }
}

fn spawn(args: &Args, seed: u64) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(again(args, seed))
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
}

/// The outcome of a job, or the job if it still runs.
fn finish(mut job: Job, now: Duration) -> Result<Outcome, Job> {
    let is_over = matches!(job.child.try_wait(), Ok(Some(_)) | Err(_));
    let is_late = now.saturating_sub(job.since) > RUN_MAX;
    if !is_over && !is_late {
        return Err(job);
    }
    if is_late {
        // It may have ended just now.
        let _ = job.child.kill();
        let _ = job.child.wait();
    }
    let mut text = String::new();
    let read = job.child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut text));
    let parsed = read.and_then(Result::ok).and_then(|_| serde_json::from_str(&text).ok());
    Ok(parsed.unwrap_or_else(|| {
        let why = if is_late { "the run hangs" } else { "the run died" };
        Outcome { findings: vec![why.to_owned()], ..Outcome::died(job.seed) }
    }))
}
