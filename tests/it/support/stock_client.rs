//! Typed face of `tests/client/worker.py`: one unmodified client in its own process.
//!
//! A call answers the client library's own numbers: 0 or a count, or a negative error code. A call
//! that does not answer within [`ANSWER`] fails the test instead of hanging it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::config::WriteConfig;
use super::load::{LoadOptions, LoadReport, Record, Verified};
use super::ports::free_port;
use super::process::{print_tail, stands_still};
use super::venv::Venv;

/// Longer than any call of the library towards a dead master on this machine.
const ANSWER: Duration = Duration::from_secs(90);

/// A key with a content that both sides can compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The object key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// Another seed is another content.
    pub seed: u64,
}

impl Value {
    /// First content of `key`.
    pub fn new(key: &str, size: u64) -> Self {
        Value { key: key.to_owned(), size, seed: 1 }
    }

    /// Another content of the same key.
    pub fn changed(&self, size: u64) -> Self {
        Value { key: self.key.clone(), size, seed: self.seed + 1 }
    }

    /// `count` values of `size` bytes under `prefix`.
    pub fn several(prefix: &str, count: u64, size: u64) -> Vec<Self> {
        (0..count).map(|n| Value::new(&format!("{prefix}{n}"), size)).collect()
    }
}

/// What a read gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// Exactly the bytes of the value.
    Right,
    /// Other bytes; a text about them.
    Wrong(String),
    /// The library's error code.
    Failed(i64),
}

impl Got {
    fn parse(answer: &Json) -> Self {
        match answer.as_str() {
            Some("right") => Got::Right,
            Some(text) => Got::Wrong(text.to_owned()),
            None => Got::Failed(answer.as_i64().expect("an error code")),
        }
    }
}

/// One memory copy of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub struct Placed {
    /// Where the owner's transfer engine listens.
    pub endpoint: String,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Replica status by name.
    pub status: String,
}

/// A worker process; killed when dropped.
pub struct StockClient {
    name: String,
    segment: String,
    log: PathBuf,
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
}

impl StockClient {
    /// Starts the worker; nothing talks to a master yet.
    pub fn spawn(venv: &Venv, name: &str, dir: &Path) -> Self {
        StockClient::spawn_with(venv, name, dir, &[])
    }

    /// As [`StockClient::spawn`], with variables of the environment.
    pub fn spawn_with(venv: &Venv, name: &str, dir: &Path, env: &[(&str, &str)]) -> Self {
        let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/worker.py");
        let log = dir.join(format!("client_{name}.log"));
        let mut child = Command::new(&venv.python)
            .arg(worker)
            .current_dir(dir)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let segment = format!("127.0.0.1:{}", free_port());
        let name = name.to_owned();
        let mut client = StockClient { name, segment, log, child, requests, answers };
        assert_eq!(client.answer(), json!("ready"));
        client
    }

    /// A worker whose client speaks of its disk each second. Each value of a MiB fills a file of its own, or the
    /// client would wait for more.
    pub fn spawn_with_disk(venv: &Venv, name: &str, dir: &Path) -> Self {
        let env = [
            ("MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS", "1"),
            ("MOONCAKE_OFFLOAD_BUCKET_KEYS_LIMIT", "1"),
            ("MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES", "1048576"),
        ];
        StockClient::spawn_with(venv, name, dir, &env)
    }

    /// Name of the segment that set-up mounts, and of this client.
    pub fn segment(&self) -> &str {
        &self.segment
    }

    fn send(&mut self, op: &str, mut request: Json) {
        request["op"] = json!(op);
        let sent = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
        assert!(sent.is_ok(), "client {} is gone, at {op}", self.name);
    }

    fn answer(&mut self) -> Json {
        let line = self
            .answers
            .recv_timeout(ANSWER)
            .unwrap_or_else(|e| panic!("client {}: no answer: {e}", self.name));
        let mut answer: Json = serde_json::from_str(&line).unwrap();
        assert!(answer["error"].is_null(), "client {}: {}", self.name, answer["error"]);
        answer["ok"].take()
    }

    fn call<T: DeserializeOwned>(&mut self, op: &str, request: Json) -> T {
        self.send(op, request);
        serde_json::from_value(self.answer()).unwrap_or_else(|e| panic!("answer to {op}: {e}"))
    }

    /// Connects to `master` and mounts a segment of `bytes` (0: none); metadata by handshake.
    pub fn setup(&mut self, master: &str, bytes: u64) -> i64 {
        let hostname = self.segment.clone();
        self.call("setup", json!({"hostname": hostname, "segment_bytes": bytes, "master": master}))
    }

    /// The same for a client of one tenant.
    pub fn setup_as(&mut self, tenant: &str, master: &str, bytes: u64) -> i64 {
        let request = json!({
            "hostname": self.segment, "segment_bytes": bytes, "master": master, "tenant": tenant,
        });
        self.call("setup", request)
    }

