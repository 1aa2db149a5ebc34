//! A master process: ours or the peer, on the same flags.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value as Json;

use super::eventually::eventually_within;
use super::http::Http;
use super::ports::free_port;
use super::process::Process;

const READY: Duration = Duration::from_secs(20);
const CONNECT: Duration = Duration::from_millis(300);

/// Which program is under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The `mooncake-ha` of this build.
    Ours,
    /// The C++ Mooncake master.
    Peer,
}

/// One master with its ports and its directory.
pub struct Master {
    kind: Kind,
    process: Process,
    rpc: u16,
    metadata: u16,
    http: Http,
}

impl Master {
    /// Starts the program of this build on free ports, with its data below `dir`.
    pub fn ours(dir: &Path, flags: &[&str]) -> Self {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
        let mut args = vec!["serve".to_owned()];
        args.push(format!("--data_dir={}", dir.join("data").display()));
        Master::start(Kind::Ours, program, args, dir, flags, &[])
    }

    /// As [`Master::ours`], with variables of the environment.
    pub fn ours_with(dir: &Path, flags: &[&str], env: &[(String, String)]) -> Self {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
        let data = format!("--data_dir={}", dir.join("data").display());
        Master::start(Kind::Ours, program, vec!["serve".to_owned(), data], dir, flags, env)
    }

    /// Starts the peer on free ports.
    pub fn peer(program: &Path, dir: &Path, flags: &[&str]) -> Self {
        let args = vec!["--logtostderr".to_owned()];
        Master::start(Kind::Peer, program.to_owned(), args, dir, flags, &[])
    }

    /// Starts the peer, which restores from `root`.
    pub fn peer_restoring(program: &Path, root: &Path, dir: &Path) -> Self {
        let args = vec!["--logtostderr".to_owned()];
        let root = root.display().to_string();
        let env = [("MOONCAKE_SNAPSHOT_LOCAL_PATH".to_owned(), root)];
        let flags = ["--enable_snapshot_restore", "--snapshot_object_store_type=local"];
        Master::start(Kind::Peer, program.to_owned(), args, dir, &flags, &env)
    }

    fn start(
        kind: Kind,
        program: PathBuf,
        args: Vec<String>,
        dir: &Path,
        flags: &[&str],
        env: &[(String, String)],
    ) -> Self {
        let ports = [free_port(), free_port(), free_port()];
        Master::start_on(kind, program, args, dir, flags, env, ports)
    }

    fn start_on(
        kind: Kind,
        program: PathBuf,
        mut args: Vec<String>,
        dir: &Path,
        flags: &[&str],
        env: &[(String, String)],
        ports: [u16; 3],
    ) -> Self {
        let [rpc, admin, metadata] = ports;
        args.push(format!("--rpc_port={rpc}"));
        args.push(format!("--metrics_port={admin}"));
        args.push(format!("--http_metadata_server_port={metadata}"));
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        let mut process = Process::new("master", program, args, dir.join("master.log"));
        process.set_env(env);
        let mut master = Master { kind, process, rpc, metadata, http: Http::new(admin) };
        master.start_again();
        master
    }

    /// Kills this one and starts the peer on its ports.
    pub fn replaced_by_peer(mut self, program: &Path, dir: &Path, flags: &[&str]) -> Self {
        self.kill();
        let args = vec!["--logtostderr".to_owned()];
        self.replaced(Kind::Peer, program.to_owned(), args, dir, flags)
    }

    /// Kills this one and starts the program of this build on its ports.
    pub fn replaced_by_ours(mut self, dir: &Path, flags: &[&str]) -> Self {
        self.kill();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_mooncake-ha"));
        let data = format!("--data_dir={}", dir.join("data").display());
        self.replaced(Kind::Ours, program, vec!["serve".to_owned(), data], dir, flags)
    }

    fn replaced(
        self,
        kind: Kind,
        program: PathBuf,
        args: Vec<String>,
        dir: &Path,
        flags: &[&str],
    ) -> Self {
        let admin = self.http.url("").rsplit(':').next().and_then(|port| port.parse().ok());
        let ports = [self.rpc, admin.expect("a port"), self.metadata];
        Master::start_on(kind, program, args, dir, flags, &[], ports)
    }

    /// Starts the process with the same ports and directory, and waits until it serves.
    pub fn start_again(&mut self) {
        self.process.start();
        eventually_within(READY, "the master serves", || {
            if let Some(status) = self.process.ended() {
                panic!("the master ended before it served: {status}");
            }
            self.serves()
        });
    }

    fn serves(&self) -> bool {
        let address = SocketAddr::from(([127, 0, 0, 1], self.rpc));
        TcpStream::connect_timeout(&address, CONNECT).is_ok()
            && self.http.try_get("/health").is_some_and(|(status, body)| {
                status == 200 && body.contains("\"service_ready\":true")
            })
    }

    /// Ours or the peer.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What a client is told as the master's address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.rpc)
    }

    /// What a client is told as the metadata server, if that is switched on.
    pub fn metadata_url(&self) -> String {
        format!("http://127.0.0.1:{}/metadata", self.metadata)
    }

    /// The admin server.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// The embedded metadata server.
    pub fn metadata_http(&self) -> Http {
        Http::new(self.metadata)
    }

    /// Memory of the process that is in the machine's.
    pub fn resident_bytes(&self) -> u64 {
        self.process.resident_bytes()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGTERM; answers how the process ended.
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.terminate()
    }

    /// SIGSTOP, then SIGCONT after `during` has run.
    pub fn frozen<T>(&self, during: impl FnOnce() -> T) -> T {
        self.process.signal(Signal::SIGSTOP);
        let answer = during();
        self.process.signal(Signal::SIGCONT);
        answer
    }

    /// Value of an unlabelled metric; 0 if it is not shown.
    pub fn metric(&self, name: &str) -> f64 {
        let (status, body) = self.http.get("/metrics");
        assert_eq!(status, 200);
        body.lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(found, _)| *found == name)
            .map_or(0.0, |(_, value)| value.trim().parse().unwrap())
    }

    /// A metric that counts something whole.
    pub fn count(&self, name: &str) -> u64 {
        let value = self.metric(name);
        assert!(value >= 0.0 && value.fract() == 0.0, "{name} is {value}");
        format!("{value:.0}").parse().unwrap()
    }

    /// `/api/v1/object` of ours: all metadata of one key, or `None` if there is no such object.
    pub fn object(&self, key: &str) -> Option<Json> {
        let (status, body) = self.http.get(&format!("/api/v1/object?key={key}"));
        match status {
            200 => Some(serde_json::from_str(&body).unwrap()),
            404 => None,
            other => panic!("/api/v1/object?key={key}: {other} {body}"),
        }
    }

    /// `/api/v1/soft_pins` of ours: key and deadline (Unix ms) of every active pin, in the order
    /// of deadlines.
    pub fn soft_pins(&self) -> Vec<(String, u64)> {
        let answer = self.http.json("/api/v1/soft_pins?limit=1000000");
        let pins: Vec<(String, u64)> = answer["pins"]
            .as_array()
            .expect("pins")
            .iter()
            .map(|p| (p["key"].as_str().unwrap().to_owned(), p["deadline_ms"].as_u64().unwrap()))
            .collect();
        assert_eq!(answer["active"].as_u64(), Some(pins.len() as u64), "{answer}");
        assert!(pins.is_sorted_by_key(|pin| pin.1), "pins are not in the order of deadlines");
        pins
    }
}
