//! Disks of clients, files under the shared directory, and the way back to memory: one rule a story.

use std::sync::Arc;

use super::tiers_world::offloaded;
use super::world::*;
use crate::model::PinRequest::Preserve;
use crate::model::{ClientId, ErrorCode, Location, ReplicaKind, ReplicaSelect, ReplicaStatus};
use crate::state::Reply;
use crate::state::disk::command::{Admission, Fate, OffloadedItem, TierCommand, TierReply};

const MEMORY: ReplicaKind = ReplicaKind::Memory;
const LOCAL: ReplicaKind = ReplicaKind::LocalDisk;

#[test]
fn an_ended_write_is_offloaded_by_the_owner_of_its_memory_and_kept_in_memory_meanwhile() {
    let mut world = World::with_disk();
    world.put_offloading("k");
    assert_eq!(world.evict("k"), 0, "its memory is the source");
    let mut world = world.reloaded();
    assert_eq!(world.fetch(), ["k"]);
    assert_eq!(world.fetch(), Vec::<String>::new(), "handed out once");
    assert_eq!(world.kinds("k"), [MEMORY]);
    let mut world = world.reloaded();
    assert_eq!(world.report("k"), Ok(()));
    assert_eq!(world.kinds("k"), [MEMORY, LOCAL]);
    assert_eq!(world.report("k"), Ok(()), "again");
    assert_eq!(world.kinds("k"), [MEMORY, LOCAL]);
    assert_eq!(world.evict("k"), 1024);
    assert!(world.reloaded().is_readable("k"));
}

#[test]
fn a_repeated_end_queues_nothing() {
    let mut world = World::with_disk();
    world.put_on_disk("k");
    assert_eq!(world.end_offloading("k", 100), Ok(()));
    assert_eq!(world.fetch(), Vec::<String>::new());
}

#[test]
fn a_full_queue_and_a_client_that_takes_nothing_leave_the_write_as_it_is() {
    let mut world = World::with_disk();
    world.put_offloading("a");
    world.open("b", Preserve);
    assert_eq!(world.end_offloading("b", 1), Ok(()));
    assert_eq!(world.fetch(), ["a"]);
    assert_eq!(world.fetch_as(1, false), Ok(Vec::new()));
    world.put_offloading("c");
    assert_eq!(world.fetch(), Vec::<String>::new());
    assert_eq!(world.evict("c"), 1024, "nothing keeps it");
}

#[test]
fn a_client_that_takes_nothing_any_more_gives_up_what_it_was_not_told_of() {
    let mut world = World::with_disk();
    world.put_offloading("told");
    assert_eq!(world.fetch(), ["told"]);
    world.put_offloading("untold");
    assert_eq!(world.fetch_as(1, false), Ok(Vec::new()));
    assert_eq!(world.evict("untold"), 1024);
    assert_eq!(world.evict("told"), 0, "it may have begun");
    assert_eq!(world.fetch(), Vec::<String>::new());
}

#[test]
fn a_failed_offload_frees_its_source_and_adds_no_copy() {
    let mut world = World::with_disk();
    world.put_offloading("k");
    assert_eq!(world.fetch(), ["k"]);
    assert_eq!(world.report_as(1, vec![offloaded("k", None)]), Ok(()));
    assert_eq!(world.kinds("k"), [MEMORY]);
    assert_eq!(world.evict("k"), 1024);
}

#[test]
fn an_offload_that_nobody_reports_ends_by_the_release_timeout() {
    let mut world = World::with_disk();
    world.put_offloading("k");
    assert_eq!(world.fetch(), ["k"]);
    world.pass(59_999);
    assert_eq!(world.sweep().tier_jobs_dropped, 0);
    let mut world = world.reloaded();
    world.pass(1);
    assert_eq!(world.sweep().tier_jobs_dropped, 1);
    assert_eq!(world.evict("k"), 1024);
}

#[test]
fn the_memory_of_two_clients_waits_for_both_and_the_first_report_ends_it() {
    let mut world = World::with_disk();
    world.mount(segment(2, MIB), 2).unwrap();
    world.mount_disk(2);
    world.start(start("k", 1024, config(2, Preserve))).unwrap();
    assert_eq!(world.end_offloading("k", 100), Ok(()));
    assert_eq!(world.fetch_as(2, true), Ok(vec!["k".into()]));
    assert_eq!(world.report_as(2, vec![offloaded("k", Some(1024))]), Ok(()));
    assert_eq!(world.fetch(), Vec::<String>::new());
    assert_eq!(world.kinds("k"), [MEMORY, MEMORY, LOCAL]);
    assert_eq!(world.evict("k"), 2048);
}

