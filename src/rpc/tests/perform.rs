//! Acts as calls, and answers in the model's words.

use std::collections::BTreeMap;

use super::act::{
    Act, How, KEEPER, PATTERNS, group_text, key_text, name_text, tenant_of, tenant_text,
};
use super::hands::Hands;
use super::look::left;
use super::mounts::segments;
use crate::model::{ClientId, TaskId, Uuid};
use crate::wire::types::{
    Descriptor, ObjectMeta, ReplicaDescriptor, ReplicaStatus, ReplicaType, ReplicateConfig,
    SoftPinAction, TaskCompleteRequest, TaskStatus, WireError,
};
use crate::wire::{Answer, calls as c, requests as r};

/// A replica as a client is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub id: u64,
    pub endpoint: String,
    pub address: u64,
    pub size: u64,
    pub is_done: bool,
}

/// A key as a reader is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub spots: Vec<Spot>,
    pub lease: u64,
    pub checksum: Option<u64>,
}

/// What a task's maker or asker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSeen {
    pub id: (u64, u64),
    pub status: i32,
    pub client: u64,
    pub message: String,
}

pub type Told<T> = Result<T, i32>;

/// What a step answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Nothing,
    Done(Vec<Told<()>>),
    Started(Vec<Told<Vec<Spot>>>),
    Shown(Vec<Told<Shown>>),
    Flags(Vec<bool>),
    Count(Told<i64>),
    Keys(Vec<String>),
    Matching(Told<BTreeMap<String, Vec<Spot>>>),
    Transfer(Told<(Spot, Vec<Spot>)>),
    Task(Told<TaskSeen>),
    Fetched(Vec<(u64, u64)>),
    Number(Told<i32>),
    Hosts(BTreeMap<u64, Vec<String>>),
    /// The ids of the replicas of each key, after an eviction.
    Left(BTreeMap<String, Vec<u64>>),
    Both(Box<Heard>, Box<Heard>),
}

pub fn client(n: u8) -> ClientId {
    ClientId(Uuid { first: u64::from(n), second: 77 })
}

fn number(error: WireError) -> i32 {
    error.0
}

pub fn told<T>(answer: Answer<T>) -> Told<T> {
    answer.map_err(number)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn spot(replica: &ReplicaDescriptor<Box<[u8]>>) -> Spot {
    let Descriptor::Memory(memory) = &replica.descriptor else { panic!("{replica:?}") };
    let at = &memory.buffer_descriptor;
    let is_done = replica.status == ReplicaStatus::COMPLETE;
    assert!(is_done || replica.status == ReplicaStatus::PROCESSING, "{replica:?}");
    Spot {
        id: replica.id.0,
        endpoint: text(&at.transport_endpoint),
        address: at.buffer_address,
        size: at.size,
        is_done,
    }
}

fn spots(replicas: Vec<ReplicaDescriptor<Box<[u8]>>>) -> Vec<Spot> {
    replicas.iter().map(spot).collect()
}

/// A tenant as the wire wants it.
fn tenant_id(tenant: u8) -> &'static [u8] {
    tenant_text(tenant).as_bytes()
}

