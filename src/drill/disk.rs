//! Disks of the drill's nodes that can run full or stall: file systems of their own, mounted over data directories.
//!
//! Needs root and the usual tools. A stalled disk keeps a process from ending, even by SIGKILL, so it must go on
//! before anything else is taken down.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use nix::unistd::Uid;

/// Bytes of a disk that is to run full: a few times what a small node needs.
const SMALL_BYTES: u64 = 96 << 20;
/// Bytes of a disk that is to stall; its image is sparse.
const STALLING_BYTES: u64 = 512 << 20;
/// One piece of what fills a disk.
const FILLING_BYTES: usize = 1 << 20;

/// What the data directories of a drill's nodes lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// The directory of the drill.
    Plain,
    /// A small one of its own each.
    Small,
    /// One of its own each that can be stalled.
    Stalling,
}

impl DiskKind {
    /// Whether there can be such disks here. Errors: a sentence why not.
    pub fn possible(self) -> Result<(), String> {
        let needed: &[&str] = match self {
            DiskKind::Plain => return Ok(()),
            DiskKind::Small => &["mount"],
            DiskKind::Stalling => &["mount", "mkfs.ext4", "fsfreeze"],
        };
        if !Uid::effective().is_root() {
            return Err("disks of the drill's own need root".to_owned());
        }
        let is_missing = |tool: &&&str| Command::new(tool).arg("--version").output().is_err();
        match needed.iter().find(is_missing) {
            Some(tool) => Err(format!("{tool} is not installed")),
            None => Ok(()),
        }
    }
}

/// A mounted disk; unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Makes a disk and mounts it at `at`; `None` if a directory will do. Errors: a tool refuses.
    pub fn mount(kind: DiskKind, at: &Path) -> anyhow::Result<Option<Self>> {
        if kind == DiskKind::Plain {
            return Ok(None);
        }
        std::fs::create_dir_all(at).with_context(|| format!("make {}", at.display()))?;
        if kind == DiskKind::Small {
            let size = format!("size={SMALL_BYTES}");
            tool("mount", &["-t", "tmpfs", "-o", &size, "none", path(at)?])?;
        } else {
            let image = at.with_extension("image");
            let file = File::create(&image);
            let sized = file.and_then(|file| file.set_len(STALLING_BYTES));
            sized.with_context(|| format!("make {}", image.display()))?;
            tool("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", path(&image)?])?;
            tool("mount", &["-o", "loop", path(&image)?, path(at)?])?;
            // What a new file system brings along is not a node's.
            let _ = std::fs::remove_dir(at.join("lost+found"));
        }
        Ok(Some(Disk { at: at.to_owned() }))
    }

    /// Whether it is mounted there.
    pub fn is_at(&self, at: &Path) -> bool {
        self.at == at
    }

    /// From now on whoever writes waits. Errors: it cannot be stalled.
    pub fn stall(&self) -> anyhow::Result<()> {
        tool("fsfreeze", &["--freeze", path(&self.at)?])
    }

    /// Those who wait go on. Errors: it was not stalled.
    pub fn go_on(&self) -> anyhow::Result<()> {
        tool("fsfreeze", &["--unfreeze", path(&self.at)?])
    }

    /// Fills it until nothing fits any more. Errors: nothing can be written at all.
    pub fn fill(&self) -> anyhow::Result<()> {
        let filler = self.filler();
        let mut file =
            File::create(&filler).with_context(|| format!("write {}", filler.display()))?;
        let piece = vec![0xaa; FILLING_BYTES];
        let mut size = FILLING_BYTES;
        // Ever smaller pieces, to the last byte.
        while size > 0 {
            if file.write_all(piece.get(..size).unwrap_or_default()).is_err() {
                size /= 2;
            }
        }
        Ok(())
    }

    /// Frees what was filled. Errors: it was not filled.
    pub fn free(&self) -> anyhow::Result<()> {
        let filler = self.filler();
        std::fs::remove_file(&filler).with_context(|| format!("remove {}", filler.display()))
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let Ok(at) = path(&self.at) else { return };
        // It may not be stalled; and a lazy unmount ends with the last user.
        let _ = Command::new("fsfreeze").args(["--unfreeze", at]).output();
        let _ = tool("umount", &["--lazy", at]);
    }
}

fn path(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not text", path.display()))
}

fn tool(name: &str, args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(name).args(args).output().with_context(|| format!("run {name}"))?;
    if !output.status.success() {
        bail!("{name} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
