//! Three nodes, each in a namespace of its own, with clients in a fourth and, if wanted, beside a node.
//!
//! The clients, the eyes and the judgement are those of `mooncake-ha drill`; the network is real.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mooncake_ha::drill::admin::AdminPort;
use mooncake_ha::drill::checks::{Gone, Looked, check_keys, check_pins, check_places};
use mooncake_ha::drill::finding::Findings;
use mooncake_ha::drill::history::{ClientHistory, ClientNo, Outcome};
use mooncake_ha::drill::load::{Doors, Load, LoadPlan, Shared, read_all};
use mooncake_ha::drill::moment::{Moment, Stopwatch};
use mooncake_ha::drill::process::NodeProcess;
use mooncake_ha::drill::watch::{NodeState, Watch, shared_terms};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::net::{self, Net, Rule, address};

const NODES: usize = 3;
/// The place of the clients.
pub const CLIENTS: usize = 3;

const RPC_PORT: u16 = 50051;
const RAFT_PORT: u16 = 50061;
const ADMIN_PORT: u16 = 9003;

/// Longest wait for what should take a second or two; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(40);
const LOOK_STEP: Duration = Duration::from_millis(50);

/// Keys that there must be before anything is broken.
const KEYS_FIRST: usize = 60;

/// Clients beside a node.
struct Crowd {
    stop: oneshot::Sender<()>,
    work: JoinHandle<Vec<ClientHistory>>,
}

/// A running cluster with clients at work.
pub struct Trial {
    // In the order in which they must go: clients, nodes, network, directory.
    load: Option<Load>,
    crowds: Vec<Crowd>,
    watch: Watch,
    runtime: Runtime,
    _nodes: Vec<NodeProcess>,
    admins: Vec<AdminPort>,
    doors: Doors,
    shared: Shared,
    plan: LoadPlan,
    net: Net,
    _dir: TempDir,
}

impl Trial {
    /// Starts nodes and clients and waits until there is something to lose; `None` where that cannot be.
    pub fn start() -> Option<Self> {
        let net = Net::start(NODES + 1)?;
        let dir = TempDir::new().unwrap();
        let mut nodes: Vec<NodeProcess> = (0..NODES).map(|at| node(&net, at, &dir)).collect();
        nodes.iter_mut().for_each(|node| node.start().unwrap());
        net.enter(CLIENTS);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let at = |port: u16| (0..NODES).map(move |node| format!("{}:{port}", address(node)));
        let admins: Vec<AdminPort> =
            at(ADMIN_PORT).map(|address| AdminPort::new(&address)).collect();
        let doors = Doors::new(at(RPC_PORT).collect());
        let shared = Shared::new(Stopwatch::default());
        let plan = LoadPlan { writers: 3, ..LoadPlan::new("net") };
        let (load, watch) = runtime.block_on(async {
            let load = Load::start(&plan, &doors, &shared);
            let watch = Watch::start(&admins, &plan.run, shared.stopwatch.clone(), None);
            (Some(load), watch)
        });
        let crowds = Vec::new();
        let trial = Trial {
            load,
            crowds,
            watch,
            runtime,
            _nodes: nodes,
            admins,
            doors,
            shared,
            plan,
            net,
            _dir: dir,
        };
        trial.until("there are keys", async || trial.shared.board.len() >= KEYS_FIRST);
        Some(trial)
    }

