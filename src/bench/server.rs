//! The server under load: its process, its CPU clock, its memory, its admin pages.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::BenchError;
use super::store::connect;
use crate::wire::NoArguments;
use crate::wire::calls::ServiceReady;

/// A started server must answer within this time.
const READY_MAX: Duration = Duration::from_secs(60);
const READY_STEP: Duration = Duration::from_millis(100);

/// Ticks a second in `/proc/PID/stat`: the same on every Linux that Rust supports.
const TICKS_PER_SECOND: u64 = 100;

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
}

/// A moment of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLook {
    /// CPU time used so far.
    pub cpu: Duration,
    /// Resident memory.
    pub rss_bytes: u64,
}

impl Server {
    /// A server that runs already.
    pub fn running(address: String, admin: Option<String>, pid: Option<u32>) -> Self {
        Server { address, admin, pid, child: None, dir: None }
    }

    /// Starts `command` in a shell, with `{port}`, `{http_port}` and `{dir}` replaced, and waits until it
    /// answers. It is killed and its directory removed when this is dropped.
    ///
    /// Errors: it cannot be started, ends at once, or does not answer in time.
    pub async fn start(command: &str) -> Result<Self, BenchError> {
        let failed = |error: io::Error| BenchError::Server(format!("cannot start it: {error}"));
        let (port, http_port) = (free_port().map_err(failed)?, free_port().map_err(failed)?);
        let name = format!("mooncake-ha-bench-{}-{port}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).map_err(failed)?;
        let line = command
            .replace("{port}", &port.to_string())
            .replace("{http_port}", &http_port.to_string())
            .replace("{dir}", &dir.to_string_lossy());
        let log = fs::File::create(dir.join("server.log")).map_err(failed)?;
        let child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {line}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        let mut server = Server {
            address: format!("127.0.0.1:{port}"),
            admin: Some(format!("http://127.0.0.1:{http_port}")),
            pid: Some(child.id()),
            child: Some(child),
            dir: Some(dir),
        };
        server.wait_ready(&line).await?;
        Ok(server)
    }

    async fn wait_ready(&mut self, line: &str) -> Result<(), BenchError> {
        for _ in 0..READY_MAX.as_millis() / READY_STEP.as_millis() {
            if let Some(child) = &mut self.child
                && let Ok(Some(status)) = child.try_wait()
            {
                let why = format!("{line:?} ended with {status}:\n{}", self.last_words());
                return Err(BenchError::Server(why));
            }
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
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(gone)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(gone)?;
        Ok(Some(ProcessLook {
            cpu: cpu_of(&stat).unwrap_or_default(),
            rss_bytes: rss_of(&status).unwrap_or_default(),
        }))
    }

    /// An admin page. Blocks. Errors: the address is not known, or no page came.
    pub fn page(&self, method: &str, path: &str) -> Result<String, BenchError> {
        let unknown = || BenchError::Usage("this needs the admin address: --admin URL".into());
        let base = self.admin.as_deref().ok_or_else(unknown)?;
        fetch(method, &format!("{}{path}", base.trim_end_matches('/')))
    }
}

/// A page. Blocks. Errors: none came.
pub fn fetch(method: &str, url: &str) -> Result<String, BenchError> {
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
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(dir) = &self.dir {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// User and system time in the text of `/proc/PID/stat`. The name in brackets may hold anything.
fn cpu_of(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    // Behind the name: state is field 3, utime and stime are 14 and 15.
    let mut fields = rest.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

fn rss_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_and_memory_are_read_from_the_kernels_texts() {
        let stat = "4 (a) b) S 1 4 4 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 9 0 77 1 2";
        assert_eq!(cpu_of(stat), Some(Duration::from_secs(2)));
        let status = "Name:\tx\nVmPeak:\t 9 kB\nVmRSS:\t    2048 kB\nThreads:\t3\n";
        assert_eq!(rss_of(status), Some(2 << 20));
    }

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_told_with_its_last_words() {
        let error = Server::start("sh -c 'echo no such luck; exit 3'").await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no such luck") && text.contains('3'), "{text}");
    }
}
