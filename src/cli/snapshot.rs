//! `mooncake-ha snapshot`: looks at the catalog snapshots below a root, without a node.
//!
//! Everything here only reads, whoever wrote the snapshots. Guards its exit codes (`docs/errors.md`): 0 good,
//! 1 findings or differences, 3 cannot read. What a finding is, is left to the snapshot crate.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use mooncake_ha_snapshot as snapshot;
use serde::Serialize;
use snapshot::catalog::CLUSTER_ID_DEFAULT;
use snapshot::settle::Decoded;
use snapshot::store::LocalStore;
use snapshot::{
    CandidateReport, Catalog, Differences, Findings, Limits, Listed, RestoreOptions, SnapshotId,
    Summary, Survival,
};

use super::{EXIT_FAILURE, EXIT_OK, EXIT_UNREADABLE};
use crate::clock::{Clock, SystemClock};

const EXAMPLE: &str = "Example:
  mooncake-ha snapshot list /backup/mooncake
  mooncake-ha snapshot verify /backup/mooncake --json

Exit codes: 0 good, 1 findings or differences, 2 wrong usage, 3 cannot read.";

/// Look at catalog snapshots; nothing is changed
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct SnapshotArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Which snapshots there are
    #[command(after_help = EXAMPLE)]
    List(Root),
    /// What is in one of them
    #[command(after_help = EXAMPLE)]
    Inspect {
        #[command(flatten)]
        root: Root,
        /// Which one; the latest if none is given
        #[arg(long, value_parser = parse_id)]
        id: Option<SnapshotId>,
        /// Compare leases and pins to this instant, milliseconds since the Unix epoch
        #[arg(long, value_name = "MS")]
        now: Option<u64>,
    },
    /// What a restore would do with each of them, and what is damaged
    #[command(after_help = EXAMPLE)]
    Verify {
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
    },
    /// How two of them differ
    #[command(after_help = EXAMPLE)]
    Diff {
        #[command(flatten)]
        root: Root,
        /// The earlier one
        #[arg(value_parser = parse_id)]
        first: SnapshotId,
        /// The later one; the latest if none is given
        #[arg(value_parser = parse_id)]
        second: Option<SnapshotId>,
        /// Root of the later one, if it is another
        #[arg(long, value_name = "ROOT")]
        second_root: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct Root {
    /// The directory that MOONCAKE_SNAPSHOT_LOCAL_PATH names
    #[arg(value_name = "ROOT")]
    root: PathBuf,
    /// The cluster's name in it; empty for none
    #[arg(long = "cluster_id", alias = "cluster-id", default_value = CLUSTER_ID_DEFAULT)]
    cluster_id: String,
    /// Answer JSON
    #[arg(long)]
    json: bool,
}

impl Root {
    fn catalog(&self) -> anyhow::Result<Catalog> {
        self.catalog_at(&self.root)
    }

    fn catalog_at(&self, root: &std::path::Path) -> anyhow::Result<Catalog> {
        let store = LocalStore::open_existing(root)?;
        Ok(Catalog::new(Arc::new(store), &self.cluster_id, Limits::default()))
    }

    /// The snapshot of this id, or the latest.
    fn choose(&self, catalog: &Catalog, id: Option<SnapshotId>) -> anyhow::Result<SnapshotId> {
        if let Some(id) = id {
            return Ok(id);
        }
        let newest = snapshot::restore::candidates(catalog)?.first().copied();
        newest.ok_or_else(|| self.nothing())
    }

    fn nothing(&self) -> anyhow::Error {
        let (root, cluster) = (self.root.display(), &self.cluster_id);
        anyhow::anyhow!("there is no snapshot of cluster {cluster:?} in {root}; is it the root?")
    }
}

fn parse_id(text: &str) -> Result<SnapshotId, String> {
    SnapshotId::parse(text).ok_or_else(|| "it must be an id such as 20261129_182740_639".into())
}

/// What a command says: the result, and whether it is good.
struct Answer {
    text: String,
    is_good: bool,
}

impl Answer {
    fn new(
        is_json: bool,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
        is_good: bool,
    ) -> anyhow::Result<Self> {
        let text = if is_json { serde_json::to_string_pretty(value)? } else { text() };
        Ok(Answer { text: format!("{}\n", text.trim_end()), is_good })
    }
}

/// Runs the command; answers the exit code.
pub(super) fn command(args: SnapshotArgs) -> u8 {
    let answer = match args.action {
        Action::List(root) => list(&root),
        Action::Inspect { root, id, now } => inspect(&root, id, instant(now)),
        Action::Verify { root, id, survival, now } => verify(&root, id, survival, instant(now)),
        Action::Diff { root, first, second, second_root } => {
            diff(&root, first, second, second_root.as_deref())
        }
    };
    match answer {
        Ok(answer) => match super::print(&answer.text) {
            EXIT_OK if !answer.is_good => EXIT_FAILURE,
            printed => printed,
        },
        Err(error) => {
            super::complain(&format!("{error:#}"));
            EXIT_UNREADABLE
        }
    }
}

fn instant(now: Option<u64>) -> u64 {
    now.unwrap_or_else(|| SystemClock::default().wall().0)
}

#[derive(Serialize)]
struct Listing {
    latest: Option<SnapshotId>,
    snapshots: Vec<Listed>,
    /// Directories without a readable descriptor.
    unfinished: Vec<SnapshotId>,
}

impl Listing {
    fn of(catalog: &Catalog) -> anyhow::Result<Self> {
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

fn list(root: &Root) -> anyhow::Result<Answer> {
    let listing = Listing::of(&root.catalog()?)?;
    Answer::new(root.json, &listing, || listing.text(), true)
}

#[derive(Serialize)]
struct Inspected {
    id: SnapshotId,
    summary: Summary,
    findings: Findings,
}

fn inspect(root: &Root, id: Option<SnapshotId>, now_ms: u64) -> anyhow::Result<Answer> {
    let catalog = root.catalog()?;
    let id = root.choose(&catalog, id)?;
    let Decoded { image, findings, .. } = decode(&catalog, id)?;
    let is_clean = findings.is_clean();
    let shown = Inspected { id, summary: Summary::of(&image, now_ms), findings };
    let text = || format!("snapshot       {id}\n{}\n{}", shown.summary, lines(&shown.findings));
    Answer::new(root.json, &shown, text, is_clean)
}

fn decode(catalog: &Catalog, id: SnapshotId) -> anyhow::Result<Decoded> {
    let payloads = catalog.fetch(id).map_err(|error| anyhow::anyhow!("{id}: {error}"))?;
    snapshot::decode_image(&payloads, catalog.limits())
        .map_err(|error| anyhow::anyhow!("{id}: {error}"))
}

fn lines(findings: &Findings) -> String {
    let mut text: String =
        findings.list.iter().map(|finding| format!("  finding: {finding}\n")).collect();
    let hidden = findings.total().saturating_sub(findings.list.len() as u64);
    if hidden > 0 {
        text.push_str(&format!("  and {hidden} more findings\n"));
    }
    text
}

#[derive(Serialize)]
struct Verified {
    survival: Survival,
    snapshots: Vec<CandidateReport>,
    /// Directories without a readable descriptor: damaged, or still in the making.
    unfinished: Vec<SnapshotId>,
}

fn verify(
    root: &Root,
    id: Option<SnapshotId>,
    survival: Survival,
    now_ms: u64,
) -> anyhow::Result<Answer> {
    let catalog = root.catalog()?;
    let (ids, unfinished) = match id {
        Some(id) => (vec![id], Vec::new()),
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
    let snapshots = snapshot::restore::verify(&catalog, &ids, &options);
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

fn diff(
    root: &Root,
    first: SnapshotId,
    second: Option<SnapshotId>,
    second_root: Option<&std::path::Path>,
) -> anyhow::Result<Answer> {
    let catalog = root.catalog()?;
    let other = root.catalog_at(second_root.unwrap_or(&root.root))?;
    let first = decode(&catalog, first)?;
    let second = decode(&other, root.choose(&other, second)?)?;
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
