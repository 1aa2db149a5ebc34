//! Every metric once: name, kind, help. `docs/metrics.md` lists the same names.
//!
//! The peer's names come first and in the peer's order, so that dashboards and alerts made for it go on
//! working; what the peer has and this build lacks is shown as 0. A value that is collected under a name
//! missing here fails a test. Helps are our own words.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size; shown once something was counted, as on the peer.
    Histogram,
    /// A gauge with a label; shown while it has a value.
    Labelled,
    /// A counter with a label; shown once something was counted.
    LabelledCounter,
    /// A gauge that is shown only where it has a meaning.
    Some,
}

impl Kind {
    /// The name in a `# TYPE` line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter | Kind::LabelledCounter => "counter",
            Kind::Gauge | Kind::Labelled | Kind::Some => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// One line for the operator.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Spec {
    Spec { name, kind: Kind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Spec {
    Spec { name, kind: Kind::Gauge, help }
}

const fn histogram(name: &'static str, help: &'static str) -> Spec {
    Spec { name, kind: Kind::Histogram, help }
}

const fn labelled(name: &'static str, help: &'static str) -> Spec {
    Spec { name, kind: Kind::Labelled, help }
}

const fn labelled_counter(name: &'static str, help: &'static str) -> Spec {
    Spec { name, kind: Kind::LabelledCounter, help }
}

const fn some(name: &'static str, help: &'static str) -> Spec {
    Spec { name, kind: Kind::Some, help }
}

/// Names of tenants and their quotas, which the peer has, too; shown only where tenants are kept apart.
const TENANTS: &[Spec] = &[
    labelled(
        "mooncake_tenant_quota_requested_bytes",
        "bytes of a tenant's quota, as it was asked for",
    ),
    labelled(
        "mooncake_tenant_quota_effective_bytes",
        "bytes that a tenant may use: its quota, or its share if memory is less than all quotas",
    ),
    labelled(
        "mooncake_tenant_quota_charged_bytes",
        "bytes of a tenant's copies in memory, and of content that is being replaced",
    ),
    labelled("mooncake_tenant_quota_admission_closed", "1 for a tenant that has no quota any more"),
    labelled(
        "mooncake_tenant_quota_over_quota",
        "1 for a tenant that is charged more than it may use",
    ),
    labelled("mooncake_tenant_quota_explicit_policy", "1 for a tenant that has a quota"),
    some(
        "mooncake_tenant_quota_allocatable_capacity_bytes",
        "bytes of all mounted segments, which quotas share",
    ),
    some(
        "mooncake_tenant_quota_requested_bytes_sum",
        "bytes of all quotas, as they were asked for",
    ),
    some("mooncake_tenant_quota_effective_bytes_sum", "bytes that all tenants may use"),
    labelled_counter(
        "mooncake_tenant_quota_reject_total",
        "writes, copies and moves that a tenant's quota had no room for",
    ),
    labelled_counter(
        "mooncake_tenant_evict_bytes_total",
        "bytes of a tenant evicted to make room in its quota",
    ),
];

/// Names that the peer has, too.
pub const PEER: &[Spec] = &[
    gauge("master_allocated_bytes", "bytes in use on mounted segments, as requested by writers"),
    gauge("master_total_capacity_bytes", "bytes of all mounted segments"),
    labelled("segment_allocated_bytes", "bytes in use on the segments of this name"),
    labelled("segment_total_capacity_bytes", "bytes of the segments of this name"),
    gauge("master_nof_allocated_bytes", "always 0: there is no NVMe-oF pool"),
    gauge("master_total_nof_capacity_bytes", "always 0: there is no NVMe-oF pool"),
    gauge("master_allocated_file_size_bytes", "bytes of replicas on shared and local disks"),
    gauge("master_total_file_capacity_bytes", "bytes of disks, as far as they were told"),
    gauge("master_key_count", "objects, readable or not"),
    gauge(
        "master_soft_pin_key_count",
        "soft pins that are active: the length of the deadline index",
    ),
    gauge("master_active_clients", "clients that are alive"),
    histogram("master_value_size_bytes", "sizes of values whose write was started"),
    counter("master_exist_key_requests_total", "calls of ExistKey"),
    counter("master_exist_key_failures_total", "calls of ExistKey that failed"),
    counter("master_put_start_requests_total", "calls of PutStart and UpsertStart"),
    counter("master_put_start_failures_total", "calls of PutStart and UpsertStart that failed"),
    counter(
        "master_put_start_alloc_failures_total",
        "writes that found no room at all; survives restarts",
    ),
    counter(
        "master_put_start_partial_allocations_total",
        "writes that got fewer replicas than asked for; survives restarts",
    ),
    counter("master_put_end_requests_total", "calls of PutEnd and UpsertEnd"),
    counter("master_put_end_failures_total", "calls of PutEnd and UpsertEnd that failed"),
    counter("master_put_revoke_requests_total", "calls of PutRevoke and UpsertRevoke"),
    counter("master_put_revoke_failures_total", "calls of PutRevoke and UpsertRevoke that failed"),
    counter("master_get_replica_list_requests_total", "calls of GetReplicaList and /query_key"),
    counter(
        "master_get_replica_list_failures_total",
        "calls of GetReplicaList and /query_key that failed",
    ),
    counter("master_get_replica_list_by_regex_requests_total", "calls of GetReplicaListByRegex"),
    counter(
        "master_get_replica_list_by_regex_failures_total",
        "calls of GetReplicaListByRegex that failed",
    ),
    counter("master_remove_requests_total", "calls of Remove, with the keys of BatchRemove"),
    counter(
        "master_remove_failures_total",
        "calls of Remove, with the keys of BatchRemove that failed",
    ),
    counter("master_remove_by_regex_requests_total", "calls of RemoveByRegex"),
    counter("master_remove_by_regex_failures_total", "calls of RemoveByRegex that failed"),
    counter("master_remove_all_requests_total", "calls of RemoveAll"),
    counter("master_remove_all_failures_total", "calls of RemoveAll that failed"),
    counter("master_mount_segment_requests_total", "calls of MountSegment"),
    counter("master_mount_segment_failures_total", "calls of MountSegment that failed"),
    counter(
        "master_unmount_segment_requests_total",
        "calls of UnmountSegment and GracefulUnmountSegment",
    ),
    counter(
        "master_unmount_segment_failures_total",
        "calls of UnmountSegment and GracefulUnmountSegment that failed",
    ),
    counter("master_remount_segment_requests_total", "calls of ReMountSegment"),
    counter("master_remount_segment_failures_total", "calls of ReMountSegment that failed"),
    counter("master_ping_requests_total", "calls of Ping"),
    counter("master_ping_failures_total", "calls of Ping that failed"),
    counter("master_copy_start_requests_total", "calls of CopyStart"),
    counter("master_copy_start_failures_total", "calls of CopyStart that failed"),
    counter("master_copy_end_requests_total", "calls of CopyEnd"),
    counter("master_copy_end_failures_total", "calls of CopyEnd that failed"),
    counter("master_copy_revoke_requests_total", "calls of CopyRevoke"),
    counter("master_copy_revoke_failures_total", "calls of CopyRevoke that failed"),
    counter("master_move_start_requests_total", "calls of MoveStart"),
    counter("master_move_start_failures_total", "calls of MoveStart that failed"),
    counter("master_move_end_requests_total", "calls of MoveEnd"),
    counter("master_move_end_failures_total", "calls of MoveEnd that failed"),
    counter("master_move_revoke_requests_total", "calls of MoveRevoke"),
    counter("master_move_revoke_failures_total", "calls of MoveRevoke that failed"),
    counter(
        "master_evict_disk_replica_requests_total",
        "calls of EvictDiskReplica, with the keys of its batch",
    ),
    counter(
        "master_evict_disk_replica_failures_total",
        "calls of EvictDiskReplica, with the keys of its batch that failed",
    ),
    counter("master_create_copy_task_requests_total", "calls of CreateCopyTask"),
    counter("master_create_copy_task_failures_total", "calls of CreateCopyTask that failed"),
    counter("master_create_move_task_requests_total", "calls of CreateMoveTask"),
    counter("master_create_move_task_failures_total", "calls of CreateMoveTask that failed"),
    counter("master_update_task_requests_total", "calls of MarkTaskToComplete"),
    counter("master_update_task_failures_total", "calls of MarkTaskToComplete that failed"),
    counter("master_query_task_requests_total", "calls of QueryTask"),
    counter("master_query_task_failures_total", "calls of QueryTask that failed"),
    counter("master_fetch_tasks_requests_total", "calls of FetchTasks"),
    counter("master_fetch_tasks_failures_total", "calls of FetchTasks that failed"),
    counter("master_batch_exist_key_requests_total", "calls of BatchExistKey"),
    counter(
        "master_batch_exist_key_failures_total",
        "calls of BatchExistKey that failed in every item",
    ),
    counter(
        "master_batch_exist_key_partial_successes_total",
        "calls of BatchExistKey that failed in some items",
    ),
    counter("master_batch_exist_key_items_total", "items of BatchExistKey"),
    counter("master_batch_exist_key_failed_items_total", "failed items of BatchExistKey"),
    counter("master_batch_query_ip_requests_total", "calls of BatchQueryIp"),
    counter(
        "master_batch_query_ip_failures_total",
        "calls of BatchQueryIp that failed in every item",
    ),
    counter(
        "master_batch_query_ip_partial_successes_total",
        "calls of BatchQueryIp that failed in some items",
    ),
    counter("master_batch_query_ip_items_total", "items of BatchQueryIp"),
    counter("master_batch_query_ip_failed_items_total", "failed items of BatchQueryIp"),
    counter("master_batch_replica_clear_requests_total", "calls of BatchReplicaClear"),
    counter(
        "master_batch_replica_clear_failures_total",
        "calls of BatchReplicaClear that failed in every item",
    ),
    counter(
        "master_batch_replica_clear_partial_successes_total",
        "calls of BatchReplicaClear that failed in some items",
    ),
    counter("master_batch_replica_clear_items_total", "items of BatchReplicaClear"),
    counter("master_batch_replica_clear_failed_items_total", "failed items of BatchReplicaClear"),
    counter("master_batch_get_replica_list_requests_total", "calls of BatchGetReplicaList"),
    counter(
        "master_batch_get_replica_list_failures_total",
        "calls of BatchGetReplicaList that failed in every item",
    ),
    counter(
        "master_batch_get_replica_list_partial_successes_total",
        "calls of BatchGetReplicaList that failed in some items",
    ),
    counter("master_batch_get_replica_list_items_total", "items of BatchGetReplicaList"),
    counter(
        "master_batch_get_replica_list_failed_items_total",
        "failed items of BatchGetReplicaList",
    ),
    counter("master_batch_put_start_requests_total", "calls of BatchPutStart and BatchUpsertStart"),
    counter(
        "master_batch_put_start_failures_total",
        "calls of BatchPutStart and BatchUpsertStart that failed in every item",
    ),
    counter(
        "master_batch_put_start_partial_successes_total",
        "calls of BatchPutStart and BatchUpsertStart that failed in some items",
    ),
    counter("master_batch_put_start_items_total", "items of BatchPutStart and BatchUpsertStart"),
    counter(
        "master_batch_put_start_failed_items_total",
        "failed items of BatchPutStart and BatchUpsertStart",
    ),
    counter("master_batch_put_end_requests_total", "calls of BatchPutEnd and BatchUpsertEnd"),
    counter(
        "master_batch_put_end_failures_total",
        "calls of BatchPutEnd and BatchUpsertEnd that failed in every item",
    ),
    counter(
        "master_batch_put_end_partial_successes_total",
        "calls of BatchPutEnd and BatchUpsertEnd that failed in some items",
    ),
    counter("master_batch_put_end_items_total", "items of BatchPutEnd and BatchUpsertEnd"),
    counter(
        "master_batch_put_end_failed_items_total",
        "failed items of BatchPutEnd and BatchUpsertEnd",
    ),
    counter(
        "master_batch_put_revoke_requests_total",
        "calls of BatchPutRevoke and BatchUpsertRevoke",
    ),
    counter(
        "master_batch_put_revoke_failures_total",
        "calls of BatchPutRevoke and BatchUpsertRevoke that failed in every item",
    ),
    counter(
        "master_batch_put_revoke_partial_successes_total",
        "calls of BatchPutRevoke and BatchUpsertRevoke that failed in some items",
    ),
    counter("master_batch_put_revoke_items_total", "items of BatchPutRevoke and BatchUpsertRevoke"),
    counter(
        "master_batch_put_revoke_failed_items_total",
        "failed items of BatchPutRevoke and BatchUpsertRevoke",
    ),
    counter("mem_cache_hit_nums_", "reads answered with a memory replica first"),
    counter("file_cache_hit_nums_", "reads answered with a disk replica first"),
    counter("mem_cache_hit_bytes_total", "bytes of objects read from memory"),
    counter("file_cache_hit_bytes_total", "bytes of objects read from disk"),
    gauge("mem_cache_nums_", "objects with a finished memory replica"),
    gauge("file_cache_nums_", "objects with a finished disk replica"),
    counter("valid_get_nums_", "reads that found a finished replica"),
    counter("total_get_nums_", "reads"),
    counter("master_successful_evictions_total", "eviction rounds that freed something"),
    counter("master_attempted_evictions_total", "eviction rounds"),
    counter("master_evicted_key_count", "objects evicted"),
    counter("master_evicted_size_bytes", "bytes of evicted objects"),
    counter("master_successful_evictions_mem", "those of memory: here all of them"),
    counter("master_attempted_evictions_mem", "those of memory: here all of them"),
    counter("master_evicted_key_count_mem", "those of memory: here all of them"),
    counter("master_evicted_size_bytes_mem", "those of memory: here all of them"),
    counter(
        "master_put_start_discard_cnt",
        "unfinished writes that were set aside; survives restarts",
    ),
    counter(
        "master_put_start_release_cnt",
        "writes whose set-aside memory was given back; survives restarts",
    ),
    gauge(
        "master_put_start_discarded_staging_size",
        "memory bytes set aside for writers that may still be writing",
    ),
    gauge("master_promotion_in_flight", "promotions from disk to memory: in flight"),
    counter("master_promotion_admitted_total", "promotions from disk to memory: admitted"),
    counter("master_promotion_completed_total", "promotions from disk to memory: completed"),
    counter(
        "master_promotion_completed_bytes_total",
        "promotions from disk to memory: completed bytes",
    ),
    counter("master_promotion_expired_total", "promotions from disk to memory: expired"),
    counter("master_promotion_failed_total", "promotions from disk to memory: failed"),
    counter("master_promotion_cancelled_total", "promotions from disk to memory: cancelled"),
    counter(
        "master_promotion_rejected_frequency_total",
        "promotions from disk to memory: rejected frequency",
    ),
    counter(
        "master_promotion_rejected_watermark_total",
        "promotions from disk to memory: rejected watermark",
    ),
    counter("master_promotion_rejected_cap_total", "promotions from disk to memory: rejected cap"),
    counter(
        "master_promotion_candidate_recorded_total",
        "promotions from disk to memory: candidate recorded",
    ),
    counter(
        "master_promotion_candidate_admitted_total",
        "promotions from disk to memory: candidate admitted",
    ),
    counter(
        "master_promotion_candidate_admission_rejected_total",
        "promotions from disk to memory: candidate admission rejected",
    ),
    counter(
        "master_promotion_candidate_expired_evaluated_total",
        "promotions from disk to memory: candidate expired evaluated",
    ),
    counter(
        "master_promotion_candidate_expired_unevaluated_total",
        "promotions from disk to memory: candidate expired unevaluated",
    ),
    counter(
        "master_promotion_candidate_dropped_limit_total",
        "promotions from disk to memory: candidate dropped limit",
    ),
    gauge("ha_oplog_last_sequence_id", "newest entry of the raft log here"),
    gauge("ha_oplog_applied_sequence_id", "newest raft entry in the state here"),
    gauge("ha_oplog_standby_lag", "raft entries stored here and not yet in the state"),
    gauge("ha_oplog_pending_entries", "always 0: entries never arrive out of order"),
    gauge(
        "ha_pending_mutation_queue_size",
        "always 0: a write that is not in the log is not answered",
    ),
    gauge("ha_standby_state", "0 alone, 7 leading a cluster, 3 following, 5 looking for a leader"),
];

/// Names that only this master has.
pub const OWN: &[Spec] = &[
    gauge("master_deadline_index_size", "registrations in the soft-pin deadline index"),
    gauge("master_deadline_heap_size", "entries of its heap, stale ones included"),
    gauge(
        "master_soft_pins_due",
        "soft pins past their deadline that no sweep has ended yet; counted up to 1000",
    ),
    gauge("master_oldest_overdue_pin_ms", "how long the first of them is overdue; 0 if none is"),
    counter("master_soft_pins_expired_total", "soft pins ended by sweeps of this process"),
    counter("master_soft_pins_stale_total", "due registrations that no longer named a pin"),
    counter("master_sweeps_total", "sweeps proposed by this process"),
    gauge(
        "master_leased_objects",
        "objects under a read lease of this leader; of many objects, estimated from a part of them",
    ),
    gauge("master_object_groups", "groups with at least one member"),
    gauge("master_evictable_objects", "objects that eviction could take, leases and pins aside"),
    gauge("master_eviction_order_entries", "entries of the eviction order, at its last look"),
    counter("master_eviction_order_rebuilds_total", "walks over all objects to build that order"),
    gauge("master_segments", "mounted segments, whatever their status"),
    gauge("master_local_disks", "clients' disks that are registered"),
    gauge("master_offloads_in_flight", "objects on their way to a client's disk"),
    gauge("master_dynamic_replicas", "replicas in memory that dynamic replication has made"),
    gauge("master_dynamic_replication_reserved", "reserved copies that no client has started yet"),
    counter("master_dynamic_replication_hot_total", "times at which an object became hot"),
    counter("master_dynamic_replication_planned_total", "hot objects for which a copy was planned"),
    counter(
        "master_dynamic_replication_unplanned_total",
        "hot objects that were busy or resting, or had no segment to be copied to",
    ),
    counter(
        "master_dynamic_replication_refused_total",
        "planned copies that could not be reserved any more",
    ),
    counter("master_dynamic_replication_reserved_total", "copies that were reserved; replicated"),
    counter("master_dynamic_replication_started_total", "of those, copies that began; replicated"),
    counter("master_dynamic_replication_completed_total", "replicas that were made; replicated"),
    counter("master_dynamic_replication_completed_bytes_total", "bytes of them; replicated"),
    counter(
        "master_dynamic_replication_failed_total",
        "copies that began and made no replica; replicated",
    ),
    counter(
        "master_dynamic_replication_expired_total",
        "reservations that no client used in time; replicated",
    ),
    counter(
        "master_dynamic_replication_dropped_total",
        "reservations that had become void, or whose copy could not begin; replicated",
    ),
    gauge("master_known_clients", "clients that mounted a segment and have not expired"),
    gauge("master_metadata_keys", "keys of the HTTP metadata server"),
    counter("master_proposed_commands_total", "commands sent to the log by this process"),
    counter("master_proposed_entries_total", "log entries that carried them"),
    counter("master_proposed_bytes_total", "bytes of those entries"),
    counter(
        "master_proposal_failures_total",
        "entries that were refused or whose outcome is unknown",
    ),
    histogram("master_commands_per_entry", "commands packed into one entry"),
    histogram("master_commit_latency_us", "microseconds from proposing an entry to its replies"),
    histogram("master_apply_latency_us", "microseconds to apply an entry"),
    gauge("master_raft_is_leader", "1 while this node leads"),
    gauge(
        "master_raft_is_serving",
        "1 while this node leads and has applied what earlier leaders committed",
    ),
    gauge("master_raft_term", "newest term known here"),
    gauge("master_raft_members", "members of the cluster"),
    gauge("master_raft_last_index", "newest entry stored here"),
    gauge("master_raft_committed_index", "newest entry that will never be taken back"),
    gauge("master_raft_applied_index", "newest entry in the state"),
    gauge("master_raft_snapshot_index", "newest entry in the raft snapshot"),
    gauge("master_raft_purged_index", "newest entry that is no longer in the log"),
    gauge("master_raft_log_bytes", "bytes of entries in the log"),
    gauge("master_raft_log_blobs", "blob files of the log store; anything but 0 is unsafe"),
    gauge("master_raft_snapshot_bytes", "bytes of the raft snapshot"),
    gauge("master_raft_snapshot_failed", "1 if the last attempt to make a raft snapshot failed"),
    gauge("master_data_dir_bytes", "bytes of the data directory"),
    gauge("master_state_clock_ms", "state time: Unix milliseconds of the newest applied stamp"),
    gauge(
        "master_clock_gap_ms",
        "milliseconds by which the wall clock is ahead of the leader clock",
    ),
    counter("master_clock_steps_total", "steps of the wall clock seen by this process"),
    counter("master_snapshot_success", "catalog snapshots published by this process"),
    counter("master_snapshot_fail", "catalog snapshots that failed"),
    histogram("master_snapshot_duration_ms", "milliseconds that a catalog snapshot took"),
    gauge("master_rpc_connections", "client connections open now"),
    counter(
        "master_rpc_older_client_calls_total",
        "calls answered in a form that clients of 0.3.12 have and those of 0.3.13 have not",
    ),
    counter(
        "master_kv_event_batches_published_total",
        "messages with events that this process published while it led",
    ),
    counter("master_kv_events_published_total", "events in those messages"),
    counter(
        "master_kv_events_dropped_total",
        "events that were dropped before a slow subscriber was sent them",
    ),
    counter(
        "master_kv_events_unparsed_keys_total",
        "published events about keys that are no numbers",
    ),
    gauge("master_kv_event_subscribers", "connections to the publisher of events"),
    gauge("master_kv_event_sequence", "number of the newest message with events; replicated"),
    gauge("process_resident_memory_bytes", "memory of this process in RAM"),
    gauge("process_resident_memory_peak_bytes", "the most it has ever been"),
    gauge("process_open_fds", "open file descriptors"),
    gauge("process_uptime_seconds", "seconds since the process started"),
    labelled("mooncake_ha_build_info", "1, with the version as label"),
];

/// Every metric, in the order in which it is shown.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    PEER.iter().chain(TENANTS).chain(OWN)
}
