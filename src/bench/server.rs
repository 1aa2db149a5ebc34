//! The server under load: its process, its CPU clock, its memory, its admin pages.
//!
//! CPU is read from the process's own CPU clock, which counts nanoseconds and the threads that have ended.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::BenchError;
use super::cores;
use super::store::connect;
use crate::wire::NoArguments;
use crate::wire::calls::ServiceReady;

/// A started server must answer within this time.
const READY_MAX: Duration = Duration::from_secs(60);
const READY_STEP: Duration = Duration::from_millis(20);

/// Where a started server keeps catalog snapshots, if it takes any; both masters read the variable.
const SNAPSHOT_VARIABLE: &str = "MOONCAKE_SNAPSHOT_LOCAL_PATH";

/// Bytes of an admin page at most.
const PAGE_BYTES_MAX: u64 = 4 << 20;
const PAGE_TIME_MAX: Duration = Duration::from_secs(120);

/// The server to measure.
#[derive(Debug)]
pub struct Server {
    /// host:port of its RPCs.
    pub address: String,
    /// http://host:port of its admin pages, if known.
    pub admin: Option<String>,
    pid: Option<u32>,
    child: Option<Child>,
    dir: Option<PathBuf>,
    launch: Launch,
    /// Of its RPCs and of its admin pages, if it was started here.
    ports: Option<(u16, u16)>,
}

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// A shell command in which `{port}`, `{http_port}` and `{dir}` stand for what it is given.
    pub command: String,
    /// The core that it is bound to; `None` leaves it all.
    pub core: Option<usize>,
}

/// A moment of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLook {
    /// CPU time used so far.
    pub cpu: Duration,
    /// Resident memory.
    pub rss_bytes: u64,
    /// The most that it was since the start, or since [`Server::forget_peak`].
    pub rss_peak_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
}

impl Server {
    /// A server that runs already.
    pub fn running(address: String, admin: Option<String>, pid: Option<u32>) -> Self {
        let launch = Launch::default();
        Server { address, admin, pid, child: None, dir: None, launch, ports: None }
    }

    /// Starts a server and waits until it answers. It is killed and its directory removed when this is dropped.
    ///
    /// Errors: it cannot be started, ends at once, or does not answer in time.
    pub async fn start(launch: Launch) -> Result<Self, BenchError> {
        let (port, http_port) = (free_port().map_err(failed)?, free_port().map_err(failed)?);
        let name = format!("mooncake-ha-bench-{}-{port}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).map_err(failed)?;
        let command = filled(&launch.command, (port, http_port), &dir);
        let mut server = Server {
            address: format!("127.0.0.1:{port}"),
            admin: Some(format!("http://127.0.0.1:{http_port}")),
            pid: None,
            child: None,
            dir: Some(dir),
            launch: Launch { command, ..launch },
            ports: Some((port, http_port)),
        };
        server.spawn()?;
        server.wait_ready().await?;
        Ok(server)
    }

    /// Kills a started server and starts it again on what it left behind, without waiting for it.
    ///
    /// Errors: it cannot be started.
    pub fn respawn(&mut self) -> Result<(), BenchError> {
        self.kill();
        self.spawn()
    }

    /// Kills a started server, removes all that it left but its catalog snapshots, and starts another in its place
    /// with this command, without waiting for it.
    ///
    /// Errors: it was not started here, or the other one cannot be started.
    pub fn start_anew(&mut self, command: &str) -> Result<(), BenchError> {
        let foreign = || BenchError::Internal("the master was not started here".into());
        let (ports, dir) = self.ports.zip(self.dir.clone()).ok_or_else(foreign)?;
        self.kill();
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let is_kept = Some(&path) == self.snapshots().as_ref();
            match path.is_dir() {
                _ if is_kept => {}
                true => fs::remove_dir_all(&path).map_err(failed)?,
                false => fs::remove_file(&path).map_err(failed)?,
            }
        }
        self.launch.command = filled(command, ports, &dir);
        self.spawn()
    }

