//! What only a raft snapshot holds, in sections of the extension: the guard, the restore, its stage.
//!
//! A section that is absent means the default, so raft snapshots of before the section are read. Catalog
//! snapshots have none of them: they are about this cluster, and a restore begins another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bincode::Options;
use mooncake_ha_snapshot::Extension;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{FrozenState, ImageError};
use crate::model::SegmentId;
use crate::state::State;
use crate::state::discards::{DiscardKey, Held};
use crate::state::guard::Guard;
use crate::state::restore::{RestoreBegin, RestoreRecord, Stage};

const GUARD: &str = "guard";
const RESTORE: &str = "restore";
/// Followed by a number: the parts of an open stage, some a section.
const PARTS: &str = "restore parts ";

/// Parts in one section: 128 MiB at most, well below what a section may have.
const PARTS_PER_SECTION: usize = 512;

/// Bytes of a section at most, so that a damaged length allocates nothing.
const SECTION_BYTES_MAX: u64 = 1 << 30;

/// Changed only together with a new section name.
#[derive(Default, Serialize, Deserialize)]
struct GuardRecord {
    guard: Guard,
    /// Position among the discards, and why it waits longer.
    held: Vec<(u64, Held)>,
}

/// Changed only together with a new section name.
#[derive(Default, Serialize, Deserialize)]
struct Restores {
    record: Option<RestoreRecord>,
    unclaimed: BTreeSet<SegmentId>,
    stage: Option<RestoreBegin>,
}

type Parts = Vec<(u32, Arc<[u8]>)>;

fn options() -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_limit(SECTION_BYTES_MAX)
}

fn encode(record: &impl Serialize) -> Result<Vec<u8>, bincode::Error> {
    options().serialize(record)
}

fn decode<T: DeserializeOwned + Default>(
    extension: &Extension,
    name: &str,
) -> Result<T, ImageError> {
    let Some(bytes) = extension.sections.get(name) else { return Ok(T::default()) };
    let damaged = |error| ImageError::Inconsistent(format!("section {name}: {error}"));
    options().deserialize(bytes).map_err(damaged)
}

impl FrozenState {
    pub(super) fn exact_sections(&self) -> Result<BTreeMap<String, Vec<u8>>, bincode::Error> {
        let mut sections = BTreeMap::new();
        let held = (0_u64..).zip(self.discards.iter());
        let held = held.filter_map(|(at, (_, discard))| Some((at, discard.held?))).collect();
        let guard = GuardRecord { guard: self.guard.clone(), held };
        sections.insert(GUARD.to_owned(), encode(&guard)?);
        let restores = Restores {
            record: self.restore.record.clone(),
            unclaimed: self.restore.unclaimed.clone(),
            stage: self.restore.stage.as_ref().map(|stage| stage.begin.clone()),
        };
        sections.insert(RESTORE.to_owned(), encode(&restores)?);
        let Some(stage) = &self.restore.stage else { return Ok(sections) };
        let parts: Vec<_> = stage.parts.iter().collect();
        for (number, parts) in parts.chunks(PARTS_PER_SECTION).enumerate() {
            sections.insert(format!("{PARTS}{number}"), encode(&parts)?);
        }
        Ok(sections)
    }
}

/// Puts what the sections hold into a state whose discards are there already.
pub(super) fn load(extension: &Extension, state: &mut State) -> Result<(), ImageError> {
    let GuardRecord { guard, held } = decode(extension, GUARD)?;
    state.guard = guard;
    let keys: Vec<DiscardKey> = state.discards.iter().map(|(key, _)| *key).collect();
    for (at, held) in held {
        let key = usize::try_from(at).ok().and_then(|at| keys.get(at));
        let missing = || ImageError::Inconsistent(format!("section {GUARD}: no discard {at}"));
        state.discards.set_held(*key.ok_or_else(missing)?, held);
    }
    let restores: Restores = decode(extension, RESTORE)?;
    state.restore.record = restores.record;
    state.restore.unclaimed = restores.unclaimed;
    let Some(begin) = restores.stage else { return Ok(()) };
    let mut parts = BTreeMap::new();
    for number in 0.. {
        let some: Parts = decode(extension, &format!("{PARTS}{number}"))?;
        if some.is_empty() {
            break;
        }
        parts.extend(some);
    }
    state.restore.stage = Some(Stage { begin, parts });
    Ok(())
}
