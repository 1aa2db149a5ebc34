//! One child process: started, signalled, started again, and never left behind.
//!
//! Output goes to a log file, whose end is printed when the test that owns the process fails.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::eventually::eventually;

const LOG_TAIL_LINES: usize = 60;

/// A program with its arguments; running or not.
pub struct Process {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Remembers what to run; `start` runs it.
    pub fn new(name: &str, program: PathBuf, args: Vec<String>, log: PathBuf) -> Self {
        Process { name: name.to_owned(), program, args, env: Vec::new(), log, child: None }
    }

    /// Variables that the program gets beside this process's own.
    pub fn set_env(&mut self, env: &[(String, String)]) {
        self.env = env.to_vec();
    }

    /// Starts the program. Output is appended to the log.
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "{} is already running", self.name);
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let child = Command::new(&self.program)
            .args(&self.args)
            .envs(self.env.clone())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot run {}: {e}", self.program.display()));
        self.child = Some(child);
    }

    /// The status if the process has ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().unwrap())
    }

    /// Sends a signal, and waits for nothing but SIGSTOP, whose threads run on for a moment on a busy machine.
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("a running process");
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
        if signal == Signal::SIGSTOP {
            stands_still(pid);
        }
    }

    /// Memory of the running process that is in the machine's.
    pub fn resident_bytes(&self) -> u64 {
        let child = self.child.as_ref().expect("a running process");
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// SIGKILL; returns when the process is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGTERM; returns the status when the process has ended by itself.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        let mut status = None;
        eventually(&format!("{} ends after SIGTERM", self.name), || {
            status = self.ended();
            status.is_some()
        });
        self.child = None;
        status.unwrap()
    }

    /// Everything the process has written so far.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            print_tail(&self.name, &self.log());
        }
    }
}

/// Waits until no thread of a child that was sent SIGSTOP runs any more.
pub fn stands_still(child: Pid) {
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
    eventually("every thread stands still", || {
        matches!(waitid(Id::Pid(child), flags), Ok(WaitStatus::Stopped(..)))
    });
}

/// Prints the end of a log to the failing test's output.
pub fn print_tail(name: &str, log: &str) {
    let lines: Vec<&str> = log.lines().collect();
    let from = lines.len().saturating_sub(LOG_TAIL_LINES);
    eprintln!("--- log of {name}, from line {} ---", from + 1);
    for line in &lines[from..] {
        eprintln!("{line}");
    }
}
