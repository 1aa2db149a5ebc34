//! What watches are told, without a transport.

use std::sync::Arc;

use super::super::messages::{WatchCancelRequest, WatchProgressRequest};
use super::*;
use crate::node::Leadership;

const KEY: &[u8] = b"mooncake-store/c/master_view";
const PREFIX_END: &[u8] = b"mooncake-store/c/master_viex";

fn view(term: u64) -> View {
    let leadership = Leadership {
        term,
        node_id: term % 3,
        rpc_address: Arc::from(format!("h{term}:50051")),
        admin_address: Arc::from(""),
    };
    View { leadership: Some(leadership), node_id: 7 }
}

fn no_view() -> View {
    View { leadership: None, node_id: 7 }
}

fn from(start_revision: i64) -> WatchCreateRequest {
    let (key, range_end) = (KEY.to_vec(), PREFIX_END.to_vec());
    WatchCreateRequest { key, range_end, start_revision, ..WatchCreateRequest::default() }
}

fn creating(create: WatchCreateRequest) -> WatchRequest {
    WatchRequest { create_request: Some(create), ..WatchRequest::default() }
}

/// Revisions and values of the events in some answers; each answer has a header.
fn events(told: &[WatchResponse]) -> Vec<(i64, String)> {
    assert!(told.iter().all(|answer| answer.header.is_some()), "{told:?}");
    let kvs = told.iter().flat_map(|answer| &answer.events).map(|event| {
        assert_eq!(event.kind, PUT);
        event.kv.clone().unwrap()
    });
    kvs.map(|kv| (kv.mod_revision, String::from_utf8(kv.value).unwrap())).collect()
}

#[test]
fn a_watch_is_told_that_it_exists_and_then_of_newer_leaders_once_each() {
    let mut watches = Watches::default();
    let told = watches.answer(creating(from(0)), &view(5));
    assert_eq!(told.len(), 1);
    assert!(told[0].created && !told[0].canceled);
    assert_eq!(told[0].header.as_ref().unwrap().revision, 5);
    assert_eq!(events(&told), []);
    assert_eq!(events(&watches.news(&view(5))), []);
    let told = watches.news(&view(8));
    assert_eq!(events(&told), [(8, "h8:50051".into())]);
    let kv = told[0].events[0].kv.as_ref().unwrap();
    assert_eq!((&kv.key[..], kv.create_revision, kv.version, kv.lease), (KEY, 8, 1, 0));
    assert_eq!(told[0].header.as_ref().unwrap().revision, 8);
    assert_eq!(events(&watches.news(&view(8))), []);
}

#[test]
fn a_resumed_watch_hears_at_once_what_it_missed() {
    for (start, expected) in [(1, 1), (4, 1), (5, 1), (6, 0), (100, 0)] {
        let mut watches = Watches::default();
        let told = watches.answer(creating(from(start)), &view(5));
        assert!(told[0].created && told[0].events.is_empty());
        assert_eq!(events(&told).len(), expected, "from {start}");
        assert_eq!(events(&watches.news(&view(5))), [], "from {start}");
    }
}

#[test]
fn a_watch_resumed_ahead_of_a_node_that_lags_hears_nothing_old() {
    let mut watches = Watches::default();
    assert_eq!(events(&watches.answer(creating(from(7)), &view(3))), []);
    assert_eq!(events(&watches.news(&view(6))), []);
    assert_eq!(events(&watches.news(&view(7))), [(7, "h7:50051".into())]);
}

#[test]
fn a_watch_begun_before_any_leader_is_known_hears_of_the_first() {
    let mut watches = Watches::default();
    let told = watches.answer(creating(from(0)), &no_view());
    assert!(told[0].created);
    let header = told[0].header.clone().unwrap();
    assert_eq!((header.revision, header.raft_term, header.member_id), (1, 0, 7));
    assert_eq!(events(&watches.news(&view(1))), [(1, "h1:50051".into())]);
    // Resumed from the revision that the header told, it hears of whatever came in between.
    let mut resumed = Watches::default();
    let told = resumed.answer(creating(from(header.revision)), &view(1));
    assert_eq!(events(&told), [(1, "h1:50051".into())]);
}

