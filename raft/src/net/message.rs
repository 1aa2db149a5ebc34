//! What nodes say to each other, in our own forms.
//!
//! Guards: no openraft type goes over the wire as it is; a body must be used up to its last byte.
//! Leaves to `frame.rs` framing and checksums, to `client.rs` and `server.rs` the conversation.

use bytes::{Buf, BufMut, Bytes};
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest, VoteResponse};
use serde::{Deserialize, Serialize};

use crate::record::{
    LogIdRecord, MetaRecord, RecordError, VoteRecord, decode_entry, encode_entry, entry_bytes,
    log_id_record, pack, unpack,
};
use crate::types::{Entry, LogId, NodeId, TypeConfig, Vote};

/// Version of the conversation; both sides must speak the same.
pub(crate) const PROTOCOL: u32 = 1;

/// Which of the three connections this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Channel {
    Append,
    Control,
    Snapshot,
}

/// First word of the server: something to prove knowledge of the secret with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Challenge {
    pub(crate) protocol: u32,
    pub(crate) nonce: [u8; 16],
}

/// First word of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) cluster_id: String,
    pub(crate) from: NodeId,
    pub(crate) incarnation: u64,
    pub(crate) to: NodeId,
    pub(crate) channel: Channel,
    pub(crate) nonce: [u8; 16],
    pub(crate) proof: [u8; 32],
}

/// The server's answer when it will talk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) incarnation: u64,
    pub(crate) proof: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct AppendHead {
    vote: VoteRecord,
    prev: Option<LogIdRecord>,
    commit: Option<LogIdRecord>,
    entries: u32,
}

/// The answer to an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AppendReply {
    /// Stored up to here.
    Stored(Option<LogIdRecord>),
    /// The entry before the first one is another one there.
    Conflict(LogIdRecord),
    /// A newer leader or candidate is known there.
    HigherVote(VoteRecord),
}

/// Asks for a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteAsk {
    vote: VoteRecord,
    last: Option<LogIdRecord>,
    pub(crate) transfer: bool,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteSay {
    vote: VoteRecord,
    granted: bool,
    last: Option<LogIdRecord>,
}

/// Tells a follower to take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TransferAsk {
    from: VoteRecord,
    to: NodeId,
    last: Option<LogIdRecord>,
}

/// The answer: done, or why not.
pub(crate) type TransferSay = Result<(), String>;

/// Announces a raft snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotBegin {
    pub(crate) vote: VoteRecord,
    pub(crate) meta: MetaRecord,
    /// Bytes of the whole file.
    pub(crate) bytes: u64,
    /// Checksum of the content: with the size it tells whether a part received earlier fits.
    pub(crate) crc: u32,
}

/// Where to go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotResume {
    pub(crate) offset: u64,
}

/// The end of a transfer: the receiver's vote, or why it was not installed.
pub(crate) type SnapshotSay = Result<VoteRecord, String>;

/// Encodes an append.
pub(crate) fn encode_append(
    request: &AppendEntriesRequest<TypeConfig>,
) -> Result<Bytes, RecordError> {
    let count = request.entries.len();
    let head = pack(&AppendHead {
        vote: VoteRecord::from(&request.vote),
        prev: log_id_record(request.prev_log_id.as_ref()),
        commit: log_id_record(request.leader_commit.as_ref()),
        entries: u32::try_from(count)
            .map_err(|_| RecordError::TooLong(count, u32::MAX as usize))?,
    })?;
    let size: usize = request.entries.iter().map(entry_bytes).sum();
    let mut body = Vec::with_capacity(size.saturating_add(head.len()).saturating_add(4));
    body.put_u32_le(u32::try_from(head.len()).unwrap_or(u32::MAX));
    body.extend_from_slice(&head);
    for entry in &request.entries {
        encode_entry(entry, &mut body)?;
    }
    Ok(body.into())
}

/// Decodes an append; entries share the memory of `body`.
pub(crate) fn decode_append(
    mut body: Bytes,
) -> Result<AppendEntriesRequest<TypeConfig>, RecordError> {
    let short = |got| RecordError::Short { want: 4, got };
    let size = body.try_get_u32_le().map_err(|_| short(0))? as usize;
    if body.len() < size {
        return Err(RecordError::Short { want: size, got: body.len() });
    }
    let head: AppendHead = unpack(&body.split_to(size))?;
    let mut entries: Vec<Entry> = Vec::new();
    while !body.is_empty() {
        entries.push(decode_entry(&mut body)?);
    }
    if entries.len() != head.entries as usize {
        let text = format!("{} entries, {} were announced", entries.len(), head.entries);
        return Err(RecordError::Content(text));
    }
    Ok(AppendEntriesRequest {
        vote: Vote::from(head.vote),
        prev_log_id: head.prev.map(LogId::from),
        leader_commit: head.commit.map(LogId::from),
        entries,
    })
}

