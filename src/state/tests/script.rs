//! Random histories: steps of small numbers, made into commands beside the state that they meet.
//!
//! Few keys, clients and segments, so that steps meet: zombies are replaced, segments vanish under open
//! writes, sweeps find something. A step becomes the same entry for every state it is fed to.

use std::sync::Arc;

use proptest::prelude::*;

use super::drain::{JobAct, job_act, job_command};
use super::dynamic::{HotAct, hot_act, hot_command};
use super::script_tiers::{TierAct, tier_act, tier_command};
use super::world::{RULES, client, key, leadership, segment, segment_id};
use crate::alloc::Strategy as Placement;
use crate::model::{
    Millis, Object, PinRequest, ReplicaId, ReplicaSelect, Segment, TaskId, Tenant, TenantIdx, Ttl,
    Uuid,
};
use crate::state::State;
use crate::state::command::{
    ClearReplicas, Command, End, EndItem, Entry, ExpiredClient, Key, Remove, Revoke, Stamp, Start,
    StartItem, Sweep, SweepPins, WriteConfig, WriteRules,
};
use crate::state::evict::{Evict, Victim, incarnation};
use crate::state::guard::Published;
use crate::state::table::table_hash;
use crate::state::tasks::{TaskComplete, TaskCreate, TaskRules, TasksFetch};
use crate::state::tenants::{TenantChange, TenantPolicy};
use crate::state::transfer::{TransferEnd, TransferKind, TransferStart, TransferVerdict};

const KEYS: u8 = 6;
const CLIENTS: u64 = 3;
pub const SEGMENTS: u64 = 6;
const SIZES: [u64; 6] = [1, 100, 4_096, 70_000, 300_000, 900_000];

/// Keys of one command; a key may be named twice.
type Names = Vec<u8>;

#[derive(Clone, Debug)]
pub enum Act {
    Start { by: u64, tenant: bool, names: Names, size: u64, config: WriteConfig, place: Placement },
    Upsert { by: u64, tenant: bool, names: Names, size: u64, config: WriteConfig },
    Group { by: u64, name: u8, size: u64, group: u8, is_upsert: bool },
    Clear { by: u64, names: Names, segment: Option<u64> },
    Graceful { by: u64, n: u64, grace_ms: u64 },
    End { by: u64, tenant: bool, names: Names, select: ReplicaSelect, checksum: Option<u64> },
    Revoke { by: u64, tenant: bool, names: Names, select: ReplicaSelect },
    Remove { tenant: bool, names: Names },
    Mount { by: u64, n: u64, size: u64 },
    ReMount { by: u64, from: u64, count: u64 },
    Unmount { by: u64, n: u64 },
    Drain { n: u64, allocations_max: u32 },
    Expire { by: u64, is_current: bool },
    Sweep { back: u64, items_max: u32 },
    SweepPins { back: u64, shards: u16 },
    MetadataPut { name: u8, value: u8 },
    MetadataDelete { name: u8 },
    Lead { term: u64 },
    Transfer { by: u64, name: u8, is_move: bool, from: u8, to: Vec<u8> },
    EndTransfer { by: Option<u64>, name: u8, is_move: Option<bool>, is_revoke: bool },
    Task { id: u64, name: u8, from: Option<u8>, to: Vec<u8> },
    Fetch { by: u64, tasks_max: u32 },
    Complete { by: u64, id: u64, is_success: bool },
    Evict { names: Names, is_stale: bool, spares_soft_pinned: bool },
    Snapshot { is_published: bool },
    RemoveLeased { names: Names, lease_ms: u64 },
    Quotas { is_enforced: bool, default: u64, named: Option<u64> },
    Tier(TierAct),
    Job(JobAct),
    Hot(HotAct),
    Noop,
}

/// One entry: how far the leader's clock moves, and what it asks.
#[derive(Clone, Debug)]
pub struct Step {
    pub time: i64,
    pub seed: u64,
    pub acts: Vec<Act>,
}

/// A segment of a script: two share a name, hosts differ.
pub fn scripted_segment(n: u64, size: u64) -> Segment {
    let name = Arc::from(["a", "b", "c", "a", "d", "e"][(n % SEGMENTS) as usize]);
    let host_id = Arc::from(["east", "west", ""][(n % 3) as usize]);
    Segment { name, host_id, ..segment(n + 1, size) }
}

fn names() -> impl Strategy<Value = Names> {
    prop::collection::vec(0..KEYS, 1..4)
}

