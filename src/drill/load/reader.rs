//! A client that stays with one node and reads: it is there when that node has missed something.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::sync::watch;

use super::{Caller, Doors, Failure, LoadPlan, READ_MAX, Shared, TENANT, fingerprint, pause};
use crate::drill::history::{ClientHistory, ClientNo, Failed, KeyNo, Place, Read, Seen};
use crate::model::ErrorCode;
use crate::wire::Answer;
use crate::wire::calls::{BatchGetReplicaList, GetReplicaList};
use crate::wire::requests::{KeyRequest, KeysRequest};
use crate::wire::types::{Descriptor, GetReplicaListResponse, ReplicaDescriptor};

/// Keys of one call when everything is read at the end.
const BATCH_MAX: usize = 200;
/// Attempts at each batch then, and the pause between them.
const TRIES_MAX: u32 = 100;
const RETRY: Duration = Duration::from_millis(100);

type Listing = Answer<GetReplicaListResponse<Box<[u8]>>>;

/// A reader of one node.
pub struct Reader {
    history: ClientHistory,
    run: String,
    pause: Duration,
    shared: Shared,
    caller: Caller,
    dice: SmallRng,
}

impl Reader {
    /// A reader at the door of that number.
    pub fn new(
        client: ClientNo,
        door: usize,
        plan: &LoadPlan,
        shared: Shared,
        caller: Caller,
    ) -> Self {
        let name = format!("reader of node {}", door + 1);
        let history = ClientHistory::new(client, name, shared.stopwatch.now());
        Reader {
            history: ClientHistory { is_pinned: true, ..history },
            run: plan.run.clone(),
            pause: plan.pause,
            dice: SmallRng::seed_from_u64(fingerprint(&plan.run) ^ u64::from(client.0)),
            shared,
            caller,
        }
    }

    /// Reads until the load stops.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) -> ClientHistory {
        self.shared.pulse.join(self.history.client, self.history.begun);
        while !pause(self.pause, &mut stopping).await && !self.history.is_full() {
            if let Some(key) = self.shared.board.any(&mut self.dice) {
                read(&mut self.caller, key, &self.run, &self.shared, &mut self.history).await;
            }
        }
        self.history.ended = self.shared.stopwatch.now();
        self.shared.pulse.part(self.history.client);
        self.history
    }
}

/// Reads a key once and notes what came.
pub async fn read(
    caller: &mut Caller,
    key: KeyNo,
    run: &str,
    shared: &Shared,
    history: &mut ClientHistory,
) {
    let name = key.name(run);
    let begun = shared.stopwatch.now();
    let request = KeyRequest { key: name.as_bytes(), tenant_id: TENANT };
    let answer = caller.call::<GetReplicaList>(&request).await;
    let ended = shared.stopwatch.now();
    match answer.map(seen) {
        Ok(Some(seen)) => {
            shared.pulse.read(history.client, ended);
            history.reads.push(Read { client: history.client, key, begun, ended, seen });
        }
        Ok(None) | Err(Failure::NotSent | Failure::Unknown) => {
            shared.pulse.missed();
            history.failed.push(Failed { begun, ended });
        }
    }
}

/// What a listing shows; `None` for a refusal that says nothing about the key.
fn seen(listing: Listing) -> Option<Seen> {
    match listing {
        Ok(found) => Some(Seen::Object {
            id: found.object_checksum,
            place: found.replicas.first().and_then(place),
            lease_ms: found.lease_ttl_ms,
        }),
        Err(code) if code == ErrorCode::ObjectNotFound => Some(Seen::Absent),
        Err(code) if code == ErrorCode::ReplicaIsNotReady => Some(Seen::NotReady),
        Err(_) => None,
    }
}

/// Where a memory replica is.
pub fn place(replica: &ReplicaDescriptor<Box<[u8]>>) -> Option<Place> {
    let Descriptor::Memory(memory) = &replica.descriptor else { return None };
    let buffer = &memory.buffer_descriptor;
    Some(Place {
        endpoint: Arc::from(String::from_utf8_lossy(&buffer.transport_endpoint)),
        address: buffer.buffer_address,
        size: buffer.size,
    })
}

/// Reads all `keys`, each until it is answered; those of a batch that never is are missing.
pub async fn read_all(
    client: ClientNo,
    keys: &[KeyNo],
    run: &str,
    doors: &Doors,
    shared: &Shared,
) -> ClientHistory {
    let name = "last look at every key".to_owned();
    let mut history = ClientHistory::new(client, name, shared.stopwatch.now());
    let mut caller = Caller::new(doors.clone(), 0, false, READ_MAX * 10);
    for batch in keys.chunks(BATCH_MAX) {
        let names: Vec<String> = batch.iter().map(|key| key.name(run)).collect();
        for _ in 0..TRIES_MAX {
            let begun = shared.stopwatch.now();
            let keys = names.iter().map(String::as_bytes).collect();
            let request = KeysRequest { keys, tenant_id: TENANT };
            let Ok(answers) = caller.call::<BatchGetReplicaList>(&request).await else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            let ended = shared.stopwatch.now();
            let seen = batch.iter().zip(answers.into_iter().map(seen));
            history.reads.extend(seen.filter_map(|(key, seen)| {
                Some(Read { client, key: *key, begun, ended, seen: seen? })
            }));
            break;
        }
    }
    history.ended = shared.stopwatch.now();
    history
}
