//! The text files: `manifest.txt`, `descriptor.txt`, `latest.txt` (snapshot format 2.2).

use crate::error::{SnapshotError, SnapshotFile};

const PROTOCOL: &str = "messagepack";
const VERSION: &str = "1.0.0";

/// The manifest of a snapshot with this id.
pub fn write_manifest(id: &str) -> String {
    format!("{PROTOCOL}|{VERSION}|{id}")
}

/// Checks a manifest. As at the peer, the id in it is not looked at.
///
/// Errors: fewer than three parts, or another protocol or version than ours.
pub fn check_manifest(text: &[u8]) -> Result<(), SnapshotError> {
    let file = SnapshotFile::Manifest;
    let text = String::from_utf8_lossy(text);
    let parts: Vec<&str> = text.split('|').collect();
    let [protocol, version, _, ..] = parts.as_slice() else {
        return Err(SnapshotError::damaged(file, "the file", "it has fewer than three parts"));
    };
    if *protocol != PROTOCOL || *version != VERSION {
        let what =
            format!("protocol {protocol:?} version {version:?}, expected {PROTOCOL} {VERSION}");
        return Err(SnapshotError::Unsupported { file, what });
    }
    Ok(())
}

/// What `descriptor.txt` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Descriptor {
    /// The peer's oplog sequence; ours: index of the last applied entry.
    pub last_included: u64,
    /// View version of the producer; ours: its term.
    pub view_version: u64,
    /// When the snapshot was taken, milliseconds since the Unix epoch.
    pub created_ms: i64,
}

impl Descriptor {
    /// The file's text.
    pub fn write(&self) -> String {
        format!("{}|{}|{}", self.last_included, self.view_version, self.created_ms)
    }

    /// Reads the file. White space around it is accepted, although the peer's reader refuses it.
    ///
    /// Errors: not three numbers.
    pub fn read(text: &[u8]) -> Result<Self, SnapshotError> {
        let refuse = || {
            let what = "it is not three numbers joined by bars";
            SnapshotError::damaged(SnapshotFile::Descriptor, "the file", what)
        };
        let text = std::str::from_utf8(text).map_err(|_| refuse())?;
        let parts: Vec<&str> = text.trim_ascii().split('|').collect();
        let [last_included, view_version, created_ms] = parts.as_slice() else {
            return Err(refuse());
        };
        Ok(Descriptor {
            last_included: last_included.parse().map_err(|_| refuse())?,
            view_version: view_version.parse().map_err(|_| refuse())?,
            created_ms: created_ms.parse().map_err(|_| refuse())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_accepted_by_protocol_and_version_alone() {
        assert!(check_manifest(write_manifest("20261129_182740_639").as_bytes()).is_ok());
        assert!(check_manifest(b"messagepack|1.0.0|other\n").is_ok());
        for bad in [&b""[..], b"messagepack|1.0.0", b"messagepack|2.0.0|x", b"json|1.0.0|x"] {
            assert!(check_manifest(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn a_descriptor_is_three_numbers() {
        let descriptor =
            Descriptor { last_included: 7, view_version: 2, created_ms: 1795976860639 };
        assert_eq!(Descriptor::read(descriptor.write().as_bytes()).unwrap(), descriptor);
        assert_eq!(Descriptor::read(b"7|2|1795976860639\n").unwrap(), descriptor);
        for bad in [&b""[..], b"x/y", b"1|2", b"1|2|3|4", b"-1|2|3", b"1|2|3.5", b"\xff|1|2"] {
            assert!(Descriptor::read(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
