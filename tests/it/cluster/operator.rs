//! `mooncake-ha cluster`: what an operator sees and changes, and how refusals end.

use serde_json::Value as Json;

use super::trio::{ELECTED, Trio};
use crate::support::eventually_within;

const TOKEN: &str = "t0k";

#[test]
fn an_operator_moves_leadership_and_replaces_a_node() {
    let mut trio = Trio::start(&["--admin_token=t0k"]);
    let leader = trio.leader();
    let (code, text, _) = trio.operate(leader, &["status"], "");
    assert_eq!(code, Some(0), "looking needs no token");
    assert!(
        text.contains(", serving clients, term ") && text.matches(" voter ").count() == 3,
        "{text}"
    );
    let (code, text, _) = trio.operate(leader, &["status", "--json"], "");
    let page: Json = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &page["is_serving"]), (Some(0), &Json::Bool(true)));

    let to = trio.follower();
    let number = (to + 1).to_string();
    let (code, said, _) = trio.operate(leader, &["transfer-leader", &number], TOKEN);
    assert_eq!((code, said), (Some(0), format!("node {number} leads\n")));
    eventually_within(ELECTED, "the other node serves", || trio.leader() == to);
    trio.settled();

    let lost = (0..3).find(|&at| at != to).unwrap();
    trio.kill(lost);
    let (code, said, error) = trio.operate(to, &["remove", &(lost + 1).to_string()], TOKEN);
    assert_eq!(code, Some(0), "{said}{error}");
    let new = trio.start_joining();
    let address = trio.joining.clone();
    for args in [&["add", "4", &address][..], &["promote", "4"], &["snapshot"]] {
        let (code, said, error) = trio.operate(to, args, TOKEN);
        assert_eq!(code, Some(0), "{args:?}: {said}{error}");
    }
    trio.caught_up(new);
    let (_, text, _) = trio.operate(to, &["status"], "");
    assert!(text.contains("4     voter ") && text.matches(" voter ").count() == 3, "{text}");
}

#[test]
fn a_node_that_does_not_lead_shows_what_the_leader_knows_and_sends_changes_on() {
    let trio = Trio::start(&[]);
    let (leader, to) = (trio.leader(), trio.follower());
    let asked = (0..3).find(|&at| at != leader && at != to).unwrap();
    let (code, text, _) = trio.operate(asked, &["status"], "");
    assert_eq!((code, text.matches(" ms ago ").count()), (Some(0), 3), "{text}");
    let (status, refusal) =
        trio.http(asked).try_send("POST", "/api/v1/cluster/promote?node_id=9").unwrap();
    assert_eq!(status, 409, "a page is not sent on: {refusal}");
    assert!(refusal.contains("ask it at 127.0.0.1:"), "{refusal}");
    let number = (to + 1).to_string();
    let (code, said, error) = trio.operate(asked, &["transfer-leader", &number], "");
    assert_eq!((code, said), (Some(0), format!("node {number} leads\n")), "{error}");
}

#[test]
fn a_refusal_is_one_sentence_and_exit_code_1() {
    let trio = Trio::start(&["--admin_token=t0k"]);
    let (leader, follower) = (trio.leader(), trio.follower());
    let own = (leader + 1).to_string();
    for (at, args, token, part) in [
        (leader, &["transfer-leader"][..], "", "admin token"),
        (leader, &["remove", &own], TOKEN, "transfer leadership first"),
        (leader, &["remove", "9"], TOKEN, "no member"),
        (leader, &["promote", "9"], TOKEN, "no member"),
        (leader, &["add", "4", "nowhere"], TOKEN, "nowhere"),
        (follower, &["promote", "9"], TOKEN, "no member"),
    ] {
        let (code, said, error) = trio.operate(at, args, token);
        assert_eq!((code, said.as_str()), (Some(1), ""), "{args:?}");
        assert!(error.contains(part) && error.lines().count() == 1, "{args:?}: {error}");
    }
    let (code, _, _) = trio.operate(leader, &["remove"], TOKEN);
    assert_eq!(code, Some(2), "a node is missing");
}