#[test]
fn a_removed_object_is_not_offloaded_and_its_late_report_makes_it_anew() {
    let mut world = World::with_disk();
    world.put_offloading("a");
    world.remove("a").unwrap();
    assert_eq!(world.fetch(), Vec::<String>::new());
    // As by the peer: to the master a file that it does not know is one of an earlier registration.
    assert_eq!(world.report("a"), Ok(()));
    assert_eq!(world.kinds("a"), [LOCAL]);
    assert_eq!(world.pin("a"), None);
}

#[test]
fn files_of_another_object_of_that_key_are_not_believed() {
    let mut world = World::with_disk();
    world.put("size", Preserve);
    assert_eq!(world.report_as(1, vec![offloaded("size", Some(7))]), Ok(()));
    assert_eq!(world.kinds("size"), [MEMORY]);
    world.open("open", Preserve);
    assert_eq!(world.report("open"), Ok(()));
    world.end("open").unwrap();
    assert_eq!(world.kinds("open"), [MEMORY]);
    world.put_offloading("queued");
    assert_eq!(world.report("queued"), Ok(()), "of before it was fetched");
    assert_eq!(world.kinds("queued"), [MEMORY]);
    assert_eq!(world.fetch(), ["queued"]);
    assert_eq!(world.report("queued"), Ok(()));
    assert_eq!(world.kinds("queued"), [MEMORY, LOCAL]);
}

#[test]
fn a_client_without_a_disk_is_refused() {
    let mut world = World::with_disk();
    assert_eq!(world.report_as(2, vec![offloaded("k", Some(5))]), Err(ErrorCode::SegmentNotFound));
    assert_eq!(world.find("k"), None);
    assert_eq!(world.fetch_as(2, true), Err(ErrorCode::SegmentNotFound));
    assert_eq!(world.promotions(2), Err(ErrorCode::SegmentNotFound));
}

