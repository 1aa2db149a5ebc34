//! Flags of this project, which the peer does not have.

use super::super::sections::{
    ClientRelease, Durability, PeerAddress, RestoreSurvival, Secret, SnapshotTaker,
};
use super::{FlagSpec, Group, Kind};

/// Greatest sweep interval: the sweep is what frees memory of expired pins in the gauge and index.
const SWEEP_INTERVAL_MS_MAX: u64 = 3_600_000;
/// Least log between two raft snapshots; each costs a copy of the state.
const LOG_BYTES_MIN: u64 = 64 << 10;
/// Greatest number of members that `peers` may name.
const PEERS_MAX: usize = 15;

pub(super) const FLAGS: &[FlagSpec] = &[
    FlagSpec::new(
        Group::Rpc,
        "assumed_client_release",
        "0.3.13",
        Kind::Checked("0.3.12|0.3.13", |c, text| {
            c.rpc.assumed_release = match text {
                "0.3.12" => ClientRelease::V0312,
                "0.3.13" => ClientRelease::V0313,
                _ => return Err("0.3.12 or 0.3.13".into()),
            };
            Ok(None)
        }),
        "release that a client is taken for until it shows another; both are served at once",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "data_dir",
        "./mooncake-ha-data",
        Kind::Checked("path", |c, text| {
            if text.is_empty() || text.contains('\0') {
                return Err("a path".into());
            }
            c.raft.data_dir = text.into();
            Ok(None)
        }),
        "directory that holds everything this node must not forget",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "durability",
        "sync",
        Kind::Checked("sync|async", |c, text| {
            c.raft.durability = match text {
                "sync" => Durability::Sync,
                "async" => Durability::Async,
                _ => return Err("sync or async".into()),
            };
            Ok(None)
        }),
        "sync answers a write once it is on disk; async survives SIGKILL, not a power cut",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "node_id",
        "1",
        Kind::Whole64(1, u64::MAX, |c, id| c.raft.node_id = id),
        "id of this node, unique in the cluster",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "peers",
        "",
        Kind::Checked("members", |c, text| {
            c.raft.peers = peers(text)?;
            Ok(None)
        }),
        "all members, such as 1=h1:50061,2=h2:50061,3=h3:50061",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "join",
        "false",
        Kind::Switch(|c, on| c.raft.is_joining = on),
        "an empty node waits to be added to a running cluster instead of forming one with its peers",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "raft_address",
        "",
        Kind::Text(|c, text| c.raft.address = text.to_owned()),
        "IP address the raft port listens on if there are peers; empty: every interface",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "raft_snapshot_log_bytes",
        "268435456",
        Kind::Whole64(LOG_BYTES_MIN, i64::MAX as u64, |c, bytes| c.raft.snapshot_log_bytes = bytes),
        "bytes of log after which a raft snapshot is made, or as many as the last one had",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "raft_log_keep_bytes",
        "134217728",
        Kind::Whole64(0, i64::MAX as u64, |c, bytes| c.raft.log_keep_bytes = bytes),
        "bytes of log kept behind the raft snapshot, so that a node that lags needs no snapshot",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "cluster_secret",
        "",
        Kind::Text(|c, text| c.raft.cluster_secret = Secret::new(text)),
        "secret that all members share; better set in the environment or the file",
    )
    .own()
    .secret(),
    FlagSpec::new(
        Group::Raft,
        "raft_tls_cert",
        "",
        Kind::Text(|c, text| c.raft.tls_cert = text.into()),
        "PEM file with this node's certificate; with it, its key and its authority peers talk by mutual TLS",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "raft_tls_key",
        "",
        Kind::Text(|c, text| c.raft.tls_key = text.into()),
        "PEM file with the private key of raft_tls_cert",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "raft_tls_ca",
        "",
        Kind::Text(|c, text| c.raft.tls_ca = text.into()),
        "PEM file with the authority that has signed the certificates of all nodes",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "drill_clock_offset_file",
        "",
        Kind::Text(|c, text| c.raft.clock_offset_file = text.into()),
        "for drills only: a file with milliseconds that are added to the wall clock",
    )
    .own(),
    FlagSpec::new(
        Group::Raft,
        "discovery_port",
        "",
        Kind::Checked("port", |c, text| {
            let port = match text {
                "" => None,
                text => Some(super::value::parse_whole(text, 0, u64::from(u16::MAX))?),
            };
            c.discovery.port = port.and_then(|port| u16::try_from(port).ok());
            Ok(None)
        }),
        "port by which clients find the leader; if not given, 50062 or, if taken, none",
    )
    .own(),
    FlagSpec::new(
        Group::Admin,
        "admin_token",
        "",
        Kind::Text(|c, text| c.admin.token = Secret::new(text)),
        "token that admin writes must carry; better set in the environment or the file",
    )
    .own()
    .secret(),
    FlagSpec::new(
        Group::Pins,
        "soft_pin_sweep_interval",
        "1s",
        Kind::Checked("duration", |c, text| {
            let interval_ms = super::value::parse_duration_ms(text)?;
            if !(1..=SWEEP_INTERVAL_MS_MAX).contains(&interval_ms) {
                return Err("a duration from 1ms to 1h".into());
            }
            c.soft_pins.sweep_interval_ms = interval_ms;
            Ok(None)
        }),
        "how often the leader looks whether a soft pin is due",
    )
    .own(),
    FlagSpec::new(
        Group::Snapshot,
        "snapshot_local_path",
        "",
        Kind::Text(|c, text| c.snapshot.local_path = text.to_owned()),
        "root of the local store; empty takes MOONCAKE_SNAPSHOT_LOCAL_PATH, as the peer does",
    )
    .own(),
    FlagSpec::new(
        Group::Snapshot,
        "snapshot_s3_root",
        "",
        Kind::Text(|c, text| c.snapshot.s3_root = text.to_owned()),
        "s3://bucket/prefix; empty takes the bucket of MOONCAKE_AWS_BUCKET_NAME, as the peer does",
    )
    .own(),
    FlagSpec::new(
        Group::Snapshot,
        "snapshot_taken_by",
        "auto",
        Kind::Checked("auto|leader|follower", |c, text| {
            c.snapshot.taken_by = match text {
                "auto" => SnapshotTaker::Auto,
                "leader" => SnapshotTaker::Leader,
                "follower" => SnapshotTaker::Follower,
                _ => return Err("auto, leader or follower".into()),
            };
            Ok(None)
        }),
        "which node writes the files; auto is a follower with s3, the leader with a directory",
    )
    .own(),
    FlagSpec::new(
        Group::Snapshot,
        "restore_survival",
        "rfc",
        Kind::Checked("rfc|lease|complete", |c, text| {
            c.snapshot.survival = match text {
                "rfc" => RestoreSurvival::Rfc,
                "lease" => RestoreSurvival::Lease,
                "complete" => RestoreSurvival::Complete,
                _ => return Err("rfc, lease or complete".into()),
            };
            Ok(None)
        }),
        "which objects a cold restore keeps; complete only if clients kept their memory untouched",
    )
    .own(),
    FlagSpec::new(
        Group::Snapshot,
        "restore_or_empty",
        "false",
        Kind::Switch(|c, on| c.snapshot.restore_or_empty = on),
        "start empty when no candidate can be restored, instead of stopping",
    )
    .own(),
];

