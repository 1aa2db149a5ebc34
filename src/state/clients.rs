//! The clients that the store knows: who is alive, on which host, in which incarnation.
//!
//! A client becomes known by mounting and alive by re-mounting (behaviour 5.3 to 5.5). When it was last heard
//! is leader-local and lives in `leader::liveness`; only the verdict "expired" is a command.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::State;
use super::command::ExpiredClient;
use crate::model::{ClientId, SegmentIdx, SegmentStatus};

/// What is known of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRecord {
    /// Its host, or empty.
    pub host_id: Arc<str>,
    /// Counts first contacts; tells a client that came back from the one that was given up.
    pub incarnation: u64,
    /// Whether it has re-mounted since, and is answered OK.
    pub is_alive: bool,
}

/// Every known client.
#[derive(Clone, Debug, Default)]
pub struct ClientTable {
    records: BTreeMap<ClientId, ClientRecord>,
    next_incarnation: u64,
}

impl ClientTable {
    /// The record of a client, made if there is none.
    pub fn touch(&mut self, client: ClientId) -> &mut ClientRecord {
        let next = &mut self.next_incarnation;
        self.records.entry(client).or_insert_with(|| {
            *next += 1;
            ClientRecord { host_id: Arc::from(""), incarnation: *next, is_alive: false }
        })
    }

    /// The record of a client.
    pub fn get(&self, client: ClientId) -> Option<&ClientRecord> {
        self.records.get(&client)
    }

    /// Forgets a client.
    pub fn remove(&mut self, client: ClientId) -> Option<ClientRecord> {
        self.records.remove(&client)
    }

    /// Every known client, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &ClientRecord)> {
        self.records.iter().map(|(client, record)| (*client, record))
    }

    /// Clients that are alive.
    pub fn alive(&self) -> impl Iterator<Item = ClientId> {
        self.iter().filter(|(_, record)| record.is_alive).map(|(client, _)| client)
    }

    /// The count that the next unknown client will exceed.
    pub fn last_incarnation(&self) -> u64 {
        self.next_incarnation
    }

    /// Puts a saved table back.
    pub fn restore(
        records: impl IntoIterator<Item = (ClientId, ClientRecord)>,
        last_incarnation: u64,
    ) -> Self {
        ClientTable { records: records.into_iter().collect(), next_incarnation: last_incarnation }
    }
}

impl State {
    /// Forgets clients whose incarnation is still the one that the leader gave up.
    pub(super) fn expire_clients(&mut self, expired: &[ExpiredClient]) {
        for gone in expired {
            let record = self.clients.get(gone.client);
            if record.is_none_or(|record| record.incarnation != gone.incarnation) {
                continue;
            }
            self.clients.remove(gone.client);
            let is_theirs = |mounted: &super::segment_table::Mounted| mounted.owner == gone.client;
            let owned: Vec<SegmentIdx> = self
                .segments
                .iter()
                .filter(|(_, mounted)| is_theirs(mounted))
                .map(|(index, _)| index)
                .collect();
            for index in owned {
                self.segments.set_status(index, SegmentStatus::Unmounting);
            }
            self.lose_disk(gone.client);
        }
        self.publish_directory();
    }
}
