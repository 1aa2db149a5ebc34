//! Every value at one moment: gauges computed from the state and from Raft, counters read.
//!
//! The state is looked at under its lock for a moment, with work in proportion to the number of segments and
//! clients, never of objects. Call it where blocking is allowed: it reads the sizes of some files.

use std::collections::BTreeMap;
use std::time::Duration;

use mooncake_ha_raft::{Role, Status};

use crate::metrics::Metrics;
use crate::metrics::text::{Value, Values};
use crate::model::Deadline;
use crate::model::ids::SHARD_COUNT;
use crate::node::MasterNode;
use crate::state::State;
use crate::state::tenants::Account;

/// Overdue pins are counted up to here.
const DUE_COUNTED_MAX: usize = 1_000;

/// Objects that are looked at for the count of read leases. Of more objects a part is looked at.
const LEASE_LOOKS_MAX: u64 = 20_000;

/// Values of the state of the peer's standby (behaviour 13.2).
const ALONE: u64 = 0;
const WATCHING: u64 = 3;
const RECONNECTING: u64 = 5;
const PROMOTED: u64 = 7;

/// Collects everything. Without a node (it is being opened) only the process's own values.
pub fn collect(metrics: &Metrics, node: Option<&MasterNode>, uptime: Duration) -> Values {
    let mut values = metrics.collect();
    values.number("process_uptime_seconds", uptime.as_secs());
    let version = [(env!("CARGO_PKG_VERSION").to_owned(), 1)].into_iter().collect();
    values.set("mooncake_ha_build_info", Value::By("version", version));
    if let Some(node) = node {
        let status = node.status();
        collect_state(node, &mut values);
        collect_tiers(node, &mut values);
        collect_dynamic(node, &mut values);
        collect_pins(node, &mut values);
        collect_leases(node, &mut values);
        collect_work(node, &mut values);
        collect_tenants(node, &mut values);
        collect_raft(&status, &mut values);
        collect_peer_ha(&status, &mut values);
    }
    values
}

fn collect_state(node: &MasterNode, values: &mut Values) {
    node.look(|state: &State| {
        let (used, capacity) = state.segments().memory_usage();
        let (totals, counters) = (state.totals(), state.counters());
        for (name, value) in [
            ("master_allocated_bytes", used),
            ("master_total_capacity_bytes", capacity),
            ("master_allocated_file_size_bytes", totals.file_bytes),
            ("master_key_count", totals.keys),
            ("mem_cache_nums_", totals.memory_cached),
            ("master_evictable_objects", totals.evictable),
            ("file_cache_nums_", totals.file_cached),
            ("master_active_clients", state.clients().alive().count() as u64),
            ("master_known_clients", state.clients().iter().count() as u64),
            ("master_segments", state.segments().len() as u64),
            ("master_metadata_keys", state.metadata().iter().count() as u64),
            ("master_put_start_discarded_staging_size", state.discards().staged_bytes()),
            ("master_put_start_discard_cnt", counters.discards),
            ("master_put_start_release_cnt", counters.releases),
            ("master_put_start_partial_allocations_total", counters.partial_allocations),
            ("master_put_start_alloc_failures_total", counters.allocation_failures),
            ("master_state_clock_ms", state.clock().0),
            ("master_kv_event_sequence", state.presence().counts().batches),
        ] {
            values.number(name, value);
        }
        let (mut by_use, mut by_size) = (BTreeMap::new(), BTreeMap::new());
        let readable = state.segments().iter().filter(|(_, m)| m.status.is_readable());
        for (_, mounted) in readable {
            let name = mounted.segment.name.to_string();
            *by_use.entry(name.clone()).or_default() += mounted.allocator.used_bytes();
            *by_size.entry(name).or_default() += mounted.segment.size;
        }
        values.set("segment_allocated_bytes", Value::By("segment", by_use));
        values.set("segment_total_capacity_bytes", Value::By("segment", by_size));
    });
}