/// The keys of a call as the wire wants them, and whose they are.
struct Keys(Vec<String>, &'static [u8]);

impl Keys {
    fn of(keys: &[u8]) -> Self {
        let tenant = keys.first().map_or(0, |key| tenant_of(*key));
        Keys(keys.iter().map(|key| key_text(*key)).collect(), tenant_id(tenant))
    }

    fn all(&self) -> Vec<&[u8]> {
        self.0.iter().map(String::as_bytes).collect()
    }

    fn first(&self) -> &[u8] {
        self.0[0].as_bytes()
    }

    fn metas(&self, object_checksum: Option<u64>) -> Vec<ObjectMeta<&[u8]>> {
        self.all().into_iter().map(|key| ObjectMeta { key, object_checksum }).collect()
    }
}

/// Does what an act says and tells what it answered.
pub async fn perform(hands: &mut Hands, act: &Act) -> Heard {
    match act {
        Act::Restart => {
            hands.restart().await;
            Heard::Nothing
        }
        Act::Race(one, other) => {
            let hands = &*hands;
            let (one, other) = tokio::join!(one_call(hands, one), one_call(hands, other));
            Heard::Both(Box::new(one), Box::new(other))
        }
        act => one_call(hands, act).await,
    }
}

async fn one_call(hands: &Hands, act: &Act) -> Heard {
    match act {
        Act::Pass(ms) => hands.pass(*ms),
        Act::SetWall(by) => hands.set_wall(*by),
        Act::Sweep => hands.node().sweep().await.unwrap(),
        Act::Expire => {
            hands.node().hear(client(KEEPER));
            hands.node().give_up_silent_clients().await.unwrap();
        }
        Act::FinishUnmounts => hands.node().finish_unmounts().await.unwrap(),
        Act::Evict => {
            hands.evict().await;
            return Heard::Left(left(hands));
        }
        Act::Start { .. } | Act::End { .. } | Act::Revoke { .. } => {
            return write(hands, act).await;
        }
        Act::Read { .. } | Act::Exists { .. } | Act::ReadMatching { .. } => {
            return read(hands, act).await;
        }
        Act::Remove { .. }
        | Act::RemoveAll { .. }
        | Act::RemoveMatching { .. }
        | Act::Clear { .. } => return remove(hands, act).await,
        Act::Transfer { .. } | Act::EndTransfer { .. } => return transfer(hands, act).await,
        Act::MakeTask { .. } | Act::Fetch { .. } | Act::Complete { .. } | Act::QueryTask { .. } => {
            return task(hands, act).await;
        }
        act => return segments(hands, act).await,
    }
    Heard::Nothing
}

async fn write(hands: &Hands, act: &Act) -> Heard {
    match act {
        Act::Start { by, keys, size, how, is_upsert, is_batch } => {
            start(hands, (*by, keys, *size), how, (*is_upsert, *is_batch)).await
        }
        Act::End { by, keys, kind, checksum, is_upsert, is_batch } => {
            let (keys, client_id) = (Keys::of(keys), client(by.unwrap()));
            let tenant_id = keys.1;
            let (object_metas, replica_type) = (keys.metas(*checksum), ReplicaType(*kind));
            let object_meta = object_metas[0].clone();
            let one = r::PutEndRequest { client_id, object_meta, replica_type, tenant_id };
            let ended = match (is_upsert, is_batch) {
                (false, false) => vec![hands.call::<c::PutEnd>(&one).await],
                (true, false) => vec![hands.call::<c::UpsertEnd>(&one).await],
                (false, true) => {
                    let all =
                        r::BatchPutEndRequest { client_id, object_metas, replica_type, tenant_id };
                    hands.call::<c::BatchPutEnd>(&all).await
                }
                (true, true) => {
                    let all = r::BatchUpsertEndRequest { client_id, object_metas, tenant_id };
                    hands.call::<c::BatchUpsertEnd>(&all).await
                }
            };
            Heard::Done(ended.into_iter().map(told).collect())
        }
        Act::Revoke { by, keys, kind, is_upsert, is_batch } => {
            let (keys, client_id) = (Keys::of(keys), client(by.unwrap()));
            let (replica_type, tenant_id) = (ReplicaType(*kind), keys.1);
            let key = keys.first();
            let one = r::PutRevokeRequest { client_id, key, replica_type, tenant_id };
            let keys = keys.all();
            let revoked = match (is_upsert, is_batch) {
                (false, false) => vec![hands.call::<c::PutRevoke>(&one).await],
                (true, false) => vec![hands.call::<c::UpsertRevoke>(&one).await],
                (false, true) => {
                    let all = r::BatchPutRevokeRequest { client_id, keys, replica_type, tenant_id };
                    hands.call::<c::BatchPutRevoke>(&all).await
                }
                (true, true) => {
                    let all = r::BatchUpsertRevokeRequest { client_id, keys, tenant_id };
                    hands.call::<c::BatchUpsertRevoke>(&all).await
                }
            };
            Heard::Done(revoked.into_iter().map(told).collect())
        }
        other => panic!("{other:?}"),
    }
}

async fn start(
    hands: &Hands,
    (by, keys, size): (u8, &[u8], u64),
    how: &How,
    (is_upsert, is_batch): (bool, bool),
) -> Heard {
    let (keys, client_id) = (Keys::of(keys), client(by));
    let tenant_id = keys.1;
    let group = how.group.map(group_text);
    let groups = keys.0.len() + usize::from(how.has_bad_groups);
    let group_ids = group.as_ref().map(|group| vec![group.as_bytes(); groups]);
    let preferred = how.preferred.iter().map(|name| name_text(*name).as_bytes());
    let config = ReplicateConfig {
        replica_num: how.copies,
        soft_pin_action: SoftPinAction(how.action),
        soft_pin_ttl_ms: how.ttl,
        with_hard_pin: how.is_hard,
        preferred_segments: preferred.collect(),
        group_ids,
        ..ReplicateConfig::default()
    };
    let started = if is_batch {
        let slice_lengths = vec![size; keys.0.len()];
        let keys = keys.all();
        let all = r::BatchPutStartRequest { client_id, keys, slice_lengths, config, tenant_id };
        match is_upsert {
            true => hands.call::<c::BatchUpsertStart>(&all).await,
            false => hands.call::<c::BatchPutStart>(&all).await,
        }
    } else {
        let (key, slice_length) = (keys.first(), size);
        let one = r::PutStartRequest { client_id, key, slice_length, config, tenant_id };
        match is_upsert {
            true => vec![hands.call::<c::UpsertStart>(&one).await],
            false => vec![hands.call::<c::PutStart>(&one).await],
        }
    };
    Heard::Started(started.into_iter().map(|one| told(one).map(spots)).collect())
}

async fn read(hands: &Hands, act: &Act) -> Heard {
    match act {
        Act::Read { keys, is_batch } => {
            let keys = Keys::of(keys);
            let tenant_id = keys.1;
            let one = r::KeyRequest { key: keys.first(), tenant_id };
            let found = match is_batch {
                false => vec![hands.call::<c::GetReplicaList>(&one).await],
                true => {
                    let all = r::KeysRequest { keys: keys.all(), tenant_id };
                    hands.call::<c::BatchGetReplicaList>(&all).await
                }
            };
            let shown = found.into_iter().map(|one| {
                let one = told(one)?;
                let (lease, checksum) = (one.lease_ttl_ms, one.object_checksum);
                Ok(Shown { spots: spots(one.replicas), lease, checksum })
            });
            Heard::Shown(shown.collect())
        }
        Act::Exists { keys, is_batch } => {
            let keys = Keys::of(keys);
            let tenant_id = keys.1;
            let one = r::KeyRequest { key: keys.first(), tenant_id };
            let found = match is_batch {
                false => vec![hands.call::<c::ExistKey>(&one).await],
                true => {
                    let all = r::KeysRequest { keys: keys.all(), tenant_id };
                    hands.call::<c::BatchExistKey>(&all).await
                }
            };
            Heard::Flags(found.into_iter().map(|one| told(one).unwrap()).collect())
        }
        Act::ReadMatching { tenant, pattern } => {
            let tenant_id = tenant_id(*tenant);
            let regex = PATTERNS[usize::from(*pattern)].0.as_bytes();
            let request = r::RegexRequest { regex, tenant_id };
            let found = told(hands.call::<c::GetReplicaListByRegex>(&request).await);
            let named = |(key, replicas): (Box<[u8]>, _)| (text(&key), spots(replicas));
            Heard::Matching(found.map(|found| found.0.into_iter().map(named).collect()))
        }
        other => panic!("{other:?}"),
    }
}

async fn remove(hands: &Hands, act: &Act) -> Heard {
    match act {
        Act::Remove { keys, force, is_batch } => {
            let (keys, force) = (Keys::of(keys), *force);
            let tenant_id = keys.1;
            let one = r::RemoveRequest { key: keys.first(), force, tenant_id };
            let removed = match is_batch {
                false => vec![hands.call::<c::Remove>(&one).await],
                true => {
                    let all = r::BatchRemoveRequest { keys: keys.all(), force, tenant_id };
                    hands.call::<c::BatchRemove>(&all).await
                }
            };
            Heard::Done(removed.into_iter().map(told).collect())
        }
        Act::RemoveAll { tenant, force } => {
            let tenant_id = tenant.map_or(b"".as_slice(), tenant_id);
            let request = r::RemoveAllRequest { force: *force, tenant_id };
            Heard::Count(Ok(hands.call::<c::RemoveAll>(&request).await))
        }
        Act::RemoveMatching { tenant, pattern, force } => {
            let tenant_id = tenant_id(*tenant);
            let (regex, force) = (PATTERNS[usize::from(*pattern)].0.as_bytes(), *force);
            let request = r::RemoveByRegexRequest { regex, force, tenant_id };
            Heard::Count(told(hands.call::<c::RemoveByRegex>(&request).await))
        }
        Act::Clear { by, keys, name } => {
            let keys = Keys::of(keys);
            let segment_name = name.map_or("", name_text).as_bytes();
            let (object_keys, client_id) = (keys.all(), client(by.unwrap()));
            let request = r::BatchReplicaClearRequest { object_keys, client_id, segment_name };
            let cleared = hands.call::<c::BatchReplicaClear>(&request).await.unwrap();
            Heard::Keys(cleared.iter().map(|key| text(key)).collect())
        }
        other => panic!("{other:?}"),
    }
}

async fn transfer(hands: &Hands, act: &Act) -> Heard {
    match act {
        Act::Transfer { by, key, is_move, from, to } => {
            let (text, client_id) = (key_text(*key), client(*by));
            let tenant_id = tenant_id(tenant_of(*key));
            let (key, src_segment) = (text.as_bytes(), name_text(from.unwrap()).as_bytes());
            let targets: Vec<&[u8]> = to.iter().map(|name| name_text(*name).as_bytes()).collect();
            if *is_move {
                let tgt_segment = targets[0];
                let request =
                    r::MoveStartRequest { client_id, key, tenant_id, src_segment, tgt_segment };
                let started = told(hands.call::<c::MoveStart>(&request).await);
                let target = |one| spots(Option::into_iter(one).collect());
                return Heard::Transfer(started.map(|s| (spot(&s.source), target(s.target))));
            }
            let tgt_segments = targets;
            let request =
                r::CopyStartRequest { client_id, key, tenant_id, src_segment, tgt_segments };
            let started = told(hands.call::<c::CopyStart>(&request).await);
            Heard::Transfer(started.map(|s| (spot(&s.source), spots(s.targets))))
        }
        Act::EndTransfer { by, key, is_move, is_revoke } => {
            let (text, client_id) = (key_text(*key), client(by.unwrap()));
            let tenant_id = tenant_id(tenant_of(*key));
            let request = r::ClientKeyRequest { client_id, key: text.as_bytes(), tenant_id };
            let ended = match (is_move.unwrap(), is_revoke) {
                (false, false) => hands.call::<c::CopyEnd>(&request).await,
                (false, true) => hands.call::<c::CopyRevoke>(&request).await,
                (true, false) => hands.call::<c::MoveEnd>(&request).await,
                (true, true) => hands.call::<c::MoveRevoke>(&request).await,
            };
            Heard::Done(vec![told(ended)])
        }
        other => panic!("{other:?}"),
    }
}

async fn query(hands: &Hands, id: (u64, u64)) -> Told<TaskSeen> {
    let task = TaskId(Uuid { first: id.0, second: id.1 });
    let seen = told(hands.call::<c::QueryTask>(&task).await)?;
    let (status, client) = (seen.status.0, seen.assigned_client.0.first);
    Ok(TaskSeen { id, status, client, message: text(&seen.message) })
}

/// Tasks are named by their place among those ever made; [`super::model::Model::aim`] keeps their ids.
async fn task(hands: &Hands, act: &Act) -> Heard {
    match act {
        Act::MakeTask { key, is_move, from, to } => {
            let (text, tenant_id) = (key_text(*key), tenant_id(tenant_of(*key)));
            let (key, source) = (text.as_bytes(), name_text(*from).as_bytes());
            let targets: Vec<&[u8]> = to.iter().map(|name| name_text(*name).as_bytes()).collect();
            let made = if *is_move {
                let target = targets[0];
                let request = r::CreateMoveTaskRequest { key, tenant_id, source, target };
                hands.call::<c::CreateMoveTask>(&request).await
            } else {
                let request = r::CreateCopyTaskRequest { key, tenant_id, targets };
                hands.call::<c::CreateCopyTask>(&request).await
            };
            match told(made) {
                Ok(task) => {
                    let id = (task.0.first, task.0.second);
                    hands.remember_task(id);
                    Heard::Task(query(hands, id).await)
                }
                Err(code) => Heard::Task(Err(code)),
            }
        }
        Act::Fetch { by, count } => {
            let request = r::FetchTasksRequest { client_id: client(*by), batch_size: *count };
            let fetched = hands.call::<c::FetchTasks>(&request).await.unwrap();
            Heard::Fetched(fetched.iter().map(|t| (t.id.0.first, t.id.0.second)).collect())
        }
        Act::Complete { by, task, status } => {
            let id = hands.task_id(*task);
            let request = TaskCompleteRequest {
                id: TaskId(Uuid { first: id.0, second: id.1 }),
                status: TaskStatus(*status),
                message: b"done".as_slice(),
            };
            let client_id = client(by.unwrap());
            let request = r::MarkTaskToCompleteRequest { client_id, request };
            Heard::Done(vec![told(hands.call::<c::MarkTaskToComplete>(&request).await)])
        }
        Act::QueryTask { task } => Heard::Task(query(hands, hands.task_id(*task)).await),
        other => panic!("{other:?}"),
    }
}
