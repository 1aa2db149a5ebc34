//! Three nodes as processes, with what an operator and a client know of them.
//!
//! Ports and directories stay the same over restarts. Nothing here chooses who leads: a test asks the
//! nodes, as an operator would.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::support::venv::{self, Venv};
use crate::support::{Http, Process, StockClient, eventually_within, free_port};

/// Longer than an election and a replay of a small log on a busy machine.
pub const ELECTED: Duration = Duration::from_secs(20);

struct Node {
    process: Process,
    rpc: u16,
    discovery: u16,
    http: Http,
}

/// Three nodes, some of which may be down.
pub struct Trio {
    nodes: Vec<Node>,
    /// The first three, as the nodes are told of them.
    peers: String,
    /// Where node 4 is reached by its peers, once there is one.
    pub joining: String,
    venv: Option<Venv>,
    dir: TempDir,
}

impl Trio {
    /// Starts three nodes and waits until one serves and the others follow it.
    pub fn start(flags: &[&str]) -> Self {
        let mut trio = Trio::prepare(flags);
        trio.start_all();
        trio.settled();
        trio
    }

    /// Starts the first three and waits for nothing.
    pub fn start_all(&mut self) {
        (0..3).for_each(|at| self.nodes[at].process.start());
    }

    /// Three nodes that do not run yet.
    pub fn prepare(flags: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let raft: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let peers = raft.iter().zip(1..).map(|(port, id)| format!("{id}=127.0.0.1:{port}"));
        let peers = peers.collect::<Vec<_>>().join(",");
        let nodes = (1..=3).map(|id| node(id, &peers, &dir, flags)).collect();
        let joining = String::new();
        Trio { nodes, peers, joining, venv: venv::find(), dir }
    }

