//! Three nodes: only the leader reads its catalog, all of them end with the same objects, and a leader that dies
//! in the middle leaves nothing to the next.

use std::time::Duration;

use mooncake_ha_snapshot::Survival;

use super::fresh::{Fresh, copy_of, fixture};
use crate::cluster::trio::Trio;
use crate::support::eventually_within;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn three_nodes_start_with_one_restore_and_a_follower_that_leads_later_has_it_too() {
    let root = copy_of("grouped");
    let path = format!("--snapshot_local_path={}", root.path().display());
    let flags =
        ["--enable_snapshot_restore", "--restore_survival=complete", "--client_ttl=600", &path];
    let mut trio = Trio::start(&flags);
    let leader = trio.leader();
    let page = trio.http(leader).json("/api/v1/restore");
    assert_eq!(page["outcome"], "restored", "{page}");
    let keys = |at: usize| {
        let (status, text) = trio.http(at).try_get("/metrics")?;
        let line = text.lines().find(|line| line.starts_with("master_key_count "))?.to_owned();
        (status == 200).then_some(line)
    };
    let wanted = keys(leader).unwrap();
    assert!(!wanted.ends_with(" 0"), "{wanted}");
    for at in 0..3 {
        let recorded = trio.http(at).json("/api/v1/restore");
        assert_eq!(recorded["at_ms"], page["at_ms"], "node {at}");
    }
    trio.kill(leader);
    let next = trio.leader();
    assert_ne!(next, leader);
    let line = trio.http(next).get("/metrics").1;
    assert!(line.contains(&wanted), "{wanted}");
    assert_eq!(trio.http(next).json("/api/v1/restore")["at_ms"], page["at_ms"]);
    trio.start_again(leader);
    eventually_within(PATIENCE, "the first one is back and has not restored again", || {
        trio.http(leader)
            .try_get("/api/v1/restore")
            .is_some_and(|(_, body)| body.contains(&format!("\"at_ms\":{}", page["at_ms"])))
    });
}

#[tokio::test]
async fn a_new_leader_gives_up_what_the_one_before_had_begun() {
    use mooncake_ha::model::Millis;
    use mooncake_ha::state::Reply;
    use mooncake_ha::state::command::{Command, Key};
    use mooncake_ha::state::restore::{RestoreBegin, RestorePart};
    let fresh = Fresh::at(1_795_976_700_000, &[]).await;
    let begin = RestoreBegin {
        attempt: 7,
        snapshot: std::sync::Arc::from("20261129_182740_639"),
        now: Millis(1),
        parts: 2,
        crc32: 0,
    };
    let part = RestorePart { attempt: 7, number: 0, bytes: Key(vec![1; 1_000]) };
    for command in [Command::RestoreBegin(begin), Command::RestorePart(part)] {
        assert_eq!(fresh.node.propose(&command).await, Ok(Reply::Restore(Ok(()))));
    }
    // The process dies here; the one that leads next finds the stage in its log.
    let fresh = fresh.reopened().await;
    crate::support::node::until("the stage is gone", async || {
        fresh.node.look(|state| state.restore().stage().is_none())
    })
    .await;
    let report = fresh.restore(&fixture("base_pair"), Survival::Complete).await.unwrap();
    assert_eq!(report.candidates[0].kept.objects, 20);
}

#[tokio::test]
async fn an_image_of_many_parts_arrives_whole() {
    let mut image = super::public_bugs::image_of_300().await;
    // Values of the metadata server are not compressed, so they make many parts of it.
    let pairs = (0..40_u8).map(|n| (format!("mooncake/ram/{n}").into_bytes(), vec![n; 100_000]));
    let extension = image.globals.extension.as_mut().unwrap();
    extension.http_metadata = pairs.clone().collect();
    let root = super::public_bugs::published(&image);
    let fresh = Fresh::at(crate::support::node::START_MS + 1_000, &[]).await;
    let proposed = || fresh.node.propose_stats().entries.load(std::sync::atomic::Ordering::Relaxed);
    let before = proposed();
    fresh.restore(root.path(), Survival::Complete).await.unwrap();
    assert!(proposed() - before > 15, "it went in few entries");
    let fresh = fresh.reopened().await;
    fresh.node.look(|state| {
        for (key, value) in pairs {
            assert_eq!(state.metadata().get(&key).as_deref(), Some(&*value));
        }
        assert_eq!(state.totals().keys, 300);
    });
}
