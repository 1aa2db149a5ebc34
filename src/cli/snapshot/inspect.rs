//! `snapshot inspect`: what is in one snapshot.

use clap::Args;
use serde::Serialize;

use super::{Answer, EXAMPLE, Findings, Root, SnapshotId, decode, instant, lines, parse_id};
use mooncake_ha_snapshot::Summary;
use mooncake_ha_snapshot::settle::Decoded;

/// Arguments of `snapshot inspect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct InspectArgs {
    #[command(flatten)]
    root: Root,
    /// Which one; the latest if none is given
    #[arg(long, value_parser = parse_id)]
    id: Option<SnapshotId>,
    /// Compare leases and pins to this instant, milliseconds since the Unix epoch
    #[arg(long, value_name = "MS")]
    now: Option<u64>,
}

#[derive(Serialize)]
struct Inspected {
    id: SnapshotId,
    summary: Summary,
    findings: Findings,
}

pub(super) fn run(args: &InspectArgs) -> anyhow::Result<Answer> {
    let (root, now_ms) = (&args.root, instant(args.now));
    let catalog = root.catalog()?;
    let id = root.choose(&catalog, args.id)?;
    let Decoded { image, findings, .. } = decode(&catalog, id)?;
    let is_clean = findings.is_clean();
    let shown = Inspected { id, summary: Summary::of(&image, now_ms), findings };
    let text = || format!("snapshot       {id}\n{}\n{}", shown.summary, lines(&shown.findings));
    Answer::new(root.json, &shown, text, is_clean)
}
