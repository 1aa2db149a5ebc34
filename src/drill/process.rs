//! One node as a process of its own: started, signalled, started again, and never left behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::config::ENV_PREFIX;

/// How long a node may take to end after SIGTERM: it hands over, lingers and closes its log.
const STOP_MAX: Duration = Duration::from_secs(30);
const STOP_LOOK: Duration = Duration::from_millis(20);

/// A node's command and, while it runs, its process. Dropped, it is killed.
#[derive(Debug)]
pub struct NodeProcess {
    command: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl NodeProcess {
    /// Remembers the command, program first; output will be appended to `log`.
    pub fn new(command: Vec<String>, log: PathBuf) -> Self {
        NodeProcess { command, log, child: None }
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The arguments, to be changed before the next start.
    pub fn command_mut(&mut self) -> &mut Vec<String> {
        &mut self.command
    }

    /// The number of its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether it was started and not stopped.
    pub fn is_started(&self) -> bool {
        self.child.is_some()
    }

    /// Starts it. Settings of the environment are kept from it: the drill's flags are all it has.
    ///
    /// Errors: it runs already, or the program or the log cannot be opened.
    pub fn start(&mut self) -> anyhow::Result<()> {
        if self.child.is_some() {
            bail!("the node is running already");
        }
        let [program, args @ ..] = self.command.as_slice() else {
            bail!("there is no command to run");
        };
        let open = File::options().create(true).append(true).open(&self.log);
        let log = open.with_context(|| format!("open {} for writing", self.log.display()))?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        for (variable, _) in std::env::vars_os() {
            if variable.to_str().is_some_and(|name| name.starts_with(ENV_PREFIX)) {
                command.env_remove(variable);
            }
        }
        self.child = Some(command.spawn().with_context(|| format!("run {program}"))?);
        Ok(())
    }

    /// Sends a signal and waits for nothing. Errors: it does not run.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("the node does not run")?;
        let pid = Pid::from_raw(i32::try_from(child.id()).context("a process number")?);
        kill(pid, signal).with_context(|| format!("send {signal} to process {pid}"))
    }

    /// The status if it has ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// SIGKILL; it is gone when this returns.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // An error means that it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, then waits until it has ended. Errors: it does not run, or does not end in time.
    pub async fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait_ended(STOP_MAX).await
    }

    /// Waits until it ends by itself. Errors: it does not within `limit`.
    pub async fn wait_ended(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let ended = async {
            loop {
                if let Some(status) = self.ended() {
                    return status;
                }
                tokio::time::sleep(STOP_LOOK).await;
            }
        };
        let status = tokio::time::timeout(limit, ended)
            .await
            .with_context(|| format!("the node did not end within {limit:?}"))?;
        self.child = None;
        Ok(status)
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
