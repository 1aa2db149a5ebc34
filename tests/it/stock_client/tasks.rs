//! Copy and move tasks, which the clients themselves carry out.

use serde_json::Value as Json;

use crate::support::{Bench, Feature, Got, StockClient, Value, WriteConfig, eventually};

fn start() -> Option<(Bench, StockClient, StockClient, Value)> {
    let bench = Bench::needing(&[Feature::Tasks], &[])?;
    let mut source = bench.client("source", 32);
    let target = bench.client("target", 32);
    let value = Value::new("k", 1_000_000);
    let config = WriteConfig::soft_pin_for(3_600_000).on(source.segment());
    assert_eq!(source.put_with(&value, &config), 0);
    Some((bench, source, target, value))
}

fn finish(client: &mut StockClient, task: &Json) {
    eventually("the task ends", || {
        let status = client.query_task(task);
        assert_ne!(status.as_deref(), Ok("FAILED"));
        status.as_deref() == Ok("SUCCESS")
    });
}

#[test]
fn a_copy_task_makes_a_second_copy_that_outlives_the_first() {
    let Some((bench, mut source, mut target, value)) = start() else { return };
    let task = source.create_copy_task("k", &[target.segment()]).unwrap();
    finish(&mut source, &task);
    assert_eq!(target.replicas("k").len(), 2);
    assert_eq!(source.close(), 0);
    assert_eq!(target.replicas("k").len(), 1);
    assert_eq!(target.get(&value), Got::Right);
    assert_eq!(bench.master.count("master_soft_pin_key_count"), 1);
}

#[test]
fn a_move_task_leaves_one_copy_on_the_target() {
    let Some((bench, mut source, mut target, value)) = start() else { return };
    let before = target.replicas("k");
    let (from, to) = (source.segment().to_owned(), target.segment().to_owned());
    let task = target.create_move_task("k", &from, &to).unwrap();
    finish(&mut target, &task);
    let after = target.replicas("k");
    assert_eq!(after.len(), 1);
    assert_ne!(after[0].endpoint, before[0].endpoint);
    assert_eq!(source.get(&value), Got::Right);
    assert_eq!(source.close(), 0);
    assert_eq!(target.get(&value), Got::Right);
    assert_eq!(bench.master.count("master_soft_pin_key_count"), 1);
}

#[test]
fn tasks_that_cannot_work_are_refused() {
    let Some((_bench, mut source, target, _)) = start() else { return };
    let (from, to) = (source.segment().to_owned(), target.segment().to_owned());
    assert_eq!(source.create_copy_task("absent", &[&to]), Err(-704));
    assert_eq!(source.create_copy_task("k", &[]), Err(-600));
    assert_eq!(source.create_copy_task("k", &["nobody:1"]), Err(-600));
    assert_eq!(source.create_move_task("k", &from, &from), Err(-600));
    assert_eq!(source.create_move_task("k", &to, &from), Err(-600));
    assert_eq!(source.query_task(&serde_json::json!([1, 2])), Err(-1400));
}

#[test]
fn many_copy_tasks_are_all_done() {
    let Some((_bench, mut source, mut target, _)) = start() else { return };
    let values = Value::several("m/", 40, 20_000);
    let config = WriteConfig::default().on(source.segment());
    assert_eq!(source.put_batch(&values, &config), 0);
    let to = target.segment().to_owned();
    for value in &values {
        let task = target.create_copy_task(&value.key, &[&to]);
        assert!(task.is_ok(), "{task:?}");
    }
    eventually("every value has two copies", || {
        values.iter().all(|value| target.replicas(&value.key).len() == 2)
    });
    assert_eq!(source.close(), 0);
    assert_eq!(target.get_batch(&values), ["right"; 40]);
}
