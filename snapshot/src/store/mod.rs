//! Where snapshot files lie: a small object store by key.
//!
//! Keys are relative paths with `/`. A store makes each file appear whole or not at all, and durable before
//! `put` returns. Which keys make a snapshot is the catalog's business.

/// Why a store cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such key.
    #[error("{key}: not found")]
    NotFound {
        /// The key.
        key: String,
    },
}
