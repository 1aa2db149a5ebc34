//! Values of the HTTP metadata server, which transfer engines use to find each other (wire protocol 7).
//!
//! The peer keeps them in one process and loses them; here they are replicated. The server's rules on keys
//! that name RPC endpoints are applied here, so that two racing registrations have one winner.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reply::MetadataOutcome;

/// Bytes of all keys and values together; a store at its limit refuses new values.
pub const METADATA_BYTES_MAX: usize = 256 << 20;

/// The values.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    values: BTreeMap<Box<[u8]>, Arc<[u8]>>,
    /// Invariant: the sum of the lengths of all keys and values.
    bytes: usize,
}

fn is_endpoint_key(key: &[u8]) -> bool {
    const MARK: &[u8] = b"rpc_meta";
    key.windows(MARK.len()).any(|window| window == MARK)
}

impl Metadata {
    /// Stores a value; an endpoint key that exists is never replaced.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> MetadataOutcome {
        let old = self.values.get(key);
        if let Some(old) = old
            && is_endpoint_key(key)
        {
            let is_same = **old == *value;
            return if is_same { MetadataOutcome::Unchanged } else { MetadataOutcome::Duplicate };
        }
        let released = old.map_or(0, |old| key.len() + old.len());
        let bytes = self.bytes - released + key.len() + value.len();
        if bytes > METADATA_BYTES_MAX {
            return MetadataOutcome::Full;
        }
        self.bytes = bytes;
        self.values.insert(key.into(), Arc::from(value));
        MetadataOutcome::Updated
    }

    /// Deletes a value.
    pub fn delete(&mut self, key: &[u8]) -> MetadataOutcome {
        match self.values.remove(key) {
            Some(value) => {
                self.bytes -= key.len() + value.len();
                MetadataOutcome::Deleted
            }
            None => MetadataOutcome::NotFound,
        }
    }

    /// A value.
    pub fn get(&self, key: &[u8]) -> Option<Arc<[u8]>> {
        self.values.get(key).cloned()
    }

    /// Every value, ascending by key.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.values.iter().map(|(key, value)| (&**key, &**value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_key_is_registered_once() {
        let mut metadata = Metadata::default();
        let key = b"mooncake/rpc_meta/host";
        assert_eq!(metadata.put(key, b"1"), MetadataOutcome::Updated);
        assert_eq!(metadata.put(key, b"1"), MetadataOutcome::Unchanged);
        assert_eq!(metadata.put(key, b"2"), MetadataOutcome::Duplicate);
        assert_eq!(metadata.get(key).as_deref(), Some(&b"1"[..]));
        assert_eq!(metadata.delete(key), MetadataOutcome::Deleted);
        assert_eq!(metadata.delete(key), MetadataOutcome::NotFound);
        assert_eq!(metadata.put(key, b"2"), MetadataOutcome::Updated);
    }

    #[test]
    fn other_keys_are_replaced_and_counted_once() {
        let mut metadata = Metadata::default();
        metadata.put(b"mooncake/ram/host", b"long value");
        metadata.put(b"mooncake/ram/host", b"x");
        assert_eq!(metadata.bytes, b"mooncake/ram/host".len() + 1);
    }
}
