//! Units of work: which calls an operation makes, and what their answers mean.
//!
//! A unit is what a user waits for: one call, or Start and End of a write. Guards: every answer is decoded as
//! a whole, so that a server cannot be fast by answering wrongly.

use std::str::FromStr;
use std::time::Duration;

use super::BenchError;
use super::keys::KeyShape;
use super::link::Link;
use crate::model::{ClientId, ErrorCode};
use crate::rpc::client::ResponseFrame;
use crate::wire::calls::{
    BatchExistKey, BatchGetReplicaList, BatchPutEnd, BatchPutStart, BatchRemove, BatchUpsertEnd,
    BatchUpsertStart, ExistKey, GetReplicaList, PutEnd, PutStart, Remove, ServiceReady, UpsertEnd,
    UpsertStart,
};
use crate::wire::requests::{
    BatchPutEndRequest, BatchPutStartRequest, BatchRemoveRequest, BatchUpsertEndRequest,
    KeyRequest, KeysRequest, PutEndRequest, PutStartRequest, RemoveRequest,
};
use crate::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig, SoftPinAction, WireError};
use crate::wire::{Call, NoArguments, decode_response};

/// Keys of one call at most.
pub const BATCH_MAX: usize = 10_000;

/// The tenant of every key.
const TENANT: &[u8] = b"default";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// ServiceReady: the protocol alone.
    Ready,
    /// ExistKey.
    Exist,
    /// GetReplicaList.
    Get,
    /// PutStart and PutEnd of new keys.
    Put,
    /// UpsertStart and UpsertEnd of known keys with the same size.
    Upsert,
    /// Remove of keys that nobody has read.
    Remove,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 6] = [
        Operation::Ready,
        Operation::Exist,
        Operation::Get,
        Operation::Put,
        Operation::Upsert,
        Operation::Remove,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Ready => "ready",
            Operation::Exist => "exist",
            Operation::Get => "get",
            Operation::Put => "put",
            Operation::Upsert => "upsert",
            Operation::Remove => "remove",
        }
    }

    /// Whether a unit has a second call.
    fn has_end(self) -> bool {
        matches!(self, Operation::Put | Operation::Upsert)
    }

    /// Whether it uses keys up, so that a run of it has an end.
    pub fn uses_keys_up(self) -> bool {
        matches!(self, Operation::Put | Operation::Remove)
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Operation::ALL.into_iter().find(|operation| operation.name() == text);
        let names = Operation::ALL.map(Operation::name).join(", ");
        found.ok_or_else(|| format!("no operation {text:?}; there are {names}"))
    }
}

/// The soft pin that puts ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinWish {
    /// None.
    None,
    /// Of this length.
    For(Duration),
    /// Ending together, at this time of the generator's clock.
    Until(Duration),
}

/// What all units of a load have in common.
#[derive(Clone, Debug)]
pub struct WorkShape {
    /// How keys look.
    pub keys: KeyShape,
    /// Keys of one call.
    pub batch: usize,
    /// Whether a batch of one is sent as a batch.
    pub is_always_batch: bool,
    /// Bytes of each object.
    pub value_bytes: u64,
    /// Copies of each object.
    pub replicas: u64,
    /// The pin of puts.
    pub pin: PinWish,
    /// Objects of a group of neighbouring numbers; 0 for no groups.
    pub group_size: u64,
}

/// One unit on its way.
#[derive(Clone, Debug)]
pub struct Unit {
    /// What it does.
    pub operation: Operation,
    /// When it was to be sent, by the generator's clock.
    pub due: Duration,
    /// Its keys, one behind the other.
    pub keys: Vec<u8>,
    /// Their numbers.
    pub numbers: Vec<u64>,
    /// The second call is the one that is sent next, or on its way.
    is_ending: bool,
}

impl Unit {
    /// A unit with the keys of these numbers.
    pub fn new(operation: Operation, due: Duration, numbers: Vec<u64>, shape: &WorkShape) -> Self {
        let mut keys = Vec::with_capacity(numbers.len() * shape.keys.len());
        numbers.iter().for_each(|number| shape.keys.push(*number, &mut keys));
        Unit { operation, due, keys, numbers, is_ending: false }
    }
}

/// What an answer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The unit's second call is to be sent.
    Again,
    /// The unit is done.
    Done,
}

