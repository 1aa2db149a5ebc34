//! A client that owns a segment and keys: puts, upserts, removes, and reads what others wrote.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;

use super::heart::Heart;
use super::reader::{place, read};
use super::{
    CALL_MAX, Caller, Doors, Failure, KEYS_MAX, LoadPlan, Shared, TENANT, client_id, fingerprint,
    pause,
};
use crate::drill::history::{ClientHistory, ClientNo, Failed, KeyNo, Outcome, Write, Written};
use crate::drill::moment::Moment;
use crate::model::ClientId;
use crate::wire::calls::{BatchRemove, PutEnd, PutStart, Remove, UpsertEnd, UpsertStart};
use crate::wire::requests::{BatchRemoveRequest, PutEndRequest, PutStartRequest, RemoveRequest};
use crate::wire::types::{ObjectMeta, ReplicaType, ReplicateConfig, SoftPinAction};

/// Pause before a call that never left is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// Shares of the operations, in percent; what is left reads.
const PUTS: u32 = 45;
const UPSERTS: u32 = 15;
const REMOVALS: u32 = 10;
/// Share of the puts that start a soft pin.
const PINNED: u32 = 30;

/// Sizes: a random number of pages and, to tell writes of one key apart, the number of the write.
const PAGE_BYTES: u64 = 1_024;
const PAGES_MAX: u64 = 48;

/// Keys of one call when a drill cleans up.
const REMOVED_AT_ONCE_MAX: usize = 200;

/// A key that its writer may still write.
#[derive(Clone, Copy)]
struct Own {
    key: KeyNo,
    /// Soft-pinned keys are left alone, so that their deadlines must stand still.
    is_pinned: bool,
}

/// How an object is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Under a new name.
    Put,
    /// Under the name of a key that was removed.
    PutAgain,
    /// Over what is there.
    Upsert,
}

/// How a call ended.
enum Ended<T> {
    Done(T),
    Refused,
    Unknown,
    /// The load was stopped before the call could be sent.
    Stopped,
}

/// A writing client.
pub struct Writer {
    history: ClientHistory,
    id: ClientId,
    plan: LoadPlan,
    shared: Shared,
    caller: Caller,
    dice: SmallRng,
    own: Vec<Own>,
    /// Names of removed keys, used again where names are few.
    removed: Vec<KeyNo>,
    keys: u32,
    writes: u64,
}

impl Writer {
    /// A client that has no segment yet.
    pub fn new(client: ClientNo, plan: LoadPlan, shared: Shared, caller: Caller) -> Self {
        let name = format!("client {}", client.0);
        Writer {
            history: ClientHistory::new(client, name, shared.stopwatch.now()),
            id: client_id(&plan.run, client),
            dice: SmallRng::seed_from_u64(fingerprint(&plan.run) ^ u64::from(client.0)),
            plan,
            shared,
            caller,
            own: Vec::new(),
            removed: Vec::new(),
            keys: 0,
            writes: 0,
        }
    }

