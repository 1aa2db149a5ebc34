//! `snapshot prune`: removes older snapshots and debris, by the rules of retention.

use clap::Args;
use mooncake_ha_snapshot::Retired;
use serde::Serialize;

use super::{Answer, Root, instant};
use crate::cli::progress::Progress;

const PRUNE_EXAMPLE: &str = "Examples:
  mooncake-ha snapshot prune /backup/mooncake --keep 5 --dry-run
  mooncake-ha snapshot prune s3://bucket/prefix --keep 5 --yes

The latest always stays, and the newest good one. What an attempt left that is younger than ten minutes stays, too.
Exit codes: 0 done, 1 something would be removed and --yes is missing, 2 wrong usage, 3 cannot read or remove.";

/// Arguments of `snapshot prune`.
#[derive(Debug, Args)]
#[command(after_help = PRUNE_EXAMPLE)]
pub(super) struct PruneArgs {
    #[command(flatten)]
    root: Root,
    /// How many of the newest stay
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Remove it
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
}

#[derive(Serialize)]
struct Pruned {
    /// Whether it was removed, or would be.
    is_removed: bool,
    #[serde(flatten)]
    retired: Retired,
}

pub(super) fn run(args: &PruneArgs) -> anyhow::Result<Answer> {
    let (catalog, now_ms) = (args.root.catalog()?, instant(None));
    let keep = usize::try_from(args.keep).unwrap_or(usize::MAX);
    let progress = Progress::new("prune", 1);
    let retired = match args.yes {
        true => catalog.retire(keep, now_ms)?,
        false => catalog.retirable(keep, now_ms)?,
    };
    drop(progress);
    let is_nothing = retired.old.is_empty() && retired.debris.is_empty();
    let pruned = Pruned { is_removed: args.yes, retired };
    let is_good = args.yes || args.dry_run || is_nothing;
    Answer::new(args.root.json, &pruned, || pruned.text(is_good), is_good)
}

impl Pruned {
    fn text(&self, is_good: bool) -> String {
        let verb = if self.is_removed { "removed" } else { "would be removed" };
        let mut text = String::new();
        for id in &self.retired.old {
            text.push_str(&format!("{id}  {verb}\n"));
        }
        for id in &self.retired.debris {
            text.push_str(&format!("{id}  {verb}: unfinished\n"));
        }
        if text.is_empty() {
            text.push_str("nothing to remove\n");
        } else if !is_good {
            text.push_str("nothing was removed; say --yes to remove it\n");
        }
        text
    }
}
