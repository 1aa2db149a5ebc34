//! The bytes of one entry of every command, as they are checked in: an old log must stay readable.
//!
//! `tests/fixtures/entries/` says what to do when a test here fails. A command without a line fails, too.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use super::world::{RULES, client, key, leadership, segment, segment_id};
use crate::alloc::Strategy;
use crate::model::{
    Millis, PinRequest, ReplicaId, ReplicaSelect, Segment, TaskId, Tenant, Ttl, Uuid,
};
use crate::state::command::{
    ClearReplicas, Command, End, EndItem, Entry, ExpiredClient, Remove, Revoke, Stamp, Start,
    StartItem, Sweep, SweepPins, WriteConfig, WriteRules,
};
use crate::state::encode::{decode, encode};
use crate::state::evict::{Evict, Victim};
use crate::state::guard::Published;
use crate::state::restore::{
    RestoreBegin, RestoreDecide, RestoreFinish, RestoreOutcome, RestorePart,
};
use crate::state::tasks::{TaskComplete, TaskCreate, TaskRules, TasksFetch};
use crate::state::tenants::{PolicyFile, TenantChange, TenantPolicy};
use crate::state::transfer::{TransferEnd, TransferKind, TransferStart, TransferVerdict};

const FIXTURE: &str = "tests/fixtures/entries/entries.txt";