fn collect_tiers(node: &MasterNode, values: &mut Values) {
    let shared = node.settings().tiers.shared_bytes;
    node.look(|state: &State| {
        let tiers = state.tiers();
        let counters = tiers.counters();
        let capacity = shared.saturating_add(tiers.disks().capacity_bytes());
        for (name, value) in [
            ("master_total_file_capacity_bytes", capacity),
            ("master_local_disks", tiers.disks().iter().count() as u64),
            ("master_offloads_in_flight", tiers.offloads().len() as u64),
            ("master_promotion_in_flight", tiers.promotions().len() as u64),
            ("master_promotion_admitted_total", counters.admitted),
            ("master_promotion_completed_total", counters.completed),
            ("master_promotion_completed_bytes_total", counters.completed_bytes),
            ("master_promotion_expired_total", counters.expired),
            ("master_promotion_failed_total", counters.failed),
            ("master_promotion_cancelled_total", counters.cancelled),
        ] {
            values.number(name, value);
        }
    });
    let stats = node.promotion_stats();
    for (name, counter) in [
        ("master_promotion_rejected_frequency_total", &stats.rejected_frequency),
        ("master_promotion_rejected_watermark_total", &stats.rejected_watermark),
        ("master_promotion_rejected_cap_total", &stats.rejected_cap),
        ("master_promotion_candidate_recorded_total", &stats.recorded),
        ("master_promotion_candidate_admitted_total", &stats.candidates_admitted),
        ("master_promotion_candidate_admission_rejected_total", &stats.candidates_rejected),
        ("master_promotion_candidate_expired_evaluated_total", &stats.expired_tried),
        ("master_promotion_candidate_expired_unevaluated_total", &stats.expired_untried),
        ("master_promotion_candidate_dropped_limit_total", &stats.dropped_limit),
    ] {
        values.count(name, counter);
    }
}

fn collect_dynamic(node: &MasterNode, values: &mut Values) {
    node.look(|state: &State| {
        let (dynamic, counters) = (state.dynamic(), state.dynamic().counters());
        for (name, value) in [
            ("replicas", dynamic.replicas() as u64),
            ("replication_reserved", dynamic.reserved() as u64),
            ("replication_reserved_total", counters.reserved),
            ("replication_started_total", counters.started),
            ("replication_completed_total", counters.completed),
            ("replication_completed_bytes_total", counters.completed_bytes),
            ("replication_failed_total", counters.failed),
            ("replication_expired_total", counters.expired),
            ("replication_dropped_total", counters.dropped),
        ] {
            values.number(format!("master_dynamic_{name}"), value);
        }
    });
    let stats = node.dynamic_stats();
    for (name, counter) in [
        ("master_dynamic_replication_hot_total", &stats.hot),
        ("master_dynamic_replication_planned_total", &stats.planned),
        ("master_dynamic_replication_unplanned_total", &stats.unplanned),
        ("master_dynamic_replication_refused_total", &stats.refused),
    ] {
        values.count(name, counter);
    }
}

fn collect_pins(node: &MasterNode, values: &mut Values) {
    let next = node.machine().next_deadline();
    let now = node.clock().now(node.machine().view().clock());
    let overdue = next.filter(|deadline| deadline.is_reached(now));
    let is_due = |(deadline, _): &(Deadline, _)| deadline.is_reached(now);
    let due = node.look(|state| {
        let index = state.deadlines();
        values.number("master_soft_pin_key_count", index.len() as u64);
        values.number("master_deadline_index_size", index.len() as u64);
        values.number("master_deadline_heap_size", index.heap_len() as u64);
        // Only while a sweep is late is there anything to count.
        match overdue {
            Some(_) => index.first_live(DUE_COUNTED_MAX).iter().filter(|pin| is_due(pin)).count(),
            None => 0,
        }
    });
    values.number("master_soft_pins_due", due as u64);
    let late = overdue.map_or(0, |deadline| now.0.saturating_sub(deadline.0));
    values.number("master_oldest_overdue_pin_ms", late);
}

