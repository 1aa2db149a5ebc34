//! Our own forms of what is stored and sent, and the sealed record around them.
//!
//! Guards: no openraft type reaches disk or wire; every record carries version, length and crc32;
//! lengths are checked before anything is allocated; trailing bytes are an error. Golden bytes in
//! the tests freeze the forms. Leaves to `log/row.rs` how records become rows.
//!
//! Sealed record: `version u8 | length u32 LE | crc32 u32 LE | body`, the crc over version,
//! length and body. Body: bincode 1.3, fixed-size little-endian integers.

use std::collections::{BTreeMap, BTreeSet};

use bincode::Options;
use bytes::{BufMut, Bytes};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::types::{
    Entry, EntryBytes, LogId, Membership, NodeId, Payload, SnapshotMeta, StoredMembership, Vote,
    log_id, term_of,
};

/// Version of every record and of the entry form below.
pub(crate) const RECORD_VERSION: u8 = 1;
/// Bytes before the body of a sealed record.
pub(crate) const SEAL_BYTES: usize = 9;
/// Largest body of a sealed record; a membership of a thousand nodes is far below it.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// Bytes of an encoded entry before its content.
pub(crate) const ENTRY_HEAD_BYTES: usize = 21;

const KIND_BLANK: u8 = 0;
const KIND_NORMAL: u8 = 1;
const KIND_MEMBERSHIP: u8 = 2;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Fewer bytes than the head or the length in it promises.
    #[error("record ends after {got} bytes, {want} were promised")]
    Short {
        /// Bytes there must be.
        want: usize,
        /// Bytes there are.
        got: usize,
    },
    /// More bytes than the length promises.
    #[error("{0} bytes too many after the record")]
    Trailing(usize),
    /// Written by a newer program, or not a record at all.
    #[error("record version {0} is not known to this program (it knows {RECORD_VERSION})")]
    Version(u8),
    /// Checksum differs from the bytes.
    #[error("bad checksum")]
    Checksum,
    /// A length above its limit.
    #[error("length {0} is above the limit {1}")]
    TooLong(usize, usize),
    /// The checksum is right, the content is not: a bug or a foreign program.
    #[error("content makes no sense: {0}")]
    Content(String),
}

fn options() -> impl Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_limit(RECORD_BYTES_MAX as u64)
        .reject_trailing_bytes()
}

/// Encodes `value` without a seal.
pub(crate) fn pack<T: Serialize>(value: &T) -> Result<Vec<u8>, RecordError> {
    options().serialize(value).map_err(|e| RecordError::Content(e.to_string()))
}

/// Decodes what [`pack`] wrote; all bytes must be used.
pub(crate) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(RecordError::TooLong(bytes.len(), RECORD_BYTES_MAX));
    }
    options().deserialize(bytes).map_err(|e| RecordError::Content(e.to_string()))
}

/// Encodes `value` as a sealed record.
pub(crate) fn seal<T: Serialize>(value: &T) -> Result<Vec<u8>, RecordError> {
    let body = pack(value)?;
    let length = u32::try_from(body.len())
        .map_err(|_| RecordError::TooLong(body.len(), RECORD_BYTES_MAX))?;
    let mut out = Vec::with_capacity(SEAL_BYTES.saturating_add(body.len()));
    out.put_u8(RECORD_VERSION);
    out.put_u32_le(length);
    out.put_u32_le(seal_crc(length, &body));
    out.extend_from_slice(&body);
    Ok(out)
}

/// A right seal around any body; for `probes`.
pub(crate) fn reseal(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut out = vec![RECORD_VERSION];
    out.put_u32_le(length);
    out.put_u32_le(seal_crc(length, body));
    out.extend_from_slice(body);
    out
}

fn seal_crc(length: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[RECORD_VERSION]);
    hasher.update(&length.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// Opens a sealed record that fills `bytes` exactly.
pub(crate) fn open<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    let (value, rest) = open_prefix(bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(RecordError::Trailing(rest.len())) }
}

/// Opens a sealed record at the start of `bytes` and returns what follows it.
pub(crate) fn open_prefix<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), RecordError> {
    let short = |want| RecordError::Short { want, got: bytes.len() };
    let (version, rest) = bytes.split_first().ok_or(short(SEAL_BYTES))?;
    if *version != RECORD_VERSION {
        return Err(RecordError::Version(*version));
    }
    let (length, rest) = rest.split_first_chunk::<4>().ok_or(short(SEAL_BYTES))?;
    let (crc, rest) = rest.split_first_chunk::<4>().ok_or(short(SEAL_BYTES))?;
    let length = u32::from_le_bytes(*length);
    let size = length as usize;
    if size > RECORD_BYTES_MAX {
        return Err(RecordError::TooLong(size, RECORD_BYTES_MAX));
    }
    let (body, rest) = rest.split_at_checked(size).ok_or(short(SEAL_BYTES + size))?;
    if seal_crc(length, body) != u32::from_le_bytes(*crc) {
        return Err(RecordError::Checksum);
    }
    Ok((unpack(body)?, rest))
}

/// A log id: term and index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LogIdRecord {
    pub(crate) term: u64,
    pub(crate) index: u64,
}

impl From<&LogId> for LogIdRecord {
    fn from(id: &LogId) -> Self {
        Self { term: term_of(id), index: id.index }
    }
}

impl From<LogIdRecord> for LogId {
    fn from(id: LogIdRecord) -> Self {
        log_id(id.term, id.index)
    }
}

