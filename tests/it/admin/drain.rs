//! E22, H20, M8: drain jobs over HTTP, carried out by a client that knows only RPCs.

use mooncake_ha::model::{ClientId, SegmentId, Uuid};
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::types::{
    ObjectMeta, ReplicaType, ReplicateConfig, Segment, SoftPinAction, TaskAssignment,
    TaskCompleteRequest, TaskStatus,
};
use mooncake_ha::wire::{Call, calls as c, requests as r};
use serde_json::Value as Json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{Master, eventually};

const CLIENT: ClientId = ClientId(Uuid { first: 7, second: 9 });
const TENANT: &[u8] = b"default";
const MIB: u64 = 1 << 20;

/// A master, and a client with the segments `s1` and `s2`.
struct Scene {
    master: Master,
    runtime: Runtime,
    _dir: TempDir,
}

fn segment(n: u64, name: &'static str) -> Segment<&'static [u8]> {
    Segment {
        id: SegmentId(Uuid { first: n, second: 5 }),
        name: name.as_bytes(),
        base: n << 40,
        size: MIB,
        te_endpoint: name.as_bytes(),
        protocol: b"tcp",
        host_id: b"",
    }
}

fn on_s1() -> ReplicateConfig<&'static [u8]> {
    let preferred_segments = vec![b"s1".as_slice()];
    ReplicateConfig { preferred_segments, ..ReplicateConfig::default() }
}

impl Scene {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let master = Master::ours(dir.path(), &["--client_ttl=600"]);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let scene = Scene { master, runtime, _dir: dir };
        let segments = vec![segment(1, "s1"), segment(2, "s2")];
        let request = r::ReMountSegmentRequest { segments, client_id: CLIENT };
        scene.ask::<c::ReMountSegment>(&request).unwrap();
        scene
    }

    fn ask<C: Call>(&self, request: &C::Request<'_>) -> C::Response {
        self.runtime.block_on(async {
            let rpc = RpcClient::connect(self.master.address()).await.unwrap();
            rpc.call::<C>(request).await.unwrap()
        })
    }

    /// Starts to write an object; how many replicas it gets.
    fn put_start(&self, key: &str, config: ReplicateConfig<&[u8]>) -> usize {
        let (key, slice_length, client_id, tenant_id) = (key.as_bytes(), 1_000, CLIENT, TENANT);
        let start = r::PutStartRequest { client_id, key, slice_length, config, tenant_id };
        self.ask::<c::PutStart>(&start).unwrap().len()
    }

    fn put_end(&self, key: &str) {
        let object_meta = ObjectMeta { key: key.as_bytes(), object_checksum: None };
        let (client_id, replica_type, tenant_id) = (CLIENT, ReplicaType::ALL, TENANT);
        let end = r::PutEndRequest { client_id, object_meta, replica_type, tenant_id };
        self.ask::<c::PutEnd>(&end).unwrap();
    }

    /// Writes a soft-pinned object to `s1`.
    fn put(&self, key: &str) {
        let soft_pin_action = SoftPinAction::ENABLE;
        self.put_start(key, ReplicateConfig { soft_pin_action, ..on_s1() });
        self.put_end(key);
    }

    fn fetch(&self) -> Vec<TaskAssignment<Box<[u8]>>> {
        let request = r::FetchTasksRequest { client_id: CLIENT, batch_size: 16 };
        self.ask::<c::FetchTasks>(&request).unwrap()
    }

    fn complete(&self, task: &TaskAssignment<Box<[u8]>>, status: TaskStatus) {
        let request = TaskCompleteRequest { id: task.id, status, message: b"".as_slice() };
        let request = r::MarkTaskToCompleteRequest { client_id: CLIENT, request };
        self.ask::<c::MarkTaskToComplete>(&request).unwrap();
    }

    /// Carries a move out as its payload says.
    fn carry_out(&self, task: &TaskAssignment<Box<[u8]>>) {
        let payload: Json = serde_json::from_slice(&task.payload).unwrap();
        let text = |name: &str| payload[name].as_str().unwrap().to_owned();
        let (key, source, target) = (text("key"), text("source"), text("target"));
        let start = r::MoveStartRequest {
            client_id: CLIENT,
            key: key.as_bytes(),
            tenant_id: TENANT,
            src_segment: source.as_bytes(),
            tgt_segment: target.as_bytes(),
        };
        self.ask::<c::MoveStart>(&start).unwrap();
        let end = r::ClientKeyRequest { client_id: CLIENT, key: key.as_bytes(), tenant_id: TENANT };
        self.ask::<c::MoveEnd>(&end).unwrap();
        self.complete(task, TaskStatus::SUCCESS);
    }

    /// Code and body of a POST.
    fn post(&self, path: &str, body: &str) -> (u16, Json) {
        let (status, _, text) = self.master.http().send("POST", path, body.as_bytes());
        (status, serde_json::from_str(&text).unwrap())
    }

    /// Makes a job; its id.
    fn drain(&self, body: &str) -> String {
        let (status, body) = self.post("/api/v1/drain_jobs", body);
        assert_eq!((status, &body["status"]), (200, &"CREATED".into()), "{body}");
        body["job_id"].as_str().unwrap().to_owned()
    }

    fn job(&self, id: &str) -> Json {
        self.master.http().json(&format!("/api/v1/drain_jobs/query?job_id={id}"))
    }

    fn cancel(&self, id: &str) -> (u16, Json) {
        self.post(&format!("/api/v1/drain_jobs/cancel?job_id={id}"), "")
    }

    fn segment_status(&self, name: &str) -> String {
        let page = self.master.http().json(&format!("/api/v1/segments/status?segment={name}"));
        page["status_name"].as_str().unwrap().to_owned()
    }

    /// The deadlines of all soft pins.
    fn deadlines(&self) -> Vec<u64> {
        let page = self.master.http().json("/api/v1/soft_pins");
        let pins = page["pins"].as_array().unwrap();
        pins.iter().map(|pin| pin["deadline_ms"].as_u64().unwrap()).collect()
    }
}