    /// Works until the load stops.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) -> ClientHistory {
        let client = self.history.client;
        let heart = Heart::new(&self.plan, client);
        if !heart.mount(&mut self.caller, &mut stopping).await {
            return self.history;
        }
        self.history.begun = self.shared.stopwatch.now();
        self.shared.pulse.join(client, self.history.begun);
        while !pause(self.plan.pause, &mut stopping).await && !self.history.is_full() {
            // Announced before the look, so that who holds the writers sees this one or it sees the hold.
            self.shared.writers.busy.fetch_add(1, Ordering::SeqCst);
            if !self.shared.writers.is_held.load(Ordering::SeqCst) {
                self.operate(&mut stopping).await;
            }
            self.shared.writers.busy.fetch_sub(1, Ordering::SeqCst);
        }
        self.history.ended = self.shared.stopwatch.now();
        self.shared.pulse.part(client);
        self.history
    }

    async fn operate(&mut self, stopping: &mut watch::Receiver<bool>) {
        let dice = self.dice.random_range(0..100);
        if dice < PUTS && self.shared.board.len() < KEYS_MAX {
            self.put(stopping).await;
        } else if dice < PUTS + UPSERTS {
            if let Some(own) = self.take_unpinned() {
                self.write(own, How::Upsert, stopping).await;
            }
        } else if dice < PUTS + UPSERTS + REMOVALS {
            if let Some(own) = self.take_unpinned() {
                self.remove(own, stopping).await;
            }
        } else if let Some(key) = self.shared.board.any(&mut self.dice) {
            read(&mut self.caller, key, &self.plan.run, &self.shared, &mut self.history).await;
        }
    }

    async fn put(&mut self, stopping: &mut watch::Receiver<bool>) {
        if self.plan.keys_each_max.is_none_or(|max| self.keys < max) {
            let key = KeyNo { client: self.history.client, number: self.keys };
            self.keys += 1;
            let is_pinned = self.dice.random_range(0..100) < PINNED;
            self.write(Own { key, is_pinned }, How::Put, stopping).await;
        } else if let Some(key) = self.removed.pop() {
            self.write(Own { key, is_pinned: false }, How::PutAgain, stopping).await;
        } else if let Some(own) = self.take_unpinned() {
            self.remove(own, stopping).await;
        }
    }

    /// Takes a key out of those that may be written; what is certain afterwards puts it back.
    fn take_unpinned(&mut self) -> Option<Own> {
        if self.own.is_empty() {
            return None;
        }
        let at = self.dice.random_range(0..self.own.len());
        let is_unpinned = self.own.get(at).is_some_and(|own| !own.is_pinned);
        is_unpinned.then(|| self.own.swap_remove(at))
    }

    async fn write(&mut self, own: Own, how: How, stopping: &mut watch::Receiver<bool>) {
        let is_upsert = how == How::Upsert;
        let begun = self.shared.stopwatch.now();
        let name = own.key.name(&self.plan.run);
        self.writes += 1;
        let id = (u64::from(own.key.client.0) << 32) | self.writes;
        let size = PAGE_BYTES * self.dice.random_range(1..=PAGES_MAX) + self.writes % PAGE_BYTES;
        let pin_ttl_ms = own.is_pinned.then_some(self.plan.pin_ttl_ms);
        let mut write = Write {
            key: own.key,
            begun,
            ended: begun,
            wall_ms: self.shared.stopwatch.wall_ms(),
            written: Written::Object { id, place: None, placed: Moment::NEVER, pin_ttl_ms },
            outcome: Outcome::Unknown,
        };
        let started = self.start(&name, size, pin_ttl_ms, is_upsert, stopping).await;
        if let Ended::Done(first) = &started {
            let placed = self.shared.stopwatch.now();
            write.written = Written::Object { id, place: first.clone(), placed, pin_ttl_ms };
            write.wall_ms = self.shared.stopwatch.wall_ms();
        }
        write.outcome = match started {
            Ended::Done(_) => match self.end(&name, id, is_upsert, stopping).await {
                Ended::Done(()) => Outcome::Done,
                // The object is in the middle of a write, so the state before does not stand either.
                Ended::Refused | Ended::Unknown | Ended::Stopped => Outcome::Unknown,
            },
            Ended::Refused | Ended::Stopped => Outcome::NotDone,
            Ended::Unknown => Outcome::Unknown,
        };
        if how == How::Put && write.outcome != Outcome::NotDone {
            self.shared.board.add(own.key);
        }
        if how == How::PutAgain && write.outcome == Outcome::NotDone {
            self.removed.push(own.key);
        }
        let is_own = write.outcome == Outcome::Done || is_upsert;
        self.note(write, is_own.then_some(own));
    }

    async fn remove(&mut self, own: Own, stopping: &mut watch::Receiver<bool>) {
        let begun = self.shared.stopwatch.now();
        let wall_ms = self.shared.stopwatch.wall_ms();
        let name = own.key.name(&self.plan.run);
        let removed = loop {
            let request = RemoveRequest { key: name.as_bytes(), force: false, tenant_id: TENANT };
            let answer = self.caller.call::<Remove>(&request).await;
            match self.judge("Remove", answer, stopping).await {
                Some(ended) => break ended,
                None => continue,
            }
        };
        let outcome = match removed {
            Ended::Done(()) => Outcome::Done,
            Ended::Refused | Ended::Stopped => Outcome::NotDone,
            Ended::Unknown => Outcome::Unknown,
        };
        if outcome == Outcome::Done && self.plan.keys_each_max.is_some() {
            self.removed.push(own.key);
        }
        let ended = begun;
        let write =
            Write { key: own.key, begun, ended, wall_ms, written: Written::Removal, outcome };
        self.note(write, (outcome == Outcome::NotDone).then_some(own));
    }

    /// Files a write; its key may be written again if `own` is given and the outcome is known.
    fn note(&mut self, mut write: Write, own: Option<Own>) {
        write.ended = self.shared.stopwatch.now();
        match write.outcome {
            Outcome::Done => self.shared.pulse.wrote(self.history.client, write.ended),
            Outcome::NotDone => {}
            Outcome::Unknown => {
                self.shared.pulse.missed();
                let (begun, ended) = (write.begun, write.ended);
                self.history.failed.push(Failed { begun, ended });
            }
        }
        if write.outcome != Outcome::Unknown {
            self.own.extend(own);
        }
        self.history.writes.push(write);
    }

    async fn start(
        &mut self,
        name: &str,
        slice_length: u64,
        pin_ttl_ms: Option<u64>,
        is_upsert: bool,
        stopping: &mut watch::Receiver<bool>,
    ) -> Ended<Option<crate::drill::history::Place>> {
        let config = ReplicateConfig {
            soft_pin_action: match pin_ttl_ms {
                Some(_) => SoftPinAction::ENABLE,
                None => SoftPinAction::PRESERVE,
            },
            soft_pin_ttl_ms: pin_ttl_ms,
            with_hard_pin: self.plan.is_hard_pinned,
            ..ReplicateConfig::default()
        };
        loop {
            let request = PutStartRequest {
                client_id: self.id,
                key: name.as_bytes(),
                slice_length,
                config: config.clone(),
                tenant_id: TENANT,
            };
            let (what, answer) = match is_upsert {
                true => ("UpsertStart", self.caller.call::<UpsertStart>(&request).await),
                false => ("PutStart", self.caller.call::<PutStart>(&request).await),
            };
            let answer = answer.map(|ok| ok.map(|replicas| replicas.first().and_then(place)));
            if let Some(ended) = self.judge(what, answer, stopping).await {
                return ended;
            }
        }
    }

    async fn end(
        &mut self,
        name: &str,
        id: u64,
        is_upsert: bool,
        stopping: &mut watch::Receiver<bool>,
    ) -> Ended<()> {
        loop {
            let request = PutEndRequest {
                client_id: self.id,
                object_meta: ObjectMeta { key: name.as_bytes(), object_checksum: Some(id) },
                replica_type: ReplicaType::ALL,
                tenant_id: TENANT,
            };
            let (what, answer) = match is_upsert {
                true => ("UpsertEnd", self.caller.call::<UpsertEnd>(&request).await),
                false => ("PutEnd", self.caller.call::<PutEnd>(&request).await),
            };
            if let Some(ended) = self.judge(what, answer, stopping).await {
                return ended;
            }
        }
    }

    /// How a call ended; `None` if it never left and is to be tried again.
    async fn judge<T>(
        &self,
        what: &str,
        answer: Result<crate::wire::Answer<T>, Failure>,
        stopping: &mut watch::Receiver<bool>,
    ) -> Option<Ended<T>> {
        match answer {
            Ok(Ok(value)) => Some(Ended::Done(value)),
            Ok(Err(code)) => {
                let (client, now) = (self.history.client, self.shared.stopwatch.now());
                self.shared.pulse.refused(client, now, format!("{what}: {code}"));
                Some(Ended::Refused)
            }
            Err(Failure::Unknown) => Some(Ended::Unknown),
            Err(Failure::NotSent) => {
                self.shared.pulse.missed();
                pause(RETRY, stopping).await.then_some(Ended::Stopped)
            }
        }
    }
}

/// Removes what a drill has put into somebody's cluster; what cannot be removed stays and is said to nobody, for
/// the verdict is about other things.
pub async fn remove_all(keys: &[KeyNo], plan: &LoadPlan, doors: &Doors) {
    let mut caller = Caller::new(doors.clone(), 0, false, CALL_MAX);
    for batch in keys.chunks(REMOVED_AT_ONCE_MAX) {
        let names: Vec<String> = batch.iter().map(|key| key.name(&plan.run)).collect();
        let keys = names.iter().map(String::as_bytes).collect();
        let request = BatchRemoveRequest { keys, force: true, tenant_id: TENANT };
        let _ = caller.call::<BatchRemove>(&request).await;
    }
    for client in 0..plan.writers {
        Heart::new(plan, ClientNo(plan.first + client)).unmount(&mut caller).await;
    }
}
