//! A batch as subscribers read it (behaviour 11): `[timestamp_ms, [event, ...], 0]` in MessagePack.
//!
//! An event is a map of fields in the peer's order. What this master does not know is nil: models, blocks and
//! tokens are the engines' own.

use bytes::Bytes;
use rmp::encode::{self, ByteBuf};

use crate::node::feed::Batch;
use crate::state::presence::{Medium, PresenceChange};

/// What the operator has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Whose cache the events are about.
    pub backend_id: String,
    /// Whether the fields of the older form are sent, too.
    pub has_legacy_fields: bool,
    /// Whether keys are sent. Without them an object whose key is no number cannot be told and is left out.
    pub has_object_key: bool,
}

/// The third item of a message: the data-parallel rank, of which there is one.
const RANK: u64 = 0;

/// Data of a batch: the third frame of its message.
pub fn encode(batch: &Batch, form: &Form) -> Bytes {
    let told: Vec<_> = (batch.first_change..)
        .zip(&batch.changes)
        .map(|(id, change)| (id, change, hash_of(&change.key)))
        .filter(|(_, _, hash)| form.has_object_key || hash.is_some())
        .collect();
    let mut out = ByteBuf::new();
    array(&mut out, 3);
    unsigned(&mut out, batch.at.0);
    array(&mut out, told.len());
    for (id, change, hash) in told {
        event(&mut out, id, batch.at.0, change, hash, form);
    }
    unsigned(&mut out, RANK);
    out.into_vec().into()
}

/// Keys of a batch that are no numbers.
pub fn unparsed_keys(batch: &Batch) -> u64 {
    batch.changes.iter().filter(|change| hash_of(&change.key).is_none()).count() as u64
}

/// Fields of an event whatever is chosen.
const FIELDS: usize = 13;

fn event(
    out: &mut ByteBuf,
    id: u64,
    at_ms: u64,
    change: &PresenceChange,
    hash: Option<u64>,
    form: &Form,
) {
    let legacy = form.has_legacy_fields;
    let of_kind = match (change.is_stored, legacy) {
        (true, true) => 4,
        (true, false) => 3,
        (false, _) => 1,
    };
    let chosen = if legacy { 2 } else { 0 } + usize::from(form.has_object_key);
    map(out, FIELDS + chosen + of_kind);
    let mut field = |name: &str, value: &dyn Fn(&mut ByteBuf)| {
        text(out, name.as_bytes());
        value(out);
    };
    field("event_id", &|out| unsigned(out, id));
    field("timestamp", &|out| unsigned(out, at_ms));
    let (kind, older) = match change.is_stored {
        true => ("stored", "BlockStored"),
        false => ("removed", "BlockRemoved"),
    };
    field("event_type", &|out| text(out, kind.as_bytes()));
    if legacy {
        field("type", &|out| text(out, older.as_bytes()));
    }
    for name in ["model_name", "block_size", "additional_salt", "lora_name"] {
        field(name, &nil);
    }
    field("tenant_id", &|out| text(out, change.tenant.name().as_bytes()));
    field("backend_id", &|out| text(out, form.backend_id.as_bytes()));
    field("group_id", &|out| match &*change.group {
        [] => nil(out),
        group => text(out, group),
    });
    let medium = match change.medium {
        Medium::Memory => "cpu",
        Medium::Disk => "disk",
    };
    field("medium", &|out| text(out, medium.as_bytes()));
    field("dp_rank", &nil);
    if form.has_object_key {
        field("object_key", &|out| text(out, &change.key));
    }
    field("seq_hashes", &|out| {
        array(out, usize::from(hash.is_some()));
        hash.into_iter().for_each(|hash| unsigned(out, hash));
    });
    if legacy {
        field("block_hashes", &|out| {
            array(out, usize::from(hash.is_some()));
            hash.into_iter().for_each(|hash| signed(out, hash.cast_signed()));
        });
    }
    if !change.is_stored {
        field("base_block_idx", &nil);
        return;
    }
    field("base_block_idx", &|out| unsigned(out, 0));
    field("parent_hash", &nil);
    field("token_ids", &nil);
    if legacy {
        field("parent_block_hash", &nil);
    }
}

fn nil(out: &mut ByteBuf) {
    let Ok(()) = encode::write_nil(out);
}

fn unsigned(out: &mut ByteBuf, number: u64) {
    let Ok(_) = encode::write_uint(out, number);
}

fn signed(out: &mut ByteBuf, number: i64) {
    let Ok(_) = encode::write_sint(out, number);
}

/// A string of any bytes, since a key may be of any; what is beyond 4 GiB is cut.
fn text(out: &mut ByteBuf, bytes: &[u8]) {
    let bytes = bytes.get(..u32::MAX as usize).unwrap_or(bytes);
    let Ok(_) = encode::write_str_len(out, length(bytes.len()));
    out.as_mut_vec().extend_from_slice(bytes);
}

