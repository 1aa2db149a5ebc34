//! The part of random histories that is about disks, and a sample of each of its commands.

use std::sync::Arc;

use proptest::prelude::*;

use super::script::scripted_key;
use super::world::{RULES, client, config, key};
use crate::alloc::Strategy as Placement;
use crate::model::{
    ClientId, Object, PinRequest, ReplicaId, ReplicaKind, ReplicaSelect, Tenant, TenantIdx, Ttl,
};
use crate::state::State;
use crate::state::command::{End, EndItem, Key, Start, StartItem};
use crate::state::disk::command::{
    EndWithOffload, EvictFiles, EvictToDisk, OffloadFetch, OffloadReport, OffloadedItem, Promote,
    PromotionEnd, PromotionStart, PutWithFile, TierCommand,
};
use crate::state::evict::{Evict, Victim, incarnation};
use crate::state::table::table_hash;

#[derive(Clone, Debug)]
pub enum TierAct {
    Mount { by: u64, is_enabled: bool },
    Unmount { by: u64 },
    Capacity { by: u64, bytes: u64 },
    Wipe { by: u64 },
    TakeWipe { by: u64 },
    DropLost { by: u64, files_max: u32 },
    EvictFiles { by: u64, names: Vec<u8>, is_local: bool },
    Put { by: u64, names: Vec<u8>, size: u64, is_upsert: bool },
    End { by: u64, names: Vec<u8>, queue_max: u64 },
    Evict { names: Vec<u8>, queued_max: u64, is_forced: bool },
    Fetch { by: u64, is_enabled: bool, items_max: u32 },
    Report { by: u64, names: Vec<u8>, is_done: bool },
    Promote { names: Vec<u8>, in_flight_max: u32 },
    FetchPromotions { by: u64, items_max: u32 },
    Stage { by: Option<u64>, name: u8 },
    EndPromotion { by: Option<u64>, name: u8, is_success: bool },
}

pub fn tier_act() -> impl Strategy<Value = TierAct> {
    let by = || 1..=3_u64;
    let names = || prop::collection::vec(0..6_u8, 1..4);
    let often = || prop::bool::weighted(0.8);
    let caller = || prop_oneof![6 => Just(None), 1 => by().prop_map(Some)];
    prop_oneof![
        4 => (by(), often()).prop_map(|(by, is_enabled)| TierAct::Mount { by, is_enabled }),
        1 => by().prop_map(|by| TierAct::Unmount { by }),
        1 => (by(), 0..9_u64).prop_map(|(by, bytes)| TierAct::Capacity { by, bytes }),
        1 => by().prop_map(|by| TierAct::Wipe { by }),
        1 => by().prop_map(|by| TierAct::TakeWipe { by }),
        2 => (by(), 1..4_u32).prop_map(|(by, files_max)| TierAct::DropLost { by, files_max }),
        2 => (by(), names(), often())
            .prop_map(|(by, names, is_local)| TierAct::EvictFiles { by, names, is_local }),
        3 => (by(), names(), prop_oneof![Just(100_u64), Just(70_000)], any::<bool>()).prop_map(
            |(by, names, size, is_upsert)| TierAct::Put { by, names, size, is_upsert }
        ),
        8 => (by(), names(), 1..4_u64)
            .prop_map(|(by, names, queue_max)| TierAct::End { by, names, queue_max }),
        6 => (names(), 0..3_u64, any::<bool>()).prop_map(
            |(names, queued_max, is_forced)| TierAct::Evict { names, queued_max, is_forced }
        ),
        6 => (by(), often(), 1..4_u32).prop_map(
            |(by, is_enabled, items_max)| TierAct::Fetch { by, is_enabled, items_max }
        ),
        8 => (by(), names(), often())
            .prop_map(|(by, names, is_done)| TierAct::Report { by, names, is_done }),
        6 => (names(), 1..4_u32)
            .prop_map(|(names, in_flight_max)| TierAct::Promote { names, in_flight_max }),
        2 => (by(), 0..3_u32)
            .prop_map(|(by, items_max)| TierAct::FetchPromotions { by, items_max }),
        6 => (caller(), 0..6_u8).prop_map(|(by, name)| TierAct::Stage { by, name }),
        5 => (caller(), 0..6_u8, often()).prop_map(
            |(by, name, is_success)| TierAct::EndPromotion { by, name, is_success }
        ),
    ]
}