fn select() -> impl Strategy<Value = ReplicaSelect> {
    use ReplicaSelect::{All, Disk, Memory, NoF};
    prop_oneof![6 => Just(All), 4 => Just(Memory), 1 => Just(Disk), 1 => Just(NoF)]
}

fn pin() -> impl Strategy<Value = PinRequest> {
    prop_oneof![
        2 => Just(PinRequest::Preserve),
        2 => Just(PinRequest::Disable),
        5 => prop_oneof![Just(0), 1..200_000_u64, Just(u64::MAX)]
            .prop_map(|ttl| PinRequest::Enable(Ttl(ttl))),
    ]
}

fn config() -> impl Strategy<Value = WriteConfig> {
    let preferred = prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "x"]), 0..3);
    let host = prop::sample::select(vec!["", "east", "west"]);
    (1..4_u32, pin(), any::<bool>(), 0..4_u8, preferred, any::<bool>(), host).prop_map(
        |(replica_num, pin, is_hard_pinned, data_type, preferred, near, host)| WriteConfig {
            replica_num,
            pin,
            is_hard_pinned,
            data_type,
            preferred: preferred.into_iter().map(Arc::from).collect(),
            is_same_node_preferred: near,
            host_id: Arc::from(host),
        },
    )
}

fn placement() -> impl Strategy<Value = Placement> {
    use Placement::{FreeRatioFirst, LocalFirst, Random};
    prop::sample::select(vec![Random, FreeRatioFirst, LocalFirst])
}

/// What writers of objects do, and the owners of segments.
fn act() -> impl Strategy<Value = Act> {
    let by = || 1..=CLIENTS;
    let tenant = || prop::bool::weighted(0.2);
    let n = || 0..SEGMENTS;
    let size = || prop::sample::select(SIZES.to_vec());
    let room = prop::sample::select(vec![1 << 20, 1 << 19, 200_000_u64]);
    let items_max = prop_oneof![1..3_u32, Just(1_000)];
    prop_oneof![
        12 => (by(), tenant(), names(), size(), config(), placement()).prop_map(
            |(by, tenant, names, size, config, place)| {
                Act::Start { by, tenant, names, size, config, place }
            }
        ),
        12 => (by(), tenant(), names(), select(), prop::option::of(any::<u64>())).prop_map(
            |(by, tenant, names, select, checksum)| {
                Act::End { by, tenant, names, select, checksum }
            }
        ),
        3 => (by(), tenant(), names(), select())
            .prop_map(|(by, tenant, names, select)| Act::Revoke { by, tenant, names, select }),
        3 => (tenant(), names()).prop_map(|(tenant, names)| Act::Remove { tenant, names }),
        6 => (by(), n(), room).prop_map(|(by, n, size)| Act::Mount { by, n, size }),
        2 => (by(), n(), 0..3_u64).prop_map(|(by, from, count)| Act::ReMount { by, from, count }),
        2 => (by(), n()).prop_map(|(by, n)| Act::Unmount { by, n }),
        6 => (n(), 1..4_u32).prop_map(|(n, allocations_max)| Act::Drain { n, allocations_max }),
        2 => (by(), any::<bool>()).prop_map(|(by, is_current)| Act::Expire { by, is_current }),
        5 => (prop_oneof![Just(0), 0..50_000_u64], items_max)
            .prop_map(|(back, items_max)| Act::Sweep { back, items_max }),
        3 => (prop_oneof![Just(0), 0..50_000_u64], 0..1_100_u16)
            .prop_map(|(back, shards)| Act::SweepPins { back, shards }),
        1 => (0..4_u8, 0..3_u8).prop_map(|(name, value)| Act::MetadataPut { name, value }),
        1 => (0..4_u8).prop_map(|name| Act::MetadataDelete { name }),
        1 => (1..9_u64).prop_map(|term| Act::Lead { term }),
        1 => Just(Act::Noop),
    ]
}

fn upsert_act() -> impl Strategy<Value = Act> {
    let by = || 1..=CLIENTS;
    let tenant = || prop::bool::weighted(0.2);
    let n = || 0..SEGMENTS;
    let size = || prop::sample::select(SIZES.to_vec());
    prop_oneof![
        8 => (by(), tenant(), names(), size(), config()).prop_map(
            |(by, tenant, names, size, config)| Act::Upsert { by, tenant, names, size, config }
        ),
        6 => (by(), 0..KEYS, size(), 0..3_u8, any::<bool>()).prop_map(
            |(by, name, size, group, is_upsert)| Act::Group { by, name, size, group, is_upsert }
        ),
        2 => (by(), names(), prop::option::of(n()))
            .prop_map(|(by, names, segment)| Act::Clear { by, names, segment }),
        1 => (by(), n(), 0..60_000_u64)
            .prop_map(|(by, n, grace_ms)| Act::Graceful { by, n, grace_ms }),
    ]
}