macro_rules! commands {
    ($($name:ident,)+) => {
        /// The name of a command. A new one does not compile before it is listed here, and fails without a
        /// sample.
        fn name(command: &Command) -> &'static str {
            match command { $(Command::$name { .. } => stringify!($name),)+ }
        }

        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

commands! {
    Noop,
    PutStart,
    PutEnd,
    PutRevoke,
    Remove,
    MountSegment,
    ReMountSegment,
    UnmountSegment,
    DrainUnmounted,
    ExpireClients,
    Sweep,
    MetadataPut,
    MetadataDelete,
    Lead,
    UpsertStart,
    ClearReplicas,
    GracefulUnmount,
    TransferStart,
    TransferEnd,
    TaskCreate,
    TasksFetch,
    TaskComplete,
    Evict,
    RemoveLeased,
    SnapshotBegin,
    SnapshotPublished,
    RestoreBegin,
    RestorePart,
    RestoreFinish,
    RestoreAbort,
    RestoreDecide,
    SweepPins,
    Tenants,
    Tier,
    Drain,
    Dynamic,
}

fn writes() -> Vec<Command> {
    let tenant = Tenant::parse("tA");
    let full = WriteConfig {
        replica_num: 3,
        pin: PinRequest::Enable(Ttl(60_000)),
        is_hard_pinned: true,
        data_type: 2,
        preferred: vec![Arc::from("s1"), Arc::from("s2")],
        is_same_node_preferred: true,
        host_id: Arc::from("east"),
    };
    let plain = WriteConfig {
        replica_num: 1,
        pin: PinRequest::Preserve,
        is_hard_pinned: false,
        data_type: 0,
        preferred: Vec::new(),
        is_same_node_preferred: false,
        host_id: Arc::from(""),
    };
    let disable = WriteConfig { pin: PinRequest::Disable, ..plain.clone() };
    let items = || {
        let grouped = StartItem { key: key("a"), size: 1, group: Some(key("g")) };
        vec![grouped, StartItem { key: key("b"), size: u64::MAX, group: None }]
    };
    let by = |n, config: WriteConfig, strategy| {
        let rules = WriteRules { strategy, ..RULES };
        let start = Start { client: client(n), tenant: None, items: items(), config, rules };
        Command::PutStart(start)
    };
    let local = Start {
        client: client(1),
        tenant: tenant.clone(),
        items: items(),
        config: full,
        rules: WriteRules { strategy: Strategy::LocalFirst, ..RULES },
    };
    let mut writes = vec![
        Command::PutStart(local),
        by(2, plain, Strategy::Random),
        by(3, disable, Strategy::FreeRatioFirst),
    ];
    for (select, checksum) in [(ReplicaSelect::All, None), (ReplicaSelect::LocalDisk, Some(9))] {
        let items = vec![EndItem { key: key("a"), checksum }];
        writes.push(Command::PutEnd(End { client: client(1), tenant: None, items, select }));
    }
    let select = ReplicaSelect::Memory;
    let keys = vec![key("a"), key("")];
    writes.push(Command::PutRevoke(Revoke { client: client(1), tenant, keys, select }));
    writes.push(Command::Remove(Remove { tenant: None, keys: vec![key("a")] }));
    writes
}

/// Commands that came after the first ones.
fn later() -> Vec<Command> {
    let upsert = Start {
        client: client(1),
        tenant: None,
        items: vec![StartItem { key: key("a"), size: 4096, group: Some(key("")) }],
        config: super::world::config(1, PinRequest::Preserve),
        rules: RULES,
    };
    let clear = |segment: Option<&str>| {
        let keys = vec![key("a"), key("b")];
        let segment = segment.map(Arc::from);
        Command::ClearReplicas(ClearReplicas { tenant: None, client: client(1), segment, keys })
    };
    let (segment, client) = (segment_id(1), client(1));
    vec![
        Command::UpsertStart(upsert),
        clear(None),
        clear(Some("s1")),
        Command::GracefulUnmount { segment, client, grace_ms: 1_000 },
    ]
}

fn transfers() -> Vec<Command> {
    let (client, id) = (client(1), TaskId(Uuid { first: 11, second: 12 }));
    let targets = || vec![Arc::from("s2"), Arc::from("s3")];
    let victim = Victim { tenant: Tenant::parse("tA"), key: key("a"), incarnation: ReplicaId(13) };
    let start = |kind| TransferStart {
        client,
        tenant: Tenant::parse("tA"),
        key: key("a"),
        kind,
        source: Arc::from("s1"),
        targets: targets(),
    };
    let end = |kind, verdict| TransferEnd {
        client,
        tenant: None,
        key: key("a"),
        kind,
        verdict,
        is_dynamic: verdict == TransferVerdict::Revoked,
        release_timeout_ms: 14,
    };
    let create = |kind, source| TaskCreate {
        id,
        kind,
        tenant: None,
        key: key("a"),
        source,
        targets: targets(),
        pending_max: 15,
    };
    vec![
        Command::TransferStart(start(TransferKind::Copy)),
        Command::TransferStart(start(TransferKind::Move)),
        Command::TransferEnd(end(TransferKind::Copy, TransferVerdict::Done)),
        Command::TransferEnd(end(TransferKind::Move, TransferVerdict::Revoked)),
        Command::TaskCreate(create(TransferKind::Copy, None)),
        Command::TaskCreate(create(TransferKind::Move, Some(Arc::from("s1")))),
        Command::TasksFetch(TasksFetch { client, tasks_max: 16, processing_max: 17 }),
        Command::TaskComplete(TaskComplete {
            client,
            id,
            is_success: true,
            message: "done".to_owned(),
        }),
        Command::Evict(Evict { victims: vec![victim], spares_soft_pinned: true }),
    ]
}

fn restores() -> Vec<Command> {
    let (now, report) = (Millis(20), key("{}"));
    let begin = RestoreBegin {
        attempt: 18,
        snapshot: Arc::from("20261129_182740_639"),
        now,
        parts: 2,
        crc32: 19,
    };
    let finish = |outcome| RestoreFinish {
        attempt: 18,
        leases_until: Millis(21),
        outcome,
        report: report.clone(),
    };
    let decide = |outcome| RestoreDecide { outcome, now, report: report.clone() };
    let leased = Remove { tenant: Tenant::parse("tA"), keys: vec![key("a")] };
    vec![
        Command::RemoveLeased { remove: leased, leased_until: Millis(22) },
        Command::SnapshotBegin,
        Command::SnapshotPublished(Published { generation: 23, next_replica_id: 24 }),
        Command::RestoreBegin(begin),
        Command::RestorePart(RestorePart { attempt: 18, number: 1, bytes: key("bytes") }),
        Command::RestoreFinish(finish(RestoreOutcome::Restored)),
        Command::RestoreFinish(finish(RestoreOutcome::NothingSurvived)),
        Command::RestoreAbort { attempt: 18 },
        Command::RestoreDecide(decide(RestoreOutcome::NoSnapshot)),
        Command::RestoreDecide(decide(RestoreOutcome::AllFailed)),
    ]
}

fn tenants() -> Vec<Command> {
    let tenant = Tenant::parse("tA").unwrap();
    let file = Some(PolicyFile { node_id: 25, digest: 26 });
    let policy = || TenantPolicy { tenant: tenant.clone(), quota_bytes: 27 };
    let off = TenantChange::Setup { is_enforced: false, file: None, policies: None };
    let on = TenantChange::Setup { is_enforced: true, file, policies: Some(vec![policy()]) };
    let changes = [
        off,
        on,
        TenantChange::Set { policy: policy(), file },
        TenantChange::Delete { tenant: tenant.clone(), file: None },
    ];
    changes.into_iter().map(Command::Tenants).collect()
}

fn samples() -> Vec<Command> {
    let (segment, id) = (segment(1, 1 << 20), segment_id(1));
    let hosted = Segment { host_id: Arc::from("east"), ..segment.clone() };
    let tasks = TaskRules { pending_timeout_ms: 8, processing_timeout_ms: 9, finished_max: 10 };
    let sweep = Sweep { pins_until: Millis(5), items_max: 6, release_timeout_ms: 7, tasks };
    let mut samples = vec![Command::Noop];
    samples.extend(writes());
    samples.extend([
        Command::MountSegment { segment: segment.clone(), client: client(1) },
        Command::ReMountSegment { segments: vec![segment, hosted], client: client(2) },
        Command::UnmountSegment { segment: id, client: client(1) },
        Command::DrainUnmounted { segment: id, allocations_max: 512 },
        Command::ExpireClients(vec![ExpiredClient { client: client(1), incarnation: 4 }]),
        Command::Sweep(sweep),
        Command::MetadataPut { key: key("k"), value: key("v") },
        Command::MetadataDelete { key: key("k") },
        Command::Lead(leadership(3)),
    ]);
    samples.extend(later());
    samples.extend(transfers());
    samples.extend(restores());
    samples.push(Command::SweepPins(SweepPins { until: Millis(18), shards: 19 }));
    samples.extend(tenants());
    samples.extend(super::script_tiers::samples().into_iter().map(Command::Tier));
    samples.extend(super::drain::samples().into_iter().map(Command::Drain));
    samples.extend(super::dynamic::samples().into_iter().map(Command::Dynamic));
    samples
}

/// The samples as lines of name, number and bytes.
fn lines() -> String {
    let mut seen = BTreeMap::<&str, u32>::new();
    let mut lines = String::new();
    for command in samples() {
        let number = seen.entry(name(&command)).or_default();
        *number += 1;
        let (name, number) = (name(&command), *number);
        let stamp = Stamp { now: Millis(1_234_567_890_123), seed: 0xfeed };
        let bytes = encode(&Entry { stamp, commands: vec![command] }).unwrap();
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        writeln!(lines, "{name} {number} {hex}").unwrap();
    }
    lines
}

fn fixture() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURE);
    if std::env::var_os("WRITE_ENTRY_FIXTURE").is_some() {
        std::fs::write(&path, lines()).unwrap();
    }
    std::fs::read_to_string(&path).unwrap()
}

#[test]
fn every_command_has_golden_bytes() {
    let sampled: Vec<&str> = samples().iter().map(name).collect();
    let fixture = fixture();
    for name in NAMES {
        assert!(sampled.contains(name), "{name} has no sample");
        let is_named = |line: &str| line.split(' ').next() == Some(*name);
        assert!(fixture.lines().any(is_named), "{name} has no line in {FIXTURE}");
    }
}

#[test]
fn entries_are_written_as_they_always_were() {
    for (ours, golden) in lines().lines().zip(fixture().lines()) {
        assert_eq!(ours, golden);
    }
    assert_eq!(lines().lines().count(), fixture().lines().count());
}

#[test]
fn entries_of_old_are_read_as_they_were_meant() {
    let fixture = fixture();
    for (command, line) in samples().into_iter().zip(fixture.lines()) {
        let hex = line.rsplit(' ').next().unwrap().as_bytes();
        let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
        let bytes: Vec<u8> =
            hex.as_chunks::<2>().0.iter().map(|[h, l]| digit(*h) << 4 | digit(*l)).collect();
        assert_eq!(decode(&bytes).unwrap().commands, [command], "{line}");
    }
}
