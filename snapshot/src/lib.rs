//! Snapshots of the object table: values, bytes, where they are kept, and what of them survives a
//! restore.
//!
//! Layers, lower first: [`image`] (plain values), `codec` (the peer's files and our extension),
//! `settle` and `table` (what must hold across a whole image), [`store`] (where files lie),
//! [`catalog`] (which snapshots there are), `normalize` and [`mod@restore`] (a cold restore). No Raft,
//! no async, no live state, no clock: times come in as arguments.

pub mod catalog;
pub mod codec;
pub mod diff;
pub mod error;
pub mod finding;
pub mod halves;
pub mod image;
pub mod normalize;
pub mod placement;
pub mod restore;
pub mod settle;
pub mod store;
pub mod summary;
pub mod table;

pub use catalog::{Catalog, Listed, Retired, SnapshotId, SnapshotIndex};
pub use codec::container::{read_container, write_container};
#[doc(hidden)]
pub use codec::probes::PROBES;
pub use codec::{
    DecodedShard, Decoder, EncodedShard, Limits, Payloads, ShardEncoder, SnapshotEncoder,
    decode_exact, encode_image, encode_image_on_two,
};
pub use diff::{Change, Difference, Differences};
pub use error::{SnapshotError, SnapshotFile};
pub use finding::{DropReason, Effect, Finding, Findings, Tally};
pub use halves::in_halves;
pub use image::*;
pub use normalize::{Normalized, Survival, normalize};
pub use restore::{
    CandidateReport, Outcome, RestoreOptions, RestoreReport, Restored, Trial, restore, verify,
};
pub use settle::{Decoded, decode_image, refit_allocators};
pub use summary::Summary;