/// Converts an optional log id.
pub(crate) fn log_id_record(id: Option<&LogId>) -> Option<LogIdRecord> {
    id.map(LogIdRecord::from)
}

/// A vote: for whom in which term, and whether a quorum granted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRecord {
    pub(crate) term: u64,
    pub(crate) node: NodeId,
    pub(crate) committed: bool,
}

impl From<&Vote> for VoteRecord {
    fn from(vote: &Vote) -> Self {
        Self {
            term: vote.leader_id.term,
            node: vote.leader_id.voted_for,
            committed: vote.committed,
        }
    }
}

impl From<VoteRecord> for Vote {
    fn from(vote: VoteRecord) -> Self {
        if vote.committed {
            Vote::new_committed(vote.term, vote.node)
        } else {
            Vote::new(vote.term, vote.node)
        }
    }
}

/// Who belongs to the cluster: one voter set, or two while it changes; every node's address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembershipRecord {
    pub(crate) voters: Vec<BTreeSet<NodeId>>,
    pub(crate) nodes: BTreeMap<NodeId, String>,
}

impl From<&Membership> for MembershipRecord {
    fn from(from: &Membership) -> Self {
        Self {
            voters: from.get_joint_config().clone(),
            nodes: from.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
        }
    }
}

impl TryFrom<MembershipRecord> for Membership {
    type Error = RecordError;

    fn try_from(from: MembershipRecord) -> Result<Self, RecordError> {
        // The state before the first membership is an empty one, which `new` would refuse.
        if from.voters.is_empty() && from.nodes.is_empty() {
            return Ok(Membership::default());
        }
        let nodes: BTreeMap<_, _> =
            from.nodes.into_iter().map(|(id, addr)| (id, openraft::BasicNode { addr })).collect();
        Membership::new(from.voters, nodes).map_err(|e| RecordError::Content(e.to_string()))
    }
}

/// A position in the log with the membership in force there: what a raft snapshot is made at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MetaRecord {
    pub(crate) last: Option<LogIdRecord>,
    pub(crate) membership_at: Option<LogIdRecord>,
    pub(crate) membership: MembershipRecord,
}

impl From<&SnapshotMeta> for MetaRecord {
    fn from(meta: &SnapshotMeta) -> Self {
        Self {
            last: log_id_record(meta.last_log_id.as_ref()),
            membership_at: log_id_record(meta.last_membership.log_id().as_ref()),
            membership: meta.last_membership.membership().into(),
        }
    }
}

impl TryFrom<MetaRecord> for SnapshotMeta {
    type Error = RecordError;

    fn try_from(meta: MetaRecord) -> Result<Self, RecordError> {
        let membership = Membership::try_from(meta.membership)?;
        Ok(SnapshotMeta {
            last_log_id: meta.last.map(LogId::from),
            last_membership: StoredMembership::new(meta.membership_at.map(LogId::from), membership),
        })
    }
}

/// Appends one entry: `term u64 | index u64 | kind u8 | length u32 | content`, little-endian.
///
/// Not sealed: the row or frame around it carries the checksum.
pub(crate) fn encode_entry(entry: &Entry, out: &mut Vec<u8>) -> Result<(), RecordError> {
    let packed;
    let (kind, content): (u8, &[u8]) = match &entry.payload {
        Payload::Blank => (KIND_BLANK, &[]),
        Payload::Normal(bytes) => (KIND_NORMAL, &bytes.0),
        Payload::Membership(membership) => {
            packed = pack(&MembershipRecord::from(membership))?;
            (KIND_MEMBERSHIP, &packed)
        }
    };
    let length = u32::try_from(content.len())
        .map_err(|_| RecordError::TooLong(content.len(), u32::MAX as usize))?;
    out.put_u64_le(term_of(&entry.log_id));
    out.put_u64_le(entry.log_id.index);
    out.put_u8(kind);
    out.put_u32_le(length);
    out.extend_from_slice(content);
    Ok(())
}

/// Bytes that [`encode_entry`] will write; a membership is estimated from above.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    let content = match &entry.payload {
        Payload::Blank => 0,
        Payload::Normal(bytes) => bytes.0.len(),
        Payload::Membership(m) => m.nodes().map(|(_, n)| n.addr.len() + 64).sum::<usize>() + 64,
    };
    ENTRY_HEAD_BYTES.saturating_add(content)
}

/// Takes one entry off the front of `bytes`; its content shares their memory.
pub(crate) fn decode_entry(bytes: &mut Bytes) -> Result<Entry, RecordError> {
    let got = bytes.len();
    let head = bytes.get(..ENTRY_HEAD_BYTES);
    let head = head.ok_or(RecordError::Short { want: ENTRY_HEAD_BYTES, got })?;
    let (term, index, kind, length): (u64, u64, u8, u32) = unpack(head)?;
    let want = ENTRY_HEAD_BYTES.saturating_add(length as usize);
    if got < want {
        return Err(RecordError::Short { want, got });
    }
    let content = bytes.split_to(want).slice(ENTRY_HEAD_BYTES..);
    let payload = match kind {
        KIND_BLANK if content.is_empty() => Payload::Blank,
        KIND_NORMAL => Payload::Normal(EntryBytes(content)),
        KIND_MEMBERSHIP => {
            let record: MembershipRecord = unpack(&content)?;
            Payload::Membership(Membership::try_from(record)?)
        }
        other => return Err(RecordError::Content(format!("entry kind {other}"))),
    };
    Ok(Entry { log_id: log_id(term, index), payload })
}

#[cfg(test)]
mod tests;
