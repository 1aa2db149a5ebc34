//! A node that dies where it is told to.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mooncake_ha_crash::{ARM, Point, SYNCED};

use crate::support::{Http, Process, eventually_within, free_port};

/// Longer than a start or a death takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// No client is given up while a test restarts its node, which no test here is about.
const CLIENT_TTL: &str = "--client_ttl=31536000";

/// One node through all its lives.
pub struct Victim {
    process: Process,
    dir: PathBuf,
    rpc: u16,
    http: Http,
}

impl Victim {
    /// A node that does not run yet, with everything of its own below `dir`.
    pub fn new(dir: &Path, flags: &[&str]) -> Self {
        fs::create_dir_all(dir.join("synced")).unwrap();
        let (rpc, admin) = (free_port(), free_port());
        let mut args = vec!["serve".to_owned(), "--rpc_address=127.0.0.1".to_owned()];
        args.push(format!("--data_dir={}", dir.join("data").display()));
        args.push(format!("--rpc_port={rpc}"));
        args.push(format!("--metrics_port={admin}"));
        args.push(format!("--discovery_port={}", free_port()));
        args.push(CLIENT_TTL.to_owned());
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
        let mut process = Process::new("victim", program, args, dir.join("log"));
        let variable =
            |name: &str, path: &str| (name.to_owned(), dir.join(path).display().to_string());
        process.set_env(&[variable(ARM, "arm"), variable(SYNCED, "synced")]);
        Victim { process, dir: dir.to_owned(), rpc, http: Http::new(admin) }
    }

    /// Starts it and waits for nothing.
    pub fn start(&mut self) {
        self.process.start();
    }

    /// Waits until it serves.
    pub fn until_serving(&mut self) {
        eventually_within(PATIENCE, "the node serves", || {
            assert_eq!(self.process.ended(), None, "it ended by itself");
            self.serves()
        });
    }

    /// Whether it serves now.
    pub fn serves(&self) -> bool {
        let health = self.http.try_get("/health");
        health.is_some_and(|(_, body)| body.contains("\"service_ready\":true"))
    }

    /// Has it die when it is there for the `hit`th time from now on.
    pub fn arm(&self, point: Point, hit: u32) {
        // Renamed into its place, so that it is never read half.
        let unfinished = self.dir.join("arm.tmp");
        fs::write(&unfinished, format!("{} {hit}", point.name())).unwrap();
        fs::rename(unfinished, self.dir.join("arm")).unwrap();
    }

    /// Whether it has died by SIGKILL, which nobody else has sent.
    pub fn is_dead(&mut self) -> bool {
        let Some(status) = self.process.ended() else { return false };
        assert_eq!(status.signal(), Some(9), "it ended by itself: {status}");
        true
    }

    /// Waits until it has died, while `work` is done again and again.
    pub fn until_dead(&mut self, point: Point, mut work: impl FnMut(&Self)) {
        eventually_within(PATIENCE, point.name(), || {
            work(self);
            self.is_dead()
        });
        fs::remove_file(self.dir.join("arm")).unwrap();
        self.process.kill();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Where clients connect.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.rpc)
    }

    /// Its admin pages.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// A number on its page about the cluster.
    pub fn number(&self, path: &str) -> Option<u64> {
        let (status, body) = self.http.try_get("/api/v1/cluster")?;
        let page: serde_json::Value = serde_json::from_str(&body).ok()?;
        (status == 200).then(|| page.pointer(path)?.as_u64())?
    }

    /// Where everything of its own lies: `data`, and in `synced` what the disk surely holds of it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