fn keys(names: &[u8]) -> Vec<Key> {
    names.iter().map(|name| scripted_key(*name)).collect()
}

fn look<R>(state: &State, key: &Key, look: impl FnOnce(&Object) -> R) -> Option<R> {
    let hash = table_hash(&Tenant::default(), &key.0);
    state.view().table.look(hash, TenantIdx(0), &key.0, |object| object.map(look))
}

fn all_keys() -> impl Iterator<Item = Key> {
    (0..6).map(scripted_key)
}

/// Whether a key has a file on a client's disk.
fn has_file(state: &State, key: &Key) -> bool {
    let is_file = |object: &Object| {
        let mut replicas = object.replicas.iter();
        replicas.any(|replica| replica.place.kind() == ReplicaKind::LocalDisk)
    };
    look(state, key, is_file) == Some(true)
}

/// The name of a key that is being promoted, or this one.
fn promoted_name(state: &State, key: Key) -> Key {
    let first = state.tiers().promotions().first();
    first.map_or(key, |(_, promotion)| Key(promotion.name.key.to_vec()))
}

/// Who promotes a key, and how many bytes; anybody if nobody does.
fn promotion(state: &State, key: &Key) -> (ClientId, u64) {
    let mut promotions = state.tiers().promotions().iter();
    let found = promotions.find(|(_, promotion)| *promotion.name.key == *key.0);
    found.map_or((client(1), 100), |(_, promotion)| (promotion.holder, promotion.size))
}

pub fn tier_command(act: TierAct, state: &State) -> TierCommand {
    match act {
        TierAct::Mount { by, is_enabled } => {
            TierCommand::MountDisk { client: client(by), is_enabled }
        }
        TierAct::Unmount { by } => TierCommand::UnmountDisk { client: client(by) },
        TierAct::Capacity { by, bytes } => {
            TierCommand::ReportCapacity { client: client(by), bytes }
        }
        TierAct::Wipe { by } => TierCommand::WipeDisks { clients: vec![client(by)] },
        TierAct::TakeWipe { by } => TierCommand::TakeWipe { client: client(by) },
        TierAct::DropLost { by, files_max } => {
            TierCommand::DropLost { client: client(by), files_max }
        }
        TierAct::EvictFiles { by, names, is_local } => {
            let kind = if is_local { ReplicaKind::LocalDisk } else { ReplicaKind::Disk };
            let (client, keys) = (client(by), keys(&names));
            TierCommand::EvictFiles(EvictFiles { client, tenant: None, keys, kind })
        }
        TierAct::Put { by, names, size, is_upsert } => {
            let item = |key| StartItem { key, size, group: None };
            let items = keys(&names).into_iter().map(item).collect();
            let config = config(2, PinRequest::Enable(Ttl(90_000)));
            let start = Start { client: client(by), tenant: None, items, config, rules: RULES };
            TierCommand::PutStart(PutWithFile { start, is_upsert, directory: Arc::from("/r/c") })
        }
        TierAct::End { by, names, queue_max } => {
            let item = |key| EndItem { key, checksum: None };
            let items = keys(&names).into_iter().map(item).collect();
            let select = ReplicaSelect::All;
            let end = End { client: client(by), tenant: None, items, select };
            TierCommand::PutEnd(EndWithOffload { end, queue_max })
        }
        TierAct::Evict { names, queued_max, is_forced } => {
            let victim = |key: Key| {
                let incarnation = look(state, &key, incarnation).unwrap_or_default();
                Victim { tenant: None, key, incarnation }
            };
            // What has a file is what can lose its memory for good.
            let mut keys = keys(&names);
            keys.extend(all_keys().filter(|key| has_file(state, key)));
            let victims = keys.into_iter().map(victim).collect();
            let evict = Evict { victims, spares_soft_pinned: false };
            TierCommand::Evict(EvictToDisk { evict, queue_max: 3, queued_max, is_forced })
        }
        other => work_command(other, state),
    }
}