/// Counts objects under a read lease: nobody counts them as they are granted, because that would cost every
/// read. Bounded work, whatever the number of objects.
fn collect_leases(node: &MasterNode, values: &mut Values) {
    let view = node.machine().view();
    let now = node.clock().now(view.clock());
    let keys = node.look(|state| state.totals().keys);
    let shards = SHARD_COUNT as u64;
    let looked_at = (LEASE_LOOKS_MAX * shards / keys.max(1)).clamp(1, shards);
    let is_leased = |at, object: &_| view.lease_end(at, object) > now;
    let counts = (0..SHARD_COUNT).take(usize::try_from(looked_at).unwrap_or(SHARD_COUNT));
    let leased: usize = counts.map(|shard| view.table.count_in_shard(shard, is_leased)).sum();
    values.number("master_leased_objects", leased as u64 * shards / looked_at);
    values.number("master_object_groups", view.groups.len() as u64);
}

fn collect_work(node: &MasterNode, values: &mut Values) {
    let (propose, sweeps) = (node.propose_stats(), node.sweep_stats());
    let evictions = node.eviction_stats();
    for (name, counter) in [
        ("master_proposed_commands_total", &propose.commands),
        ("master_proposed_entries_total", &propose.entries),
        ("master_proposed_bytes_total", &propose.bytes),
        ("master_proposal_failures_total", &propose.failures),
        ("master_soft_pins_expired_total", &sweeps.pins_expired),
        ("master_soft_pins_stale_total", &sweeps.pins_stale),
        ("master_sweeps_total", &sweeps.sweeps),
        ("master_successful_evictions_total", &evictions.successful),
        ("master_attempted_evictions_total", &evictions.attempted),
        ("master_evicted_key_count", &evictions.evicted_keys),
        ("master_evicted_size_bytes", &evictions.evicted_bytes),
        // Everything that is evicted is memory.
        ("master_successful_evictions_mem", &evictions.successful),
        ("master_attempted_evictions_mem", &evictions.attempted),
        ("master_evicted_key_count_mem", &evictions.evicted_keys),
        ("master_evicted_size_bytes_mem", &evictions.evicted_bytes),
        ("master_eviction_order_entries", &evictions.order_entries),
        ("master_eviction_order_rebuilds_total", &evictions.rebuilds),
    ] {
        values.count(name, counter);
    }
    for (name, histogram) in [
        ("master_commands_per_entry", &propose.batches),
        ("master_commit_latency_us", &propose.commit),
        ("master_apply_latency_us", node.machine().apply_times()),
    ] {
        values.set(name, Value::Histogram(histogram.view()));
    }
    values.set("master_clock_gap_ms", Value::Signed(node.clock().gap_ms()));
    values.number("master_clock_steps_total", node.clock().steps());
}

/// A number of a tenant.
type Amount = fn(&Account) -> u64;

/// Quotas of tenants, where they are kept apart.
fn collect_tenants(node: &MasterNode, values: &mut Values) {
    if !node.settings().tenants.is_enabled {
        return;
    }
    let (accounts, capacity) = node.look(|state| (state.accounts(), state.quotas().capacity()));
    let rows: [(&str, Amount); 6] = [
        ("requested_bytes", |account| account.requested),
        ("effective_bytes", |account| account.effective),
        ("charged_bytes", |account| account.usage.charged),
        ("admission_closed", |account| u64::from(!account.has_policy)),
        ("over_quota", |account| u64::from(account.is_over_quota())),
        ("explicit_policy", |account| u64::from(account.has_policy)),
    ];
    let name_of = |account: &Account| account.tenant.name().to_owned();
    for (name, value) in rows {
        let by = accounts.iter().map(|account| (name_of(account), value(account))).collect();
        values.set(format!("mooncake_tenant_quota_{name}"), Value::By("tenant_id", by));
    }
    let sum = |value: Amount| accounts.iter().map(value).fold(0, u64::saturating_add);
    for (name, value) in [
        ("allocatable_capacity_bytes", capacity),
        ("requested_bytes_sum", sum(|account| account.requested)),
        ("effective_bytes_sum", sum(|account| account.effective)),
    ] {
        values.number(format!("mooncake_tenant_quota_{name}"), value);
    }
    let (mut rejected, mut evicted) = (BTreeMap::new(), BTreeMap::new());
    for (tenant, counts) in node.quota_counts() {
        let name = tenant.name().to_owned();
        rejected.extend((counts.rejected > 0).then(|| (name.clone(), counts.rejected)));
        evicted.extend((counts.evicted_bytes > 0).then_some((name, counts.evicted_bytes)));
    }
    let reason = ("reason", "quota_exceeded");
    let rejected = Value::ByWith("tenant_id", rejected, reason);
    values.set("mooncake_tenant_quota_reject_total", rejected);
    values.set("mooncake_tenant_evict_bytes_total", Value::By("tenant_id", evicted));
}

