//! The sections of [`Config`]: plain data with its defaults, one section a room.
//!
//! Guards only that every number has its unit in its name. What a value may be is said in the flag
//! table (`flags`), what two values may be together in `validate`. Nothing here reads a file or a flag.

use std::fmt;
use std::path::PathBuf;

use super::events::EventsConfig;

/// Parts per million in the whole: ratios are kept as integers because replicated state has no floats.
pub const PPM_WHOLE: u32 = 1_000_000;

/// All settings of one node, after parsing and checking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The clients' door.
    pub rpc: RpcConfig,
    /// The operator's door.
    pub admin: AdminConfig,
    /// The embedded metadata server of the transfer engine.
    pub http_metadata: HttpMetadataConfig,
    /// Ordinary read leases.
    pub leases: LeaseConfig,
    /// Soft pins.
    pub soft_pins: SoftPinConfig,
    /// Eviction.
    pub eviction: EvictionConfig,
    /// Unfinished writes.
    pub writes: WriteConfig,
    /// Client liveness.
    pub clients: ClientConfig,
    /// Copy and move tasks.
    pub tasks: TaskConfig,
    /// Tenants and their quotas.
    pub tenants: TenantConfig,
    /// Placement of replicas.
    pub allocation: AllocationConfig,
    /// What is echoed to clients about storage.
    pub storage: StorageConfig,
    /// Replication, the log and the data directory.
    pub raft: RaftConfig,
    /// The door by which clients find a leader.
    pub discovery: DiscoveryConfig,
    /// Catalog snapshots and cold restore.
    pub snapshot: SnapshotConfig,
    /// Disks, and the way to and from them.
    pub tiers: super::tiers::TierConfig,
    /// Further replicas of objects that are read often.
    pub dynamic: super::dynamic::DynamicConfig,
    /// Log output.
    pub log: LogConfig,
    /// Events about objects coming and going.
    pub events: EventsConfig,
}

/// Settings of the RPC port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcConfig {
    /// Address to listen on: an IP address or a host name.
    pub address: String,
    /// Network interface whose IPv4 address replaces `address`; empty for none.
    pub interface: String,
    /// TCP port; 0 lets the system choose.
    pub port: u16,
    /// Worker threads; 0 means the lesser of `threads_max` and the number of cores.
    pub thread_num: u32,
    /// Upper limit of worker threads when `thread_num` is 0.
    pub threads_max: u32,
    /// Seconds after which an idle connection is closed; 0 means never.
    pub conn_timeout_sec: u32,
    /// Whether TCP_NODELAY is set on client connections.
    pub tcp_no_delay: bool,
    /// Release that a client is taken for until it shows another.
    pub assumed_release: ClientRelease,
}

/// A release of the clients, as far as the bytes that they read and write differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientRelease {
    /// 0.3.12.
    V0312,
    /// 0.3.13.
    #[default]
    V0313,
}

impl RpcConfig {
    /// `address:port`, an IPv6 address in brackets.
    pub fn listen(&self) -> String {
        host_port(&self.address, self.port)
    }

    /// Worker threads on a machine with `cores` cores; at least 1.
    pub fn threads(&self, cores: usize) -> usize {
        let wanted = match self.thread_num {
            0 => (self.threads_max as usize).min(cores),
            number => number as usize,
        };
        wanted.max(1)
    }
}

impl Default for RpcConfig {
    fn default() -> Self {
        RpcConfig {
            address: "0.0.0.0".into(),
            interface: String::new(),
            port: 50051,
            thread_num: 0,
            threads_max: 16,
            conn_timeout_sec: 0,
            tcp_no_delay: true,
            assumed_release: ClientRelease::default(),
        }
    }
}

/// Settings of the admin HTTP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Address to listen on.
    pub host: String,
    /// TCP port; 0 lets the system choose.
    pub port: u16,
    /// Whether a summary of the metrics is logged every 10 s.
    pub is_metric_reporting: bool,
    /// Token that admin writes must carry; empty for none.
    pub token: Secret,
}