    /// The same with a disk at `path`, which is made here, of one tenant if it is named.
    pub fn setup_with_disk(
        &mut self,
        tenant: Option<&str>,
        master: &str,
        bytes: u64,
        path: &Path,
    ) -> i64 {
        fs::create_dir_all(path).unwrap();
        let mut request = json!({
            "hostname": self.segment, "segment_bytes": bytes, "master": master,
            "disk_path": path.display().to_string(),
        });
        if let Some(tenant) = tenant {
            request["tenant"] = json!(tenant);
        }
        self.call("setup", request)
    }

    /// The same with a metadata server.
    pub fn setup_with_metadata(&mut self, master: &str, bytes: u64, metadata: &str) -> i64 {
        let request = json!({
            "hostname": self.segment, "segment_bytes": bytes, "master": master,
            "metadata": metadata,
        });
        self.call("setup", request)
    }

    /// Leaves in order: unmounts what is mounted.
    pub fn close(mut self) -> i64 {
        self.call("close", json!({}))
    }

    /// SIGKILL, as when a host loses its process.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP while `during` runs, then SIGCONT.
    pub fn frozen<T>(&self, during: impl FnOnce() -> T) -> T {
        let process = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(process, Signal::SIGSTOP).unwrap();
        stands_still(process);
        let answer = during();
        kill(process, Signal::SIGCONT).unwrap();
        answer
    }

    /// Mounts one more segment under the same name; answers the code and the new ids.
    pub fn mount(&mut self, bytes: u64) -> (i64, Vec<String>) {
        let answer: Json = self.call("mount", json!({"bytes": bytes}));
        let ids = serde_json::from_value(answer["ids"].clone()).unwrap();
        (answer["rc"].as_i64().unwrap(), ids)
    }

    /// Unmounts segments by id, at once or after a grace period.
    pub fn unmount(&mut self, ids: &[String], grace_seconds: u64) -> i64 {
        self.call("unmount", json!({"ids": ids, "grace_seconds": grace_seconds}))
    }

    /// Puts one value.
    pub fn put(&mut self, value: &Value) -> i64 {
        self.put_with(value, &WriteConfig::default())
    }

    /// Puts one value with a configuration.
    pub fn put_with(&mut self, value: &Value, config: &WriteConfig) -> i64 {
        self.write("put", value, config)
    }

    /// Upserts one value with a configuration.
    pub fn upsert_with(&mut self, value: &Value, config: &WriteConfig) -> i64 {
        self.write("upsert", value, config)
    }

    fn write(&mut self, op: &str, value: &Value, config: &WriteConfig) -> i64 {
        let Value { key, size, seed } = value;
        self.call(op, json!({"key": key, "size": size, "seed": seed, "config": config}))
    }

    /// Puts values of one seed in one batch; the library answers one code.
    pub fn put_batch(&mut self, values: &[Value], config: &WriteConfig) -> i64 {
        self.call("put_batch", batch(values, config))
    }

    /// Upserts values of one seed in one batch.
    pub fn upsert_batch(&mut self, values: &[Value], config: &WriteConfig) -> i64 {
        self.call("upsert_batch", batch(values, config))
    }

    /// Reserves memory for values without writing them.
    pub fn session_start(&mut self, values: &[Value], config: &WriteConfig) -> Vec<i64> {
        self.call("session_start", batch(values, config))
    }

    /// Writes the bytes of a started session; answers bytes written or an error for each.
    pub fn session_write(&mut self, values: &[Value]) -> Vec<i64> {
        self.call("session_write", batch(values, &WriteConfig::default()))
    }

    /// Makes values of a session readable.
    pub fn session_end(&mut self, values: &[Value]) -> Vec<i64> {
        self.call("session_end", json!({"keys": keys(values)}))
    }

    /// Takes values of a session back.
    pub fn session_revoke(&mut self, values: &[Value]) -> Vec<i64> {
        self.call("session_revoke", json!({"keys": keys(values)}))
    }

    /// Reads one value into registered memory and compares every byte.
    pub fn get(&mut self, value: &Value) -> Got {
        let Value { key, size, seed } = value;
        Got::parse(&self.call("get", json!({"key": key, "size": size, "seed": seed})))
    }

    /// Reads one value through the call that hides error codes: "right" or "missing".
    pub fn get_plain(&mut self, value: &Value) -> String {
        let Value { key, size, seed } = value;
        self.call("get_plain", json!({"key": key, "size": size, "seed": seed}))
    }

    /// Reads values of one seed in one batch: "right" or "missing" for each.
    pub fn get_batch(&mut self, values: &[Value]) -> Vec<String> {
        self.call("get_batch", batch(values, &WriteConfig::default()))
    }

    /// 1, 0 or an error code.
    pub fn is_exist(&mut self, key: &str) -> i64 {
        self.call("is_exist", json!({"key": key}))
    }

