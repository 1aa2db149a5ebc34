//! `mooncake-ha snapshot`: looks at the catalog snapshots below a root, without a node, or asks a node for one.
//!
//! Only `take` and `restore` change a cluster; only `import`, `export` and `prune` change a root. Guards its exit codes
//! (`docs/errors.md`): 0 good, 1 findings or differences, 3 cannot read. What a finding is, is left to the snapshot
//! crate.

mod ask;
mod diff;
mod export;
mod import;
mod inspect;
mod list;
mod prune;
mod restore;
mod take;
mod verify;

use std::time::Duration;

use clap::{Args, Subcommand};
use mooncake_ha_snapshot as snapshot;
use serde::Serialize;
use snapshot::catalog::CLUSTER_ID_DEFAULT;
use snapshot::settle::Decoded;
use snapshot::{Catalog, Findings, Limits, SnapshotId};

use super::{EXIT_FAILURE, EXIT_OK, EXIT_UNREADABLE};
use crate::backup::{self, Place};
use crate::clock::{Clock, SystemClock};

const EXAMPLE: &str = "Example:
  mooncake-ha snapshot list /backup/mooncake
  mooncake-ha snapshot verify /backup/mooncake --json
  mooncake-ha snapshot inspect s3://bucket/prefix --redis redis://127.0.0.1:6379

Exit codes: 0 good, 1 findings or differences, 2 wrong usage, 3 cannot read.";

/// Look at catalog snapshots, or have a running node take one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct SnapshotArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Which snapshots there are
    List(list::ListArgs),
    /// What is in one of them
    Inspect(inspect::InspectArgs),
    /// What a restore would do with each of them, and what is damaged
    Verify(verify::VerifyArgs),
    /// Have the cluster take one now
    Take(take::TakeArgs),
    /// How two of them differ
    Diff(diff::DiffArgs),
    /// Write the running cluster, or a snapshot, where either master can restore it
    Export(export::ExportArgs),
    /// Remove older ones and what failed attempts left
    Prune(prune::PruneArgs),
    /// Have an empty cluster take one over
    Restore(restore::RestoreArgs),
    /// Put one of another root, such as a real master's, into a root of ours
    Import(import::ImportArgs),
}

#[derive(Debug, Args)]
struct Root {
    /// The directory that MOONCAKE_SNAPSHOT_LOCAL_PATH names, or s3://bucket/prefix, which is reached as the
    /// MOONCAKE_AWS_ variables say
    #[arg(value_name = "ROOT")]
    root: String,
    /// The Redis that names the latest one, if it is not latest.txt
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// The cluster's name in it; empty for none
    #[arg(long = "cluster_id", alias = "cluster-id", default_value = CLUSTER_ID_DEFAULT)]
    cluster_id: String,
    /// Answer JSON
    #[arg(long)]
    json: bool,
}

impl Root {
    fn at(root: &str, cluster_id: &str) -> Self {
        let (root, cluster_id) = (root.to_owned(), cluster_id.to_owned());
        Root { root, redis: None, cluster_id, json: false }
    }

    fn catalog(&self) -> anyhow::Result<Catalog> {
        self.catalog_at(&self.root)
    }

    fn catalog_at(&self, root: &str) -> anyhow::Result<Catalog> {
        let store = backup::open_store(&Place::parse(root)?, false)?;
        let catalog = Catalog::new(store, &self.cluster_id, Limits::default());
        match &self.redis {
            Some(address) => Ok(catalog.with_index(backup::open_index(address, &self.cluster_id)?)),
            None => Ok(catalog),
        }
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
        let (root, cluster) = (&self.root, &self.cluster_id);
        anyhow::anyhow!("there is no snapshot of cluster {cluster:?} in {root}; is it the root?")
    }
}

fn parse_id(text: &str) -> Result<SnapshotId, String> {
    SnapshotId::parse(text).ok_or_else(|| "it must be an id such as 20261129_182740_639".into())
}

fn duration(text: &str) -> Result<Duration, String> {
    crate::config::parse_duration_ms(text).map(Duration::from_millis)
}

/// What a command says: the result, and whether it is good.
struct Answer {
    text: String,
    is_good: bool,
    /// A refusal goes to stderr.
    is_refusal: bool,
}

impl Answer {
    fn new(
        is_json: bool,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
        is_good: bool,
    ) -> anyhow::Result<Self> {
        let text = if is_json { serde_json::to_string_pretty(value)? } else { text() };
        Ok(Answer { text: format!("{}\n", text.trim_end()), is_good, is_refusal: false })
    }

    fn refused(why: &str) -> Self {
        Answer { text: why.to_owned(), is_good: false, is_refusal: true }
    }
}

/// Runs the command; answers the exit code.
pub(super) fn command(args: SnapshotArgs) -> u8 {
    let answer = match &args.action {
        Action::List(args) => list::run(args),
        Action::Inspect(args) => inspect::run(args),
        Action::Verify(args) => verify::run(args),
        Action::Take(args) => take::run(args),
        Action::Diff(args) => diff::run(args),
        Action::Export(args) => export::run(args),
        Action::Prune(args) => prune::run(args),
        Action::Restore(args) => restore::run(args),
        Action::Import(args) => import::run(args),
    };
    match answer {
        Ok(answer) if answer.is_refusal => {
            super::complain(&answer.text);
            EXIT_FAILURE
        }
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
