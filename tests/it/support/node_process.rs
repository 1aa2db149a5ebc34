//! `mooncake-ha serve` as a process, without a stock client or an admin port: ready when it says so.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::eventually::eventually;
use super::ports::free_port;
use super::process::Process;

const READY: &str = " ready: ";

/// A node on one port and one directory, through all its lives.
pub struct NodeProcess {
    process: Process,
    port: u16,
    lives: usize,
}

impl NodeProcess {
    /// Starts a node with its data in `data` and its log beside it in `dir`.
    pub fn start(dir: &Path, data: &Path, flags: &[&str]) -> Self {
        let port = free_port();
        let process = process("node", dir, data, port, flags);
        let mut node = NodeProcess { process, port, lives: 0 };
        node.start_again();
        node
    }

    /// Starts it again and waits until it serves.
    pub fn start_again(&mut self) {
        self.lives += 1;
        self.process.start();
        let (process, lives) = (&mut self.process, self.lives);
        eventually("the node serves", || {
            assert!(process.ended().is_none(), "{}", process.log());
            process.log().matches(READY).count() == lives
        });
    }

    /// Where clients connect.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGTERM; answers how the process ended.
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.terminate()
    }

    /// Waits until the node ends by itself.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let status = ended(&mut self.process);
        self.process.kill();
        status
    }

    /// Everything it has said.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

fn process(name: &str, dir: &Path, data: &Path, port: u16, flags: &[&str]) -> Process {
    let mut args = vec!["serve".to_owned(), format!("--data_dir={}", data.display())];
    args.extend(["--metrics_port=0", "--rpc_address=127.0.0.1"].map(str::to_owned));
    args.push(format!("--rpc_port={port}"));
    args.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
    Process::new(name, program, args, dir.join(format!("{name}-{port}.log")))
}

fn ended(process: &mut Process) -> ExitStatus {
    let mut status = None;
    eventually("the node ends by itself", || {
        status = process.ended();
        status.is_some()
    });
    status.unwrap()
}

/// Runs a node that is expected to give up: exit code and all it said.
pub fn last_words(dir: &Path, data: &Path, flags: &[&str]) -> (Option<i32>, String) {
    let mut process = process("refused", dir, data, free_port(), flags);
    process.start();
    (ended(&mut process).code(), process.log())
}