impl WorkShape {
    fn keys_of<'u>(&self, unit: &'u Unit) -> Vec<&'u [u8]> {
        unit.keys.chunks_exact(self.keys.len()).collect()
    }

    /// Whether a unit is sent as calls of one key. The protocol alone has no batch.
    fn is_single(&self, unit: &Unit) -> bool {
        unit.operation == Operation::Ready || (unit.numbers.len() == 1 && !self.is_always_batch)
    }

    /// Adds the unit's next call to `link`, under the number `slot`.
    pub fn send(&self, unit: &Unit, slot: u32, client: ClientId, now: Duration, link: &mut Link) {
        match (self.is_single(unit), unit.is_ending) {
            (true, _) => self.send_single(unit, slot, client, now, link),
            (false, false) => self.send_batch(unit, slot, client, now, link),
            (false, true) => self.send_batch_end(unit, slot, client, link),
        }
    }

    fn send_single(
        &self,
        unit: &Unit,
        slot: u32,
        client_id: ClientId,
        now: Duration,
        link: &mut Link,
    ) {
        let key: &[u8] = &unit.keys;
        let tenant_id = TENANT;
        let groups = self.groups(unit);
        let start = || PutStartRequest {
            client_id,
            key,
            slice_length: self.value_bytes,
            config: self.config(&groups, now),
            tenant_id,
        };
        let object_meta = ObjectMeta { key, object_checksum: None };
        let replica_type = ReplicaType::ALL;
        let end = || PutEndRequest { client_id, object_meta, replica_type, tenant_id };
        match (unit.operation, unit.is_ending) {
            (Operation::Ready, _) => link.request::<ServiceReady>(slot, &NoArguments),
            (Operation::Exist, _) => link.request::<ExistKey>(slot, &KeyRequest { key, tenant_id }),
            (Operation::Get, _) => {
                link.request::<GetReplicaList>(slot, &KeyRequest { key, tenant_id });
            }
            (Operation::Put, false) => link.request::<PutStart>(slot, &start()),
            (Operation::Put, true) => link.request::<PutEnd>(slot, &end()),
            (Operation::Upsert, false) => link.request::<UpsertStart>(slot, &start()),
            (Operation::Upsert, true) => link.request::<UpsertEnd>(slot, &end()),
            (Operation::Remove, _) => {
                link.request::<Remove>(slot, &RemoveRequest { key, force: false, tenant_id });
            }
        }
    }

    fn send_batch(
        &self,
        unit: &Unit,
        slot: u32,
        client_id: ClientId,
        now: Duration,
        link: &mut Link,
    ) {
        let keys = self.keys_of(unit);
        let tenant_id = TENANT;
        match unit.operation {
            Operation::Exist => {
                link.request::<BatchExistKey>(slot, &KeysRequest { keys, tenant_id });
            }
            Operation::Get => {
                link.request::<BatchGetReplicaList>(slot, &KeysRequest { keys, tenant_id });
            }
            Operation::Remove => {
                let request = BatchRemoveRequest { keys, force: false, tenant_id };
                link.request::<BatchRemove>(slot, &request);
            }
            // Put and upsert: they alone have a second call.
            _ => {
                let groups = self.groups(unit);
                let request = BatchPutStartRequest {
                    client_id,
                    slice_lengths: vec![self.value_bytes; keys.len()],
                    keys,
                    config: self.config(&groups, now),
                    tenant_id,
                };
                match unit.operation {
                    Operation::Upsert => link.request::<BatchUpsertStart>(slot, &request),
                    _ => link.request::<BatchPutStart>(slot, &request),
                }
            }
        }
    }

    fn send_batch_end(&self, unit: &Unit, slot: u32, client_id: ClientId, link: &mut Link) {
        let metas = self.keys_of(unit).into_iter();
        let object_metas = metas.map(|key| ObjectMeta { key, object_checksum: None }).collect();
        let tenant_id = TENANT;
        if unit.operation == Operation::Upsert {
            let request = BatchUpsertEndRequest { client_id, object_metas, tenant_id };
            link.request::<BatchUpsertEnd>(slot, &request);
        } else {
            let replica_type = ReplicaType::ALL;
            let request = BatchPutEndRequest { client_id, object_metas, replica_type, tenant_id };
            link.request::<BatchPutEnd>(slot, &request);
        }
    }

    /// A group's name for each key, if there are groups.
    fn groups(&self, unit: &Unit) -> Option<Vec<Vec<u8>>> {
        let name = |number: &u64| format!("group-{}", number / self.group_size).into_bytes();
        (self.group_size > 0).then(|| unit.numbers.iter().map(name).collect())
    }

    fn config<'g>(
        &self,
        groups: &'g Option<Vec<Vec<u8>>>,
        now: Duration,
    ) -> ReplicateConfig<&'g [u8]> {
        let ttl = match self.pin {
            PinWish::None => None,
            PinWish::For(ttl) => Some(ttl),
            PinWish::Until(end) => Some(end.saturating_sub(now).max(Duration::from_millis(1))),
        };
        let action = if ttl.is_some() { SoftPinAction::ENABLE } else { SoftPinAction::PRESERVE };
        ReplicateConfig {
            replica_num: self.replicas,
            soft_pin_action: action,
            soft_pin_ttl_ms: ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            group_ids: groups.as_ref().map(|names| names.iter().map(Vec::as_slice).collect()),
            ..ReplicateConfig::default()
        }
    }

    /// Reads an answer; codes of failed items are added to `failed`. What failed to start is not ended.
    ///
    /// Errors: the RPC layer refused, or the answer does not decode.
    pub fn judge(
        &self,
        unit: &mut Unit,
        frame: &ResponseFrame,
        failed: &mut Vec<i32>,
    ) -> Result<Step, BenchError> {
        if frame.head.rpc_error != 0 {
            return Err(BenchError::Rpc(frame.head.rpc_error));
        }
        let outcomes = self.outcomes(unit, frame.body())?;
        let is_first = !unit.is_ending;
        let is_ok = self.keep_good(unit, &outcomes, failed)?;
        if unit.operation.has_end() && is_first && is_ok {
            unit.is_ending = true;
            return Ok(Step::Again);
        }
        Ok(Step::Done)
    }

    /// Decodes an answer: for each item the code with which it failed, or `None`.
    fn outcomes(&self, unit: &Unit, body: &[u8]) -> Result<Vec<Option<i32>>, BenchError> {
        Ok(match (unit.operation, self.is_single(unit), unit.is_ending) {
            (Operation::Ready, _, _) => single::<ServiceReady, _>(body)?,
            (Operation::Exist, true, _) => vec![exists(decode_response::<ExistKey>(body)?)],
            (Operation::Get, true, _) => single::<GetReplicaList, _>(body)?,
            (Operation::Remove, true, _) => single::<Remove, _>(body)?,
            (Operation::Put, true, false) => single::<PutStart, _>(body)?,
            (Operation::Put, true, true) => single::<PutEnd, _>(body)?,
            (Operation::Upsert, true, false) => single::<UpsertStart, _>(body)?,
            (Operation::Upsert, true, true) => single::<UpsertEnd, _>(body)?,
            (Operation::Exist, false, _) => {
                decode_response::<BatchExistKey>(body)?.into_iter().map(exists).collect()
            }
            (Operation::Get, false, _) => each::<BatchGetReplicaList, _>(body)?,
            (Operation::Remove, false, _) => each::<BatchRemove, _>(body)?,
            (Operation::Put, false, false) => each::<BatchPutStart, _>(body)?,
            (Operation::Put, false, true) => each::<BatchPutEnd, _>(body)?,
            (Operation::Upsert, false, false) => each::<BatchUpsertStart, _>(body)?,
            (Operation::Upsert, false, true) => each::<BatchUpsertEnd, _>(body)?,
        })
    }

    /// Notes failures and keeps the keys that succeeded; returns whether there is one.
    fn keep_good(
        &self,
        unit: &mut Unit,
        outcomes: &[Option<i32>],
        failed: &mut Vec<i32>,
    ) -> Result<bool, BenchError> {
        if outcomes.len() != unit.numbers.len() {
            let (asked, came) = (unit.numbers.len(), outcomes.len());
            return Err(BenchError::Server(format!("{came} answers came to {asked} keys")));
        }
        failed.extend(outcomes.iter().flatten());
        if !failed.is_empty() {
            let mut outcome = outcomes.iter();
            unit.numbers.retain(|_| outcome.next().is_some_and(Option::is_none));
            unit.keys.clear();
            unit.numbers.iter().for_each(|number| self.keys.push(*number, &mut unit.keys));
        }
        Ok(!unit.numbers.is_empty())
    }
}

fn single<C: Call<Response = Result<T, WireError>>, T>(
    body: &[u8],
) -> Result<Vec<Option<i32>>, BenchError> {
    Ok(vec![decode_response::<C>(body)?.err().map(|error| error.0)])
}

fn each<C: Call<Response = Vec<Result<T, WireError>>>, T>(
    body: &[u8],
) -> Result<Vec<Option<i32>>, BenchError> {
    let answers = decode_response::<C>(body)?.into_iter();
    Ok(answers.map(|answer| answer.err().map(|error| error.0)).collect())
}

/// A key that is not there counts as failed: every key asked for was put.
fn exists(answer: Result<bool, WireError>) -> Option<i32> {
    match answer {
        Ok(true) => None,
        Ok(false) => Some(ErrorCode::ObjectNotFound.number()),
        Err(code) => Some(code.0),
    }
}
