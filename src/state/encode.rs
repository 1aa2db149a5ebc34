//! Entry bytes: a version byte, then bincode with fixed-width integers.
//!
//! Frozen: golden tests hold one entry of each variant. A new command is appended to the enum and proposed
//! only when every voter can read it.

use bincode::Options;

use super::command::Entry;

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

/// The entry of some bytes; trailing bytes are damage.
pub fn decode(bytes: &[u8]) -> Result<Entry, EntryError> {
    match bytes.split_first() {
        Some((&ENTRY_VERSION, body)) => Ok(options().deserialize(body)?),
        other => Err(EntryError::Version { found: other.map_or(0, |(version, _)| *version) }),
    }
}
