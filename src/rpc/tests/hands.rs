//! A still master: real rooms, a real log in a temporary directory, nothing that moves by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use tokio::sync::Mutex;

use super::act::{DORMANT_BYTES, TENANTS, tenant_text};
use super::model::Rules;
use crate::alloc::Strategy;
use crate::clock::{Clock, ManualClock};
use crate::config::Config;
use crate::leader::evictor::EvictionOrder;
use crate::metrics::Metrics;
use crate::model::{Millis, Tenant, Ttl};
use crate::node::MasterNode;
use crate::node::drive::Drive;
use crate::node::settings::NodeSettings;
use crate::rpc::dispatch::dispatch;
use crate::rpc::{Service, StorageAnswer};
use crate::state::command::Command;
use crate::state::tenants::{TenantChange, TenantPolicy};
use crate::wire::frame::{RESPONSE_HEAD_BYTES, RequestHead, ResponseHead};
use crate::wire::older::Release;
use crate::wire::{Call, decode_response, encode_request};

/// The wall clock when a history begins.
const START_MS: u64 = 1_800_000_000_000;

/// How often and how fast a directory is tried that is still in use.
const OPENS_MAX: u32 = 2_000;
const OPEN_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

struct Running {
    service: Service,
    /// The evictor's memory, which its loop would hold.
    order: Mutex<EvictionOrder>,
}

/// The master and everything that moves it.
pub struct Hands {
    dir: TempDir,
    clock: Arc<ManualClock>,
    settings: NodeSettings,
    rolls: Arc<AtomicU64>,
    /// Ids of the tasks made, in order.
    tasks: parking_lot::Mutex<Vec<(u64, u64)>>,
    running: Option<Running>,
}

fn settings(rules: &Rules) -> NodeSettings {
    let mut settings = NodeSettings::new(&Config::default(), "h:50051", "h:9003");
    settings.lease_ttl = Ttl(rules.lease);
    settings.pins.default_ttl = Ttl(rules.pin_default);
    settings.pins.max_ttl = Ttl(rules.pin_max);
    settings.rules.discard_timeout_ms = rules.discard;
    settings.rules.release_timeout_ms = rules.release;
    settings.rules.strategy = match rules.strategy {
        0 => Strategy::Random,
        1 => Strategy::FreeRatioFirst,
        _ => Strategy::LocalFirst,
    };
    settings.tenants.is_enabled = true;
    settings.client_ttl = std::time::Duration::from_millis(rules.client_ttl);
    settings.tasks.pending_max = rules.tasks_pending as u32;
    settings.tasks.processing_max = rules.tasks_running as u32;
    settings.tasks.rules.pending_timeout_ms = rules.task_pending_timeout;
    settings.tasks.rules.processing_timeout_ms = rules.task_running_timeout;
    settings.tasks.rules.finished_max = rules.tasks_finished as u32;
    settings.eviction.ratio_ppm = rules.evict_ppm as u32;
    settings.eviction.high_watermark_ppm = rules.high_ppm as u32;
    settings.eviction.allows_soft_pinned = rules.allows_pinned;
    settings
}

impl Hands {
    pub async fn new(rules: &Rules) -> Self {
        let mut hands = Hands {
            dir: TempDir::new().unwrap(),
            clock: Arc::new(ManualClock::at(Millis(START_MS))),
            settings: settings(rules),
            rolls: Arc::default(),
            tasks: parking_lot::Mutex::default(),
            running: None,
        };
        hands.open().await;
        hands.admit_tenants().await;
        super::mounts::mount_dormant(&hands).await;
        hands
    }

    /// Gives every tenant a quota that it cannot use up, as a policy file would.
    async fn admit_tenants(&self) {
        let policy = |tenant| TenantPolicy {
            tenant: Tenant::parse(tenant_text(tenant)).unwrap(),
            quota_bytes: DORMANT_BYTES / u64::from(TENANTS),
        };
        let policies = Some((0..TENANTS).map(policy).collect());
        let setup = TenantChange::Setup { is_enforced: true, file: None, policies };
        self.node().propose(&Command::Tenants(setup)).await.unwrap();
    }

    /// Opens the directory, which the threads of an earlier node may still be leaving.
    async fn open(&mut self) {
        let mut raft = mooncake_ha_raft::Config::new(1, "test", self.dir.path().join("data"));
        raft.durability = mooncake_ha_raft::Durability::Async;
        let mut tries = 0;
        let node = loop {
            let rolls = Arc::clone(&self.rolls);
            let chance = Box::new(move || rolls.fetch_add(1, Ordering::Relaxed));
            let drive = Drive { chance, has_loops: false, callers: None };
            let (settings, clock) = (self.settings.clone(), Arc::clone(&self.clock));
            match MasterNode::open_driven(raft.clone(), settings, clock, drive).await {
                Ok(node) => break node,
                Err(error) if tries == OPENS_MAX => panic!("{error}"),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(OPEN_PAUSE).await;
        };
        let order = Mutex::new(node.build_order().await);
        let storage = StorageAnswer::default();
        let service = Service::new(node, Arc::new(Metrics::default()), storage, None, true);
        self.running = Some(Running { service, order });
    }

    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.service.node.shutdown().await;
        }
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.open().await;
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    pub fn node(&self) -> &MasterNode {
        &self.running().service.node
    }

    /// One call, from bytes to bytes.
    pub async fn call<C: Call>(&self, request: &C::Request<'_>) -> C::Response {
        let (mut frame, mut out) = (Vec::new(), Vec::new());
        encode_request::<C>(1, request, &mut frame);
        let (head, _) = RequestHead::parse(&frame).unwrap().unwrap();
        dispatch(&self.running().service, &head, Release::V0313, head.body(&frame), &mut out)
            .await
            .unwrap();
        let (head, _) = ResponseHead::parse(&out).unwrap().unwrap();
        assert_eq!(head.rpc_error, 0, "the RPC layer refused the call");
        decode_response::<C>(&out[RESPONSE_HEAD_BYTES..]).unwrap()
    }

    pub fn pass(&self, ms: u64) {
        self.clock.advance_ms(ms);
    }

    pub fn set_wall(&self, by: i64) {
        let now = self.clock.wall().0;
        self.clock.step_wall_to(Millis(now.saturating_add_signed(by)));
    }

    /// The leader's time.
    pub fn now(&self) -> u64 {
        let node = self.node();
        node.clock().now(node.machine().view().clock()).0
    }

    pub fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap()
    }

    pub async fn evict(&self) {
        let leader = self.node().leader().unwrap();
        let mut order = self.running().order.lock().await;
        self.node().evict_if_due(&leader, &mut order).await;
    }

    pub fn remember_task(&self, id: (u64, u64)) {
        self.tasks.lock().push(id);
    }

    /// The id of the task made as number `at`; nobody's if there is none.
    pub fn task_id(&self, at: u8) -> (u64, u64) {
        self.tasks.lock().get(usize::from(at)).copied().unwrap_or_default()
    }
}
