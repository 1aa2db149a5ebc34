//! Clients that own memory and work on keys that others work on as well.
//!
//! Guards the histories: a client touches a key no more after a start or an end of its own whose
//! outcome is unknown, so the place that it was told is the one that it ends. All clients live on
//! one host, whose links nobody cuts; what they talk to changes.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use mooncake_ha::model::{ClientId, ErrorCode, SegmentId, Uuid};
use mooncake_ha::wire::calls::{
    BatchGetReplicaList, ExistKey, GetReplicaList, MountSegment, Ping, PutEnd, PutRevoke, PutStart,
    ReMountSegment, Remove, UpsertEnd, UpsertRevoke, UpsertStart,
};
use mooncake_ha::wire::requests::{
    KeyRequest, KeysRequest, MountSegmentRequest, PutEndRequest, PutRevokeRequest, PutStartRequest,
    ReMountSegmentRequest, RemoveRequest,
};
use mooncake_ha::wire::types::{
    ClientStatus, Descriptor, GetReplicaListResponse, ObjectMeta, ReplicaDescriptor, ReplicaType,
    ReplicateConfig, Segment, SoftPinAction, WireError,
};
use rand::Rng;
use rand::rngs::SmallRng;
use tokio::time::sleep;

use crate::checks::linear::OPS_MAX;
use crate::door::{Caller, Lost};
use crate::history::{Act, Begun, ClientNo, History, PinClaim, Place, Told};
use crate::net::Host;

/// Keys worked on at a time.
const KEYS: u64 = 5;
/// Calls on one key before it is left for a fresh one; leaves room for those under way.
const KEY_OPS_MAX: usize = OPS_MAX - 60;
/// Calls with unknown outcome on one key before it is left.
const KEY_UNKNOWN_MAX: usize = 4;

/// Small, because an image holds the whole table of its allocator.
const SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENT_STRIDE_BITS: u32 = 40;
/// Sizes of objects; few, so that upserts often meet the same one.
const SIZES: [u64; 3] = [1_024, 2_048, 5_000];
const TENANT: &[u8] = b"default";
/// Longest pause of a client that only reads.
const READER_PAUSE_MS: u64 = 30;

/// Groups that some puts belong to.
const GROUPS: u64 = 2;

type Listing = Result<GetReplicaListResponse<Box<[u8]>>, WireError>;
type Replicas = Vec<ReplicaDescriptor<Box<[u8]>>>;

/// A client.
pub struct Client {
    /// Which.
    pub number: ClientNo,
    /// It only reads, now of this node, now of that one.
    pub is_reader: bool,
    /// The nodes it knows.
    pub nodes: Vec<Host>,
    /// How it calls.
    pub caller: Caller,
    /// Where it notes what it sees.
    pub history: History,
    /// Its dice.
    pub dice: SmallRng,
    /// Longest pause between two operations, ms.
    pub pause_max_ms: u64,
    /// Length of soft pins, ms.
    pub pin_ms: RangeInclusive<u64>,
    /// Keys that it touches no more.
    pub shunned: BTreeSet<String>,
}

/// How a write that has begun is to go on.
#[derive(Clone, Copy)]
struct Wish {
    is_upsert: bool,
    ttl_ms: Option<u64>,
    size: u64,
}

fn told<T>(answer: &Result<Result<T, WireError>, Lost>) -> Told {
    match answer {
        Err(_) => Told::Unknown,
        Ok(Ok(_)) => Told::Yes,
        Ok(Err(code)) if *code == ErrorCode::ObjectNotFound => Told::NotFound,
        Ok(Err(code)) if *code == ErrorCode::ObjectAlreadyExists => Told::Exists,
        Ok(Err(code)) if *code == ErrorCode::ReplicaIsNotReady => Told::NotReady,
        Ok(Err(code)) if *code == ErrorCode::ObjectHasLease => Told::Leased,
        Ok(Err(code)) => Told::Refused(code.0),
    }
}

