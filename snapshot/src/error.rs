//! Why a snapshot cannot be read or written: what, in which file, at which place.
//!
//! These are faults of whole files or candidates. A fault of one object is a [`crate::Finding`],
//! because reading goes on without that object.

use std::fmt;

use serde::Serialize;

/// The files of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotFile {
    /// Objects.
    Metadata,
    /// Segments, allocators, clients.
    Segments,
    /// Tasks.
    TaskManager,
    /// Protocol and version.
    Manifest,
    /// Position and time.
    Descriptor,
    /// The pointer to the newest complete snapshot.
    Latest,
    /// Our own additions.
    Extension,
    /// All payloads in one stream.
    Container,
}

impl SnapshotFile {
    /// All of them.
    pub const ALL: [SnapshotFile; 8] = [
        SnapshotFile::Metadata,
        SnapshotFile::Segments,
        SnapshotFile::TaskManager,
        SnapshotFile::Manifest,
        SnapshotFile::Descriptor,
        SnapshotFile::Latest,
        SnapshotFile::Extension,
        SnapshotFile::Container,
    ];

    /// The file's name in a snapshot's directory.
    pub const fn file_name(self) -> &'static str {
        match self {
            SnapshotFile::Metadata => "metadata",
            SnapshotFile::Segments => "segments",
            SnapshotFile::TaskManager => "task_manager",
            SnapshotFile::Manifest => "manifest.txt",
            SnapshotFile::Descriptor => "descriptor.txt",
            SnapshotFile::Latest => "latest.txt",
            SnapshotFile::Extension => "mooncake_ha_extension",
            SnapshotFile::Container => "container",
        }
    }
}

impl fmt::Display for SnapshotFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}

/// Why a snapshot as a whole cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file does not follow the format; another copy or an older snapshot is needed.
    #[error("{file}: {place}: {what}")]
    Damaged {
        /// The file.
        file: SnapshotFile,
        /// Where in it, as a path of names.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// The file is sound, but of a kind that this program does not read.
    #[error("{file}: {what}")]
    Unsupported {
        /// The file.
        file: SnapshotFile,
        /// What is not supported.
        what: String,
    },
    /// Something in the file is larger than the reader's limit; raise the limit if the file is
    /// genuine.
    #[error("{file}: {place}: {bytes} bytes are more than the limit of {limit}")]
    TooLarge {
        /// The file.
        file: SnapshotFile,
        /// Where in it.
        place: String,
        /// How large it says it is.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The image to be written breaks a rule of the format.
    #[error("cannot write {file}: {what}")]
    Unwritable {
        /// The file.
        file: SnapshotFile,
        /// Which rule.
        what: String,
    },
    /// A file could not be fetched or kept.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// A stream could not be read or written.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: SnapshotFile,
        /// The cause.
        source: std::io::Error,
    },
}

impl SnapshotError {
    /// A damaged file.
    pub(crate) fn damaged(
        file: SnapshotFile,
        place: impl Into<String>,
        what: impl fmt::Display,
    ) -> Self {
        SnapshotError::Damaged { file, place: place.into(), what: what.to_string() }
    }

    /// The file that is at fault, if it is one.
    pub fn file(&self) -> Option<SnapshotFile> {
        match self {
            SnapshotError::Damaged { file, .. }
            | SnapshotError::Unsupported { file, .. }
            | SnapshotError::TooLarge { file, .. }
            | SnapshotError::Unwritable { file, .. }
            | SnapshotError::Io { file, .. } => Some(*file),
            SnapshotError::Store(error) => {
                let name = error.key()?.rsplit('/').next()?;
                SnapshotFile::ALL.into_iter().find(|file| file.file_name() == name)
            }
        }
    }

    /// What is wrong, without the name of the file.
    pub fn what(&self) -> String {
        match self {
            SnapshotError::Damaged { place, what, .. } => format!("{place}: {what}"),
            SnapshotError::Unsupported { what, .. } | SnapshotError::Unwritable { what, .. } => {
                what.clone()
            }
            SnapshotError::TooLarge { place, bytes, limit, .. } => {
                format!("{place}: {bytes} bytes are more than the limit of {limit}")
            }
            SnapshotError::Io { source, .. } => source.to_string(),
            SnapshotError::Store(error) => error.to_string(),
        }
    }
}
