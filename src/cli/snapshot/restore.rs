//! `snapshot restore`: has a running, empty cluster take over a snapshot, or says what would survive.

use clap::Args;
use mooncake_ha_snapshot as snapshot;
use serde_json::Value as Json;
use snapshot::{Outcome, RestoreOptions, SnapshotId, Survival};

use super::ask::{self, Told};
use super::{Answer, Root, instant, parse_id};

const EXAMPLE: &str = "Example:
  mooncake-ha snapshot restore --dry-run --root /backup/mooncake
  mooncake-ha snapshot restore --dry-run --admin http://127.0.0.1:9003
  mooncake-ha snapshot restore --admin http://127.0.0.1:9003 --survival complete --yes

Exit codes: 0 restored, or it would be; 1 refused, or nothing survives; 2 wrong usage; 3 no answer.";

/// Arguments of `snapshot restore`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct RestoreArgs {
    /// Admin port of a node; one that does not lead sends on to the leader. Its token is taken from
    /// MOONCAKE_HA_ADMIN_TOKEN
    #[arg(long, value_name = "URL", required_unless_present = "root", conflicts_with = "root")]
    admin: Option<String>,
    /// With --dry-run: judge the snapshots below this root, without a node
    #[arg(long, value_name = "ROOT", requires = "dry_run")]
    root: Option<String>,
    /// The cluster's name in the root; empty for none
    #[arg(long = "cluster_id", alias = "cluster-id", default_value = super::CLUSTER_ID_DEFAULT)]
    cluster_id: String,
    /// Only this snapshot; else the newest that can be restored
    #[arg(long, value_parser = parse_id)]
    id: Option<SnapshotId>,
    /// Which objects survive: rfc, lease or complete
    #[arg(long, default_value_t = Survival::Rfc)]
    survival: Survival,
    /// Say what would survive, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// With --survival complete: yes, the clients left their memory untouched since the snapshot
    #[arg(long)]
    yes: bool,
    /// Answer JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &RestoreArgs) -> anyhow::Result<Answer> {
    match (&args.root, &args.admin) {
        (Some(root), _) => at_root(args, root),
        (None, Some(admin)) => at_node(args, admin),
        (None, None) => anyhow::bail!("give --admin, or --root and --dry-run"),
    }
}

/// Judges without a node.
fn at_root(args: &RestoreArgs, root: &str) -> anyhow::Result<Answer> {
    let catalog = Root::at(root, &args.cluster_id).catalog()?;
    let options = RestoreOptions { now_ms: instant(None), survival: args.survival, only: args.id };
    let report = snapshot::restore(&catalog, &options)?.report;
    let is_good = report.outcome == Outcome::Restored;
    let text = || format!("dry run, nothing is changed: {report}");
    Answer::new(args.json, &report, text, is_good)
}

/// Asks the leader, which has the catalog.
fn at_node(args: &RestoreArgs, admin: &str) -> anyhow::Result<Answer> {
    let mut page = format!("/api/v1/restore?survival={}", args.survival);
    if let Some(id) = args.id {
        page.push_str(&format!("&id={id}"));
    }
    for (is_set, name) in [(args.dry_run, "dry_run"), (args.yes, "yes")] {
        if is_set {
            page.push_str(&format!("&{name}=true"));
        }
    }
    let Told { is_ok, body } = ask::post(admin, &page)?;
    let told: Json = serde_json::from_str(&body)
        .map_err(|error| anyhow::anyhow!("{admin} answers what is no JSON: {error}: {body}"))?;
    let is_good = is_ok && told.get("success") == Some(&Json::Bool(true));
    let words = told.get("text").or_else(|| told.get("error_message")).and_then(Json::as_str);
    let before = if args.dry_run && is_ok { "dry run, nothing is changed: " } else { "" };
    let text = || format!("{before}{}", words.unwrap_or(&body));
    Answer::new(args.json, &told, text, is_good)
}