    /// 1, 0 or an error code for each.
    pub fn batch_is_exist(&mut self, values: &[Value]) -> Vec<i64> {
        self.call("batch_is_exist", json!({"keys": keys(values)}))
    }

    /// Bytes or an error code.
    pub fn get_size(&mut self, key: &str) -> i64 {
        self.call("get_size", json!({"key": key}))
    }

    /// Memory copies of one key, in the master's order.
    pub fn replicas(&mut self, key: &str) -> Vec<Placed> {
        self.call("replicas", json!({"key": key}))
    }

    /// Memory copies of many keys; a key that cannot be read is left out or empty.
    pub fn batch_replicas(&mut self, keys: &[String]) -> Vec<(String, Vec<Placed>)> {
        let answer: BTreeMap<String, Vec<Placed>> =
            self.call("batch_replicas", json!({"keys": keys}));
        answer.into_iter().collect()
    }

    /// Removes one key.
    pub fn remove(&mut self, key: &str, force: bool) -> i64 {
        self.call("remove", json!({"key": key, "force": force}))
    }

    /// Removes keys in one batch.
    pub fn batch_remove(&mut self, values: &[Value], force: bool) -> Vec<i64> {
        self.call("batch_remove", json!({"keys": keys(values), "force": force}))
    }

    /// Removes what matches; answers how many.
    pub fn remove_by_regex(&mut self, pattern: &str, force: bool) -> i64 {
        self.call("remove_by_regex", json!({"pattern": pattern, "force": force}))
    }

    /// Removes everything; answers how many.
    pub fn remove_all(&mut self, force: bool) -> i64 {
        self.call("remove_all", json!({"force": force}))
    }

    /// Drops this client's copies on `segment` ("": all); answers the keys cleared.
    pub fn batch_replica_clear(&mut self, values: &[Value], segment: &str) -> Vec<String> {
        self.call("batch_replica_clear", json!({"keys": keys(values), "segment": segment}))
    }

    /// Asks for copies on `targets`; answers the task or an error code.
    pub fn create_copy_task(&mut self, key: &str, targets: &[&str]) -> Result<Json, i64> {
        created(self.call("create_copy_task", json!({"key": key, "targets": targets})))
    }

    /// Asks for a move; answers the task or an error code.
    pub fn create_move_task(&mut self, key: &str, from: &str, to: &str) -> Result<Json, i64> {
        created(self.call("create_move_task", json!({"key": key, "source": from, "target": to})))
    }

    /// Status of a task by name, or an error code.
    pub fn query_task(&mut self, task: &Json) -> Result<String, i64> {
        let answer: Json = self.call("query_task", json!({"task": task}));
        match answer["rc"].as_i64().unwrap() {
            0 => Ok(answer["status"].as_str().unwrap().to_owned()),
            code => Err(code),
        }
    }

    /// Starts continuous traffic in the worker's own threads.
    pub fn load_start(&mut self, options: &LoadOptions) {
        let started: bool = self.call("load_start", serde_json::to_value(options).unwrap());
        assert!(started);
    }

    /// What the running load has seen.
    pub fn load_peek(&mut self) -> LoadReport {
        self.call("load_peek", json!({}))
    }

    /// How many operations of the running load were acknowledged so far.
    pub fn load_acknowledged(&mut self) -> u64 {
        self.call("load_acknowledged", json!({}))
    }

    /// Stops the load and waits for its last calls.
    pub fn load_stop(&mut self) -> LoadReport {
        self.call("load_stop", json!({}))
    }

    /// Reads all `records`, through outages; what is wrong is in the answer's findings.
    pub fn verify<'a>(
        &mut self,
        records: impl IntoIterator<Item = (&'a String, &'a Record)>,
    ) -> Verified {
        let records: serde_json::Map<String, Json> = records
            .into_iter()
            .map(|(key, record)| (key.clone(), serde_json::to_value(record).unwrap()))
            .collect();
        self.call("verify", json!({"records": records}))
    }
}

impl Drop for StockClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read(&self.log).unwrap_or_default();
            print_tail(&format!("client {}", self.name), &String::from_utf8_lossy(&log));
        }
    }
}

fn keys(values: &[Value]) -> Vec<&str> {
    values.iter().map(|value| value.key.as_str()).collect()
}

fn batch(values: &[Value], config: &WriteConfig) -> Json {
    let seed = values.first().map_or(0, |value| value.seed);
    assert!(values.iter().all(|value| value.seed == seed), "one seed a batch");
    let sizes: Vec<u64> = values.iter().map(|value| value.size).collect();
    json!({"keys": keys(values), "sizes": sizes, "seed": seed, "config": config})
}

fn created(answer: Json) -> Result<Json, i64> {
    match answer["rc"].as_i64().unwrap() {
        0 => Ok(answer["task"].clone()),
        code => Err(code),
    }
}
