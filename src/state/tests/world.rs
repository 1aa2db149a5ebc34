//! A state with hands: one line a command, time as a number, all invariants after each entry.
//!
//! Every entry goes through its bytes, so a command that does not survive encoding fails any story.

use std::sync::Arc;

use crate::alloc::Strategy;
use crate::model::replica::DiskPlace;
use crate::model::{
    ClientId, Deadline, Descriptor, ErrorCode, Location, Millis, Object, ObjectRef, PinRequest,
    Place, Replica, ReplicaId, ReplicaSelect, ReplicaStatus, Segment, SegmentId, SegmentIdx,
    Tenant, Ttl, Uuid,
};
use crate::state::command::{
    Command, End, EndItem, Entry, ExpiredClient, Key, Remove, Revoke, Stamp, Start, StartItem,
    Sweep, WriteConfig, WriteRules,
};
use crate::state::leadership::Leadership;
use crate::state::reply::Swept;
use crate::state::table::table_hash;
use crate::state::{Reply, State, encode};

pub const MIB: u64 = 1 << 20;

/// The rules of every story: a write may be replaced after 30 s, its memory used again after 60 s.
pub const RULES: WriteRules = WriteRules {
    discard_timeout_ms: 30_000,
    release_timeout_ms: 60_000,
    strategy: Strategy::Random,
};

pub type Outcome = Result<(), ErrorCode>;

pub fn client(n: u64) -> ClientId {
    ClientId(Uuid { first: n, second: 0xc })
}

pub fn segment_id(n: u64) -> SegmentId {
    SegmentId(Uuid { first: n, second: 0x5 })
}

/// Segment `n`, named `s<n>`, of `size` bytes.
pub fn segment(n: u64, size: u64) -> Segment {
    Segment {
        id: segment_id(n),
        name: Arc::from(format!("s{n}")),
        base: n << 40,
        size,
        endpoint: Arc::from(format!("s{n}")),
        protocol: Arc::from("tcp"),
        host_id: Arc::from(""),
    }
}

/// The announcement of a leader.
pub fn leadership(term: u64) -> Leadership {
    let (rpc_address, admin_address) = (Arc::from("h:50051"), Arc::from("h:9003"));
    Leadership { term, node_id: term % 3, rpc_address, admin_address }
}

pub fn key(name: &str) -> Key {
    Key(name.as_bytes().to_vec())
}

pub fn pinned(ttl_ms: u64) -> PinRequest {
    PinRequest::Enable(Ttl(ttl_ms))
}

pub fn config(replica_num: u32, pin: PinRequest) -> WriteConfig {
    WriteConfig {
        replica_num,
        pin,
        is_hard_pinned: false,
        data_type: 0,
        preferred: Vec::new(),
        is_same_node_preferred: false,
        host_id: Arc::from(""),
    }
}

/// A Put of one key by client 1.
pub fn start(name: &str, size: u64, config: WriteConfig) -> Start {
    let item = StartItem { key: key(name), size, group: None };
    Start { client: client(1), tenant: None, items: vec![item], config, rules: RULES }
}

pub struct World {
    pub state: State,
    /// The leader's clock.
    pub now: u64,
    seed: u64,
}

impl World {
    /// Nothing is mounted; it is second 1000.
    pub fn empty() -> Self {
        World { state: State::default(), now: 1_000_000, seed: 7 }
    }

    /// Client 1 with segments 1 to `count` of `size` bytes.
    pub fn with_segments(count: u64, size: u64) -> Self {
        let mut world = World::empty();
        for n in 1..=count {
            assert_eq!(world.mount(segment(n, size), 1), Ok(()));
        }
        world
    }

    /// Client 1 with one segment of a mebibyte.
    pub fn small() -> Self {
        World::with_segments(1, MIB)
    }