#[test]
fn an_object_has_one_file_and_only_its_client_may_move_it() {
    let mut world = World::with_disk();
    world.mount_disk(2);
    world.put_on_disk("k");
    let moved =
        |endpoint| OffloadedItem { endpoint: Arc::from(endpoint), ..offloaded("k", Some(1024)) };
    world.report_as(2, vec![moved("other:2")]).unwrap();
    world.report_as(1, vec![moved("new:3")]).unwrap();
    let object = world.find("k").unwrap();
    let told: Vec<_> = world
        .state
        .describe_all(object)
        .into_iter()
        .filter_map(|descriptor| match descriptor.location {
            Location::LocalDisk { client, endpoint, size } => Some((client, endpoint, size)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(client(1), "new:3".to_owned(), 1024)]);
}

#[test]
fn an_upsert_gives_up_an_offload_that_nobody_has_begun_and_waits_for_one_that_has() {
    let mut world = World::with_disk();
    world.put_offloading("k");
    world.upsert("k", 1024).unwrap();
    assert_eq!(world.fetch(), Vec::<String>::new());
    assert_eq!(world.end_offloading("k", 100), Ok(()));
    assert_eq!(world.fetch(), ["k"]);
    assert_eq!(world.upsert("k", 1024), Err(ErrorCode::ObjectHasReplicationTask));
    assert_eq!(world.upsert("k", 10), Err(ErrorCode::ObjectHasReplicationTask));
    world.report("k").unwrap();
    world.upsert("k", 10).unwrap();
    world.end("k").unwrap();
    assert_eq!(world.kinds("k"), [MEMORY], "the copy held the old bytes");
}

#[test]
fn an_upsert_of_the_same_size_drops_the_old_copy_and_leaves_a_removable_object() {
    let mut world = World::with_disk();
    world.put_on_disk("k");
    world.upsert("k", 1024).unwrap();
    world.end("k").unwrap();
    assert_eq!(world.kinds("k"), [MEMORY]);
    assert_eq!(world.remove("k"), Ok(()));
}

#[test]
fn an_upsert_without_room_leaves_the_offload_as_it_was() {
    let mut world = World::with_disk();
    world.put_offloading("k");
    assert_eq!(world.upsert("k", 2 * MIB), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.fetch(), ["k"]);
    world.report("k").unwrap();
    assert_eq!(world.kinds("k"), [MEMORY, LOCAL]);
}

#[test]
fn an_unmounted_disk_takes_its_files_away_at_once_and_drops_them_in_steps() {
    let mut world = World::with_disk();
    for name in ["a", "b", "c"] {
        world.put_on_disk(name);
    }
    world.evict("a");
    world.evict("b");
    world.unmount_disk(1);
    assert_eq!((world.is_readable("a"), world.is_readable("c")), (false, true));
    let mut world = world.reloaded();
    assert!(!world.is_readable("a"));
    assert!(!world.drop_lost(1, 2));
    assert!(world.drop_lost(1, 2));
    assert_eq!((world.find("a"), world.find("b")), (None, None));
    assert_eq!(world.kinds("c"), [MEMORY]);
    assert_eq!(world.state.tiers().lost().count(), 0);
}

#[test]
fn a_disk_that_comes_back_at_once_reports_new_files_that_stay() {
    let mut world = World::with_disk();
    world.put_on_disk_only("old");
    world.put_on_disk_only("again");
    world.unmount_disk(1);
    world.mount_disk(1);
    world.report("again").unwrap();
    assert_eq!((world.is_readable("old"), world.is_readable("again")), (false, true));
    assert!(world.drop_lost(1, 100));
    assert_eq!((world.find("old"), world.kinds("again")), (None, vec![LOCAL]));
}

#[test]
fn an_expired_client_loses_its_disk_its_files_and_its_work() {
    let mut world = World::with_disk();
    world.put_on_disk("k");
    world.put_offloading("queued");
    world.expire(1);
    assert_eq!(world.state.tiers().disks().iter().count(), 0);
    assert!(world.state.tiers().offloads().is_empty());
    assert!(!world.is_readable("k"));
    assert!(world.drop_lost(1, 100));
}

#[test]
fn a_disk_evicts_its_own_files_only_and_the_last_replica_takes_the_object_along() {
    let mut world = World::with_disk();
    world.put_on_disk("k");
    assert_eq!(world.evict_file(2, "k", LOCAL), Ok(()), "nothing of client 2 is there");
    assert_eq!(world.kinds("k"), [MEMORY, LOCAL]);
    assert_eq!(world.evict_file(1, "k", LOCAL), Ok(()));
    assert_eq!(world.kinds("k"), [MEMORY]);
    world.put_on_disk_only("d");
    assert_eq!(world.evict_file(1, "d", LOCAL), Ok(()));
    assert_eq!(world.find("d"), None);
    assert_eq!(world.evict_file(1, "d", LOCAL), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn eviction_by_way_of_a_disk_queues_first_and_frees_what_is_on_disk() {
    let mut world = World::with_disk();
    world.put("k", Preserve);
    let queued = Fate { freed: 0, is_queued: true };
    assert_eq!(world.evict_to_disk(&["k"], 9, false), [queued]);
    assert_eq!(world.evict_to_disk(&["k"], 9, false), [Fate::default()], "it is on its way");
    assert_eq!(world.fetch(), ["k"]);
    world.report("k").unwrap();
    assert_eq!(world.evict_to_disk(&["k"], 9, false), [Fate::evicted(1024)]);
    assert_eq!(world.kinds("k"), [LOCAL]);
}

#[test]
fn one_copy_stays_for_the_disk_and_the_others_go_at_once() {
    let mut world = World::with_disk();
    world.mount(segment(2, MIB), 2).unwrap();
    world.start(start("k", 1024, config(2, Preserve))).unwrap();
    world.end("k").unwrap();
    let fate = Fate { freed: 1024, is_queued: true };
    assert_eq!(world.evict_to_disk(&["k"], 9, false), [fate]);
    assert_eq!(world.places("k"), ["s1"], "that of the client with the disk");
    assert_eq!(world.reloaded().fetch(), ["k"]);
}

#[test]
fn what_no_disk_takes_is_evicted_only_by_force() {
    let mut world = World::small();
    world.put("k", Preserve);
    assert_eq!(world.evict_to_disk(&["k"], 9, false), [Fate::default()]);
    assert_eq!(world.evict_to_disk(&["k"], 9, true), [Fate::evicted(1024)]);
    world.mount_disk(1);
    world.put("a", Preserve);
    world.put("b", Preserve);
    let fates = world.evict_to_disk(&["a", "b"], 1, true);
    assert_eq!(fates, [Fate { freed: 0, is_queued: true }, Fate::evicted(1024)]);
    world.put("c", Preserve);
    assert_eq!(world.evict_to_disk(&["c"], 0, false), [Fate::default()]);
}

#[test]
fn a_promotion_brings_an_object_back_to_memory() {
    let mut world = World::with_disk();
    world.put_on_disk_only("k");
    assert_eq!(world.promote("k", 1), Admission::Admitted);
    assert_eq!(world.promote("k", 1), Admission::NotNeeded);
    assert_eq!(world.promotions(1).unwrap(), ["k"]);
    assert_eq!(world.promotions(1).unwrap(), Vec::<String>::new());
    let mut world = world.reloaded();
    assert_eq!(world.promoted(1, "k", true), Err(ErrorCode::ReplicaIsNotReady), "no memory yet");
    assert_eq!(world.stage(2, "k", 1024), Err(ErrorCode::InvalidParams));
    assert_eq!(world.stage(1, "k", 9), Err(ErrorCode::InvalidParams));
    let staged = world.stage(1, "k", 1024).unwrap();
    assert_eq!(staged.status, ReplicaStatus::Processing);
    assert_eq!(world.stage(1, "k", 1024), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.kinds("k"), [LOCAL], "nobody reads it yet");
    assert_eq!(world.remove("k"), Err(ErrorCode::ReplicaIsNotReady));
    let mut world = world.reloaded();
    assert_eq!(world.promoted(2, "k", true), Err(ErrorCode::InvalidParams));
    assert_eq!(world.promoted(1, "k", true), Ok(()));
    assert_eq!(world.kinds("k"), [LOCAL, MEMORY]);
    assert_eq!(world.promoted(1, "k", true), Err(ErrorCode::ReplicaIsNotReady), "again");
    let counters = *world.state.tiers().counters();
    assert_eq!((counters.admitted, counters.completed, counters.completed_bytes), (1, 1, 1024));
    assert_eq!(world.evict("k"), 1024, "it can be evicted again");
}

#[test]
fn a_promotion_is_admitted_only_where_it_is_needed_and_there_is_room() {
    let mut world = World::with_disk();
    world.put_on_disk("in memory");
    assert_eq!(world.promote("in memory", 9), Admission::NotNeeded);
    assert_eq!(world.promote("absent", 9), Admission::NotNeeded);
    world.put_on_disk_only("a");
    world.put_on_disk_only("b");
    assert_eq!(world.promote("a", 1), Admission::Admitted);
    assert_eq!(world.promote("b", 1), Admission::Full);
    world.fetch_as(1, false).unwrap();
    assert_eq!(world.promote("b", 9), Admission::NoTaker);
}

#[test]
fn a_failed_promotion_frees_its_memory_at_once() {
    let mut world = World::with_disk();
    world.put_on_disk_only("k");
    assert_eq!(world.promoted(1, "k", false), Ok(()), "there is none");
    world.promote("k", 9);
    world.stage(1, "k", 1024).unwrap();
    assert_eq!(world.promoted(2, "k", false), Err(ErrorCode::InvalidParams));
    assert_eq!(world.promoted(1, "k", false), Ok(()));
    assert_eq!((world.used(1), world.kinds("k")), (0, vec![LOCAL]));
    assert_eq!(world.promoted(1, "absent", false), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.state.tiers().counters().failed, 1);
}

#[test]
fn a_promotion_that_nobody_ends_gives_its_memory_back_after_the_release_timeout() {
    let mut world = World::with_disk();
    world.put_on_disk_only("k");
    world.promote("k", 9);
    world.pass(50_000);
    world.stage(1, "k", 1024).unwrap();
    world.pass(59_999);
    assert_eq!(world.sweep().tier_jobs_dropped, 0, "its time began anew");
    let mut world = world.reloaded();
    world.pass(1);
    assert_eq!(world.sweep().tier_jobs_dropped, 1);
    world.sweep();
    assert_eq!((world.used(1), world.kinds("k")), (0, vec![LOCAL]));
    assert_eq!(world.state.tiers().counters().expired, 1);
}

#[test]
fn memory_of_a_promotion_that_vanishes_with_its_segment_cancels_it() {
    let mut world = World::with_disk();
    world.put_on_disk_only("k");
    world.promote("k", 9);
    world.stage(1, "k", 1024).unwrap();
    world.unmount(1, 1).unwrap();
    assert_eq!(world.promoted(1, "k", true), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.kinds("k"), [LOCAL]);
    assert_eq!(world.state.tiers().counters().cancelled, 1);
}

#[test]
fn an_upsert_waits_for_a_promotion_and_a_removal_ends_one_without_memory() {
    let mut world = World::with_disk();
    world.put_on_disk_only("k");
    world.promote("k", 9);
    assert_eq!(world.upsert("k", 1024), Err(ErrorCode::ObjectHasReplicationTask));
    assert_eq!(world.remove("k"), Ok(()));
    assert_eq!(world.promotions(1).unwrap(), Vec::<String>::new());
    assert_eq!(world.state.tiers().counters().cancelled, 1);
}

#[test]
fn nothing_about_disks_starts_moves_or_ends_a_pin() {
    let mut world = World::with_disk();
    world.open("k", pinned(90_000));
    assert_eq!(world.end_offloading("k", 100), Ok(()));
    let deadline = world.now + 90_000;
    world.pass(1_000);
    assert_eq!(world.fetch(), ["k"]);
    world.report("k").unwrap();
    assert_eq!(world.pin("k"), Some(deadline));
    world.pass(1_000);
    assert_eq!(world.evict("k"), 1024);
    assert_eq!((world.pin("k"), world.gauge()), (Some(deadline), 1));
    world.promote("k", 9);
    world.stage(1, "k", 1024).unwrap();
    world.promoted(1, "k", true).unwrap();
    let mut world = world.reloaded();
    assert_eq!((world.pin("k"), world.gauge()), (Some(deadline), 1));
    world.evict_file(1, "k", LOCAL).unwrap();
    assert_eq!(world.pin("k"), Some(deadline));
}

#[test]
fn a_write_with_a_shared_file_is_done_when_both_are_and_either_commits_the_pin() {
    let mut world = World::small();
    let told = world.start_with_file(start("k", 1024, config(1, pinned(9_000)))).unwrap();
    let location = &told[1].location;
    assert_eq!(*location, Location::Disk { path: "/r/c/n/m/k".into(), size: 1024 });
    world.end_as(1, "k", ReplicaSelect::Disk, None).unwrap();
    assert_eq!((world.kinds("k"), world.gauge()), (vec![ReplicaKind::Disk], 1));
    assert_eq!(world.remove("k"), Err(ErrorCode::ReplicaIsNotReady));
    world.end("k").unwrap();
    assert_eq!(world.kinds("k"), [MEMORY, ReplicaKind::Disk]);
    let mut world = world.reloaded();
    assert_eq!(world.evict("k"), 1024);
    assert!(world.is_readable("k"));
    assert_eq!(world.evict_file(1, "k", ReplicaKind::Disk), Ok(()));
    assert_eq!(world.find("k"), None);
}

#[test]
fn a_wipe_is_asked_for_once_and_told_once() {
    let mut world = World::with_disk();
    let take = |world: &mut World, by: u64| match world
        .tier(TierCommand::TakeWipe { client: client(by) })
    {
        Reply::Tier(TierReply::Wipe(wipe)) => wipe,
        other => panic!("{other:?}"),
    };
    assert_eq!(take(&mut world, 1), Ok(false));
    let clients: Vec<ClientId> = vec![client(1), client(2)];
    world.tier(TierCommand::WipeDisks { clients });
    let mut world = world.reloaded();
    assert_eq!((take(&mut world, 1), take(&mut world, 1)), (Ok(true), Ok(false)));
    assert_eq!(take(&mut world, 2), Err(ErrorCode::SegmentNotFound));
}

#[test]
fn a_registered_disk_stays_as_it_is_and_says_its_size() {
    let mut world = World::with_disk();
    let bytes = |by, bytes| TierCommand::ReportCapacity { client: client(by), bytes };
    assert_eq!(outcome(world.tier(bytes(1, 77))), Ok(()));
    assert_eq!(outcome(world.tier(bytes(2, 5))), Err(ErrorCode::SegmentNotFound));
    let again = TierCommand::MountDisk { client: client(1), is_enabled: false };
    world.tier(again);
    let world = world.reloaded();
    let disk = *world.state.tiers().disks().get(client(1)).unwrap();
    assert_eq!((disk.is_enabled, disk.capacity_bytes), (true, 77));
    assert_eq!(world.state.tiers().disks().capacity_bytes(), 77);
}

#[test]
fn a_zombie_whose_place_is_taken_by_a_promotion_is_set_aside_by_its_time() {
    let mut world = World::with_disk();
    world.put_on_disk_only("k");
    world.promote("k", 9);
    world.pass(100_000);
    world.stage(1, "k", 1024).unwrap();
    world.evict_file(1, "k", LOCAL).unwrap();
    world.open("k", Preserve);
    assert_eq!(world.state.discards().staged_bytes(), 1024, "somebody may be writing there");
    world.pass(59_999);
    assert_eq!(world.sweep().discards_released, 0);
}