    /// The node that serves, once one does.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        eventually_within(ELECTED, "a node serves", || {
            leader = (0..3).find(|&at| self.health(at).is_some_and(|h| h["service_ready"] == true));
            leader.is_some()
        });
        leader.unwrap()
    }

    /// A node that does not serve.
    pub fn follower(&self) -> usize {
        (self.leader() + 1) % 3
    }

    /// Waits until all three run and know the same leader; answers it.
    pub fn settled(&self) -> usize {
        eventually_within(ELECTED, "three nodes know one leader", || {
            let known: Vec<Json> = (0..3)
                .filter_map(|at| self.health(at))
                .map(|health| health["leader_address"].clone())
                .collect();
            known.len() == 3 && !known[0].is_null() && known.iter().all(|one| *one == known[0])
        });
        self.leader()
    }

    /// The version of the view that the leader tells.
    pub fn view_version(&self) -> i64 {
        self.health(self.leader()).unwrap()["view_version"].as_i64().unwrap()
    }

    fn health(&self, at: usize) -> Option<Json> {
        let (_, body) = self.nodes[at].http.try_get("/health")?;
        serde_json::from_str(&body).ok()
    }

    /// The admin server of a node.
    pub fn http(&self, at: usize) -> &Http {
        &self.nodes[at].http
    }

    /// Everything that a node has said.
    pub fn log(&self, at: usize) -> String {
        self.nodes[at].process.log()
    }

    /// The last entry in the state of a node.
    pub fn applied(&self, at: usize) -> Option<u64> {
        let (status, body) = self.http(at).try_get("/api/v1/cluster")?;
        let page: Json = serde_json::from_str(&body).ok()?;
        (status == 200).then(|| page["log"]["applied"].as_u64())?
    }

    /// Waits until a node has in its state what the leader has now.
    pub fn caught_up(&self, at: usize) {
        let goal = self.applied(self.leader()).unwrap();
        eventually_within(ELECTED, "the node catches up", || {
            self.applied(at).is_some_and(|applied| applied >= goal)
        });
    }

    /// SIGKILL.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at].process.kill();
    }

    /// Sends a signal and waits for nothing.
    pub fn signal(&self, at: usize, signal: Signal) {
        self.nodes[at].process.signal(signal);
    }

    /// SIGTERM; answers how the process ended.
    pub fn terminate(&mut self, at: usize) -> ExitStatus {
        self.nodes[at].process.terminate()
    }

    /// Starts a node that is down; waits for nothing.
    pub fn start_again(&mut self, at: usize) {
        self.nodes[at].process.start();
    }

    /// A metric of the leader that counts something.
    pub fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.http(self.leader()).get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in the metrics")).trim().parse().unwrap()
    }

    /// Kills the leader and starts it again; another one leads meanwhile.
    pub fn fail_over(&mut self) {
        let leader = self.leader();
        self.kill(leader);
        assert_ne!(self.leader(), leader);
        self.start_again(leader);
        self.settled();
    }

    /// Starts node 4, which knows the others and waits to be added; it takes part like the first three.
    pub fn start_joining(&mut self) -> usize {
        let port = free_port();
        let peers = format!("{},4=127.0.0.1:{port}", self.peers);
        let mut node = node(4, &peers, &self.dir, &["--join"]);
        node.process.start();
        self.nodes.push(node);
        self.joining = format!("127.0.0.1:{port}");
        self.nodes.len() - 1
    }

    /// Runs `mooncake-ha cluster` against a node's admin port: exit code, stdout, stderr.
    pub fn operate(&self, at: usize, args: &[&str], token: &str) -> (Option<i32>, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"))
            .arg("cluster")
            .args(args)
            .arg(format!("--admin={}", self.http(at).url("")))
            .env("MOONCAKE_HA_ADMIN_TOKEN", token)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// The plain address of one node.
    pub fn plain(&self, at: usize) -> String {
        format!("127.0.0.1:{}", self.nodes[at].rpc)
    }

    /// The address that names all nodes.
    pub fn etcd(&self) -> String {
        let ports = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.discovery));
        format!("etcd://{}", ports.collect::<Vec<_>>().join(";"))
    }

    /// A stock client set up with `master` as its address; `None` if there is none here.
    pub fn client(&self, name: &str, master: &str, segment_mib: u64) -> Option<StockClient> {
        let mut client = StockClient::spawn(self.venv.as_ref()?, name, self.dir.path());
        let code = client.setup(master, segment_mib << 20);
        assert_eq!(code, 0, "setup of client {name} with {master}");
        Some(client)
    }

    /// The same for a client of one tenant.
    pub fn client_of(&self, tenant: &str, master: &str, segment_mib: u64) -> Option<StockClient> {
        let mut client = StockClient::spawn(self.venv.as_ref()?, tenant, self.dir.path());
        let code = client.setup_as(tenant, master, segment_mib << 20);
        assert_eq!(code, 0, "setup of a client of {tenant} with {master}");
        Some(client)
    }

    /// The same for a client that has a disk, too, of one tenant if it is named.
    pub fn client_with_disk(
        &self,
        name: &str,
        tenant: Option<&str>,
        master: &str,
        segment_mib: u64,
    ) -> Option<StockClient> {
        let path = self.dir.path().join(format!("disk_{name}"));
        let mut client = StockClient::spawn_with_disk(self.venv.as_ref()?, name, self.dir.path());
        let code = client.setup_with_disk(tenant, master, segment_mib << 20, &path);
        assert_eq!(code, 0, "setup of client {name} with {master} and a disk");
        Some(client)
    }

    /// The same of release 0.3.12.
    pub fn old_client(&self, name: &str, master: &str, segment_mib: u64) -> Option<StockClient> {
        let mut client = StockClient::spawn(&venv::find_old()?, name, self.dir.path());
        let code = client.setup(master, segment_mib << 20);
        assert_eq!(code, 0, "setup of client {name} with {master}");
        Some(client)
    }

    /// What must outlive every failure, as the leader tells it.
    pub fn told(&self) -> Told {
        let http = self.http(self.leader());
        let page = http.json("/api/v1/soft_pins?limit=100000");
        let pins = page["pins"].as_array().unwrap();
        let pin = |pin: &Json| {
            (pin["key"].as_str().unwrap().to_owned(), pin["deadline_ms"].as_u64().unwrap())
        };
        let lines = |path| {
            let (status, text) = http.get(path);
            assert_eq!(status, 200, "{path}: {text}");
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        Told {
            pins: pins.iter().map(pin).collect(),
            segments: lines("/get_all_segments"),
            keys: lines("/get_all_keys"),
        }
    }
}

/// Deadlines, segments and keys of the store.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub pins: Vec<(String, u64)>,
    pub segments: Vec<String>,
    pub keys: Vec<String>,
}

fn node(id: usize, peers: &str, dir: &TempDir, flags: &[&str]) -> Node {
    let (rpc, admin, discovery) = (free_port(), free_port(), free_port());
    let mut args = vec!["serve".to_owned(), "--rpc_address=127.0.0.1".to_owned()];
    args.push(format!("--node_id={id}"));
    args.push(format!("--peers={peers}"));
    args.push(format!("--data_dir={}", dir.path().join(format!("data_{id}")).display()));
    args.push(format!("--rpc_port={rpc}"));
    args.push(format!("--metrics_port={admin}"));
    args.push(format!("--discovery_port={discovery}"));
    // A flag may name the node.
    args.extend(flags.iter().map(|flag| flag.replace("{node}", &id.to_string())));
    let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
    let log = dir.path().join(format!("node_{id}.log"));
    let process = Process::new(&format!("node {id}"), program, args, log);
    Node { process, rpc, discovery, http: Http::new(admin) }
}
