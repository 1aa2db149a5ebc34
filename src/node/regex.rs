//! The bulk calls by pattern: which keys match, read them, remove them.
//!
//! Patterns are matched at the leader, so the log never sees one and two versions of this program cannot
//! disagree about it. The scan runs on a thread of its own and copies the keys of a shard before it matches
//! them, so no lock is held while a pattern works and no other call waits for it.

mod pattern;

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::MasterNode;
use super::error::NodeError;
use super::read::{FindReplicas, Found};
use crate::model::ids::SHARD_COUNT;
use crate::model::{ErrorCode, Millis, Object, Tenant};
pub(crate) use pattern::probe;
use pattern::{BadPattern, KeyPattern};

/// Scans at a time; a further call waits for its turn.
const SCANS_MAX: usize = 2;

/// Time that one scan may take. Longer means a pattern that is slow on each of very many keys, and is refused.
const SCAN_TIME_MAX: Duration = Duration::from_secs(20);

/// Keys matched between two looks at the clock.
const KEYS_PER_LOOK: usize = 256;

/// Keys read in one go; other calls run in between.
const READS_PER_STEP: usize = 512;

/// Keys of one command of a bulk removal, and commands of it in flight: other commands wait behind them, so
/// both are small.
const KEYS_PER_REMOVAL: usize = 128;
const REMOVALS_IN_FLIGHT_MAX: usize = 2;

static SCANS: Semaphore = Semaphore::const_new(SCANS_MAX);

/// What a call by pattern answers: the inner error is a refusal of the pattern.
type ByPattern<T> = Result<Result<T, ErrorCode>, NodeError>;

/// The keys of one shard, one behind the other.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }
}

impl MasterNode {
    /// The readable keys of a tenant in which a pattern is found, each under a read lease, ascending.
    ///
    /// Errors: inner `InvalidParams` for a bad pattern or one that takes too long; the node cannot serve.
    pub async fn find_by_regex(
        &self,
        tenant: &Tenant,
        pattern: &[u8],
    ) -> ByPattern<Vec<(Vec<u8>, Found)>> {
        self.leader_guard().await?;
        let keys = match self.matching(tenant, pattern, |object| object.has_complete()).await? {
            Ok(keys) => keys,
            Err(code) => return Ok(Err(code)),
        };
        let mut all = Vec::with_capacity(keys.len());
        let mut keys = keys.into_iter();
        loop {
            let step: Vec<Vec<u8>> = keys.by_ref().take(READS_PER_STEP).collect();
            if step.is_empty() {
                return Ok(Ok(all));
            }
            let wanted: Vec<&[u8]> = step.iter().map(Vec::as_slice).collect();
            let found = self.read_many::<FindReplicas>(tenant, &wanted).await?;
            let readable = step.into_iter().zip(found).filter_map(|(key, f)| Some((key, f.ok()?)));
            all.extend(readable);
            tokio::task::yield_now().await;
        }
    }

    /// Removes the objects of a tenant in whose key a pattern is found; leased ones only with `force`,
    /// unfinished and busy ones never. Returns how many went.
    ///
    /// Errors: inner `InvalidParams` as above, with nothing removed; the node cannot serve, and what was
    /// removed until then stays removed.
    pub async fn remove_by_regex(
        &self,
        tenant: &Tenant,
        pattern: &[u8],
        force: bool,
    ) -> ByPattern<u64> {
        let now = self.leader_guard().await?.now();
        let is_open = move |object: &Object| is_removable(object, now, force);
        match self.matching(tenant, pattern, is_open).await? {
            Ok(keys) => Ok(Ok(self.remove_found(tenant, keys, force).await?)),
            Err(code) => Ok(Err(code)),
        }
    }

    /// Removes keys, several commands at a time, and counts those that went.
    async fn remove_found(
        &self,
        tenant: &Tenant,
        keys: Vec<Vec<u8>>,
        force: bool,
    ) -> Result<u64, NodeError> {
        let (mut removed, mut failed) = (0, None);
        let mut chunks = keys.chunks(KEYS_PER_REMOVAL).map(<[_]>::to_vec);
        let mut removals = JoinSet::new();
        loop {
            while removals.len() < REMOVALS_IN_FLIGHT_MAX
                && failed.is_none()
                && let Some(chunk) = chunks.next()
            {
                let (node, tenant) = (self.clone(), tenant.clone());
                removals.spawn(async move { node.remove_of_many(&tenant, chunk, force).await });
            }
            // Every removal is waited for, even after one failed: it would leave its fences standing.
            match removals.join_next().await {
                Some(Ok(Ok(results))) => removed += results.iter().filter(|r| r.is_ok()).count(),
                Some(Ok(Err(error))) => failed = Some(error),
                Some(Err(error)) => failed = Some(NodeError::OutcomeUnknown(error.to_string())),
                None => break,
            }
        }
        match failed {
            Some(error) => Err(error.after_progress(removed > 0)),
            None => Ok(removed as u64),
        }
    }

    /// The keys of chosen objects in which a pattern is found, ascending.
    async fn matching(
        &self,
        tenant: &Tenant,
        pattern: &[u8],
        is_chosen: impl Fn(&Object) -> bool + Send + 'static,
    ) -> ByPattern<Vec<Vec<u8>>> {
        let Ok(pattern) = KeyPattern::parse(pattern) else {
            return Ok(Err(ErrorCode::InvalidParams));
        };
        let Some(tenant) = self.machine().view().tenant_idx(tenant) else {
            return Ok(Ok(Vec::new()));
        };
        let is_chosen = move |object: &Object| object.tenant == tenant && is_chosen(object);
        let stopped = |_| NodeError::Unavailable("the node stops".into());
        let turn = SCANS.acquire().await.map_err(stopped)?;
        let node = self.clone();
        let scan = tokio::task::spawn_blocking(move || node.scan(&pattern, &is_chosen));
        let found = scan.await.map_err(|error| NodeError::Unavailable(error.to_string()))?;
        drop(turn);
        Ok(found.map_err(|BadPattern| ErrorCode::InvalidParams))
    }

    fn scan(
        &self,
        pattern: &KeyPattern,
        is_chosen: &impl Fn(&Object) -> bool,
    ) -> Result<Vec<Vec<u8>>, BadPattern> {
        let view = self.machine().view();
        let give_up = self.clock().monotonic() + SCAN_TIME_MAX;
        let mut found = Vec::new();
        for shard in 0..SHARD_COUNT {
            let keys = view.table.look_shard(shard, |shard| {
                let mut keys = Keys::default();
                let chosen = shard.objects().filter(|object| is_chosen(object));
                chosen.for_each(|object| keys.push(&object.key));
                keys
            });
            for (at, key) in keys.unwrap_or_default().iter().enumerate() {
                if at % KEYS_PER_LOOK == 0 && self.clock().monotonic() > give_up {
                    tracing::warn!(limit = ?SCAN_TIME_MAX, "a pattern took too long and is refused");
                    return Err(BadPattern);
                }
                if pattern.is_in(key)? {
                    found.push(key.to_vec());
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// Whether a removal of the object could succeed now; asked to spare the log what would be refused.
pub(super) fn is_removable(object: &Object, now: Millis, force: bool) -> bool {
    object.is_all_complete() && (force || object.lease.end() <= now)
}
