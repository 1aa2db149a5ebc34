//! A node of this build with a discovery port, which can come back with another RPC port.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{Process, StockClient, eventually_within, free_port, venv};

const READY: Duration = Duration::from_secs(30);

/// A node with its directory.
pub struct Node {
    /// The discovery port, the same over restarts.
    pub port: u16,
    rpc: u16,
    runs: usize,
    dir: TempDir,
    process: Option<Process>,
}

impl Node {
    /// Starts a node in an empty directory and waits until it serves.
    pub fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let mut node = Node { port: free_port(), rpc: 0, runs: 0, dir, process: None };
        node.start_again();
        node
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.as_mut().unwrap().kill();
    }

    /// Starts the node on its data with an RPC port that it never had.
    pub fn start_again(&mut self) {
        self.rpc = free_port();
        self.runs += 1;
        let flag = format!("--discovery_port={}", self.port);
        let log = format!("run_{}.log", self.runs);
        let mut process = program(self.dir.path(), &log, &[&flag], self.rpc);
        process.start();
        self.process = Some(process);
        eventually_within(READY, "the node serves", || self.log().contains("serving clients"));
    }

    /// The one address at which this node's RPC port is open.
    pub fn rpc_address(&self) -> String {
        format!("127.0.0.1:{}", self.rpc)
    }

    /// The term that the node has led last.
    pub fn term(&self) -> u64 {
        let log = self.log();
        let (_, rest) = log.rsplit_once("leading term=").expect("a node that leads");
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn log(&self) -> String {
        self.process.as_ref().unwrap().log()
    }

    /// A client set up with `master` as its address; `None` if there is no stock client here.
    pub fn client(&self, name: &str, master: &str, segment_mib: u64) -> Option<StockClient> {
        let venv = venv::find()?;
        let mut client = StockClient::spawn(&venv, name, self.dir.path());
        let code = client.setup(master, segment_mib << 20);
        assert_eq!(code, 0, "setup of client {name} with {master}");
        Some(client)
    }
}

/// The program with its data and its log in `dir`; not running.
pub fn program(dir: &Path, log: &str, flags: &[&str], rpc: u16) -> Process {
    let mut args = vec!["serve".to_owned()];
    args.push(format!("--data_dir={}", dir.join("data").display()));
    args.push("--rpc_address=127.0.0.1".to_owned());
    args.push(format!("--rpc_port={rpc}"));
    args.push(format!("--metrics_port={}", free_port()));
    args.extend(flags.iter().map(|&flag| flag.to_owned()));
    let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
    Process::new("node", program, args, dir.join(log))
}