impl AdminConfig {
    /// `host:port`, an IPv6 address in brackets.
    pub fn listen(&self) -> String {
        host_port(&self.host, self.port)
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        AdminConfig {
            host: "0.0.0.0".into(),
            port: 9003,
            is_metric_reporting: true,
            token: Secret::default(),
        }
    }
}

/// Settings of the embedded HTTP metadata server (wire protocol 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpMetadataConfig {
    /// Whether it runs.
    pub is_enabled: bool,
    /// Address to listen on.
    pub host: String,
    /// TCP port; 0 lets the system choose.
    pub port: u16,
    /// Whether the keys of an expired client's segments are removed (behaviour spec 13.4).
    pub cleanup_on_timeout: bool,
}

impl HttpMetadataConfig {
    /// `host:port`, an IPv6 address in brackets.
    pub fn listen(&self) -> String {
        host_port(&self.host, self.port)
    }
}

impl Default for HttpMetadataConfig {
    fn default() -> Self {
        HttpMetadataConfig {
            is_enabled: false,
            host: "0.0.0.0".into(),
            port: 8080,
            cleanup_on_timeout: false,
        }
    }
}

/// Ordinary read leases (behaviour spec 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Length of a read lease.
    pub default_ttl_ms: u64,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        LeaseConfig { default_ttl_ms: 10_000 }
    }
}

/// Soft pins (RFC "Master configuration").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftPinConfig {
    /// TTL of an ENABLE that names none. Invariant: `default_ttl_ms <= max_ttl_ms`.
    pub default_ttl_ms: u64,
    /// Greatest TTL that a request may name.
    pub max_ttl_ms: u64,
    /// How often the leader looks whether a pin is due. Invariant: at least 1.
    pub sweep_interval_ms: u64,
}

impl Default for SoftPinConfig {
    fn default() -> Self {
        SoftPinConfig {
            default_ttl_ms: 1_800_000,
            max_ttl_ms: 86_400_000,
            sweep_interval_ms: 1_000,
        }
    }
}

/// Eviction (behaviour spec 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionConfig {
    /// Whether the second pass may take soft-pinned objects.
    pub allow_soft_pinned: bool,
    /// Share of objects that one round evicts, in parts per million of [`PPM_WHOLE`].
    pub ratio_ppm: u32,
    /// Share of used memory at which eviction starts, in parts per million of [`PPM_WHOLE`].
    pub high_watermark_ppm: u32,
}

impl Default for EvictionConfig {
    fn default() -> Self {
        EvictionConfig { allow_soft_pinned: true, ratio_ppm: 50_000, high_watermark_ppm: 900_000 }
    }
}

/// Writes that were started and not ended (behaviour spec 2.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteConfig {
    /// Age at which another write may take over the key. Invariant: less than `release_timeout_sec`.
    pub discard_timeout_sec: u64,
    /// Age at which the memory of a discarded write is given back.
    pub release_timeout_sec: u64,
}

impl Default for WriteConfig {
    fn default() -> Self {
        WriteConfig { discard_timeout_sec: 30, release_timeout_sec: 600 }
    }
}

/// Client liveness (behaviour spec 5.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Seconds without a ping after which a client has expired.
    pub ttl_sec: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        ClientConfig { ttl_sec: 10 }
    }
}

/// Copy and move tasks (behaviour spec 8.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskConfig {
    /// Finished tasks that are remembered.
    pub finished_max: u32,
    /// Tasks that may wait.
    pub pending_max: u32,
    /// Tasks that may run.
    pub processing_max: u32,
    /// Seconds after which a waiting task fails; 0 means never.
    pub pending_timeout_sec: u64,
    /// Seconds after which a running task fails; 0 means never.
    pub processing_timeout_sec: u64,
    /// Retries that clients are told to make.
    pub retry_attempts_max: u32,
}

impl Default for TaskConfig {
    fn default() -> Self {
        TaskConfig {
            finished_max: 10_000,
            pending_max: 10_000,
            processing_max: 10_000,
            pending_timeout_sec: 300,
            processing_timeout_sec: 300,
            retry_attempts_max: 10,
        }
    }
}

