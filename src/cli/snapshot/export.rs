//! `snapshot export`: a running cluster, or one of its snapshots, into a root from which either master restores.

use std::time::Duration;

use clap::Args;
use mooncake_ha_snapshot as snapshot;
use serde::Serialize;
use snapshot::catalog::CLUSTER_ID_DEFAULT;
use snapshot::codec::manifest::Descriptor;
use snapshot::settle::Decoded;
use snapshot::{Image, Limits, Payloads, ReplicaStatus, SnapshotId};

use super::ask::{Admin, Asked};
use super::{Answer, Root, instant, parse_id};
use crate::backup::{self, Place};
use crate::cli::progress::Progress;

const EXPORT_EXAMPLE: &str = "Examples:
  A running cluster, for a mooncake_master that starts within ten minutes while the clients wait:
    mooncake-ha snapshot export /backup/move --admin 127.0.0.1:9003 --lease 10m
    MOONCAKE_SNAPSHOT_LOCAL_PATH=/backup/move mooncake_master --enable_snapshot_restore \\
      --snapshot_object_store_type=local
  A snapshot out of a bucket:
    mooncake-ha snapshot export /backup/copy --from s3://bucket/prefix

Exit codes: 0 exported, 1 refused or damaged, 2 wrong usage, 3 cannot read or write.";

/// How long the state may take to come.
const EXPORT_WAIT_MAX: Duration = Duration::from_secs(600);

/// Arguments of `snapshot export`.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLE)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["admin", "from"])))]
pub(super) struct ExportArgs {
    /// Where to: a directory or s3://bucket/prefix
    #[arg(value_name = "TO")]
    to: String,
    /// The cluster's name there; empty for none
    #[arg(long = "cluster_id", alias = "cluster-id", default_value = CLUSTER_ID_DEFAULT)]
    cluster_id: String,
    /// Export the running cluster of this admin port
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Export a snapshot of this root
    #[arg(long, value_name = "ROOT")]
    from: Option<String>,
    /// Which one; the latest if none is given
    #[arg(long, value_parser = parse_id, requires = "from")]
    id: Option<SnapshotId>,
    /// Let every complete object survive a restore within this time, by raising its read lease: you vouch that
    /// clients keep their memory and nothing is written meanwhile
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    lease: Option<Duration>,
    /// Answer JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Exported {
    to: String,
    id: SnapshotId,
    objects: u64,
    bytes: u64,
    /// Objects whose lease was raised.
    leased: u64,
    /// Objects that the peer's own rule would drop if it restored now.
    dropped_by_peer: u64,
}

pub(super) fn run(args: &ExportArgs) -> anyhow::Result<Answer> {
    let place = Place::parse(&args.to)?;
    let mut progress = Progress::new("export", 3);
    progress.step("reading");
    let payloads = match source(args)? {
        Ok(payloads) => payloads,
        Err(why) => return Ok(Answer::refused(&why)),
    };
    progress.step("checking");
    let Decoded { mut image, findings, .. } =
        snapshot::decode_image(&payloads, &Limits::default())?;
    if findings.lost_to_damage() > 0 {
        let lost = findings.lost_to_damage();
        let sentence =
            format!("nothing is exported: {lost} objects are lost to damage; see verify");
        return Ok(Answer::refused(&sentence));
    }
    let now_ms = instant(None);
    let leased = args.lease.map_or(0, |lease| raise_leases(&mut image, now_ms, lease));
    let payloads = match leased {
        0 => payloads,
        _ => snapshot::encode_image(&image)?,
    };
    progress.step("writing");
    let store = backup::open_store(&place, true)?;
    let catalog = snapshot::Catalog::new(store, &args.cluster_id, Limits::default());
    let id = catalog.next_id(now_ms)?;
    let extension = image.globals.extension.as_ref();
    let descriptor = Descriptor {
        last_included: extension.map_or(0, |extension| extension.applied_index),
        view_version: extension.map_or(0, |extension| extension.applied_term),
        created_ms: i64::try_from(now_ms).unwrap_or(i64::MAX),
    };
    catalog.publish(id, &payloads, &descriptor)?;
    drop(progress);
    let dropped_by_peer = image.objects().filter(|(_, object)| object.lease_ms <= now_ms).count();
    let exported = Exported {
        to: place.to_string(),
        id,
        objects: image.object_count(),
        bytes: payloads.total_bytes(),
        leased,
        dropped_by_peer: dropped_by_peer as u64,
    };
    Answer::new(args.json, &exported, || exported.text(), true)
}