fn array(out: &mut ByteBuf, count: usize) {
    let Ok(_) = encode::write_array_len(out, length(count));
}

fn map(out: &mut ByteBuf, count: usize) {
    let Ok(_) = encode::write_map_len(out, length(count));
}

fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The number that a key is, decimal or with `0x` in front.
fn hash_of(key: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(key).ok()?;
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_plain.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::model::{Millis, Tenant};

    fn batch(changes: Vec<PresenceChange>) -> Batch {
        Batch { sequence: 3, first_change: 9, at: Millis(1_000), changes, message: OnceLock::new() }
    }

    fn change(key: &str, medium: Medium, is_stored: bool) -> PresenceChange {
        PresenceChange {
            medium,
            is_stored,
            tenant: Tenant::default(),
            key: key.as_bytes().into(),
            group: Box::from(b"g".as_slice()),
        }
    }

    fn form(has_legacy_fields: bool, has_object_key: bool) -> Form {
        Form { backend_id: "b".into(), has_legacy_fields, has_object_key }
    }

    /// Written out by hand, field by field, in the order of behaviour 11.
    #[test]
    fn a_stored_event_has_the_peers_fields_in_the_peers_order() {
        let batch = batch(vec![change("0x80", Medium::Memory, true)]);
        let expected: &[&[u8]] = &[
            b"\x93\xcd\x03\xe8\x91\xde\x00\x14",
            b"\xa8event_id\x09\xa9timestamp\xcd\x03\xe8\xaaevent_type\xa6stored",
            b"\xa4type\xabBlockStored\xaamodel_name\xc0\xaablock_size\xc0",
            b"\xafadditional_salt\xc0\xa9lora_name\xc0\xa9tenant_id\xa7default",
            b"\xaabackend_id\xa1b\xa8group_id\xa1g\xa6medium\xa3cpu\xa7dp_rank\xc0",
            b"\xaaobject_key\xa40x80\xaaseq_hashes\x91\xcc\x80\xacblock_hashes\x91\xcc\x80",
            b"\xaebase_block_idx\x00\xabparent_hash\xc0\xa9token_ids\xc0",
            b"\xb1parent_block_hash\xc0\x00",
        ];
        assert_eq!(encode(&batch, &form(true, true)), expected.concat());
    }

    #[test]
    fn a_removed_event_without_legacy_fields_and_key_is_short() {
        let number = u64::MAX.to_string();
        let batch = batch(vec![change(&number, Medium::Disk, false)]);
        let expected: &[&[u8]] = &[
            b"\x93\xcd\x03\xe8\x91\x8e",
            b"\xa8event_id\x09\xa9timestamp\xcd\x03\xe8\xaaevent_type\xa7removed",
            b"\xaamodel_name\xc0\xaablock_size\xc0",
            b"\xafadditional_salt\xc0\xa9lora_name\xc0\xa9tenant_id\xa7default",
            b"\xaabackend_id\xa1b\xa8group_id\xa1g\xa6medium\xa4disk\xa7dp_rank\xc0",
            b"\xaaseq_hashes\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xaebase_block_idx\xc0\x00",
        ];
        assert_eq!(encode(&batch, &form(false, false)), expected.concat());
    }

    #[test]
    fn without_keys_an_object_that_is_no_number_is_left_out_and_its_number_is_used() {
        let key = |key| change(key, Medium::Memory, false);
        let batch = batch(vec![key("name"), key("7")]);
        assert_eq!(unparsed_keys(&batch), 1);
        let told = encode(&batch, &form(false, false));
        assert!(told.starts_with(b"\x93\xcd\x03\xe8\x91\x8e\xa8event_id\x0a"), "{told:?}");
        assert!(encode(&batch, &form(false, true)).starts_with(b"\x93\xcd\x03\xe8\x92"));
    }

    #[test]
    fn a_key_of_any_bytes_and_length_is_sent_as_it_is() {
        let heads: [(usize, &[u8]); 3] = [(31, b"\xbf"), (32, b"\xd9\x20"), (256, b"\xda\x01\x00")];
        for (length, head) in heads {
            let key: Box<[u8]> = vec![0xfe; length].into();
            let told = PresenceChange { key: key.clone(), ..change("", Medium::Memory, false) };
            let message = encode(&batch(vec![told]), &form(false, true));
            let expected = [b"\xaaobject_key".as_slice(), head, &key].concat();
            let is_there = message.windows(expected.len()).any(|part| part == expected);
            assert!(is_there, "{length}: {message:?}");
        }
    }

    #[test]
    fn a_key_is_a_number_only_as_a_whole() {
        for (key, hash) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("0xff", Some(255)),
            ("0XfF", Some(255)),
            ("18446744073709551616", None),
            ("ff", None),
            ("0x", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("0x+1", None),
        ] {
            assert_eq!(hash_of(key.as_bytes()), hash, "{key:?}");
        }
    }
}
