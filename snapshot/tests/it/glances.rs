//! Summaries, differences and exact reading.

use mooncake_ha_snapshot::*;

use crate::fixtures::{cluster, payloads};

fn image(fixture: &str, id: &str) -> Image {
    let payloads = payloads(&cluster(fixture).join(id));
    decode_image(&payloads, &Limits::default()).unwrap().image
}

#[test]
fn a_summary_counts_what_the_fixture_says() {
    let summary = Summary::of(&image("charter_soft", "20261129_182135_462"), 1_795_976_500_000);
    assert_eq!((summary.objects.objects, summary.pinned.objects), (13, 4));
    assert_eq!((summary.pins_expired, summary.grouped, summary.hard_pinned), (4, 6, 1));
    assert_eq!(summary.pins_by_rest.last().unwrap(), &("longer".to_string(), 4));
    assert_eq!(summary.replicas["memory complete"], 13);
    assert!(summary.extension.is_none());
    let text = summary.to_string();
    assert!(text.contains("written by the peer"), "{text}");
    let summary = Summary::of(&image("tasks", "20261129_182259_291"), 0);
    assert_eq!(summary.tasks.values().sum::<u64>(), 4);
    assert_eq!(summary.segments.len(), 3);
    assert!(summary.segments.iter().all(|segment| segment.client.is_some()));
}

#[test]
fn differences_name_what_was_added_removed_and_changed() {
    let older = image("base_pair", "20261129_182736_634");
    let newer = image("base_pair", "20261129_182740_639");
    assert_eq!(Differences::between(&older, &older), Differences::default());
    let differences = Differences::between(&older, &newer);
    let added: Vec<&Difference> =
        differences.list.iter().filter(|difference| difference.change == Change::Added).collect();
    assert_eq!(added.iter().filter(|difference| difference.kind == "object").count(), 10);
    assert_eq!(added[0].to_string(), "+ object default/b0");
    let mut changed = newer.clone();
    let object = changed.shards.values_mut().next().unwrap().first_mut().unwrap();
    object.soft_pin_ms = Some(1);
    let differences = Differences::between(&newer, &changed);
    assert_eq!(differences.total, 1);
    assert_eq!(differences.list[0].change, Change::Changed(vec!["soft pin"]));
}

#[test]
fn exact_reading_refuses_what_a_restore_would_leave_out() {
    let read = |payloads: &Payloads| {
        let mut objects = 0;
        decode_exact(payloads, &Limits::default(), |shard| {
            objects += shard.objects.len();
            Ok::<(), SnapshotError>(())
        })
        .map(|globals| (objects, globals.replica_next_id))
    };
    let sound = payloads(&cluster("base_pair").join("20261129_182740_639"));
    assert_eq!(read(&sound).unwrap(), (20, 21));
    let damaged = ["object_bad_uuid", "task_wrong_type_inner"];
    for name in damaged {
        let path = cluster(&format!("corrupted/{name}")).join("20261129_182740_639");
        assert!(read(&payloads(&path)).is_err(), "{name}");
    }
}