/// The files to export, or why a node refuses them.
fn source(args: &ExportArgs) -> anyhow::Result<Result<Payloads, String>> {
    if let Some(root) = &args.from {
        let root = Root::at(root, &args.cluster_id);
        let catalog = root.catalog()?;
        let id = root.choose(&catalog, args.id)?;
        return Ok(Ok(catalog.fetch(id)?));
    }
    let admin = Admin::new(args.admin.as_deref().unwrap_or_default(), EXPORT_WAIT_MAX);
    match admin.post_to_leader("/api/v1/snapshots/export")? {
        Asked::Refused(why) => Ok(Err(why)),
        Asked::Good(answer) => {
            let limit = Limits::default().file_bytes_max;
            let mut stream = answer.into_body().into_with_config().limit(limit).reader();
            Ok(Ok(snapshot::read_container(&mut stream, limit)?))
        }
    }
}

/// Raises the leases of complete objects; answers how many.
fn raise_leases(image: &mut Image, now_ms: u64, lease: Duration) -> u64 {
    let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    let until = now_ms.saturating_add(lease_ms).min(snapshot::codec::INSTANT_MS_MAX);
    let mut raised = 0;
    for object in image.shards.values_mut().flatten() {
        let mut replicas = object.replicas.iter();
        let is_complete = replicas.all(|replica| replica.status == ReplicaStatus::Complete);
        if is_complete && object.lease_ms < until {
            object.lease_ms = until;
            raised += 1;
        }
    }
    raised
}

impl Exported {
    fn text(&self) -> String {
        let Exported { to, id, objects, bytes, leased, dropped_by_peer } = self;
        let mut text = format!("{id}: {objects} objects in {bytes} bytes, in {to}\n");
        if *leased > 0 {
            text.push_str(&format!("{leased} read leases were raised\n"));
        }
        if *dropped_by_peer > 0 {
            text.push_str(&format!(
                "mooncake_master would drop {dropped_by_peer} objects, whose read leases are over; \
                 see --lease\n"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snapshot::{ObjectImage, ObjectName, ReplicaImage, ReplicaPlace, Uuid};

    fn object(status: ReplicaStatus, lease_ms: u64) -> ObjectImage {
        let place = ReplicaPlace::Disk { path: "p".into(), size: 1 };
        let replicas = vec![ReplicaImage { id: 1, status, place }];
        ObjectImage {
            name: ObjectName { tenant: "default".into(), key: Box::from(&b"k"[..]) },
            writer: Uuid::default(),
            put_start_ms: 0,
            size: 1,
            lease_ms,
            soft_pin_ms: None,
            data_type: 0,
            replicas,
            hard_pinned: false,
            group: Box::default(),
            checksum: None,
        }
    }

    #[test]
    fn only_complete_objects_get_a_longer_lease_and_none_a_shorter_one() {
        let objects = vec![
            object(ReplicaStatus::Complete, 0),
            object(ReplicaStatus::Processing, 0),
            object(ReplicaStatus::Complete, 99_999),
        ];
        let mut image = Image { shards: [(0, objects)].into(), ..Image::default() };
        assert_eq!(raise_leases(&mut image, 1_000, Duration::from_secs(2)), 1);
        let leases: Vec<u64> = image.objects().map(|(_, object)| object.lease_ms).collect();
        assert_eq!(leases, [3_000, 0, 99_999]);
    }
}
