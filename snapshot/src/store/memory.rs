//! An object store in memory that fails on request, for tests of everything above it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{ObjectStore, StoreError, parts};

/// What goes wrong, once, at the first key that ends with the given text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// A put does nothing and fails.
    PutFails(String),
    /// A put keeps only half of the bytes and fails, like a crash in a store without renames.
    PutTears(String),
    /// A get fails.
    GetFails(String),
    /// A delete fails.
    DeleteFails(String),
}

#[derive(Debug, Default)]
struct Content {
    files: BTreeMap<String, Vec<u8>>,
    faults: Vec<StoreFault>,
}

/// Files in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    content: Mutex<Content>,
}

impl MemoryStore {
    /// Asks for a fault; each happens once, in any order.
    pub fn inject(&self, fault: StoreFault) {
        self.content().faults.push(fault);
    }

    /// All keys, ascending.
    pub fn keys(&self) -> Vec<String> {
        self.content().files.keys().cloned().collect()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // A panic elsewhere leaves whole files; nothing here is half done.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    /// Whether a fault of this kind waits for the key; it is used up.
    fn strikes(&mut self, key: &str, matches: impl Fn(&StoreFault) -> Option<&str>) -> bool {
        let position = self
            .faults
            .iter()
            .position(|fault| matches(fault).is_some_and(|suffix| key.ends_with(suffix)));
        position.map(|position| self.faults.remove(position)).is_some()
    }
}

fn injected(key: &str) -> StoreError {
    StoreError::Injected { key: key.to_string() }
}

impl ObjectStore for MemoryStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        parts(key)?;
        let mut content = self.content();
        let is_torn = content.strikes(key, |fault| match fault {
            StoreFault::PutTears(suffix) => Some(suffix),
            _ => None,
        });
        if is_torn {
            let (half, _) = bytes.split_at_checked(bytes.len() / 2).unwrap_or_default();
            content.files.insert(key.to_string(), half.to_vec());
            return Err(injected(key));
        }
        let is_refused = content.strikes(key, |fault| match fault {
            StoreFault::PutFails(suffix) => Some(suffix),
            _ => None,
        });
        if is_refused {
            return Err(injected(key));
        }
        content.files.insert(key.to_string(), bytes.to_vec());
        Ok(())
    }

    fn get(&self, key: &str, limit: u64) -> Result<Vec<u8>, StoreError> {
        parts(key)?;
        let mut content = self.content();
        let is_refused = content.strikes(key, |fault| match fault {
            StoreFault::GetFails(suffix) => Some(suffix),
            _ => None,
        });
        if is_refused {
            return Err(injected(key));
        }
        let found = content.files.get(key);
        let bytes = found.ok_or_else(|| StoreError::NotFound { key: key.to_string() })?;
        if bytes.len() as u64 > limit {
            let bytes = bytes.len() as u64;
            return Err(StoreError::TooLarge { key: key.to_string(), bytes, limit });
        }
        Ok(bytes.clone())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let start = match prefix {
            "" => String::new(),
            prefix => format!("{}/", parts(prefix)?.join("/")),
        };
        let content = self.content();
        Ok(content.files.keys().filter(|key| key.starts_with(&start)).cloned().collect())
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        parts(key)?;
        let mut content = self.content();
        let is_refused = content.strikes(key, |fault| match fault {
            StoreFault::DeleteFails(suffix) => Some(suffix),
            _ => None,
        });
        if is_refused {
            return Err(injected(key));
        }
        content.files.remove(key);
        Ok(())
    }

    fn delete_prefix(&self, prefix: &str) -> Result<(), StoreError> {
        parts(prefix)?;
        self.list(prefix)?.iter().try_for_each(|key| self.delete(key))
    }
}