/// Reads `id=host:port` members separated by commas.
fn peers(text: &str) -> Result<Vec<PeerAddress>, String> {
    let limit =
        || format!("members such as 1=h1:50061,2=h2:50061, at most {PEERS_MAX}, each id once");
    let mut peers: Vec<PeerAddress> = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (id, address) = item.split_once('=').ok_or_else(limit)?;
        let node_id = super::value::parse_whole(id, 1, u64::MAX).map_err(|_| limit())?;
        let (host, port) = address.rsplit_once(':').ok_or_else(limit)?;
        let is_port = port.parse::<u16>().is_ok_and(|port| port != 0);
        let is_known = peers.iter().any(|peer| peer.node_id == node_id);
        if host.is_empty() || !is_port || is_known || peers.len() >= PEERS_MAX {
            return Err(limit());
        }
        peers.push(PeerAddress { node_id, address: address.to_owned() });
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_and_bad_lists_are_refused() {
        let found = peers("1=h1:50061, 2=[::1]:7").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], PeerAddress { node_id: 2, address: "[::1]:7".into() });
        for text in ["h1:1", "1=h1", "1=h1:0", "0=h1:1", "1=:1", "1=a:1,1=b:1", "1=a:70000"] {
            assert!(peers(text).is_err(), "{text}");
        }
    }
}
