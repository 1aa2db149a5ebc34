//! The root of catalog snapshots as people write it: a directory, or `s3://bucket/prefix`.

use std::fmt;
use std::path::PathBuf;

use super::BackupError;

/// Greatest length of a prefix in bytes, so that a key still fits below it.
const PREFIX_BYTES_MAX: usize = 512;

/// A root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory.
    Local(PathBuf),
    /// A bucket, and what all keys in it start with. The peer has no prefix.
    S3 {
        /// The bucket.
        bucket: String,
        /// Without slashes at its ends; may be empty.
        prefix: String,
    },
}

impl Place {
    /// Reads a root.
    ///
    /// Errors: another scheme, no bucket, or a prefix that is no plain path.
    pub fn parse(text: &str) -> Result<Self, BackupError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text.is_empty() {
                true => Err(BackupError("give a directory or s3://bucket/prefix".into())),
                false => Ok(Place::Local(text.into())),
            };
        };
        if scheme != "s3" {
            let sentence =
                format!("{text}: {scheme}:// is not known; use a path or s3://bucket/prefix");
            return Err(BackupError(sentence));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_bucket = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_plain = |name: &str| {
            !name.is_empty()
                && name != "."
                && name != ".."
                && name.chars().all(|c| c.is_ascii_graphic())
        };
        if bucket.is_empty() || !bucket.chars().all(is_bucket) {
            return Err(BackupError(format!("{text}: {bucket:?} is no bucket's name")));
        }
        let is_path = prefix.is_empty() || prefix.split('/').all(is_plain);
        if !is_path || prefix.len() > PREFIX_BYTES_MAX {
            let limit = format!("a path of printable ASCII, at most {PREFIX_BYTES_MAX} bytes");
            return Err(BackupError(format!("{text}: the prefix must be {limit}")));
        }
        Ok(Place::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// Whether every node of a cluster sees the same files there. A directory counts as this machine's own,
    /// because whether it is shared cannot be told from here.
    pub fn is_shared(&self) -> bool {
        matches!(self, Place::S3 { .. })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Local(path) => write!(f, "{}", path.display()),
            Place::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Place::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(bucket: &str, prefix: &str) -> Place {
        Place::S3 { bucket: bucket.into(), prefix: prefix.into() }
    }

    #[test]
    fn a_root_is_a_directory_or_a_bucket_with_a_prefix() {
        assert_eq!(Place::parse("backup/x").unwrap(), Place::Local("backup/x".into()));
        assert_eq!(Place::parse("s3://b").unwrap(), s3("b", ""));
        assert_eq!(Place::parse("s3://b/").unwrap(), s3("b", ""));
        assert_eq!(Place::parse("s3://b/a/c/").unwrap(), s3("b", "a/c"));
        assert_eq!(s3("b", "a/c").to_string(), "s3://b/a/c");
        assert!(s3("b", "").is_shared() && !Place::Local("x".into()).is_shared());
    }

    #[test]
    fn a_root_that_names_nothing_plain_is_refused() {
        for text in ["", "gs://b", "s3://", "s3:///x", "s3://b/a//c", "s3://b/../c", "s3://b/a b"] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }
}
