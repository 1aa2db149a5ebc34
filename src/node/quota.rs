//! Making room in a tenant's quota (behaviour 7.6, 9.3): a write that its quota has no room for evicts objects of
//! that tenant, the oldest first, and is tried again.
//!
//! Who goes is chosen and fenced as in `evict.rs`. The order of a tenant's objects is made by a walk over the table,
//! which is kept until it has nothing left, so that a tenant at its quota does not walk at every write; and where a
//! walk found nothing to take, the next one waits a moment.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::yield_now;

use super::MasterNode;
use super::error::NodeError;
use super::evict::Pass;
use crate::leader::evictor::EvictionOrder;
use crate::model::ids::SHARD_COUNT;
use crate::model::{ErrorCode, Tenant};
use crate::state::Reply;
use crate::state::command::{Command, Start, StartItem};
use crate::state::reply::Started;
use crate::state::transfer::TransferStarted;

/// How often a write is tried again after room was made.
const QUOTA_RETRIES: u32 = 2;

/// Tenants whose order is kept; one more drops all.
const ORDERS_MAX: usize = 64;

/// A tenant whose objects were all looked at in vain is not walked again before this.
const WALK_PAUSE: Duration = Duration::from_millis(50);

/// The order of a tenant's objects.
#[derive(Debug, Default)]
struct TenantOrder {
    order: EvictionOrder,
    /// The term in which it was made; another leader may have evicted since.
    term: u64,
    /// Monotonic time before which no new walk is made.
    no_walk_before: Duration,
}

/// What this node keeps for it, and its counts.
#[derive(Debug, Default)]
pub(super) struct QuotaRoom {
    /// One tenant makes room at a time.
    orders: tokio::sync::Mutex<BTreeMap<Tenant, TenantOrder>>,
    counts: Mutex<BTreeMap<Tenant, QuotaCounts>>,
}

/// Counts of one tenant, of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaCounts {
    /// Writes, copies and moves that were refused for want of quota.
    pub rejected: u64,
    /// Bytes evicted to make room.
    pub evicted_bytes: u64,
}

impl QuotaRoom {
    fn count(&self, tenant: &Tenant, change: impl FnOnce(&mut QuotaCounts)) {
        change(self.counts.lock().entry(tenant.clone()).or_default());
    }
}

impl MasterNode {
    /// Counts by tenant, of those that had any.
    pub fn quota_counts(&self) -> BTreeMap<Tenant, QuotaCounts> {
        self.inner.quota.counts.lock().clone()
    }

    /// Has the writes of a Put or Upsert started; what a tenant's quota has no room for is tried again after
    /// objects of the tenant were evicted.
    ///
    /// Errors: by cause, see [`NodeError`].
    pub async fn start_writes(
        &self,
        begin: fn(Start) -> Command,
        start: Start,
    ) -> Result<Vec<Started>, NodeError> {
        let begin = |start| self.settings().tiers.of_write(begin(start));
        if !self.settings().tenants.is_enabled {
            return started(self.propose(&begin(start)).await?);
        }
        let mut results = started(self.propose(&begin(start.clone())).await?)?;
        let tenant = start.tenant.clone().unwrap_or_default();
        for _ in 0..QUOTA_RETRIES {
            let (places, items, bytes) = self.without_quota(&tenant, &start, &results);
            if items.is_empty() || !self.make_quota_room(&tenant, bytes).await {
                break;
            }
            let again = Start { items, ..start.clone() };
            let again = self.propose(&begin(again)).await.map_err(|e| e.after_progress(true))?;
            for (at, result) in places.into_iter().zip(started(again)?) {
                if let Some(place) = results.get_mut(at) {
                    *place = result;
                }
            }
        }
        let is_rejected = |result: &&Started| **result == Err(ErrorCode::TenantQuotaExceeded);
        let rejected = results.iter().filter(is_rejected).count() as u64;
        if rejected > 0 {
            self.inner.quota.count(&tenant, |counts| counts.rejected += rejected);
        }
        Ok(results)
    }