fn transfer_act() -> impl Strategy<Value = Act> {
    let by = || 1..=CLIENTS;
    let at = || 0..5_u8;
    let places = || prop::collection::vec(at(), 0..3);
    let caller = prop_oneof![4 => Just(None), 1 => by().prop_map(Some)];
    let kind = prop_oneof![4 => Just(None), 1 => any::<bool>().prop_map(Some)];
    prop_oneof![
        8 => (by(), 0..KEYS, any::<bool>(), at(), places()).prop_map(
            |(by, name, is_move, from, to)| Act::Transfer { by, name, is_move, from, to }
        ),
        8 => (caller, 0..KEYS, kind, any::<bool>()).prop_map(
            |(by, name, is_move, is_revoke)| Act::EndTransfer { by, name, is_move, is_revoke }
        ),
        4 => (0..20_u64, 0..KEYS, prop::option::of(at()), places())
            .prop_map(|(id, name, from, to)| Act::Task { id, name, from, to }),
        2 => (by(), 0..3_u32).prop_map(|(by, tasks_max)| Act::Fetch { by, tasks_max }),
        2 => (by(), 0..20_u64, any::<bool>())
            .prop_map(|(by, id, is_success)| Act::Complete { by, id, is_success }),
        4 => prop::bool::weighted(0.3).prop_map(|is_published| Act::Snapshot { is_published }),
        1 => (prop::bool::weighted(0.5), quota(), prop::option::of(quota())).prop_map(
            |(is_enforced, default, named)| Act::Quotas { is_enforced, default, named }
        ),
        1 => (names(), 0..60_000_u64)
            .prop_map(|(names, lease_ms)| Act::RemoveLeased { names, lease_ms }),
        3 => (names(), prop::bool::weighted(0.2), any::<bool>()).prop_map(
            |(names, is_stale, spares_soft_pinned)| {
                Act::Evict { names, is_stale, spares_soft_pinned }
            }
        ),
    ]
}

/// From one that nothing fits into to one that is no limit.
fn quota() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![50, 400_000, 2_000_000, u64::MAX >> 1])
}

/// One random entry of up to three commands; now and then the clock steps back.
pub fn step() -> impl Strategy<Value = Step> {
    let acts = prop_oneof![57 => act(), 17 => upsert_act(), 12 => transfer_act(),
        20 => tier_act().prop_map(Act::Tier),
        4 => job_act().prop_map(Act::Job),
        8 => hot_act().prop_map(Act::Hot)];
    step_of(acts)
}

/// As [`step`], without upserts, groups, copies, moves, tasks and evictions.
pub fn plain_step() -> impl Strategy<Value = Step> {
    step_of(act())
}

fn step_of(act: impl Strategy<Value = Act>) -> impl Strategy<Value = Step> {
    let time = prop_oneof![6 => 0..9_000_i64, 2 => 0..45_000_i64, 1 => -20_000..0_i64];
    (time, any::<u64>(), prop::collection::vec(act, 1..4)).prop_map(|(time, seed, acts)| Step {
        time,
        seed,
        acts,
    })
}

/// What every script begins with, so that there is room to write.
pub fn opening() -> Vec<Step> {
    let mount = |n| Act::Mount { by: 1 + n % CLIENTS, n, size: 1 << 20 };
    vec![Step { time: 1_000_000, seed: 1, acts: (0..3).map(mount).collect() }]
}

fn tenant(is_named: bool) -> Option<Tenant> {
    is_named.then(|| Tenant::parse("tA").unwrap())
}

/// The key of a script's number; one is long, one is not UTF-8.
pub fn scripted_key(name: u8) -> Key {
    match name {
        4 => Key(vec![b'k'; 300]),
        5 => Key(vec![0xff, 0, 0xfe]),
        name => key(&format!("k{name}")),
    }
}

fn keys(names: &[u8]) -> Vec<Key> {
    names.iter().map(|name| scripted_key(*name)).collect()
}