/// Decodes a body as each message that it could be; for `probes`.
pub(crate) fn probe(body: &Bytes) {
    if let Ok(request) = decode_append(body.clone()) {
        let _ = encode_append(&request);
    }
    let _ = unpack::<Challenge>(body);
    let _ = unpack::<Hello>(body);
    let _ = unpack::<Welcome>(body);
    let _ = unpack::<AppendReply>(body);
    let _ = unpack::<VoteAsk>(body);
    let _ = unpack::<VoteSay>(body);
    let _ = unpack::<TransferAsk>(body);
    let _ = unpack::<SnapshotBegin>(body);
    let _ = unpack::<SnapshotResume>(body);
    let _ = unpack::<SnapshotSay>(body);
}

impl From<&VoteRequest<TypeConfig>> for VoteAsk {
    fn from(request: &VoteRequest<TypeConfig>) -> Self {
        Self {
            vote: VoteRecord::from(&request.vote),
            last: log_id_record(request.last_log_id.as_ref()),
            transfer: request.leadership_transfer,
        }
    }
}

impl From<VoteAsk> for VoteRequest<TypeConfig> {
    fn from(ask: VoteAsk) -> Self {
        let mut request = VoteRequest::new(Vote::from(ask.vote), ask.last.map(LogId::from));
        request.leadership_transfer = ask.transfer;
        request
    }
}

impl From<&VoteResponse<TypeConfig>> for VoteSay {
    fn from(response: &VoteResponse<TypeConfig>) -> Self {
        Self {
            vote: VoteRecord::from(&response.vote),
            granted: response.vote_granted,
            last: log_id_record(response.last_log_id.as_ref()),
        }
    }
}

impl From<VoteSay> for VoteResponse<TypeConfig> {
    fn from(say: VoteSay) -> Self {
        VoteResponse::new(Vote::from(say.vote), say.last.map(LogId::from), say.granted)
    }
}

impl From<&TransferLeaderRequest<TypeConfig>> for TransferAsk {
    fn from(request: &TransferLeaderRequest<TypeConfig>) -> Self {
        Self {
            from: VoteRecord::from(request.from_leader()),
            to: *request.to_node_id(),
            last: log_id_record(request.last_log_id()),
        }
    }
}

impl From<TransferAsk> for TransferLeaderRequest<TypeConfig> {
    fn from(ask: TransferAsk) -> Self {
        TransferLeaderRequest::new(Vote::from(ask.from), ask.to, ask.last.map(LogId::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{EntryBytes, Payload, log_id};

    #[test]
    fn an_append_survives_the_way() {
        let entries: Vec<Entry> = (5..8)
            .map(|index| {
                let payload = Payload::Normal(EntryBytes(Bytes::from(vec![1; index as usize])));
                Entry { log_id: log_id(2, index), payload }
            })
            .collect();
        let request = AppendEntriesRequest {
            vote: Vote::new_committed(2, 1),
            prev_log_id: Some(log_id(1, 4)),
            leader_commit: None,
            entries: entries.clone(),
        };
        let body = encode_append(&request).unwrap();
        let back = decode_append(body.clone()).unwrap();
        assert_eq!(back.entries, entries);
        assert_eq!((back.vote, back.prev_log_id), (request.vote, request.prev_log_id));
        for length in 0..body.len() {
            assert!(decode_append(body.slice(..length)).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_vote_survives_the_way_with_its_transfer_mark() {
        let mut request = VoteRequest::new(Vote::new(3, 2), Some(log_id(2, 9)));
        request.leadership_transfer = true;
        let bytes = pack(&VoteAsk::from(&request)).unwrap();
        let back: VoteAsk = unpack(&bytes).unwrap();
        assert_eq!(VoteRequest::from(back), request);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_a_decoder_panic(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)
        ) {
            let _ = decode_append(Bytes::copy_from_slice(&bytes));
            let _ = unpack::<Hello>(&bytes);
            let _ = unpack::<SnapshotBegin>(&bytes);
            let _ = crate::record::open::<crate::record::MetaRecord>(&bytes);
        }
    }
}
