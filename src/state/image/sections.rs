//! What only a raft snapshot holds, in sections of the extension: the guard, the restore, its stage, tenants, how much
//! was told of objects coming and going, the tiers, drain jobs, dynamic replication.
//!
//! A section that is absent means the default, so raft snapshots of before the section are read. Catalog
//! snapshots have none of them: they are about this cluster, and a restore begins another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bincode::Options;
use mooncake_ha_snapshot::Extension;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::dynamic::{DYNAMIC, DynamicRecord};
use super::tiers::{TIERS, TierRecord};
use super::{FrozenState, ImageError};
use crate::model::{ObjectKey, SegmentId, Tenant};
use crate::state::State;
use crate::state::discards::{DiscardKey, Held};
use crate::state::guard::Guard;
use crate::state::presence::{Presence, PresenceCounts};
use crate::state::restore::{RestoreBegin, RestoreRecord, Stage};
use crate::state::table::table_hash;

const GUARD: &str = "guard";
const RESTORE: &str = "restore";
const TENANTS: &str = "tenants";
const PRESENCE: &str = "presence";
/// The jobs as they are; their types change only together with a new name.
const DRAINS: &str = "drains";
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

/// What the extension's policies do not say. Changed only together with a new section name.
#[derive(Default, Serialize, Deserialize)]
struct TenantRecord {
    is_enforced: bool,
    files: BTreeMap<u64, u64>,
    current: Option<u64>,
    /// What is charged for replaced content.
    replaced: Vec<(ObjectKey, u64)>,
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
        let tenants = TenantRecord {
            is_enforced: self.quotas.is_enforced,
            files: self.quotas.files.clone(),
            current: self.quotas.current,
            replaced: self.replaced.clone(),
        };
        sections.insert(TENANTS.to_owned(), encode(&tenants)?);
        if self.presence != PresenceCounts::default() {
            sections.insert(PRESENCE.to_owned(), encode(&self.presence)?);
        }
        let tiers = TierRecord::of(&self.tiers);
        sections.insert(TIERS.to_owned(), encode(&tiers)?);
        sections.insert(DRAINS.to_owned(), encode(&self.drains)?);
        let dynamic = DynamicRecord::of(self);
        if dynamic != DynamicRecord::default() {
            sections.insert(DYNAMIC.to_owned(), encode(&dynamic)?);
        }
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
    load_tenants(extension, state)?;
    // What loading the objects has counted is no change of this state.
    state.presence = Presence::default();
    state.presence.resume(decode(extension, PRESENCE)?);
    decode::<TierRecord>(extension, TIERS)?.put_back(state)?;
    state.drains = decode(extension, DRAINS)?;
    decode::<DynamicRecord>(extension, DYNAMIC)?.put_back(state)?;
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

/// Puts policies and what is charged for replaced content into a state whose objects are there already.
fn load_tenants(extension: &Extension, state: &mut State) -> Result<(), ImageError> {
    let damaged = |what: String| ImageError::Inconsistent(format!("section {TENANTS}: {what}"));
    let mut policies = BTreeMap::new();
    for told in &extension.tenant_policies {
        let tenant = Tenant::parse(&told.tenant).filter(|_| told.quota_bytes > 0);
        let bad = || damaged(format!("{:?} has no valid quota", told.tenant));
        policies.insert(tenant.ok_or_else(bad)?, told.quota_bytes);
    }
    state.set_policies(policies);
    let TenantRecord { is_enforced, files, current, replaced } = decode(extension, TENANTS)?;
    state.quotas.is_enforced = is_enforced;
    state.quotas.files = files;
    state.quotas.current = current;
    state.view.publish_enforced(is_enforced);
    for (name, bytes) in replaced {
        let tenant = state.tenant_idx(Some(&name.tenant));
        let hash = table_hash(&name.tenant, &name.key);
        let found = tenant
            .and_then(|tenant| Some((tenant, state.view.table.locate(hash, tenant, &name.key)?)));
        let missing = || damaged(format!("{name:?} is not there"));
        let (tenant, object) = found.ok_or_else(missing)?;
        state.ledger.keep_replaced(object, tenant, bytes);
    }
    Ok(())
}