fn command(act: &Act, state: &State, now: Millis) -> Command {
    match act.clone() {
        Act::Start { by, tenant: is_named, names, size, config, place } => {
            let item = |key| StartItem { key, size, group: None };
            let items = keys(&names).into_iter().map(item).collect();
            let rules = WriteRules { strategy: place, ..RULES };
            let tenant = tenant(is_named);
            Command::PutStart(Start { client: client(by), tenant, items, config, rules })
        }
        Act::Upsert { .. } | Act::Group { .. } | Act::Clear { .. } | Act::Graceful { .. } => {
            later_command(act)
        }
        Act::End { by, tenant: is_named, names, select, checksum } => {
            let items = keys(&names).into_iter().map(|key| EndItem { key, checksum }).collect();
            let tenant = tenant(is_named);
            Command::PutEnd(End { client: client(by), tenant, items, select })
        }
        Act::Revoke { by, tenant: is_named, names, select } => {
            let (tenant, keys) = (tenant(is_named), keys(&names));
            Command::PutRevoke(Revoke { client: client(by), tenant, keys, select })
        }
        Act::Remove { tenant: is_named, names } => {
            Command::Remove(Remove { tenant: tenant(is_named), keys: keys(&names) })
        }
        Act::Mount { by, n, size } => {
            Command::MountSegment { segment: scripted_segment(n, size), client: client(by) }
        }
        Act::ReMount { by, from, count } => {
            let segments = (from..from + count).map(|n| scripted_segment(n % SEGMENTS, 1 << 20));
            Command::ReMountSegment { segments: segments.collect(), client: client(by) }
        }
        Act::Unmount { by, n } => {
            Command::UnmountSegment { segment: segment_id(n + 1), client: client(by) }
        }
        Act::Drain { n, allocations_max } => {
            Command::DrainUnmounted { segment: segment_id(n + 1), allocations_max }
        }
        Act::Expire { by, is_current } => {
            let record = state.clients().get(client(by));
            let incarnation = record.map_or(1, |record| record.incarnation);
            let incarnation = if is_current { incarnation } else { incarnation + 1 };
            Command::ExpireClients(vec![ExpiredClient { client: client(by), incarnation }])
        }
        Act::Sweep { back, items_max } => {
            let pins_until = Millis(now.0.saturating_sub(back));
            let release_timeout_ms = RULES.release_timeout_ms;
            Command::Sweep(Sweep { pins_until, items_max, release_timeout_ms, tasks: TASK_RULES })
        }
        Act::SweepPins { back, shards } => {
            let until = Millis(now.0.saturating_sub(back));
            Command::SweepPins(SweepPins { until, shards })
        }
        Act::MetadataPut { name, value } => {
            Command::MetadataPut { key: metadata_key(name), value: Key(vec![value; 5]) }
        }
        Act::MetadataDelete { name } => Command::MetadataDelete { key: metadata_key(name) },
        Act::Lead { term } => Command::Lead(leadership(term)),
        Act::Tier(act) => Command::Tier(tier_command(act, state)),
        Act::Job(act) => Command::Drain(job_command(act, state)),
        Act::Hot(act) => Command::Dynamic(hot_command(act, state)),
        act => transfer_command(act, state),
    }
}

const TASK_RULES: TaskRules =
    TaskRules { pending_timeout_ms: 20_000, processing_timeout_ms: 30_000, finished_max: 3 };

/// The name of one of the scripted segments.
fn place(at: u8) -> Arc<str> {
    Arc::from(["a", "b", "c", "d", "e"][usize::from(at)])
}

