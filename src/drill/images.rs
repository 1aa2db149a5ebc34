//! Whether nodes hold the same state: each writes a raft snapshot, and those at the same entry must have the same
//! content.
//!
//! A raft snapshot ends with the length and the checksum of its content; what is in front of it (who belongs to the
//! cluster, at which addresses) may differ from node to node.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::finding::Kind;
use super::stage::Stage;

const TRAILER_BYTES: usize = 20;
const SUFFIX: &str = "raftsnap";

/// Attempts to have all nodes at the same entry.
const TRIES_MAX: u32 = 5;

/// The content of a raft snapshot: last entry, then length and checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    node: u64,
    /// Index and term, as in the file's name.
    entry: String,
    digest: [u8; TRAILER_BYTES],
}

/// Compares the states of all running nodes; answers how many pairs were at the same entry.
///
/// Errors: a node cannot write its raft snapshot, or it cannot be read.
pub async fn compare(stage: &mut Stage) -> anyhow::Result<u64> {
    let mut compared = 0;
    for _ in 0..TRIES_MAX {
        let images = images(stage).await?;
        let pairs = pairs(&images);
        compared = pairs.len() as u64;
        for (one, other) in &pairs {
            if one.digest != other.digest {
                let what = format!(
                    "nodes {} and {} hold different states at entry {}",
                    one.node, other.node, one.entry
                );
                stage.find(Kind::ImagesDiffer, what);
            }
        }
        let all = images.len().saturating_sub(1) as u64;
        if compared >= all {
            break;
        }
    }
    Ok(compared)
}

/// Neighbours at the same entry.
fn pairs(images: &[Image]) -> Vec<(&Image, &Image)> {
    let neighbours = images.iter().zip(images.iter().skip(1));
    neighbours.filter(|(one, other)| one.entry == other.entry).collect()
}

async fn images(stage: &mut Stage) -> anyhow::Result<Vec<Image>> {
    let nodes = &stage.cluster()?.nodes;
    let running = nodes.iter().filter(|node| node.process.is_started());
    let running: Vec<_> =
        running.map(|node| (node.id, node.admin.clone(), node.data_dir.clone())).collect();
    let mut images = Vec::new();
    for (node, admin, data_dir) in running {
        admin.change("/api/v1/cluster/snapshot").await.map_err(anyhow::Error::msg)?;
        let path = newest(&data_dir.join("snapshot"))?;
        let digest = trailer(&path).with_context(|| format!("read {}", path.display()))?;
        let entry = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        images.push(Image { node, entry, digest });
    }
    Ok(images)
}

/// Names begin with the index in a fixed number of digits, so the newest is the greatest.
fn newest(dir: &Path) -> anyhow::Result<PathBuf> {
    let list = || format!("list the raft snapshots in {}", dir.display());
    let mut found = None;
    for entry in std::fs::read_dir(dir).with_context(list)? {
        let path = entry.with_context(list)?.path();
        if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
            found = found.max(Some(path));
        }
    }
    found.with_context(|| format!("{} holds no raft snapshot", dir.display()))
}

fn trailer(path: &Path) -> std::io::Result<[u8; TRAILER_BYTES]> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-(TRAILER_BYTES as i64)))?;
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact(&mut trailer)?;
    Ok(trailer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_states_at_the_same_entry_are_compared() {
        let image = |node, entry: &str, byte| Image {
            node,
            entry: entry.to_owned(),
            digest: [byte; TRAILER_BYTES],
        };
        let images = [image(1, "7-1", 1), image(2, "7-1", 2), image(3, "8-1", 1)];
        let pairs = pairs(&images);
        assert_eq!(pairs.len(), 1);
        assert_ne!(pairs[0].0.digest, pairs[0].1.digest);
    }

    #[test]
    fn the_newest_snapshot_is_the_one_with_the_greatest_index() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["00000000000000000009-3.raftsnap", "00000000000000000010-2.raftsnap", "zz.part"]
        {
            std::fs::write(dir.path().join(name), [7; 30]).unwrap();
        }
        let path = newest(dir.path()).unwrap();
        assert!(path.ends_with("00000000000000000010-2.raftsnap"));
        assert_eq!(trailer(&path).unwrap(), [7; TRAILER_BYTES]);
    }
}