fn collect_raft(status: &Status, values: &mut Values) {
    let log = &status.log;
    for (name, value) in [
        ("master_raft_is_leader", u64::from(matches!(status.role, Role::Leader { .. }))),
        ("master_raft_is_serving", u64::from(status.role.is_ready_leader())),
        ("master_raft_term", status.term),
        ("master_raft_members", status.members.len() as u64),
        ("master_raft_last_index", log.last.unwrap_or(0)),
        ("master_raft_committed_index", log.committed.unwrap_or(0)),
        ("master_raft_applied_index", log.applied.unwrap_or(0)),
        ("master_raft_snapshot_index", log.snapshot.unwrap_or(0)),
        ("master_raft_purged_index", log.purged.unwrap_or(0)),
        ("master_raft_log_bytes", status.log_bytes),
        ("master_raft_log_blobs", status.log_blobs),
        ("master_raft_snapshot_bytes", status.snapshot_bytes),
        ("master_raft_snapshot_failed", u64::from(status.snapshot_error.is_some())),
        ("master_data_dir_bytes", status.data_dir_bytes),
    ] {
        values.number(name, value);
    }
}

/// What the peer shows of its own replication, with our nearest meaning.
fn collect_peer_ha(status: &Status, values: &mut Values) {
    let (last, applied) = (status.log.last.unwrap_or(0), status.log.applied.unwrap_or(0));
    values.number("ha_oplog_last_sequence_id", last);
    values.number("ha_oplog_applied_sequence_id", applied);
    values.number("ha_oplog_standby_lag", last.saturating_sub(applied));
    let standby = match &status.role {
        _ if status.members.len() < 2 => ALONE,
        Role::Leader { .. } => PROMOTED,
        Role::Follower { leader: Some(_), .. } => WATCHING,
        Role::Follower { leader: None, .. } => RECONNECTING,
    };
    values.number("ha_standby_state", standby);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Config;
    use crate::metrics::names;
    use crate::node::settings::NodeSettings;

    #[tokio::test(flavor = "multi_thread")]
    async fn everything_that_is_collected_has_a_name_and_every_own_name_has_a_value() {
        let dir = tempfile::tempdir().unwrap();
        let raft = mooncake_ha_raft::Config::new(1, "c", dir.path());
        let settings = NodeSettings::new(&Config::default(), "h:1", "h:2");
        let clock = Arc::new(SystemClock::default());
        let node = MasterNode::open(raft, settings, clock).await.unwrap();
        let values = collect(&Metrics::default(), Some(&node), Duration::from_secs(5));
        for name in values.names() {
            assert!(names::all().any(|spec| spec.name == name), "{name} is not in names.rs");
        }
        for spec in names::OWN {
            assert!(values.names().any(|name| name == spec.name), "{} has no value", spec.name);
        }
        assert_eq!(values.get("master_raft_is_serving"), 1);
        assert_eq!(values.get("ha_standby_state"), 0);
        assert_eq!(values.get("process_uptime_seconds"), 5);
        node.shutdown().await;
    }
}
