//! `snapshot import`: puts a snapshot of another root, such as a real master's, into a root of ours as the newest.
//!
//! What it holds is checked, made consistent and written anew, with our checksums; nothing is judged by time.
//! The source is only read.

use clap::Args;
use mooncake_ha_snapshot as snapshot;
use serde::Serialize;
use snapshot::codec::manifest::Descriptor;
use snapshot::settle::Decoded;
use snapshot::{Findings, SnapshotId};

use super::{Answer, Catalog, Root, decode, instant, lines, parse_id};
use crate::backup::{self, Place};

const EXAMPLE: &str = "Example:
  mooncake-ha snapshot import /var/lib/mooncake_snapshots /backup/mooncake
  mooncake-ha serve --enable_snapshot_restore --snapshot_local_path=/backup/mooncake

Exit codes: 0 imported whole, 1 imported with losses (named), 2 wrong usage, 3 cannot read or write.";

/// Arguments of `snapshot import`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct ImportArgs {
    #[command(flatten)]
    source: Root,
    /// The root that the cluster restores from; made if it is not there
    #[arg(value_name = "INTO")]
    into: String,
    /// Which snapshot; the latest if none is given
    #[arg(long, value_parser = parse_id)]
    id: Option<SnapshotId>,
    /// The cluster's name in the new root; that of the source if none is given
    #[arg(long = "into_cluster_id", alias = "into-cluster-id")]
    into_cluster_id: Option<String>,
}

#[derive(Serialize)]
struct Imported {
    source: SnapshotId,
    id: SnapshotId,
    objects: u64,
    bytes: u64,
    findings: Findings,
}

pub(super) fn run(args: &ImportArgs) -> anyhow::Result<Answer> {
    let catalog = args.source.catalog()?;
    let source = args.source.choose(&catalog, args.id)?;
    let Decoded { mut image, findings, .. } = decode(&catalog, source)?;
    // Only with an extension of ours are the files under checksums.
    image.globals.extension.get_or_insert_default();
    let payloads = snapshot::encode_image_on_two(&image)?;
    let store = backup::open_store(&Place::parse(&args.into)?, true)?;
    let cluster = args.into_cluster_id.as_deref().unwrap_or(&args.source.cluster_id);
    let into = Catalog::new(store, cluster, snapshot::Limits::default());
    let now_ms = instant(None);
    let id = into.next_id(now_ms)?;
    let created_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let descriptor = Descriptor { last_included: 0, view_version: 0, created_ms };
    into.publish(id, &payloads, &descriptor)?;
    let is_good = findings.is_clean();
    let objects = image.object_count();
    let bytes = image.objects().fold(0_u64, |sum, (_, object)| sum.saturating_add(object.size));
    let imported = Imported { source, id, objects, bytes, findings };
    let text = || {
        let found = lines(&imported.findings);
        format!("imported {source} as {id}: {objects} objects, {bytes} bytes\n{found}")
    };
    Answer::new(args.source.json, &imported, text, is_good)
}