fn work_command(act: TierAct, state: &State) -> TierCommand {
    match act {
        TierAct::Fetch { by, is_enabled, items_max } => {
            let client = client(by);
            TierCommand::OffloadFetch(OffloadFetch { client, is_enabled, items_max })
        }
        TierAct::Report { by, names, is_done } => {
            let item = |key: Key| {
                let size = look(state, &key, |object| object.size).unwrap_or(100);
                let (size, endpoint) = (is_done.then_some(size), Arc::from("d:1"));
                OffloadedItem { tenant: None, key, size, endpoint }
            };
            let mut keys = keys(&names);
            // Half of the clients do what they were told to.
            let told = state.tiers().offloads().first().filter(|_| by > 1).map(|(_, told)| told);
            let taker = told.and_then(|told| told.takers.first()).map(|(taker, _)| *taker);
            keys.extend(told.map(|told| Key(told.name.key.to_vec())));
            let items = keys.into_iter().map(item).collect();
            let client = taker.unwrap_or(client(by));
            TierCommand::OffloadDone(OffloadReport { client, items })
        }
        TierAct::Promote { names, in_flight_max } => {
            let with_file = all_keys().filter(|key| has_file(state, key));
            let keys = keys(&names).into_iter().chain(with_file);
            let objects = keys.map(|key| (None, key)).collect();
            TierCommand::Promote(Promote { objects, in_flight_max })
        }
        TierAct::FetchPromotions { by, items_max } => {
            TierCommand::PromotionFetch { client: client(by), items_max }
        }
        TierAct::Stage { by, name } => {
            let key = promoted_name(state, scripted_key(name));
            let (holder, size) = promotion(state, &key);
            TierCommand::PromotionStart(PromotionStart {
                client: by.map_or(holder, client),
                tenant: None,
                key,
                size,
                preferred: vec![Arc::from("b")],
                strategy: Placement::Random,
            })
        }
        TierAct::EndPromotion { by, name, is_success } => {
            let key = promoted_name(state, scripted_key(name));
            let client = by.map_or(promotion(state, &key).0, client);
            TierCommand::PromotionEnd(PromotionEnd { client, tenant: None, key, is_success })
        }
        other => panic!("{other:?}"),
    }
}

/// One of each command, with every field at a value of its own.
pub fn samples() -> Vec<TierCommand> {
    let (client, tenant) = (client(1), Tenant::parse("tA"));
    let name = || key("a");
    let start = super::world::start("a", 4_096, config(2, PinRequest::Preserve));
    let items = vec![EndItem { key: name(), checksum: Some(3) }];
    let end = End { client, tenant: tenant.clone(), items, select: ReplicaSelect::All };
    let victim = Victim { tenant: None, key: name(), incarnation: ReplicaId(5) };
    let evict = Evict { victims: vec![victim], spares_soft_pinned: true };
    let item = |size| OffloadedItem {
        tenant: tenant.clone(),
        key: name(),
        size,
        endpoint: Arc::from("d:1"),
    };
    vec![
        TierCommand::MountDisk { client, is_enabled: true },
        TierCommand::UnmountDisk { client },
        TierCommand::ReportCapacity { client, bytes: 1 },
        TierCommand::WipeDisks { clients: vec![client] },
        TierCommand::TakeWipe { client },
        TierCommand::DropLost { client, files_max: 2 },
        TierCommand::EvictFiles(EvictFiles {
            client,
            tenant: tenant.clone(),
            keys: vec![name()],
            kind: ReplicaKind::LocalDisk,
        }),
        TierCommand::PutStart(PutWithFile { start, is_upsert: true, directory: Arc::from("/r") }),
        TierCommand::PutEnd(EndWithOffload { end, queue_max: 4 }),
        TierCommand::Evict(EvictToDisk { evict, queue_max: 6, queued_max: 7, is_forced: true }),
        TierCommand::OffloadFetch(OffloadFetch { client, is_enabled: true, items_max: 8 }),
        TierCommand::OffloadDone(OffloadReport { client, items: vec![item(Some(9)), item(None)] }),
        TierCommand::Promote(Promote { objects: vec![(None, name())], in_flight_max: 10 }),
        TierCommand::PromotionFetch { client, items_max: 11 },
        TierCommand::PromotionStart(PromotionStart {
            client,
            tenant: tenant.clone(),
            key: name(),
            size: 12,
            preferred: vec![Arc::from("s1")],
            strategy: Placement::FreeRatioFirst,
        }),
        TierCommand::PromotionEnd(PromotionEnd { client, tenant, key: name(), is_success: true }),
    ]
}
