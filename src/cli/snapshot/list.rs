//! `snapshot list`: which snapshots there are, and which of them never became complete.

use clap::Args;
use serde::Serialize;

use super::{Answer, Catalog, EXAMPLE, Root, SnapshotId};
use mooncake_ha_snapshot::Listed;

/// Arguments of `snapshot list`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct ListArgs {
    #[command(flatten)]
    root: Root,
}

#[derive(Serialize)]
pub(super) struct Listing {
    pub latest: Option<SnapshotId>,
    pub snapshots: Vec<Listed>,
    /// Directories without a readable descriptor.
    pub unfinished: Vec<SnapshotId>,
}

impl Listing {
    pub fn of(catalog: &Catalog) -> anyhow::Result<Self> {
        let snapshots = catalog.list()?;
        let mut unfinished = catalog.ids()?;
        unfinished.retain(|id| snapshots.iter().all(|listed| listed.id != *id));
        let latest = catalog.latest()?.map(|latest| latest.id);
        Ok(Listing { latest, snapshots, unfinished })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Listed { id, descriptor } in &self.snapshots {
            let mark = if self.latest == Some(*id) { "  latest" } else { "" };
            let (entry, term) = (descriptor.last_included, descriptor.view_version);
            text.push_str(&format!("{id}  entry {entry} of term {term}{mark}\n"));
        }
        for id in &self.unfinished {
            text.push_str(&format!("{id}  unfinished: it has no readable descriptor\n"));
        }
        if text.is_empty() {
            text.push_str("there is no snapshot\n");
        }
        text
    }
}

pub(super) fn run(ListArgs { root }: &ListArgs) -> anyhow::Result<Answer> {
    let listing = Listing::of(&root.catalog()?)?;
    Answer::new(root.json, &listing, || listing.text(), true)
}