    /// Lets clients work.
    pub fn pass(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    fn until(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        self.runtime.block_on(async {
            let start = self.shared.stopwatch.now();
            while !condition().await {
                assert!(!self.shared.stopwatch.is_over(start, PATIENCE), "not in time: {what}");
                tokio::time::sleep(LOOK_STEP).await;
            }
        });
    }

    /// The node that serves, once one other than `not` does.
    pub fn leader_but(&self, not: Option<usize>) -> usize {
        let mut leader = None;
        self.until("a node serves", async || {
            for at in (0..NODES).filter(|at| Some(*at) != not) {
                let health = self.admins[at].health().await;
                if health.is_some_and(|health| health.service_ready) {
                    leader = Some(at);
                }
            }
            leader.is_some()
        });
        leader.unwrap()
    }

    /// Clients in the namespace of a node, who know no other.
    pub fn crowd_beside(&mut self, node: usize) {
        let place = self.net.name(node);
        let (stop, stopped) = oneshot::channel();
        let shared = self.shared.clone();
        let first = 100;
        let plan = LoadPlan { first, writers: 2, has_readers: true, ..self.plan.clone() };
        let work = thread::spawn(move || {
            net::enter(&place);
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let doors = Doors::new(vec![format!("127.0.0.1:{RPC_PORT}")]);
                let mut load = Load::start(&plan, &doors, &shared);
                stopped.await.unwrap();
                let mut histories = load.stop().await;
                load.end(&mut histories).await;
                histories
            })
        });
        self.crowds.push(Crowd { stop, work });
    }

    /// Now, for a later question to the verdict.
    pub fn now(&self) -> Moment {
        self.shared.stopwatch.now()
    }

    /// Replaces the rules of the network.
    pub fn rules(&mut self, rules: &[Rule]) {
        self.net.set(rules);
    }

    /// Makes the network whole; answers when.
    pub fn heal(&mut self) -> Moment {
        self.net.set(&[]);
        self.shared.stopwatch.now()
    }

    /// Waits until every client that may go to any node, or sits beside one, has an answer again; answers how many
    /// milliseconds after `healed` that was.
    pub fn everybody_is_served(&self, healed: Moment) -> u64 {
        self.until("nobody waits", async || {
            let pulse = self.shared.pulse.now(self.shared.stopwatch.now());
            pulse.waiting == 0 && pulse.clients > 0
        });
        let ms = self.shared.stopwatch.now().since(healed) / 1000;
        println!("nobody waits after {ms} ms");
        ms
    }

    /// Stops everybody, reads everything once more and judges; answers what is left to be asked.
    pub fn judge(mut self) -> Verdict {
        let mut load = self.load.take().unwrap();
        let mut clients = self.runtime.block_on(load.stop());
        for crowd in self.crowds.drain(..) {
            crowd.stop.send(()).unwrap();
            clients.extend(crowd.work.join().unwrap());
        }
        let keys = self.shared.board.all();
        let last = ClientNo(u32::MAX);
        let looking = read_all(last, &keys, &self.plan.run, &self.doors, &self.shared);
        let last = self.runtime.block_on(looking);
        assert_eq!(last.reads.len(), keys.len(), "every key is answered in the end");
        clients.push(last);
        self.runtime.block_on(load.end(&mut clients));
        let seen = self.watch.stop();
        let run = &self.plan.run;
        let (mut looked, mut findings) = (Looked::default(), Findings::default());
        check_keys(&clients, &Gone::default(), run, &mut looked, &mut findings);
        check_places(&clients, run, &mut findings);
        check_pins(&clients, &seen.pins, &Gone::default(), true, run, &mut looked, &mut findings);
        let findings: Vec<String> = findings.told().iter().map(|f| f.what.clone()).collect();
        assert_eq!(findings, Vec::<String>::new());
        assert_eq!(shared_terms(&seen.nodes, &[]), [], "no two nodes led in one term");
        for client in &clients {
            assert_eq!(client.forgotten, [], "{} is known all the time", client.name);
        }
        assert!(looked.acknowledged > 50 && looked.reads > 50 && looked.pins > 5, "{looked:?}");
        println!("{looked:?}");
        let terms = seen.nodes.iter().filter_map(|look| match look.state {
            NodeState::Serving { term } => term,
            NodeState::Silent | NodeState::Standby => None,
        });
        let terms = terms.collect::<std::collections::BTreeSet<u64>>().len();
        Verdict { clients, terms }
    }
}

/// What was seen, after it was found to be without fault.
pub struct Verdict {
    clients: Vec<ClientHistory>,
    /// Terms in which somebody led.
    pub terms: usize,
}

impl Verdict {
    /// Milliseconds from `at` to the first acknowledged write that was begun afterwards, of any client; none
    /// is a failure.
    pub fn write_after(&self, at: Moment) -> u64 {
        let writes = self.clients.iter().flat_map(|client| &client.writes);
        let good = writes.filter(|write| write.outcome == Outcome::Done && write.begun >= at);
        let first = good.map(|write| write.ended).min().expect("a write after that");
        let ms = first.since(at) / 1000;
        println!("first new write acknowledged after {ms} ms");
        ms
    }

    /// The same of the clients beside a node.
    pub fn crowd_write_after(&self, at: Moment) -> u64 {
        let crowd = self.clients.iter().filter(|client| (100..200).contains(&client.client.0));
        let writes = crowd.flat_map(|client| &client.writes);
        let good = writes.filter(|write| write.outcome == Outcome::Done && write.begun >= at);
        let first = good.map(|write| write.ended).min().expect("a write of theirs after that");
        let ms = first.since(at) / 1000;
        println!("first new write of theirs acknowledged after {ms} ms");
        ms
    }

    /// Acknowledged writes of the clients beside a node that were begun in that time.
    pub fn crowd_writes(&self, from: Moment, to: Moment) -> usize {
        let crowd = self.clients.iter().filter(|client| (100..200).contains(&client.client.0));
        let writes = crowd.flat_map(|client| &client.writes);
        let good = writes.filter(|write| write.outcome == Outcome::Done);
        good.filter(|write| write.begun >= from && write.ended <= to).count()
    }
}

fn node(net: &Net, at: usize, dir: &TempDir) -> NodeProcess {
    let peers = (0..NODES).map(|peer| format!("{}={}:{RAFT_PORT}", peer + 1, address(peer)));
    let mut command = net.run_at(at);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
    command.extend([
        program.to_str().unwrap().to_owned(),
        "serve".to_owned(),
        format!("--node_id={}", at + 1),
        format!("--peers={}", peers.collect::<Vec<_>>().join(",")),
        format!("--data_dir={}", dir.path().join(format!("data_{}", at + 1)).display()),
        format!("--rpc_port={RPC_PORT}"),
        format!("--metrics_port={ADMIN_PORT}"),
        "--default_kv_lease_ttl=500".to_owned(),
    ]);
    NodeProcess::new(command, dir.path().join(format!("node_{}.log", at + 1)))
}
