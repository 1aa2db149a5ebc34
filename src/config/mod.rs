//! Settings of a node: the table of flags, the layers they come from, and the checked result.
//!
//! [`load()`] turns command line, environment and file into a [`Config`], which is plain data that every
//! room may read. Guards that a bad setting is one sentence and never a panic, and that nothing is ignored
//! in silence. Printing is left to `cli`.

mod args;
mod dynamic;
mod error;
mod events;
mod file;
mod flags;
mod load;
mod quotas;
mod sections;
mod tiers;
mod validate;
mod value;

pub use args::Question;
pub use dynamic::{DynamicConfig, DynamicMode};
pub use error::ConfigError;
pub use events::{EVENTS_KEPT_MAX, EventsConfig};
pub(crate) use file::probe;
pub use flags::{FlagSpec, Group, Kind, Origin, Status, all as flags};
pub use load::{ENV_PREFIX, Loaded, Settings, load};
pub(crate) use quotas::probe_policies;
pub use quotas::{
    POLICY_FILE_BYTES_MAX, Policies, QUOTA_BYTES_MAX, parse_policies, parse_quota_bytes,
    read_policies, render_policies,
};
pub use sections::{
    AdminConfig, AllocationConfig, AllocationStrategy, ClientConfig, ClientRelease, Config,
    DISCOVERY_PORT_DEFAULT, DiscoveryConfig, Durability, EvictionConfig, HttpMetadataConfig,
    LeaseConfig, LogConfig, PPM_WHOLE, PeerAddress, RaftConfig, RestoreSurvival, RpcConfig, Secret,
    SnapshotConfig, SnapshotTaker, SoftPinConfig, StorageConfig, TaskConfig, TenantConfig,
    TenantConnector, WriteConfig, host_port,
};
pub use tiers::{SHARED_BYTES_UNLIMITED, TierConfig};
pub use validate::validate;
pub use value::parse_duration_ms;