    /// Errors: a started server has ended by itself.
    pub fn require_running(&mut self) -> Result<(), BenchError> {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            let (line, words) = (&self.launch.command, self.last_words());
            return Err(BenchError::Server(format!("{line:?} ended with {status}:\n{words}")));
        }
        Ok(())
    }

    /// Has [`ProcessLook::rss_peak_bytes`] begin anew.
    ///
    /// Errors: the process is not known, or the kernel refuses.
    pub fn forget_peak(&self) -> Result<(), BenchError> {
        let unknown = || BenchError::Usage("the process is not known".into());
        let path = format!("/proc/{}/clear_refs", self.pid.ok_or_else(unknown)?);
        fs::write(&path, "5").map_err(|error| BenchError::Server(format!("{path}: {error}")))
    }

    fn spawn(&mut self) -> Result<(), BenchError> {
        let dir = self.dir.clone().unwrap_or_default();
        let log = fs::OpenOptions::new().create(true).append(true).open(dir.join("server.log"));
        let log = log.map_err(failed)?;
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("exec {}", self.launch.command))
            .env(SNAPSHOT_VARIABLE, dir.join("snapshots"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log);
        let child = cores::bound(self.launch.core, || command.spawn())?.map_err(failed)?;
        self.pid = Some(child.id());
        self.child = Some(child);
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Where a started server keeps catalog snapshots.
    pub fn snapshots(&self) -> Option<PathBuf> {
        self.dir.as_deref().map(|dir: &Path| dir.join("snapshots"))
    }

    async fn wait_ready(&mut self) -> Result<(), BenchError> {
        let line = self.launch.command.clone();
        for _ in 0..READY_MAX.as_millis() / READY_STEP.as_millis() {
            self.require_running()?;
            if let Ok(client) = connect(&self.address).await
                && client.call::<ServiceReady>(&NoArguments).await.is_ok()
            {
                return Ok(());
            }
            tokio::time::sleep(READY_STEP).await;
        }
        let why = format!("{line:?} does not answer at {}:\n{}", self.address, self.last_words());
        Err(BenchError::Server(why))
    }

    /// The end of a started server's log.
    fn last_words(&self) -> String {
        let path = self.dir.as_ref().map(|dir| dir.join("server.log"));
        let text = path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
    }

    /// Its CPU clock and memory; `None` if the process is not known.
    ///
    /// Errors: the process is gone.
    pub fn look(&self) -> Result<Option<ProcessLook>, BenchError> {
        let Some(pid) = self.pid else { return Ok(None) };
        let gone =
            |error| BenchError::Server(format!("process {pid} cannot be looked at: {error}"));
        let cpu = cpu_of(pid).map_err(|error| gone(error.into()))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(gone)?;
        let bytes = |name| bytes_of(&status, name).unwrap_or_default();
        let (rss_bytes, rss_peak_bytes) = (bytes("VmRSS:"), bytes("VmHWM:"));
        Ok(Some(ProcessLook { cpu, rss_bytes, rss_peak_bytes, virtual_bytes: bytes("VmSize:") }))
    }

    /// A page of the admin door.
    ///
    /// Errors: its address is not known, or no page came.
    pub async fn page(&self, method: &'static str, path: &str) -> Result<String, BenchError> {
        let unknown = || BenchError::Usage("this needs the admin address: --admin URL".into());
        let base = self.admin.as_deref().ok_or_else(unknown)?;
        let url = format!("{}{path}", base.trim_end_matches('/'));
        let fetched = tokio::task::spawn_blocking(move || fetch(method, &url));
        fetched.await.map_err(|error| BenchError::Internal(error.to_string()))?
    }

    /// A gauge of the server.
    ///
    /// Errors: as [`Server::page`]; there is no such metric.
    pub async fn gauge(&self, name: &'static str) -> Result<u64, BenchError> {
        let page = self.page("GET", "/metrics").await?;
        value_of(&page, name)
            .ok_or_else(|| BenchError::Server(format!("the server has no metric {name}")))
    }
}

/// A page. Blocks. Errors: none came.
fn fetch(method: &str, url: &str) -> Result<String, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Server(format!("{url}: {error}"));
    let config = ureq::Agent::config_builder().timeout_global(Some(PAGE_TIME_MAX));
    let agent: ureq::Agent = config.build().into();
    let request = ureq::http::Request::builder().method(method).uri(url).body(Vec::new());
    let request = request.map_err(|error| failed(&error))?;
    let mut answer = agent.run(request).map_err(|error| failed(&error))?;
    let page = answer.body_mut().with_config().limit(PAGE_BYTES_MAX).read_to_string();
    page.map_err(|error| failed(&error))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if let Some(dir) = &self.dir {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// A command with what it is given.
fn filled(command: &str, (port, http_port): (u16, u16), dir: &Path) -> String {
    command
        .replace("{port}", &port.to_string())
        .replace("{http_port}", &http_port.to_string())
        .replace("{dir}", &dir.to_string_lossy())
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn failed(error: io::Error) -> BenchError {
    BenchError::Server(format!("it cannot be started: {error}"))
}

/// CPU time of all threads of a process so far.
fn cpu_of(pid: u32) -> nix::Result<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?);
    Ok(Duration::from(clock_gettime(clock_getcpuclockid(pid)?)?))
}

/// The value of a metric without labels in a page of metrics.
fn value_of(page: &str, name: &str) -> Option<u64> {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    let value: f64 = line.trim().parse().ok()?;
    // Counts and bytes, far below where a float would lose one.
    Some(value as u64)
}

/// A line such as `VmRSS:` in the text of `/proc/PID/status`.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_text() {
        let status = "Name:\tx\nVmPeak:\t 9 kB\nVmRSS:\t    2048 kB\nThreads:\t3\n";
        assert_eq!(bytes_of(status, "VmRSS:"), Some(2 << 20));
        assert_eq!(bytes_of(status, "VmSize:"), None);
    }

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let page = "# HELP x y\nmaster_key_count_more 9\nmaster_key_count 1e3\n";
        assert_eq!(value_of(page, "master_key_count"), Some(1_000));
        assert_eq!(value_of(page, "master_key"), None);
    }

    #[test]
    fn the_cpu_clock_of_a_process_is_finer_than_ticks_of_the_kernel() {
        let (pid, mut rounds) = (std::process::id(), 0_u64);
        let before = cpu_of(pid).unwrap();
        let mut after = before;
        while after == before {
            rounds = std::hint::black_box(rounds + 1);
            after = cpu_of(pid).unwrap();
        }
        assert!(after - before < Duration::from_millis(10), "{:?} {rounds}", after - before);
    }

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_told_with_its_last_words() {
        let error = Server::start(Launch {
            command: "sh -c 'echo no such luck; exit 3'".to_owned(),
            core: None,
        })
        .await
        .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no such luck") && text.contains('3'), "{text}");
    }
}