    /// Applies one command as an entry of its own and checks everything.
    #[track_caller]
    pub fn apply(&mut self, command: Command) -> Reply {
        self.seed += 1;
        let stamp = Stamp { now: Millis(self.now), seed: self.seed };
        let entry = Entry { stamp, commands: vec![command] };
        let replies = self.state.apply(&encode::encode(&entry).unwrap()).unwrap();
        assert_eq!(self.state.check(), Vec::<String>::new(), "after {entry:?}");
        assert_eq!(replies.len(), 1);
        replies.into_iter().next().unwrap()
    }

    pub fn pass(&mut self, ms: u64) {
        self.now += ms;
    }

    pub fn mount(&mut self, segment: Segment, by: u64) -> Outcome {
        outcome(self.apply(Command::MountSegment { segment, client: client(by) }))
    }

    pub fn remount(&mut self, segments: Vec<Segment>, by: u64) -> Outcome {
        outcome(self.apply(Command::ReMountSegment { segments, client: client(by) }))
    }

    pub fn unmount(&mut self, n: u64, by: u64) -> Outcome {
        outcome(self.apply(Command::UnmountSegment { segment: segment_id(n), client: client(by) }))
    }

    pub fn drain(&mut self, n: u64, allocations_max: u32) -> bool {
        let drain = Command::DrainUnmounted { segment: segment_id(n), allocations_max };
        match self.apply(drain) {
            Reply::Drained { is_finished } => is_finished,
            other => panic!("{other:?}"),
        }
    }

    /// Gives up a client in its current incarnation.
    pub fn expire(&mut self, n: u64) {
        let incarnation = self.state.clients().get(client(n)).unwrap().incarnation;
        let gone = ExpiredClient { client: client(n), incarnation };
        assert_eq!(self.apply(Command::ExpireClients(vec![gone])), Reply::Done);
    }

