//! Entry bytes: a version byte, then bincode with fixed-width integers.
//!
//! Frozen: golden tests hold one entry of each variant. A new command is appended to the enum and proposed
//! only when every voter can read it.

use bincode::Options;

use super::command::{Command, Entry, Stamp};

/// The version that this build writes and reads.
pub const ENTRY_VERSION: u8 = 1;

/// Bytes of one entry at most; a larger one is refused before it is decoded. Holds the largest single command
/// (keys of 1 MB are legal) and bounds what a damaged length can make us allocate.
pub const ENTRY_BYTES_MAX: u64 = 256 << 20;

/// An entry that this build cannot understand. The node must stop: skipping it would make it differ.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// Written by another version.
    #[error("entry has version {found}, this build reads {ENTRY_VERSION}; upgrade this node")]
    Version {
        /// The version byte; 0 if the entry is empty.
        found: u8,
    },
    /// The bytes are not an entry.
    #[error("entry is damaged: {0}")]
    Damaged(#[from] bincode::Error),
}

fn options() -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_limit(ENTRY_BYTES_MAX)
}

/// The bytes of an entry.
///
/// Errors: the entry is larger than [`ENTRY_BYTES_MAX`].
pub fn encode(entry: &Entry) -> Result<Vec<u8>, EntryError> {
    let mut bytes = vec![ENTRY_VERSION];
    options().serialize_into(&mut bytes, entry)?;
    Ok(bytes)
}

/// The bytes of one command within an entry, so that callers encode side by side.
///
/// Errors: the command is larger than [`ENTRY_BYTES_MAX`].
pub fn encode_command(command: &Command) -> Result<Vec<u8>, EntryError> {
    Ok(options().serialize(command)?)
}

/// The bytes of the entry of some encoded commands: the same as [`encode()`] of the commands themselves.
pub fn join(stamp: Stamp, commands: &[&[u8]]) -> Vec<u8> {
    let body: usize = commands.iter().map(|command| command.len()).sum();
    let mut bytes = Vec::with_capacity(1 + 3 * size_of::<u64>() + body);
    bytes.push(ENTRY_VERSION);
    for number in [stamp.now.0, stamp.seed, commands.len() as u64] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    commands.iter().for_each(|command| bytes.extend_from_slice(command));
    bytes
}

/// The entry of some bytes; trailing bytes are damage.
pub fn decode(bytes: &[u8]) -> Result<Entry, EntryError> {
    match bytes.split_first() {
        Some((&ENTRY_VERSION, body)) => Ok(options().deserialize(body)?),
        other => Err(EntryError::Version { found: other.map_or(0, |(version, _)| *version) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Millis;
    use crate::state::command::Key;

    fn entry() -> Entry {
        let key = Key(b"k".to_vec());
        let put = Command::MetadataPut { key: key.clone(), value: Key(b"v".to_vec()) };
        let stamp = Stamp { now: Millis(7), seed: 9 };
        Entry { stamp, commands: vec![Command::Noop, put, Command::MetadataDelete { key }] }
    }

    #[test]
    fn joined_commands_are_the_encoded_entry() {
        let entry = entry();
        let commands: Vec<Vec<u8>> =
            entry.commands.iter().map(|command| encode_command(command).unwrap()).collect();
        let borrowed: Vec<&[u8]> = commands.iter().map(Vec::as_slice).collect();
        assert_eq!(join(entry.stamp, &borrowed), encode(&entry).unwrap());
        assert_eq!(decode(&encode(&entry).unwrap()).unwrap(), entry);
    }

    #[test]
    fn damage_is_told_from_a_newer_version() {
        let mut bytes = encode(&entry()).unwrap();
        assert!(matches!(decode(&[]), Err(EntryError::Version { found: 0 })));
        bytes.push(0);
        assert!(matches!(decode(&bytes), Err(EntryError::Damaged(_))));
        bytes.truncate(20);
        assert!(matches!(decode(&bytes), Err(EntryError::Damaged(_))));
        if let Some(version) = bytes.first_mut() {
            *version = 2;
        }
        assert!(matches!(decode(&bytes), Err(EntryError::Version { found: 2 })));
    }
}
