//! Which functions count under which of the peer's names (behaviour 13.2).
//!
//! Several functions share a name where the peer does not tell them apart; BatchRemove counts its keys as if
//! each had been removed alone.

use std::sync::atomic::{AtomicU64, Ordering};

use super::rpc::{FunctionCounters, RpcCounters};
use super::text::Values;
use crate::wire::Function;

/// How a function's calls are counted.
enum Count {
    /// Calls and failed calls.
    Calls,
    /// Calls, parts and items.
    Batches,
    /// Items as if each were a call.
    Items,
}

use Count::{Batches, Calls, Items};

const FAMILIES: &[(Function, Count, &str)] = &[
    (Function::ExistKey, Calls, "exist_key"),
    (Function::PutStart, Calls, "put_start"),
    (Function::UpsertStart, Calls, "put_start"),
    (Function::PutEnd, Calls, "put_end"),
    (Function::UpsertEnd, Calls, "put_end"),
    (Function::PutRevoke, Calls, "put_revoke"),
    (Function::UpsertRevoke, Calls, "put_revoke"),
    (Function::GetReplicaList, Calls, "get_replica_list"),
    (Function::GetReplicaListByRegex, Calls, "get_replica_list_by_regex"),
    (Function::Remove, Calls, "remove"),
    (Function::BatchRemove, Items, "remove"),
    (Function::RemoveByRegex, Calls, "remove_by_regex"),
    (Function::RemoveAll, Calls, "remove_all"),
    (Function::MountSegment, Calls, "mount_segment"),
    (Function::UnmountSegment, Calls, "unmount_segment"),
    (Function::GracefulUnmountSegment, Calls, "unmount_segment"),
    (Function::ReMountSegment, Calls, "remount_segment"),
    (Function::Ping, Calls, "ping"),
    (Function::CopyStart, Calls, "copy_start"),
    (Function::DynamicReplicaCopyStart, Calls, "copy_start"),
    (Function::CopyEnd, Calls, "copy_end"),
    (Function::DynamicReplicaCopyEnd, Calls, "copy_end"),
    (Function::CopyRevoke, Calls, "copy_revoke"),
    (Function::DynamicReplicaCopyRevoke, Calls, "copy_revoke"),
    (Function::MoveStart, Calls, "move_start"),
    (Function::MoveEnd, Calls, "move_end"),
    (Function::MoveRevoke, Calls, "move_revoke"),
    (Function::EvictDiskReplica, Calls, "evict_disk_replica"),
    (Function::BatchEvictDiskReplica, Items, "evict_disk_replica"),
    (Function::CreateCopyTask, Calls, "create_copy_task"),
    (Function::CreateMoveTask, Calls, "create_move_task"),
    (Function::MarkTaskToComplete, Calls, "update_task"),
    (Function::QueryTask, Calls, "query_task"),
    (Function::FetchTasks, Calls, "fetch_tasks"),
    (Function::BatchExistKey, Batches, "batch_exist_key"),
    (Function::BatchQueryIp, Batches, "batch_query_ip"),
    (Function::BatchReplicaClear, Batches, "batch_replica_clear"),
    (Function::BatchGetReplicaList, Batches, "batch_get_replica_list"),
    (Function::BatchPutStart, Batches, "batch_put_start"),
    (Function::BatchUpsertStart, Batches, "batch_put_start"),
    (Function::BatchPutEnd, Batches, "batch_put_end"),
    (Function::BatchUpsertEnd, Batches, "batch_put_end"),
    (Function::BatchPutRevoke, Batches, "batch_put_revoke"),
    (Function::BatchUpsertRevoke, Batches, "batch_put_revoke"),
];

/// Adds the counts of every function under the peer's names.
pub(super) fn collect(counters: &RpcCounters, values: &mut Values) {
    for (function, count, family) in FAMILIES {
        let Some(counted) = counters.of(*function) else { continue };
        for (suffix, counter) in counts(count, counted) {
            values.add(format!("master_{family}_{suffix}_total"), counter.load(Ordering::Relaxed));
        }
    }
}

fn counts<'a>(
    count: &Count,
    counted: &'a FunctionCounters,
) -> impl Iterator<Item = (&'static str, &'a AtomicU64)> {
    let FunctionCounters { requests, failures, partial_successes, items, failed_items } = counted;
    let named = match count {
        Calls => vec![("requests", requests), ("failures", failures)],
        Items => vec![("requests", items), ("failures", failed_items)],
        Batches => vec![
            ("requests", requests),
            ("failures", failures),
            ("partial_successes", partial_successes),
            ("items", items),
            ("failed_items", failed_items),
        ],
    };
    named.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::names;

    #[test]
    fn functions_count_under_the_peers_names_and_share_them_as_there() {
        let counters = RpcCounters::default();
        counters.record(Function::Remove, 1, 0);
        counters.record(Function::BatchRemove, 5, 2);
        counters.record(Function::UpsertStart, 1, 1);
        counters.record(Function::PutStart, 1, 0);
        counters.record(Function::BatchExistKey, 3, 1);
        counters.record(Function::BatchExistKey, 2, 2);
        let mut values = Values::default();
        collect(&counters, &mut values);
        assert_eq!(values.get("master_remove_requests_total"), 6);
        assert_eq!(values.get("master_remove_failures_total"), 2);
        assert_eq!(values.get("master_put_start_requests_total"), 2);
        assert_eq!(values.get("master_put_start_failures_total"), 1);
        assert_eq!(values.get("master_batch_exist_key_requests_total"), 2);
        assert_eq!(values.get("master_batch_exist_key_failures_total"), 1);
        assert_eq!(values.get("master_batch_exist_key_partial_successes_total"), 1);
        assert_eq!(values.get("master_batch_exist_key_items_total"), 5);
        assert_eq!(values.get("master_batch_exist_key_failed_items_total"), 3);
    }

    #[test]
    fn every_name_that_is_counted_is_shown() {
        let mut values = Values::default();
        collect(&RpcCounters::default(), &mut values);
        for name in values.names() {
            assert!(names::all().any(|spec| spec.name == name), "{name}");
        }
    }
}