fn transfer_command(act: Act, state: &State) -> Command {
    let kind = |is_move| if is_move { TransferKind::Move } else { TransferKind::Copy };
    match act {
        Act::Transfer { by, name, is_move, from, to } => {
            let mut targets: Vec<_> = to.into_iter().map(place).collect();
            targets.truncate(if is_move { 1 } else { 3 });
            let (tenant, key, source) = (None, scripted_key(name), place(from));
            let (client, kind) = (client(by), kind(is_move));
            Command::TransferStart(TransferStart { client, tenant, key, kind, source, targets })
        }
        Act::EndTransfer { by, name, is_move, is_revoke } => {
            let key = scripted_key(name);
            let open = state.transfers().iter().find(|transfer| *transfer.name.key == *key.0);
            let starter = open.map_or(client(1), |open| open.client);
            let started = open.map_or(TransferKind::Copy, |open| open.kind);
            let done = if is_revoke { TransferVerdict::Revoked } else { TransferVerdict::Done };
            Command::TransferEnd(TransferEnd {
                client: by.map_or(starter, client),
                tenant: None,
                key,
                kind: is_move.map_or(started, kind),
                verdict: done,
                is_dynamic: false,
                release_timeout_ms: RULES.release_timeout_ms,
            })
        }
        Act::Task { id, name, from, to } => Command::TaskCreate(TaskCreate {
            // The same id never comes twice from a leader.
            id: TaskId(Uuid { first: id, second: state.tasks().iter().count() as u64 }),
            kind: kind(from.is_some()),
            tenant: None,
            key: scripted_key(name),
            source: from.map(place),
            targets: to.into_iter().map(place).collect(),
            pending_max: 4,
        }),
        Act::Fetch { by, tasks_max } => {
            Command::TasksFetch(TasksFetch { client: client(by), tasks_max, processing_max: 2 })
        }
        Act::Complete { by, id, is_success } => {
            let task = state.tasks().iter().nth(id as usize % 4);
            let id = task.map_or(TaskId::default(), |task| task.id);
            let client = task.filter(|_| by > 1).map_or(client(by), |task| task.client);
            let message = "done".to_owned();
            Command::TaskComplete(TaskComplete { client, id, is_success, message })
        }
        Act::Evict { names, is_stale, spares_soft_pinned } => {
            let victims = keys(&names).into_iter().map(|key| {
                let hash = table_hash(&Tenant::default(), &key.0);
                let look = |object: Option<&Object>| object.map(incarnation).unwrap_or_default();
                let now = state.view().table.look(hash, TenantIdx(0), &key.0, look);
                let incarnation = if is_stale { ReplicaId(now.0 + 1) } else { now };
                Victim { tenant: None, key, incarnation }
            });
            Command::Evict(Evict { victims: victims.collect(), spares_soft_pinned })
        }
        Act::Snapshot { is_published: true } => {
            let (generation, _) = state.guard().generations();
            let next_replica_id = state.freeze().next_replica_id();
            Command::SnapshotPublished(Published { generation, next_replica_id })
        }
        Act::Snapshot { is_published: false } => Command::SnapshotBegin,
        Act::Quotas { is_enforced, default, named } => quotas(is_enforced, default, named),
        Act::RemoveLeased { names, lease_ms } => {
            let remove = Remove { tenant: None, keys: keys(&names) };
            Command::RemoveLeased { remove, leased_until: Millis(state.clock().0 + lease_ms) }
        }
        _ => Command::Noop,
    }
}

fn quotas(is_enforced: bool, default: u64, named: Option<u64>) -> Command {
    let policy = |tenant, quota_bytes| TenantPolicy { tenant, quota_bytes };
    let named = named.map(|quota| policy(Tenant::parse("tA").unwrap(), quota));
    let policies = named.into_iter().chain([policy(Tenant::default(), default)]);
    let policies = Some(policies.collect());
    Command::Tenants(TenantChange::Setup { is_enforced, file: None, policies })
}

/// The commands that came after the first ones.
fn later_command(act: &Act) -> Command {
    match act.clone() {
        Act::Upsert { by, tenant: is_named, names, size, config } => {
            let item = |key| StartItem { key, size, group: None };
            let items = keys(&names).into_iter().map(item).collect();
            let tenant = tenant(is_named);
            let start = Start { client: client(by), tenant, items, config, rules: RULES };
            Command::UpsertStart(start)
        }
        Act::Group { by, name, size, group, is_upsert } => {
            let group = Some(if group == 0 { key("") } else { key(&format!("g{group}")) });
            let items = vec![StartItem { key: scripted_key(name), size, group }];
            let config = super::world::config(1, PinRequest::Enable(Ttl(90_000)));
            let start = Start { client: client(by), tenant: None, items, config, rules: RULES };
            if is_upsert { Command::UpsertStart(start) } else { Command::PutStart(start) }
        }
        Act::Clear { by, names, segment } => {
            let segment = segment.map(|n| scripted_segment(n, 1).name);
            let (client, keys) = (client(by), keys(&names));
            Command::ClearReplicas(ClearReplicas { tenant: None, client, segment, keys })
        }
        Act::Graceful { by, n, grace_ms } => {
            let segment = segment_id(n + 1);
            Command::GracefulUnmount { segment, client: client(by), grace_ms }
        }
        other => panic!("{other:?}"),
    }
}

fn metadata_key(name: u8) -> Key {
    key(&format!("mooncake/{}/{name}", if name < 2 { "rpc_meta" } else { "ram" }))
}

/// A script on its way: holds the leader's clock.
#[derive(Debug, Default)]
pub struct Script {
    now: i64,
}

impl Script {
    /// The entry of the next step, for a state like `state`.
    pub fn entry(&mut self, step: &Step, state: &State) -> Entry {
        self.now += step.time;
        let now = Millis(u64::try_from(self.now).unwrap());
        let stamp = Stamp { now, seed: step.seed };
        let commands = step.acts.iter().map(|act| command(act, state, now)).collect();
        Entry { stamp, commands }
    }
}