#[test]
fn e22_a_job_goes_on_after_the_masters_death_and_its_segment_can_be_taken_away() {
    let mut scene = Scene::start();
    for key in ["a", "b", "c"] {
        scene.put(key);
    }
    let deadlines = scene.deadlines();
    let job = scene.drain(r#"{"segments":["s1"],"max_concurrency":2,"unknown":1}"#);
    assert_eq!(scene.segment_status("s1"), "DRAINING");
    eventually("two moves are wished for", || scene.job(&job)["active_units"] == 2);
    let tasks = scene.fetch();
    assert_eq!(tasks.len(), 2);
    scene.carry_out(&tasks[0]);
    scene.master.kill();
    scene.master.start_again();
    assert_eq!(scene.job(&job)["status_name"], "RUNNING");
    scene.carry_out(&tasks[1]);
    eventually("the third object is moved", || {
        scene.fetch().iter().for_each(|task| scene.carry_out(task));
        scene.job(&job)["status_name"] == "SUCCEEDED"
    });
    let record = scene.job(&job);
    assert_eq!((&record["type"], &record["type_name"]), (&0.into(), &"DRAIN".into()), "{record}");
    assert_eq!((&record["status"], &record["segments"]), (&3.into(), &serde_json::json!(["s1"])));
    let counts = ["succeeded_units", "failed_units", "blocked_units", "active_units"];
    assert_eq!(counts.map(|name| record[name].as_u64().unwrap()), [3, 0, 0, 0]);
    assert_eq!(record["migrated_bytes"], 3_000);
    assert_eq!(scene.segment_status("s1"), "DRAINED");
    assert_eq!(scene.deadlines(), deadlines);
    let unmount = r::UnmountSegmentRequest { segment_id: segment(1, "s1").id, client_id: CLIENT };
    assert_eq!(scene.ask::<c::UnmountSegment>(&unmount), Ok(()));
    assert_eq!(scene.master.count("master_key_count"), 3);
}

#[test]
fn h20_moves_that_fail_three_times_end_the_job_and_open_the_segment_again() {
    let scene = Scene::start();
    scene.put("k");
    let job = scene.drain(r#"{"segments":["s1"],"target_segments":["s2"]}"#);
    eventually("the job is given up", || {
        scene.fetch().iter().for_each(|task| scene.complete(task, TaskStatus::FAILED));
        scene.job(&job)["status_name"] == "FAILED"
    });
    assert_eq!(scene.job(&job)["failed_units"], 3);
    assert_eq!(scene.segment_status("s1"), "OK");
}

#[test]
fn an_object_that_every_other_segment_holds_is_no_obstacle() {
    let scene = Scene::start();
    let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    assert_eq!(scene.put_start("both", config), 2);
    scene.put_end("both");
    let job = scene.drain(r#"{"segments":["s1"]}"#);
    eventually("it is drained", || {
        scene.fetch().iter().for_each(|task| scene.carry_out(task));
        scene.job(&job)["status_name"] == "SUCCEEDED"
    });
    assert_eq!(scene.master.count("master_key_count"), 1);
}

#[test]
fn a_write_in_progress_blocks_a_job_that_can_be_canceled_meanwhile() {
    let scene = Scene::start();
    scene.put_start("open", on_s1());
    let job = scene.drain(r#"{"segments":["s1"]}"#);
    eventually("it is seen", || scene.job(&job)["blocked_units"] == 1);
    let (status, canceled) = scene.cancel(&job);
    assert_eq!((status, &canceled["status"]), (200, &"CANCELED".into()));
    assert_eq!(scene.segment_status("s1"), "OK");
    assert_eq!(scene.job(&job)["status"], 5);
    assert_eq!(scene.cancel(&job).0, 409);
}

#[test]
fn m8_every_wrong_request_has_its_own_refusal() {
    let scene = Scene::start();
    for (body, status, code) in [
        ("{bad", 400, -600),
        ("", 400, -600),
        ("{}", 400, -600),
        (r#"{"segments":[]}"#, 400, -600),
        (r#"{"segments":["nowhere"]}"#, 404, -101),
        (r#"{"segments":["s1","s1"]}"#, 400, -600),
        (r#"{"segments":["s1"],"max_concurrency":0}"#, 400, -600),
        (r#"{"segments":["s1"],"target_segments":["s1"]}"#, 400, -600),
    ] {
        let (told, answer) = scene.post("/api/v1/drain_jobs", body);
        assert_eq!((told, &answer["error_code"]), (status, &code.into()), "{body}: {answer}");
        assert_eq!(answer["success"], false);
    }
    for (query, status) in [("", 400), ("?job_id=xx", 400), ("?job_id=1-2", 404)] {
        let (told, _) = scene.master.http().get(&format!("/api/v1/drain_jobs/query{query}"));
        assert_eq!(told, status, "{query}");
        let (told, _) = scene.post(&format!("/api/v1/drain_jobs/cancel{query}"), "");
        assert_eq!(told, status, "{query}");
    }
    scene.drain(r#"{"segments":["s1"]}"#);
    let (status, answer) = scene.post("/api/v1/drain_jobs", r#"{"segments":["s1"]}"#);
    assert_eq!((status, &answer["error_code"]), (409, &(-1010).into()));
}
