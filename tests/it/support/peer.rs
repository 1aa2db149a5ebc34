//! The real master on a root of snapshots, which it takes from its environment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that is the real master with this root; it lies in `dir`.
pub fn peer_at_root(program: &Path, root: &Path, dir: &Path) -> PathBuf {
    let script = dir.join("peer.sh");
    let (root, program) = (root.display(), program.display());
    let text =
        format!("#!/bin/sh\nMOONCAKE_SNAPSHOT_LOCAL_PATH='{root}' exec '{program}' \"$@\"\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}