    pub fn start(&mut self, start: Start) -> Result<Vec<Descriptor>, ErrorCode> {
        match self.apply(Command::PutStart(start)) {
            Reply::Starts(mut started) if started.len() == 1 => started.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// Starts an ordinary or pinned Put of 1 KiB by client 1.
    pub fn open(&mut self, name: &str, pin: PinRequest) -> Vec<Descriptor> {
        self.start(start(name, 1024, config(1, pin))).unwrap()
    }

    /// Writes 1 KiB as client 1, start to end.
    pub fn put(&mut self, name: &str, pin: PinRequest) {
        self.open(name, pin);
        assert_eq!(self.end(name), Ok(()));
    }

    pub fn end(&mut self, name: &str) -> Outcome {
        self.end_as(1, name, ReplicaSelect::All, None)
    }

    pub fn end_as(
        &mut self,
        by: u64,
        name: &str,
        select: ReplicaSelect,
        checksum: Option<u64>,
    ) -> Outcome {
        let items = vec![EndItem { key: key(name), checksum }];
        only(self.apply(Command::PutEnd(End { client: client(by), tenant: None, items, select })))
    }

    pub fn revoke(&mut self, name: &str) -> Outcome {
        self.revoke_as(1, name, ReplicaSelect::All)
    }

    pub fn revoke_as(&mut self, by: u64, name: &str, select: ReplicaSelect) -> Outcome {
        let keys = vec![key(name)];
        let revoke = Revoke { client: client(by), tenant: None, keys, select };
        only(self.apply(Command::PutRevoke(revoke)))
    }

    pub fn remove(&mut self, name: &str) -> Outcome {
        only(self.apply(Command::Remove(Remove { tenant: None, keys: vec![key(name)] })))
    }

    /// Ends everything that is due now.
    pub fn sweep(&mut self) -> Swept {
        let (pins_until, release_timeout_ms) = (Millis(self.now), RULES.release_timeout_ms);
        let sweep = Sweep { pins_until, items_max: 1_000, release_timeout_ms, ..Sweep::default() };
        match self.apply(Command::Sweep(sweep)) {
            Reply::Swept(swept) => swept,
            other => panic!("{other:?}"),
        }
    }

    pub fn find(&self, name: &str) -> Option<ObjectRef> {
        let hash = table_hash(&Tenant::default(), name.as_bytes());
        let tenant = self.state.tenant_idx(None).unwrap();
        self.state.view().table.locate(hash, tenant, name.as_bytes())
    }

    pub fn peek<R>(&self, name: &str, look: impl FnOnce(&Object) -> R) -> Option<R> {
        self.state.view().table.peek(self.find(name)?, look)
    }

    /// Whether anybody can read the key.
    pub fn is_readable(&self, name: &str) -> bool {
        let directory = self.state.view().directory();
        self.peek(name, |object| directory.is_readable(object)) == Some(true)
    }

    /// The committed deadline.
    pub fn pin(&self, name: &str) -> Option<u64> {
        self.peek(name, Object::pin).flatten().map(|deadline| deadline.0)
    }

    pub fn has_pending(&self, name: &str) -> bool {
        self.peek(name, |object| object.pending().is_some()) == Some(true)
    }

    /// The gauge of soft pins.
    pub fn gauge(&self) -> usize {
        self.state.deadlines().len()
    }

    /// Bytes in use on segment `n`.
    pub fn used(&self, n: u64) -> u64 {
        let index = self.state.segments().index_of(segment_id(n)).unwrap();
        self.state.segments().get(index).unwrap().allocator.used_bytes()
    }

    /// The bytes of a raft snapshot.
    pub fn image(&self) -> Vec<u8> {
        image(&self.state)
    }

    /// The same world behind a raft snapshot.
    #[track_caller]
    pub fn reloaded(self) -> Self {
        let bytes = self.image();
        let state = State::load(&mut bytes.as_slice()).unwrap();
        assert_eq!(state.check(), Vec::<String>::new(), "after loading");
        assert!(image(&state) == bytes, "the loaded state has another image");
        World { state, ..self }
    }

    /// Adds a disk replica to an object, as other parts of the product do: of the write that is in
    /// progress if `is_eligible`, else a complete one that came from elsewhere.
    pub fn add_disk_replica(&mut self, name: &str, is_eligible: bool) {
        let object = self.find(name).unwrap();
        let id = ReplicaId(self.state.next_replica_id);
        self.state.next_replica_id += 1;
        let place = Place::Disk(Box::new(DiskPlace { path: name.to_owned(), size: 1024 }));
        let status = if is_eligible { ReplicaStatus::Processing } else { ReplicaStatus::Complete };
        self.state.edit(object, |object| {
            object.replicas.push(Replica { id, place, references: 0, status });
            if let Some(pending) = object.pending_mut().filter(|_| is_eligible) {
                pending.eligible.push(id);
            }
        });
        assert_eq!(self.state.check(), Vec::<String>::new());
    }

    /// Gives an object a committed deadline that its write does not know of, as an inherited one.
    pub fn inherit_pin(&mut self, name: &str, deadline: u64) {
        let object = self.find(name).unwrap();
        self.state.edit(object, |object| object.set_pin(Some(Deadline(deadline))));
        assert_eq!(self.state.check(), Vec::<String>::new());
    }

    /// The names of the segments that hold replicas of an object, in order.
    pub fn places(&self, name: &str) -> Vec<String> {
        let name_of = |index: SegmentIdx| {
            let mounted = self.state.segments().get(index);
            mounted.map_or_else(|| "gone".into(), |m| m.segment.name.to_string())
        };
        let places = |object: &Object| {
            object.replicas.iter().filter_map(|r| r.place.segment()).map(name_of).collect()
        };
        self.peek(name, places).unwrap_or_default()
    }
}

pub fn image(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.freeze().save(&mut bytes).unwrap();
    bytes
}

/// Endpoint, address and size of a memory replica.
pub fn memory(descriptor: &Descriptor) -> (String, u64, u64) {
    match &descriptor.location {
        Location::Memory { endpoint, address, size, .. } => (endpoint.to_string(), *address, *size),
        other => panic!("{other:?}"),
    }
}

pub fn outcome(reply: Reply) -> Outcome {
    match reply {
        Reply::Outcome(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

pub fn only(reply: Reply) -> Outcome {
    match reply {
        Reply::Results(results) if results.len() == 1 => results[0],
        other => panic!("{other:?}"),
    }
}
