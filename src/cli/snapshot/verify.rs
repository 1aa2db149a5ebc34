//! `snapshot verify`: what a restore would do with each snapshot, and what is damaged.

use clap::Args;
use mooncake_ha_snapshot as snapshot;
use serde::Serialize;
use snapshot::{CandidateReport, RestoreOptions, Survival};

use super::list::Listing;
use super::{Answer, EXAMPLE, Root, SnapshotId, instant, lines, parse_id};
use crate::cli::progress::Progress;

/// Arguments of `snapshot verify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    root: Root,
    /// Only this one
    #[arg(long, value_parser = parse_id)]
    id: Option<SnapshotId>,
    /// Which objects survive: rfc, lease or complete
    #[arg(long, default_value_t = Survival::Rfc)]
    survival: Survival,
    /// The instant of the restore, milliseconds since the Unix epoch
    #[arg(long, value_name = "MS")]
    now: Option<u64>,
}

#[derive(Serialize)]
struct Verified {
    survival: Survival,
    snapshots: Vec<CandidateReport>,
    /// Directories without a readable descriptor: damaged, or still in the making.
    unfinished: Vec<SnapshotId>,
}

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<Answer> {
    let VerifyArgs { root, id, survival, now } = args;
    let (survival, now_ms) = (*survival, instant(*now));
    let catalog = root.catalog()?;
    let (ids, unfinished) = match id {
        Some(id) => (vec![*id], Vec::new()),
        None => {
            let listing = Listing::of(&catalog)?;
            let ids = listing.snapshots.into_iter().map(|listed| listed.id).collect();
            (ids, listing.unfinished)
        }
    };
    if ids.is_empty() && unfinished.is_empty() {
        return Err(root.nothing());
    }
    let options = RestoreOptions { now_ms, survival, only: None };
    let mut progress = Progress::new("verify", ids.len() as u64);
    let mut snapshots = Vec::new();
    for id in ids {
        snapshots.extend(snapshot::restore::verify(&catalog, &[id], &options));
        progress.step(&id.to_string());
    }
    drop(progress);
    let is_good = snapshots.iter().all(CandidateReport::is_clean) && unfinished.is_empty();
    let verified = Verified { survival, snapshots, unfinished };
    let text = || {
        let mut text = String::new();
        for report in &verified.snapshots {
            text.push_str(&format!("{report}\n{}", lines(&report.findings)));
        }
        for id in &verified.unfinished {
            text.push_str(&format!("{id}: unfinished: it has no readable descriptor\n"));
        }
        text.push_str(if is_good { "good" } else { "findings: see above" });
        text
    };
    Answer::new(root.json, &verified, text, is_good)
}