/// Settings of tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantConfig {
    /// Whether tenants are kept apart and held to quotas.
    pub is_enabled: bool,
    /// Where policies come from.
    pub connector: TenantConnector,
    /// The policy file, if they come from one; may be empty.
    pub uri: String,
}

/// Where the policies of tenants come from at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantConnector {
    /// A file.
    #[default]
    File,
    /// The log alone.
    Replicated,
}

impl TenantConfig {
    /// The policy file; `None` if tenants are not kept apart or policies are set by operators alone.
    pub fn policy_file(&self) -> Option<PathBuf> {
        let is_file = self.is_enabled && self.connector == TenantConnector::File;
        (is_file && !self.uri.is_empty()).then(|| PathBuf::from(&self.uri))
    }
}

/// Which segments a write is placed in (behaviour spec 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocationStrategy {
    /// Segments in random order.
    #[default]
    Random,
    /// Segments with the most free space first.
    FreeRatioFirst,
    /// The writer's own segment first; places as `Random` does, like the peer.
    LocalFirst,
}

/// Placement of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationConfig {
    /// Order in which segments are tried.
    pub strategy: AllocationStrategy,
}

/// What clients are told about storage; the master itself acts on `cluster_id` only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageConfig {
    /// Name of the cluster, part of paths that clients build.
    pub cluster_id: String,
    /// Whether clients may evict from their disks.
    pub enable_disk_eviction: bool,
    /// Disk quota of a client in bytes; 0 means none.
    pub quota_bytes: u64,
}

impl Default for StorageConfig {
    fn default() -> Self {
        StorageConfig {
            cluster_id: "mooncake_cluster".into(),
            enable_disk_eviction: true,
            quota_bytes: 0,
        }
    }
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After it is on disk: survives a power cut.
    #[default]
    Sync,
    /// After the operating system has it: survives SIGKILL, not a power cut.
    Async,
}

/// A member of the cluster as `--peers` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its node id.
    pub node_id: u64,
    /// `host:port` of its raft port.
    pub address: String,
}

/// Replication, the log and the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftConfig {
    /// Directory that holds everything this node must not forget.
    pub data_dir: PathBuf,
    /// Id of this node. Invariant: at least 1, unique in the cluster.
    pub node_id: u64,
    /// All members, this node among them; empty for a cluster of one.
    pub peers: Vec<PeerAddress>,
    /// Whether this node waits to be added to a running cluster instead of forming one with its peers.
    pub is_joining: bool,
    /// IP address the raft port listens on; empty for every interface.
    pub address: String,
    /// When a write is answered.
    pub durability: Durability,
    /// Bytes of log after which a raft snapshot is made, unless the last one was larger.
    pub snapshot_log_bytes: u64,
    /// Bytes of log kept behind the raft snapshot, for nodes that lag.
    pub log_keep_bytes: u64,
    /// Shared secret of the members; empty for none.
    pub cluster_secret: Secret,
    /// PEM file with this node's certificate; empty for no TLS between nodes. Invariant: all three files or none.
    pub tls_cert: PathBuf,
    /// PEM file with its private key.
    pub tls_key: PathBuf,
    /// PEM file with the authority of all nodes' certificates.
    pub tls_ca: PathBuf,
    /// File with milliseconds that are added to the wall clock; empty for none. Drills only.
    pub clock_offset_file: PathBuf,
}

impl Default for RaftConfig {
    fn default() -> Self {
        RaftConfig {
            data_dir: PathBuf::from("./mooncake-ha-data"),
            node_id: 1,
            peers: Vec::new(),
            is_joining: false,
            address: String::new(),
            durability: Durability::Sync,
            snapshot_log_bytes: 256 << 20,
            log_keep_bytes: 128 << 20,
            cluster_secret: Secret::default(),
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_ca: PathBuf::new(),
            clock_offset_file: PathBuf::new(),
        }
    }
}

impl RaftConfig {
    /// Whether nodes talk to each other by TLS.
    pub fn uses_tls(&self) -> bool {
        !self.tls_cert.as_os_str().is_empty()
    }
}

