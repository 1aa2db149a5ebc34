//! Clients at work on three nodes while a test does something to these, and what they saw afterwards.

use std::time::Duration;

use mooncake_ha::drill::checks::{Gone, Looked, check_keys, check_places};
use mooncake_ha::drill::finding::Findings;
use mooncake_ha::drill::history::ClientNo;
use mooncake_ha::drill::load::{Doors, Load, LoadPlan, Shared, read_all};
use mooncake_ha::drill::moment::Stopwatch;
use tokio::runtime::{Builder, Runtime};

use super::trio::Trio;
use crate::support::eventually_within;

/// Far longer than some hundred writes take on a busy machine.
const WRITTEN: Duration = Duration::from_secs(60);

/// The clients of a drill, on threads of their own.
pub struct Busy {
    // Dropped first: its tasks live on the runtime.
    load: Load,
    runtime: Runtime,
    doors: Doors,
    shared: Shared,
    plan: LoadPlan,
}

impl Busy {
    /// Starts clients that go to any of the three nodes.
    pub fn start(trio: &Trio) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let doors = Doors::new((0..3).map(|at| trio.plain(at)).collect());
        let shared = Shared::new(Stopwatch::default());
        let plan = LoadPlan { pause: Duration::from_millis(2), ..LoadPlan::new("busy") };
        let load = runtime.block_on(async { Load::start(&plan, &doors, &shared) });
        Busy { load, runtime, doors, shared, plan }
    }

    /// Clients that go to a node by its index go to another address from now on.
    pub fn send_to(&self, instead_of: usize, address: String) {
        self.doors.replace(instead_of, address);
    }

    /// Acknowledged writes so far.
    fn writes(&self) -> u64 {
        self.shared.pulse.now(self.shared.stopwatch.now()).writes
    }

    /// Waits until so many more writes are acknowledged.
    pub fn until_written(&self, more: u64) {
        let goal = self.writes() + more;
        eventually_within(WRITTEN, "clients write", || self.writes() >= goal);
    }

    /// Stops everybody, reads every key once more and judges; answers how much was looked at.
    pub fn judge(self) -> Looked {
        let Busy { mut load, runtime, doors, shared, plan } = self;
        let (mut looked, mut findings) = (Looked::default(), Findings::default());
        runtime.block_on(async {
            let mut clients = load.stop().await;
            let keys = shared.board.all();
            let last = read_all(ClientNo(u32::MAX), &keys, &plan.run, &doors, &shared).await;
            assert_eq!(last.reads.len(), keys.len(), "every key is answered in the end");
            clients.push(last);
            load.end(&mut clients).await;
            check_keys(&clients, &Gone::default(), &plan.run, &mut looked, &mut findings);
            check_places(&clients, &plan.run, &mut findings);
            for client in &clients {
                assert_eq!(client.forgotten, [], "{} is known all the time", client.name);
            }
        });
        let findings: Vec<String> = findings.told().iter().map(|f| f.what.clone()).collect();
        assert_eq!(findings, Vec::<String>::new());
        looked
    }
}