    /// Has a copy or move of an object of `tenant` started. What its quota has no room for is refused at once:
    /// nothing is evicted for a further replica of what is there already.
    ///
    /// Errors: by cause, see [`NodeError`].
    pub async fn start_transfer(
        &self,
        tenant: &Tenant,
        start: &Command,
    ) -> Result<Result<TransferStarted, ErrorCode>, NodeError> {
        match self.propose(start).await? {
            Reply::Transfer(started) => {
                if matches!(started, Err(ErrorCode::TenantQuotaExceeded)) {
                    self.inner.quota.count(tenant, |counts| counts.rejected += 1);
                }
                Ok(started)
            }
            other => Err(NodeError::OutcomeUnknown(format!("a start was answered {other:?}"))),
        }
    }

    /// The items that were refused for want of quota, as far as the whole quota could hold them, and what they
    /// charge together.
    fn without_quota(
        &self,
        tenant: &Tenant,
        start: &Start,
        results: &[Started],
    ) -> (Vec<usize>, Vec<StartItem>, u64) {
        let quota = self.look(|state| state.quotas().effective(tenant));
        let (mut places, mut items, mut bytes) = (Vec::new(), Vec::new(), 0_u64);
        for (at, (item, result)) in start.items.iter().zip(results).enumerate() {
            let charge = item.size.saturating_mul(u64::from(start.config.replica_num));
            let is_refused = *result == Err(ErrorCode::TenantQuotaExceeded);
            if is_refused && bytes.saturating_add(charge) <= quota {
                bytes += charge;
                places.push(at);
                items.push(item.clone());
            }
        }
        (places, items, bytes)
    }

    /// Evicts objects of a tenant until it may be charged so many bytes more. Answers whether anything went, or
    /// nothing had to.
    async fn make_quota_room(&self, tenant: &Tenant, bytes: u64) -> bool {
        let Some(leader) = self.leader() else { return false };
        let mut orders = self.inner.quota.orders.lock().await;
        if orders.len() >= ORDERS_MAX && !orders.contains_key(tenant) {
            orders.clear();
        }
        let kept = orders.entry(tenant.clone()).or_default();
        if kept.term != leader.term {
            *kept = TenantOrder { term: leader.term, ..TenantOrder::default() };
        }
        let allows_soft_pinned = self.settings().eviction.allows_soft_pinned;
        // What is kept first; if that was not enough, a new walk.
        for is_new in [false, true] {
            let deficit = self.look(|state| state.quota_deficit(tenant, bytes, 0));
            if deficit == 0 {
                return true;
            }
            if is_new {
                if self.clock().monotonic() < kept.no_walk_before {
                    return false;
                }
                kept.order = self.order_of(tenant).await;
            }
            let now = self.clock().now(self.machine().view().clock());
            let pass = Pass::new(self, &leader, &mut kept.order, now);
            let passed = pass.run_for_bytes(deficit, allows_soft_pinned).await;
            self.inner.quota.count(tenant, |counts| counts.evicted_bytes += passed.bytes);
            if passed.bytes >= deficit {
                return true;
            }
            if is_new {
                kept.no_walk_before = self.clock().monotonic() + WALK_PAUSE;
                return passed.bytes > 0;
            }
        }
        false
    }

    async fn order_of(&self, tenant: &Tenant) -> EvictionOrder {
        let view = self.machine().view();
        let mut order = EvictionOrder::default();
        let Some(index) = view.tenant_idx(tenant) else { return order };
        for shard in 0..SHARD_COUNT {
            order.walk_chosen(view, shard, |object| object.tenant == index);
            yield_now().await;
        }
        order
    }
}

fn started(reply: Reply) -> Result<Vec<Started>, NodeError> {
    match reply {
        Reply::Starts(started) => Ok(started),
        other => Err(NodeError::OutcomeUnknown(format!("a start was answered {other:?}"))),
    }
}
