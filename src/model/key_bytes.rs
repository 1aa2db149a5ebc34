//! The bytes of a key, as an object holds them: short ones in place, longer ones beside it.
//!
//! There are millions of them, and an allocation of its own costs a short key more than its bytes do.

use std::fmt;
use std::ops::Deref;

/// Bytes of a key that fit in place: with their number and the tag as large as a pointer form with padding.
const SHORT_MAX: usize = 22;

#[derive(Clone)]
enum Held {
    Short { length: u8, bytes: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

/// A key; arbitrary bytes.
#[derive(Clone)]
pub struct KeyBytes(Held);

impl Deref for KeyBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Held::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for KeyBytes {
    fn from(key: &[u8]) -> Self {
        let mut bytes = [0; SHORT_MAX];
        match (bytes.get_mut(..key.len()), u8::try_from(key.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(key);
                KeyBytes(Held::Short { length, bytes })
            }
            _ => KeyBytes(Held::Long(key.into())),
        }
    }
}

impl KeyBytes {
    /// A copy with a length of its own.
    pub fn boxed(&self) -> Box<[u8]> {
        Box::from(&**self)
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for KeyBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for KeyBytes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_come_back_as_they_were() {
        for length in [0, 1, 21, SHORT_MAX, SHORT_MAX + 1, 100, 255, 256, 278, 1 << 16] {
            let key: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let held = KeyBytes::from(&*key);
            assert_eq!(*held, *key);
            assert_eq!(held.clone(), held);
            assert_eq!(*held.boxed(), *key);
        }
        assert_eq!(size_of::<KeyBytes>(), 24);
    }
}
