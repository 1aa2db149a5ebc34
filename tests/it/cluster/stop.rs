//! "Safe to stop me?": what every node says while all are there, while one is away or silent, and when it is alone.

use nix::sys::signal::Signal;
use serde_json::Value as Json;

use super::trio::{ELECTED, Trio};
use crate::support::{Master, eventually_within};

/// What `/ready?format=json` of a node says, if it answers: whether it may be stopped, and why not.
fn advice(trio: &Trio, at: usize) -> Option<(bool, String)> {
    let (_, body) = trio.http(at).try_get("/ready?format=json")?;
    let page: Json = serde_json::from_str(&body).ok()?;
    let why = page["why"].as_str().unwrap_or_default().to_owned();
    Some((page["safe_to_stop"].as_bool()?, why))
}

fn all_say_yes(trio: &Trio) {
    for at in 0..3 {
        eventually_within(ELECTED, "it may be stopped", || {
            advice(trio, at) == Some((true, String::new()))
        });
    }
}

/// Waits until a node says no, for a reason that names all of `parts`.
fn says_no(trio: &Trio, at: usize, parts: &[&str]) {
    let mut told = None;
    eventually_within(ELECTED, "it says no", || {
        told = advice(trio, at);
        let is_no = |(is_safe, why): &(bool, String)| {
            !is_safe && parts.iter().all(|part| why.contains(part))
        };
        told.as_ref().is_some_and(is_no)
    });
    // An operator reads the same.
    let (_, text) = trio.http(at).try_get("/ready").unwrap();
    assert!(text.lines().nth(1).unwrap().starts_with("safe to stop: no: "), "{text}");
    let (code, text, _) = trio.operate(at, &["status"], "");
    assert!(code == Some(0) && text.contains("safe to stop this node: no: "), "{text}");
}

#[test]
fn a_node_may_be_stopped_only_while_the_others_are_a_majority_that_is_up_to_date() {
    let mut trio = Trio::start(&[]);
    all_say_yes(&trio);
    let leader = trio.leader();
    let [one, other] = [(leader + 1) % 3, (leader + 2) % 3];
    let (code, text, _) = trio.operate(one, &["status"], "");
    assert!(code == Some(0) && text.contains("safe to stop this node: yes"), "{text}");

    trio.kill(one);
    let lost = format!("node {} ", one + 1);
    says_no(&trio, leader, &["1 of 3 voters", &lost]);
    says_no(&trio, other, &["1 of 3 voters", &lost]);
    trio.start_again(one);
    trio.settled();
    all_say_yes(&trio);

    // One that stands still is as good as gone, and is told so as soon as it goes on.
    trio.signal(other, Signal::SIGSTOP);
    let lost = format!("node {} was last heard", other + 1);
    says_no(&trio, leader, &[&lost]);
    says_no(&trio, one, &[&lost]);
    trio.signal(other, Signal::SIGCONT);
    trio.settled();
    all_say_yes(&trio);

    // Without a leader nobody can know, and the last one does not guess.
    let leader = trio.leader();
    let last = (leader + 1) % 3;
    trio.kill(leader);
    trio.kill((leader + 2) % 3);
    says_no(&trio, last, &["leader"]);
}

#[test]
fn the_only_node_may_not_be_stopped_if_somebody_is_to_be_served() {
    let dir = tempfile::tempdir().unwrap();
    let master = Master::ours(dir.path(), &[]);
    let page = master.http().json("/ready?format=json");
    assert_eq!((&page["ready"], &page["safe_to_stop"]), (&true.into(), &false.into()), "{page}");
    assert!(page["why"].as_str().unwrap().contains("only voter"), "{page}");
    assert_eq!(page["behind"], 0);
}
