//! Every decoder of this crate that meets bytes from outside, as functions for fuzzing.
//!
//! No part of the crate's face. Each must return for any bytes: no panic, no hang, no memory beyond a small multiple
//! of the bytes. Where a checksum guards the bytes, a second function puts the right one in front first, since chance
//! would not find it.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::files::Machine;
use crate::log::journal::{self, Noted};
use crate::log::row::{self, Assembler};
use crate::machine::{AnyReply, ErasedMachine, MachineError, SaveFn};
use crate::net::frame::{self, BODY_BYTES_MAX, Frame, HEAD_BYTES, Kind};
use crate::net::message;
use crate::record::{self, MetaRecord};
use crate::snapshot_file::SnapshotFile;

/// The name of a decoder, and what feeds it bytes.
pub type Probe = (&'static str, fn(&[u8]));

/// All of them.
pub const PROBES: &[Probe] = &[
    ("raft_frame", raft_frame),
    ("raft_journal", raft_journal),
    ("raft_message", raft_message),
    ("raft_record", raft_record),
    ("raft_row", raft_row),
    ("raft_snapshot_file", raft_snapshot_file),
];

/// A frame as it comes, then one whose head is right.
fn raft_frame(bytes: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    runtime.block_on(async {
        let mut rest = bytes;
        while let Ok(Some(frame)) = frame::read(&mut rest, BODY_BYTES_MAX).await {
            message::probe(&frame.body);
        }
        let whole = Frame::new(Kind::Append, 1, Bytes::copy_from_slice(bytes));
        let head = whole.head().unwrap_or([0; HEAD_BYTES]);
        let mut sent = head.as_slice().to_vec();
        sent.extend_from_slice(bytes);
        let back = frame::read(&mut sent.as_slice(), BODY_BYTES_MAX).await;
        assert_eq!(back.ok().flatten(), Some(whole), "a frame comes back as it was sent");
    });
}

/// A journal as it comes, and records whose checksum is right with these bytes in them.
fn raft_journal(bytes: &[u8]) {
    let _ = Noted::parse(Bytes::copy_from_slice(bytes));
    let mut file = journal::sealed(bytes);
    file.extend_from_slice(&journal::sealed(bytes));
    let _ = Noted::parse(Bytes::from(file));
}

fn raft_message(bytes: &[u8]) {
    message::probe(&Bytes::copy_from_slice(bytes));
}

/// Sealed records as they come and with a right seal, and entries.
fn raft_record(bytes: &[u8]) {
    let _ = record::open::<MetaRecord>(bytes);
    let _ = record::open_prefix::<record::VoteRecord>(bytes);
    let _ = record::open::<Vec<u64>>(&record::reseal(bytes));
    let _ = record::open::<MetaRecord>(&record::reseal(bytes));
    let mut rest = Bytes::copy_from_slice(bytes);
    while let Ok(entry) = record::decode_entry(&mut rest) {
        let mut again = Vec::new();
        let _ = record::encode_entry(&entry, &mut again);
    }
}

/// Rows as they come, and the group in these bytes cut into rows and put together again.
fn raft_row(bytes: &[u8]) {
    let mut assembler = Assembler::default();
    for part in bytes.chunks(row::ROW_BYTES_MAX + row::KEY_BYTES) {
        let (key, value) = part.split_at(part.len().min(row::KEY_BYTES));
        let _ = assembler.push(key, value);
    }
    let mut assembler = Assembler::default();
    for (key, value) in row::rows(1, bytes).unwrap_or_default() {
        let _ = assembler.push(&key, &value);
    }
    let _ = assembler.finish();
}

/// A machine that takes anything.
struct Sink;

impl ErasedMachine for Sink {
    fn apply(&self, _index: u64, _entry: &[u8]) -> Result<AnyReply, MachineError> {
        Ok(AnyReply::none())
    }

    fn freeze(&self) -> SaveFn {
        Box::new(|_| Ok(()))
    }

    fn load(&self, from: &mut dyn Read) -> Result<(), MachineError> {
        let read = std::io::copy(from, &mut std::io::sink());
        read.map(|_| ()).map_err(|error| MachineError::new(error.to_string()))
    }
}

/// A raft snapshot file of these bytes.
fn raft_snapshot_file(bytes: &[u8]) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("probe-{}-{number}.raftsnap", std::process::id());
    let path = std::env::temp_dir().join(name);
    if std::fs::write(&path, bytes).is_ok()
        && let Ok(file) = SnapshotFile::open(&Machine, &path)
    {
        let _ = file.verify();
        let _ = file.load_into(&Sink);
    }
    // Best effort: a leftover is a temporary file.
    let _ = std::fs::remove_file(&path);
}
