//! Where snapshot files lie: a small object store by key.
//!
//! Keys are relative paths with `/`. A store makes each file appear whole or not at all, and
//! durable before `put` returns. Which keys make a snapshot is the catalog's business.

mod local;
mod memory;

use std::path::PathBuf;

pub use local::LocalStore;
pub use memory::{MemoryStore, StoreFault};

/// Greatest length of a key in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Greatest number of keys that one listing returns.
pub const LISTED_KEYS_MAX: usize = 1_000_000;

/// Why a store cannot do what it was asked. All but `NotFound` and `BadKey` may go away by
/// themselves.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such key.
    #[error("{key}: not found")]
    NotFound {
        /// The key.
        key: String,
    },
    /// The key is not a relative path of plain names; it could lead out of the root.
    #[error("{key:?} is not a key below the root")]
    BadKey {
        /// The key.
        key: String,
    },
    /// The file is larger than its reader accepts.
    #[error("{key}: {bytes} bytes are more than the limit of {limit}")]
    TooLarge {
        /// The key.
        key: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// More keys than [`LISTED_KEYS_MAX`]; this is not a snapshot root.
    #[error("more than {LISTED_KEYS_MAX} files below {prefix:?}; is this a snapshot root?")]
    TooMany {
        /// What was listed.
        prefix: String,
    },
    /// The file system failed.
    #[error("{}: {source}; check that the path exists, is writable and has space", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A store or an index behind a network failed or refused.
    #[error("{place}: {cause}; {advice}")]
    Remote {
        /// Which: a bucket and key, or an address.
        place: String,
        /// What it said.
        cause: String,
        /// What to look at.
        advice: &'static str,
    },
    /// Whoever asked has no more time for it.
    #[error("given up before it was complete, because it took longer than it may")]
    GivenUp,
    /// The store failed on purpose, in a test.
    #[error("{key}: the store fails as told")]
    Injected {
        /// The key.
        key: String,
    },
}

impl StoreError {
    /// Whether the key simply is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, StoreError::NotFound { .. })
    }

    /// The key that it is about, if it is one.
    pub fn key(&self) -> Option<&str> {
        match self {
            StoreError::NotFound { key }
            | StoreError::BadKey { key }
            | StoreError::TooLarge { key, .. }
            | StoreError::Injected { key } => Some(key),
            StoreError::TooMany { .. } | StoreError::GivenUp => None,
            StoreError::Remote { place, .. } => Some(place),
            StoreError::Io { path, .. } => path.to_str(),
        }
    }
}

/// Files by key. Implementations may be called from several threads.
pub trait ObjectStore: Send + Sync {
    /// Keeps the bytes under the key, replacing what was there; durable on return.
    ///
    /// Errors: a bad key, or the medium fails. Then the old content, if any, is still there.
    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// The bytes under the key, at most `limit` of them.
    ///
    /// Errors: no such key, more bytes than the limit, a bad key, or the medium fails.
    fn get(&self, key: &str, limit: u64) -> Result<Vec<u8>, StoreError>;

    /// All keys that start with the prefix and a slash (all keys for the empty prefix), ascending.
    /// Leftovers of interrupted writes are not keys.
    ///
    /// Errors: more keys than [`LISTED_KEYS_MAX`], a bad prefix, or the medium fails.
    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// Removes the key; a key that is not there is removed already.
    ///
    /// Errors: a bad key, or the medium fails.
    fn delete(&self, key: &str) -> Result<(), StoreError>;

    /// Removes everything below the prefix, leftovers of interrupted writes included.
    ///
    /// Errors: an empty or bad prefix, or the medium fails.
    fn delete_prefix(&self, prefix: &str) -> Result<(), StoreError>;

    /// Removes leftovers of interrupted writes below the prefix that are older than this instant,
    /// milliseconds since the Unix epoch. A store without leftovers does nothing.
    ///
    /// Errors: a bad prefix, or the medium fails.
    fn sweep(&self, prefix: &str, before_ms: u64) -> Result<(), StoreError> {
        let _ = (prefix, before_ms);
        Ok(())
    }
}

/// The plain names that make up a key, for whoever implements a store.
///
/// Errors: [`StoreError::BadKey`] for an empty or long key, an empty name, `.`, `..`, a backslash
/// or a control character.
pub fn parts(key: &str) -> Result<Vec<&str>, StoreError> {
    let bad = || StoreError::BadKey { key: key.chars().take(200).collect() };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(bad());
    }
    let is_plain = |name: &&str| {
        !name.is_empty()
            && *name != "."
            && *name != ".."
            && !name.contains(|c: char| c == '\\' || c.is_control())
    };
    let names: Vec<&str> = key.split('/').collect();
    if names.iter().all(is_plain) { Ok(names) } else { Err(bad()) }
}

#[cfg(test)]
mod tests;
