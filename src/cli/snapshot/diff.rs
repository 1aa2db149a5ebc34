//! `snapshot diff`: how two snapshots differ.

use clap::Args;
use mooncake_ha_snapshot::Differences;

use super::{Answer, Root, SnapshotId, decode, parse_id};

const EXAMPLE: &str = "Examples:
  mooncake-ha snapshot diff /backup/mooncake 20261129_182119_315
  mooncake-ha snapshot diff /backup/mooncake 20261129_182119_315 20261129_190000_000 --json

Exit codes: 0 equal, 1 different, 2 wrong usage, 3 cannot read.";

/// Arguments of `snapshot diff`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct DiffArgs {
    #[command(flatten)]
    root: Root,
    /// The earlier one
    #[arg(value_parser = parse_id)]
    first: SnapshotId,
    /// The later one; the latest if none is given
    #[arg(value_parser = parse_id)]
    second: Option<SnapshotId>,
    /// Root of the later one, if it is another
    #[arg(long = "second_root", alias = "second-root", value_name = "ROOT")]
    second_root: Option<String>,
}

pub(super) fn run(args: &DiffArgs) -> anyhow::Result<Answer> {
    let DiffArgs { root, first, second, second_root } = args;
    let catalog = root.catalog()?;
    let other = root.catalog_at(second_root.as_deref().unwrap_or(&root.root))?;
    let first = decode(&catalog, *first)?;
    let second = decode(&other, root.choose(&other, *second)?)?;
    let differences = Differences::between(&first.image, &second.image);
    let text = || {
        let mut text: String =
            differences.list.iter().map(|difference| format!("{difference}\n")).collect();
        let hidden = differences.total.saturating_sub(differences.list.len() as u64);
        if hidden > 0 {
            text.push_str(&format!("and {hidden} more\n"));
        }
        text.push_str(&format!("{} differences", differences.total));
        text
    };
    Answer::new(root.json, &differences, text, differences.total == 0)
}