fn place_of(replicas: &Replicas) -> Option<Place> {
    let Descriptor::Memory(memory) = &replicas.first()?.descriptor else { return None };
    let there = &memory.buffer_descriptor;
    let endpoint = String::from_utf8_lossy(&there.transport_endpoint).into_owned();
    Some(Place { endpoint: Arc::from(endpoint), address: there.buffer_address, size: there.size })
}

impl Client {
    fn id(&self) -> ClientId {
        ClientId(Uuid { first: u64::from(self.number), second: 77 })
    }

    /// Works for ever.
    pub async fn run(mut self) {
        if self.is_reader {
            return self.read().await;
        }
        self.mount().await;
        loop {
            let pause = self.dice.random_range(0..=self.pause_max_ms);
            sleep(Duration::from_millis(pause)).await;
            if self.dice.random_range(0..8) == 0 {
                self.turn();
            }
            let key = self.choose();
            match self.dice.random_range(0..100) {
                _ if self.history.is_lull() => self.get(&key).await,
                0..30 => self.write(&key).await,
                30..42 => self.remove(&key).await,
                42..50 => self.exist(&key).await,
                50..60 => self.get_some().await,
                60..63 => self.ping().await,
                _ => self.get(&key).await,
            }
        }
    }

    async fn read(&mut self) {
        loop {
            let pause = self.dice.random_range(0..=READER_PAUSE_MS);
            sleep(Duration::from_millis(pause)).await;
            if self.dice.random_range(0..4) == 0 {
                self.turn();
            }
            let key = self.choose();
            match self.dice.random_range(0..4) {
                0 => self.get_some().await,
                _ => self.get(&key).await,
            }
        }
    }

    /// Turns to another node.
    fn turn(&mut self) {
        let chosen = self.dice.random_range(0..self.nodes.len());
        if let Some(node) = self.nodes.get(chosen) {
            self.caller.turn_to(*node);
        }
    }

    /// A key that is not used up, with chance a fresh one.
    fn choose(&mut self) -> String {
        let slot = self.dice.random_range(0..KEYS);
        let log = self.history.log.lock();
        let mut round = 0_u64;
        loop {
            let key = format!("key/{slot}/{round}");
            let ops = log.ops.get(&key);
            let is_used_up = ops.is_some_and(|ops| {
                let unknown = ops.iter().filter(|op| op.told == Told::Unknown).count();
                ops.len() >= KEY_OPS_MAX || unknown >= KEY_UNKNOWN_MAX
            });
            if !is_used_up {
                return key;
            }
            round += 1;
        }
    }

    fn segment(&self, name: &'static [u8]) -> Segment<&'static [u8]> {
        Segment {
            id: SegmentId(self.id().0),
            name,
            base: (u64::from(self.number) + 1) << SEGMENT_STRIDE_BITS,
            size: SEGMENT_BYTES,
            te_endpoint: name,
            protocol: b"tcp",
            host_id: b"",
        }
    }

    fn name(&self) -> &'static [u8] {
        const NAMES: [&[u8]; 4] = [b"seg-0", b"seg-1", b"seg-2", b"seg-3"];
        NAMES.get(self.number as usize).copied().unwrap_or(b"seg-x")
    }