#[test]
fn watches_of_other_keys_exist_and_hear_nothing() {
    let mut watches = Watches::default();
    let mut other = from(1);
    other.key = b"mooncake/ram/x".to_vec();
    let told = watches.answer(creating(other), &view(5));
    assert!(told.len() == 1 && told[0].created);
    assert_eq!(events(&watches.news(&view(9))), []);
}

#[test]
fn several_watches_have_ids_of_their_own_and_end_one_by_one() {
    let mut watches = Watches::default();
    let mut asked = from(0);
    asked.watch_id = 1;
    let mut ids = vec![watches.answer(creating(asked.clone()), &view(1))[0].watch_id];
    for _ in 0..2 {
        ids.push(watches.answer(creating(from(0)), &view(1))[0].watch_id);
    }
    assert_eq!(ids, [1, 0, 2]);
    let refused = watches.answer(creating(asked), &view(1));
    assert!(refused[0].created && refused[0].canceled && refused[0].watch_id == NO_WATCH);
    assert_eq!(refused[0].cancel_reason, "the watch id is in use");

    let cancel = |watch_id| WatchRequest {
        cancel_request: Some(WatchCancelRequest { watch_id }),
        ..WatchRequest::default()
    };
    let told = watches.answer(cancel(0), &view(1));
    assert!(told.len() == 1 && told[0].canceled && told[0].watch_id == 0);
    assert!(told[0].header.is_some());
    assert_eq!(watches.answer(cancel(0), &view(1)), []);
    let told = watches.news(&view(2));
    assert_eq!(told.iter().map(|answer| answer.watch_id).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn one_watch_too_many_is_refused_with_the_reason() {
    let mut watches = Watches::default();
    for _ in 0..WATCHES_A_STREAM_MAX {
        assert!(!watches.answer(creating(from(0)), &view(1))[0].canceled);
    }
    let refused = watches.answer(creating(from(0)), &view(1));
    assert!(refused[0].canceled && refused[0].header.is_some());
    assert_eq!(refused[0].cancel_reason, "too many watches on this stream");
    assert_eq!(watches.news(&view(2)).len(), WATCHES_A_STREAM_MAX);
}

#[test]
fn progress_is_told_when_asked_and_now_and_then_to_those_who_want_it() {
    let mut watches = Watches::default();
    watches.answer(creating(from(0)), &view(1));
    let mut wanting = from(0);
    wanting.progress_notify = true;
    watches.answer(creating(wanting), &view(1));
    let told = watches.progress(&view(3));
    assert!(told.len() == 1 && told[0].watch_id == 1 && told[0].events.is_empty());
    assert_eq!(told[0].header.as_ref().unwrap().revision, 3);

    let progress_request = Some(WatchProgressRequest {});
    let ask = WatchRequest { progress_request, ..WatchRequest::default() };
    let told = watches.answer(ask, &view(3));
    assert!(told.len() == 1 && told[0].watch_id == NO_WATCH);
    assert_eq!(told[0].header.as_ref().unwrap().revision, 3);
}

#[test]
fn a_watch_begun_just_after_a_new_leader_is_told_of_it_once_more_and_a_later_one_is_not() {
    let told_at = Instant::now();
    let after = told_at + REPEAT_AFTER;
    let mut watches = Watches { news_at: Some(told_at), ..Watches::default() };
    assert_eq!(events(&watches.answer(creating(from(0)), &view(5))), []);
    assert_eq!(watches.repeat_at(), Some(after));
    assert_eq!(events(&watches.repeat(told_at, &view(5))), [], "not yet");
    assert_eq!(events(&watches.repeat(after, &view(5))), [(5, "h5:50051".into())]);
    assert_eq!((watches.repeat_at(), events(&watches.repeat(after, &view(5)))), (None, vec![]));

    // One that hears of a newer leader meanwhile, or has asked from a revision, needs no reminder.
    let mut watches = Watches { news_at: Some(told_at), ..Watches::default() };
    watches.answer(creating(from(0)), &view(5));
    assert_eq!(events(&watches.news(&view(6))).len(), 1);
    watches.answer(creating(from(6)), &view(6));
    assert_eq!(watches.repeat_at(), None);
    let Some(long_ago) = told_at.checked_sub(REPEAT_AFTER) else { return };
    let mut watches = Watches { news_at: Some(long_ago), ..Watches::default() };
    watches.answer(creating(from(0)), &view(5));
    assert_eq!(watches.repeat_at(), None);
}
