//! The settings that the node decides by, in the units of the state.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::alloc::Strategy;
use crate::config::{AllocationStrategy, Config, DynamicMode, PPM_WHOLE, SHARED_BYTES_UNLIMITED};
use crate::leader::evictor::EvictionRules;
use crate::leader::heat::HeatRules;
use crate::model::{PinLimits, Ttl};
use crate::state::command::WriteRules;
use crate::state::tasks::TaskRules;

/// What a node needs to know of its configuration while it serves.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Length of a read lease.
    pub lease_ttl: Ttl,
    /// Soft-pin limits.
    pub pins: PinLimits,
    /// Rules that every write command carries.
    pub rules: WriteRules,
    /// Silence after which a client is given up.
    pub client_ttl: Duration,
    /// This node.
    pub node_id: u64,
    /// Whether there are other nodes: then clients are told the term as the version of their view.
    pub is_cluster: bool,
    /// Where clients reach this node, as `host:port`.
    pub rpc_address: Arc<str>,
    /// Where operators reach this node, as `host:port`.
    pub admin_address: Arc<str>,
    /// What keys of the HTTP metadata server start with, if an expired client's keys are to be removed.
    pub metadata_cleanup: Option<Arc<str>>,
    /// The HTTP metadata server at which they are removed, if it is not this program's own.
    pub metadata_server: Option<Arc<str>>,
    /// How often the sweeper looks.
    pub sweep_interval: Duration,
    /// Copy and move tasks.
    pub tasks: TaskSettings,
    /// Eviction.
    pub eviction: EvictionRules,
    /// Tenants and their quotas.
    pub tenants: TenantSettings,
    /// Changes of presence that are kept for those who follow them; `None` if nobody does.
    pub events_kept: Option<usize>,
    /// Disks, and the way to and from them.
    pub tiers: TierSettings,
    /// Further replicas of objects that are read often; `None` if there are none.
    pub dynamic: Option<DynamicSettings>,
}

/// When an object gets a further replica.
#[derive(Clone, Copy, Debug)]
pub struct DynamicSettings {
    /// Whether it does, or it is only said so.
    pub is_enforced: bool,
    /// When an object is hot.
    pub heat: HeatRules,
    /// Readable replicas in memory that an object may have.
    pub replicas_max: u64,
}

impl DynamicSettings {
    fn new(config: &Config) -> Option<Self> {
        let dynamic = &config.dynamic;
        let window = Duration::from_secs(u64::from(dynamic.window_sec));
        (dynamic.mode != DynamicMode::Off).then(|| DynamicSettings {
            is_enforced: dynamic.mode == DynamicMode::Enforce,
            heat: HeatRules { window, hits: dynamic.hits() },
            replicas_max: dynamic.replicas_max,
        })
    }
}

/// Whether tenants are kept apart, and where their policies come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantSettings {
    /// Whether they are kept apart and held to quotas.
    pub is_enabled: bool,
    /// The policy file of this node.
    pub policy_file: Option<PathBuf>,
}

/// What the node decides about disks by.
#[derive(Clone, Debug)]
pub struct TierSettings {
    /// The directory of this cluster that all clients share.
    pub directory: Option<Arc<str>>,
    /// Its capacity in bytes; 0 without one or without a limit.
    pub shared_bytes: u64,
    /// Whether clients' disks are used.
    pub is_offload_enabled: bool,
    /// Whether objects go to disk when memory runs short, instead of at the end of their write.
    pub offload_on_evict: bool,
    /// Whether an object may be evicted that could not be queued.
    pub offload_force_evict: bool,
    /// Objects that may wait for one client.
    pub offload_queue_max: u64,
    /// Objects that one pass of eviction queues before it evicts by force.
    pub offload_cap: u64,
    /// How objects come back to memory; `None` if they do not.
    pub promotion: Option<PromotionSettings>,
}

/// When an object comes back to memory.
#[derive(Clone, Copy, Debug)]
pub struct PromotionSettings {
    /// Reads after which it does.
    pub threshold: u8,
    /// Promotions that may be under way.
    pub in_flight_max: u32,
    /// Promotions that one heartbeat hands out.
    pub per_heartbeat: u32,
}