    async fn mount(&mut self) {
        loop {
            let (segment, client_id) = (self.segment(self.name()), self.id());
            let request = MountSegmentRequest { segment, client_id };
            match self.caller.call::<MountSegment>(&request).await {
                Ok(Ok(())) => return self.ping().await,
                Ok(Err(code)) if code == ErrorCode::SegmentAlreadyExists => return,
                _ => {}
            }
            self.turn();
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn ping(&mut self) {
        let Ok(Ok(answer)) = self.caller.call::<Ping>(&self.id()).await else { return self.turn() };
        if answer.client_status == ClientStatus::NEED_REMOUNT {
            let (segments, client_id) = (vec![self.segment(self.name())], self.id());
            let request = ReMountSegmentRequest { segments, client_id };
            // If it fails, the next ping says so again.
            let _ = self.caller.call::<ReMountSegment>(&request).await;
        }
    }

    /// Notes how a call ended, unless it never left. After an unknown end another node is tried.
    fn note(&mut self, key: &str, begun: Begun, act: Act, told: Told, lost: Option<Lost>) {
        self.history.is_back(self.number);
        if lost.is_some() {
            self.turn();
        }
        // A read without an answer says nothing, and would use the key up.
        let says_nothing = lost.is_some() && matches!(act, Act::Get | Act::Exist);
        if lost != Some(Lost::NotSent) && !says_nothing {
            self.history.end(self.number, key, begun, act, told);
        }
        let is_write = matches!(act, Act::PutStart | Act::UpsertStart | Act::End(_) | Act::Revoke);
        if is_write && lost.is_some() {
            self.shunned.insert(key.to_owned());
        }
    }

    async fn write(&mut self, key: &str) {
        if self.shunned.contains(key) {
            return self.get(key).await;
        }
        let is_pinned = self.dice.random_range(0..2) == 0;
        let wish = Wish {
            is_upsert: self.dice.random_range(0..3) == 0,
            ttl_ms: is_pinned.then(|| self.dice.random_range(self.pin_ms.clone())),
            size: SIZES.get(self.dice.random_range(0..SIZES.len())).copied().unwrap_or(1),
        };
        let Some(place) = self.start(key, wish).await else { return };
        let pause = self.dice.random_range(0..self.pause_max_ms * 2);
        sleep(Duration::from_millis(pause)).await;
        match self.dice.random_range(0..10) {
            0 => self.revoke(key, wish, &place).await,
            // Left for somebody to preempt.
            1 => {}
            _ => self.finish(key, wish, place).await,
        }
    }

    async fn start(&mut self, key: &str, wish: Wish) -> Option<Place> {
        let action =
            if wish.ttl_ms.is_some() { SoftPinAction::ENABLE } else { SoftPinAction::DISABLE };
        let group = format!("group/{}", self.dice.random_range(0..GROUPS));
        let is_grouped = !wish.is_upsert && self.dice.random_range(0..6) == 0;
        let config = ReplicateConfig {
            soft_pin_action: action,
            soft_pin_ttl_ms: wish.ttl_ms,
            group_ids: is_grouped.then(|| vec![group.as_bytes()]),
            ..ReplicateConfig::default()
        };
        let request = PutStartRequest {
            client_id: self.id(),
            key: key.as_bytes(),
            slice_length: wish.size,
            config,
            tenant_id: TENANT,
        };
        if wish.is_upsert {
            self.history.upsert_begins(key);
        }
        let begun = self.history.begin();
        let act = if wish.is_upsert { Act::UpsertStart } else { Act::PutStart };
        self.history.is_out(self.number, key, begun, act);
        let answer = match wish.is_upsert {
            true => self.caller.call::<UpsertStart>(&request).await,
            false => self.caller.call::<PutStart>(&request).await,
        };
        self.note(key, begun, act, told(&answer), answer.as_ref().err().copied());
        if wish.is_upsert && answer.is_ok() {
            self.history.upsert_began(key);
        }
        let place = place_of(&answer.ok()?.ok()?)?;
        self.history.placed(key, &place, wish.is_upsert);
        Some(place)
    }

    async fn finish(&mut self, key: &str, wish: Wish, place: Place) {
        let id = self.history.number();
        self.history.log.lock().places.insert(id, place);
        let request = PutEndRequest {
            client_id: self.id(),
            object_meta: ObjectMeta { key: key.as_bytes(), object_checksum: Some(id) },
            replica_type: ReplicaType::ALL,
            tenant_id: TENANT,
        };
        let begun = self.history.begin();
        self.history.is_out(self.number, key, begun, Act::End(id));
        let answer = match wish.is_upsert {
            true => self.caller.call::<UpsertEnd>(&request).await,
            false => self.caller.call::<PutEnd>(&request).await,
        };
        if let (Ok(Ok(())), Some(ttl_ms)) = (&answer, wish.ttl_ms) {
            let mut log = self.history.log.lock();
            let (not_before, not_after) = (begun.state_ms, log.state_ms);
            log.pins.insert(id, PinClaim { key: key.to_owned(), ttl_ms, not_before, not_after });
        }
        self.note(key, begun, Act::End(id), told(&answer), answer.err());
    }

    async fn revoke(&mut self, key: &str, wish: Wish, place: &Place) {
        let request = PutRevokeRequest {
            client_id: self.id(),
            key: key.as_bytes(),
            replica_type: ReplicaType::ALL,
            tenant_id: TENANT,
        };
        if wish.is_upsert {
            self.history.upsert_is_revoked(key, place);
        }
        let begun = self.history.begin();
        self.history.is_out(self.number, key, begun, Act::Revoke);
        let answer = match wish.is_upsert {
            true => self.caller.call::<UpsertRevoke>(&request).await,
            false => self.caller.call::<PutRevoke>(&request).await,
        };
        if wish.is_upsert && answer.is_ok() {
            self.history.upsert_was_revoked(key, place);
        }
        self.note(key, begun, Act::Revoke, told(&answer), answer.err());
    }

    async fn remove(&mut self, key: &str) {
        let request = RemoveRequest { key: key.as_bytes(), force: false, tenant_id: TENANT };
        let begun = self.history.begin();
        self.history.is_out(self.number, key, begun, Act::Remove);
        let answer = self.caller.call::<Remove>(&request).await;
        if matches!(answer, Ok(Ok(()))) {
            self.history.removed(key, begun);
        }
        self.note(key, begun, Act::Remove, told(&answer), answer.err());
    }

    async fn exist(&mut self, key: &str) {
        let request = KeyRequest { key: key.as_bytes(), tenant_id: TENANT };
        let begun = self.history.begin();
        let answer = self.caller.call::<ExistKey>(&request).await;
        let told = match &answer {
            Ok(Ok(false)) => Told::No,
            _ => told(&answer),
        };
        self.note(key, begun, Act::Exist, told, answer.err());
    }

    /// Reads a key.
    pub async fn get(&mut self, key: &str) {
        let request = KeyRequest { key: key.as_bytes(), tenant_id: TENANT };
        let begun = self.history.begin();
        let answer = self.caller.call::<GetReplicaList>(&request).await;
        let lost = answer.as_ref().err().copied();
        let told = match answer {
            Ok(listing) => self.listed(key, begun, listing),
            Err(_) => Told::Unknown,
        };
        self.note(key, begun, Act::Get, told, lost);
    }

    fn listed(&self, key: &str, begun: Begun, listing: Listing) -> Told {
        match listing {
            Ok(found) => {
                let id = found.object_checksum.unwrap_or_default();
                if let Some(place) = place_of(&found.replicas) {
                    self.history.saw(key, id, place, begun, found.lease_ttl_ms);
                }
                Told::Seen(id)
            }
            Err(code) => told::<()>(&Ok(Err(code))),
        }
    }

    async fn get_some(&mut self) {
        let keys: BTreeSet<String> = (0..3).map(|_| self.choose()).collect();
        let keys: Vec<String> = keys.into_iter().collect();
        let names = keys.iter().map(|key| key.as_bytes()).collect();
        let request = KeysRequest { keys: names, tenant_id: TENANT };
        let begun = self.history.begin();
        match self.caller.call::<BatchGetReplicaList>(&request).await {
            Ok(listings) => {
                for (key, listing) in keys.iter().zip(listings) {
                    let told = self.listed(key, begun, listing);
                    self.note(key, begun, Act::Get, told, None);
                }
            }
            Err(_) => self.turn(),
        }
    }
}