/// The door by which clients find a leader, on the host of the RPC port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryConfig {
    /// TCP port; 0 lets the system choose. `None` is [`DISCOVERY_PORT_DEFAULT`], and no door if somebody
    /// else has it, so that several nodes can run on a machine without a word about it.
    pub port: Option<u16>,
}

/// The port of the discovery door when none is given.
pub const DISCOVERY_PORT_DEFAULT: u16 = 50062;

/// Which objects a cold restore keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoreSurvival {
    /// The RFC's rule: all replicas COMPLETE and a valid read lease or an active pin.
    #[default]
    Rfc,
    /// The peer's rule: a valid read lease.
    Lease,
    /// Every COMPLETE object; the operator vouches for the clients' memory.
    Complete,
}

/// Which node writes the files of a catalog snapshot. The leader decides when, and publishes it, in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotTaker {
    /// A follower if the store is shared, else the leader.
    #[default]
    Auto,
    /// The leader.
    Leader,
    /// A follower that is ready, else the leader. A directory must then be shared.
    Follower,
}

/// Catalog snapshots and cold restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// Whether catalog snapshots are taken.
    pub is_enabled: bool,
    /// Whether a new cluster starts from the catalog.
    pub is_restore_enabled: bool,
    /// Seconds between two catalog snapshots.
    pub interval_sec: u64,
    /// Seconds that one may take.
    pub timeout_sec: u64,
    /// How many are kept. Invariant: at least 1.
    pub retention_count: u32,
    /// Root of the local store; empty for that of MOONCAKE_SNAPSHOT_LOCAL_PATH.
    pub local_path: String,
    /// `local`, `s3` or empty.
    pub object_store_type: String,
    /// `s3://bucket/prefix`; empty for the bucket of MOONCAKE_AWS_BUCKET_NAME.
    pub s3_root: String,
    /// Which node writes the files.
    pub taken_by: SnapshotTaker,
    /// `embedded`, `payload`, `redis` or empty.
    pub catalog_store_type: String,
    /// How the catalog store is reached.
    pub catalog_store_connstring: String,
    /// Directory for files that could not be stored and those that a restore has read; empty for none.
    pub backup_dir: String,
    /// Which objects a cold restore keeps.
    pub survival: RestoreSurvival,
    /// Whether a node starts empty when no candidate can be restored.
    pub restore_or_empty: bool,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        SnapshotConfig {
            is_enabled: false,
            is_restore_enabled: false,
            interval_sec: 600,
            timeout_sec: 300,
            retention_count: 2,
            local_path: String::new(),
            object_store_type: String::new(),
            s3_root: String::new(),
            taken_by: SnapshotTaker::Auto,
            catalog_store_type: String::new(),
            catalog_store_connstring: String::new(),
            backup_dir: String::new(),
            survival: RestoreSurvival::Rfc,
            restore_or_empty: false,
        }
    }
}

/// Log output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    /// Directory for a daily file; empty logs to stderr.
    pub dir: String,
    /// Whether stderr gets everything even when `dir` is set.
    pub to_stderr: bool,
    /// 0 logs information and worse, 1 or more adds debug.
    pub verbosity: u32,
    /// 0 logs information and worse, 1 warnings and worse, 2 or more errors only.
    pub level_min: u32,
}

/// Text that no log, error or debug print shows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself, for a comparison or a handshake.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(none)" } else { "Secret(set)" })
    }
}

/// `host:port` as the standard library and tokio parse it: an IPv6 address gets brackets.
pub fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_host_gets_brackets() {
        assert_eq!(host_port("::", 9003), "[::]:9003");
        assert_eq!(host_port("[::1]", 1), "[::1]:1");
        assert_eq!(RpcConfig::default().listen(), "0.0.0.0:50051");
    }

    #[test]
    fn threads_follow_the_cores_up_to_the_limit_unless_set() {
        let mut rpc = RpcConfig::default();
        assert_eq!(rpc.threads(4), 4);
        assert_eq!(rpc.threads(64), 16);
        assert_eq!(rpc.threads(0), 1);
        rpc.thread_num = 40;
        assert_eq!(rpc.threads(4), 40);
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(set)");
    }
}