impl TierSettings {
    fn new(config: &Config) -> Self {
        let tiers = &config.tiers;
        let cap = u128::from(tiers.offload_queue_max) * u128::from(tiers.offload_cap_ppm);
        let directory = config.shared_directory().map(Arc::from);
        let is_limited = directory.is_some() && tiers.shared_bytes < SHARED_BYTES_UNLIMITED;
        let promotion = PromotionSettings {
            threshold: tiers.promotion_threshold,
            in_flight_max: tiers.promotion_queue_max,
            per_heartbeat: tiers.promotion_per_heartbeat,
        };
        TierSettings {
            directory,
            shared_bytes: if is_limited { tiers.shared_bytes } else { 0 },
            is_offload_enabled: tiers.is_offload_enabled,
            offload_on_evict: tiers.offload_on_evict,
            offload_force_evict: tiers.offload_force_evict,
            offload_queue_max: tiers.offload_queue_max,
            offload_cap: u64::try_from(cap / u128::from(PPM_WHOLE)).unwrap_or(u64::MAX),
            promotion: (tiers.promotion_on_hit && tiers.is_offload_enabled).then_some(promotion),
        }
    }
}

/// Limits of copy and move tasks.
#[derive(Clone, Copy, Debug)]
pub struct TaskSettings {
    /// Tasks that may wait.
    pub pending_max: u32,
    /// Tasks that may run.
    pub processing_max: u32,
    /// Tries that clients are told to make.
    pub retry_attempts_max: u32,
    /// What becomes of old tasks.
    pub rules: TaskRules,
}

impl NodeSettings {
    /// The node's part of the configuration, with the addresses at which its doors are open.
    pub fn new(config: &Config, rpc_address: &str, admin_address: &str) -> Self {
        let ms = |seconds: u64| seconds.saturating_mul(1_000);
        NodeSettings {
            lease_ttl: Ttl(config.leases.default_ttl_ms),
            pins: PinLimits {
                default_ttl: Ttl(config.soft_pins.default_ttl_ms),
                max_ttl: Ttl(config.soft_pins.max_ttl_ms),
            },
            rules: WriteRules {
                discard_timeout_ms: ms(config.writes.discard_timeout_sec),
                release_timeout_ms: ms(config.writes.release_timeout_sec),
                strategy: match config.allocation.strategy {
                    AllocationStrategy::Random => Strategy::Random,
                    AllocationStrategy::FreeRatioFirst => Strategy::FreeRatioFirst,
                    AllocationStrategy::LocalFirst => Strategy::LocalFirst,
                },
            },
            node_id: config.raft.node_id,
            is_cluster: config.raft.peers.len() > 1,
            rpc_address: Arc::from(rpc_address),
            admin_address: Arc::from(admin_address),
            metadata_cleanup: config.http_metadata.cleanup_on_timeout.then(metadata_prefix),
            metadata_server: metadata_server(config),
            client_ttl: Duration::from_secs(config.clients.ttl_sec),
            events_kept: config.events.is_published().then(|| config.events.capacity()),
            sweep_interval: Duration::from_millis(config.soft_pins.sweep_interval_ms),
            eviction: EvictionRules {
                ratio_ppm: config.eviction.ratio_ppm,
                high_watermark_ppm: config.eviction.high_watermark_ppm,
                allows_soft_pinned: config.eviction.allow_soft_pinned,
            },
            tenants: TenantSettings {
                is_enabled: config.tenants.is_enabled,
                policy_file: config.tenants.policy_file(),
            },
            tiers: TierSettings::new(config),
            dynamic: DynamicSettings::new(config),
            tasks: TaskSettings {
                pending_max: config.tasks.pending_max,
                processing_max: config.tasks.processing_max,
                retry_attempts_max: config.tasks.retry_attempts_max,
                rules: TaskRules {
                    pending_timeout_ms: ms(config.tasks.pending_timeout_sec),
                    processing_timeout_ms: ms(config.tasks.processing_timeout_sec),
                    finished_max: config.tasks.finished_max,
                },
            },
        }
    }
}

/// The separate HTTP metadata server of this deployment, if keys are to be removed there.
fn metadata_server(config: &Config) -> Option<Arc<str>> {
    let is_elsewhere = config.http_metadata.cleanup_on_timeout && !config.http_metadata.is_enabled;
    let found = if is_elsewhere { super::te_remote::find() } else { Ok(None) };
    found.unwrap_or_else(|warning| {
        tracing::warn!("{warning}");
        None
    })
}

/// What transfer engines of this deployment put in front of their keys (behaviour 13.4).
fn metadata_prefix() -> Arc<str> {
    match std::env::var("MC_METADATA_CLUSTER_ID") {
        Ok(cluster) if !cluster.is_empty() => Arc::from(format!("mooncake/{cluster}/")),
        _ => Arc::from("mooncake/"),
    }
}
