//! An S3 server and a Redis server for one test each, or a loud word that there is none.
//!
//! The S3 server is moto; its Python is named by `MOONCAKE_S3_PYTHON`, else looked for where `./verify` puts it. Redis
//! is the `redis-server` of the system. With `MOONCAKE_REQUIRE_SERVERS=1` (the gate) a missing one is a failure.

use std::env;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{Process, eventually, free_port, venv};

/// A server process that ends with the test.
pub struct Server {
    /// Its port.
    pub port: u16,
    process: Process,
    _dir: TempDir,
}

impl Server {
    fn start(name: &str, program: PathBuf, args: &[String], port: u16, dir: TempDir) -> Self {
        let log = dir.path().join("server.log");
        let process = Process::new(name, program, args.to_vec(), log);
        let mut server = Server { port, process, _dir: dir };
        server.start_again();
        server
    }

    /// Starts it and waits until it accepts connections.
    pub fn start_again(&mut self) {
        self.process.start();
        let (port, process) = (self.port, &mut self.process);
        eventually("the server accepts connections", || {
            assert!(process.ended().is_none(), "{}", process.log());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

fn missing(what: &str) {
    let is_required = env::var("MOONCAKE_REQUIRE_SERVERS").as_deref() == Ok("1");
    assert!(!is_required, "{what} is required");
    venv::skip(&format!("{what} is not installed"));
}

/// An S3 server with one empty bucket, `bucket`, and the variables by which it is reached.
pub fn s3() -> Option<(Server, Vec<(String, String)>)> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
    let python = env::var_os("MOONCAKE_S3_PYTHON")
        .map_or_else(|| target.join("s3-server/bin/python"), PathBuf::from);
    if !python.exists() {
        missing("the S3 server");
        return None;
    }
    let port = free_port();
    let args = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()].map(String::from);
    let server = Server::start("s3", python, &args, port, TempDir::new().unwrap());
    let made = ureq::put(format!("http://127.0.0.1:{port}/bucket")).send_empty().unwrap();
    assert_eq!(made.status(), 200);
    let env = [
        ("MOONCAKE_AWS_S3_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("MOONCAKE_AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("MOONCAKE_AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ("MOONCAKE_AWS_USE_VIRTUAL_ADDRESSING", "false".to_owned()),
        ("MOONCAKE_AWS_BUCKET_NAME", "bucket".to_owned()),
        ("MOONCAKE_AWS_REQUEST_TIMEOUT_MS", "5000".to_owned()),
    ];
    Some((server, env.map(|(name, value)| (name.to_owned(), value)).to_vec()))
}

/// A Redis server without data.
pub fn redis() -> Option<Server> {
    redis_with(free_port(), "--port", &[])
}

/// The same, which speaks TLS only, with this certificate and its key.
pub fn redis_by_tls(cert: &Path, key: &Path) -> Option<Server> {
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    let tls = ["--port", "0", "--tls-cert-file", &cert, "--tls-key-file", &key];
    let rest = ["--tls-auth-clients", "no"];
    redis_with(free_port(), "--tls-port", &[&tls[..], &rest].concat())
}

fn redis_with(port: u16, port_flag: &str, more: &[&str]) -> Option<Server> {
    let program = ["/usr/bin/redis-server", "/usr/local/bin/redis-server"].map(PathBuf::from);
    let Some(program) = program.into_iter().find(|path| path.exists()) else {
        missing("redis-server");
        return None;
    };
    let dir = TempDir::new().unwrap();
    let (number, path) = (port.to_string(), dir.path().display().to_string());
    let args = [port_flag, &number, "--bind", "127.0.0.1", "--save", "", "--dir", &path];
    let args: Vec<String> = args.iter().chain(more).map(|arg| (*arg).to_owned()).collect();
    Some(Server::start("redis", program, &args, port, dir))
}
