//! What one client writes, another reads, byte for byte.

use crate::support::{Bench, Got, StockClient, Value, WriteConfig};

/// The smallest, the odd, the ones around powers of two, and the largest.
const SIZES: [u64; 12] =
    [1, 2, 13, 255, 256, 4095, 4097, 65_536, 1_000_003, 1 << 20, (4 << 20) + 1, 8 << 20];

fn two_clients(bench: &Bench) -> (StockClient, StockClient) {
    (bench.client("writer", 64), bench.client("reader", 64))
}

/// Where the transfer engine of `client` listens: the place of an object that it puts at home.
fn endpoint_of(client: &mut StockClient) -> String {
    let value = Value::new(&format!("home/{}", client.segment()), 10);
    let config = WriteConfig::default().on(client.segment());
    assert_eq!(client.put_with(&value, &config), 0);
    client.replicas(&value.key).remove(0).endpoint
}

#[test]
fn values_of_1_byte_to_8_mib_are_read_by_another_client_byte_for_byte() {
    let Some(bench) = Bench::start(&[]) else { return };
    let (mut writer, mut reader) = two_clients(&bench);
    let values: Vec<Value> =
        SIZES.iter().map(|&size| Value::new(&format!("v/{size}"), size)).collect();
    for value in &values {
        assert_eq!(writer.put(value), 0, "{value:?}");
    }
    for value in &values {
        assert_eq!(reader.get(value), Got::Right, "{value:?}");
        assert_eq!(reader.get_plain(value), "right", "{value:?}");
        assert_eq!(writer.get(value), Got::Right, "{value:?}");
        assert_eq!(u64::try_from(reader.get_size(&value.key)), Ok(value.size));
    }
}

#[test]
fn another_content_of_the_same_key_is_noticed_by_the_bench_itself() {
    let Some(bench) = Bench::start(&[]) else { return };
    let (mut writer, mut reader) = two_clients(&bench);
    let value = Value::new("v", 5000);
    assert_eq!(writer.put(&value), 0);
    assert!(matches!(reader.get(&value.changed(5000)), Got::Wrong(_)));
    assert!(matches!(reader.get(&value.changed(5001)), Got::Wrong(_)));
}

#[test]
fn a_client_without_a_segment_writes_and_reads_in_the_memory_of_others() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut owner = bench.client("owner", 32);
    let mut guest = bench.client("guest", 0);
    for value in Value::several("g/", 20, 30_000) {
        assert_eq!(guest.put(&value), 0);
        assert_eq!(guest.get(&value), Got::Right);
        assert_eq!(owner.get(&value), Got::Right);
    }
}

#[test]
fn without_any_segment_a_put_has_no_place() {
    let Some(bench) = Bench::start(&[]) else { return };
    let mut guest = bench.client("guest", 0);
    assert_eq!(guest.put(&Value::new("k", 10)), -200);
    assert_eq!(guest.get(&Value::new("k", 10)), Got::Failed(-704));
}

#[test]
fn a_second_put_of_a_key_succeeds_and_changes_nothing() {
    let Some(bench) = Bench::start(&[]) else { return };
    let (mut writer, mut reader) = two_clients(&bench);
    let first = Value::new("k", 1000);
    assert_eq!(writer.put(&first), 0);
    assert_eq!(reader.put(&first.changed(2000)), 0);
    assert_eq!(reader.get(&first), Got::Right);
}

#[test]
fn batches_are_written_read_asked_for_and_removed_item_by_item() {
    let Some(bench) = Bench::start(&["--default_kv_lease_ttl=1s"]) else { return };
    let (mut writer, mut reader) = two_clients(&bench);
    let mut values = Value::several("b/", 100, 7000);
    for (value, size) in values.iter_mut().zip([1, 100, 300_000].into_iter().cycle()) {
        value.size = size;
    }
    assert_eq!(writer.put_batch(&values, &WriteConfig::default().of_type("kvcache")), 0);
    values.push(Value::new("absent", 10));
    let read = reader.get_batch(&values);
    assert!(read[..100].iter().all(|got| got == "right"), "{read:?}");
    assert_eq!(read[100], "missing");
    let exist = reader.batch_is_exist(&values);
    assert!(exist[..100].iter().all(|&answer| answer == 1) && exist[100] == 0, "{exist:?}");
    let removed = writer.batch_remove(&values, true);
    assert!(removed[..100].iter().all(|&code| code == 0), "{removed:?}");
    assert_eq!(removed[100], -704);
    assert!(reader.batch_is_exist(&values).iter().all(|&answer| answer == 0));
    assert_eq!(bench.master.count("master_allocated_bytes"), 0);
}

#[test]
fn a_write_session_is_invisible_until_it_ends_and_can_be_revoked() {
    let Some(bench) = Bench::start(&[]) else { return };
    let (mut writer, mut reader) = two_clients(&bench);
    let values = Value::several("s/", 4, 50_000);
    assert_eq!(writer.session_start(&values, &WriteConfig::default()), [0; 4]);
    assert_eq!(reader.get(&values[0]), Got::Failed(-703));
    assert_eq!(reader.is_exist(&values[0].key), 0);
    assert_eq!(writer.session_write(&values), [50_000; 4]);
    let (kept, dropped) = values.split_at(2);
    assert_eq!(writer.session_end(kept), [0; 2]);
    assert_eq!(writer.session_revoke(dropped), [0; 2]);
    assert_eq!(reader.get_batch(kept), ["right"; 2]);
    assert_eq!(reader.get(&dropped[0]), Got::Failed(-704));
    assert_eq!(bench.master.count("master_allocated_bytes"), 100_000);
}

#[test]
fn copies_lie_on_different_segments_and_a_preferred_segment_is_used() {
    let Some(bench) = Bench::start(&[]) else { return };
    let (mut writer, mut reader) = two_clients(&bench);
    let home = endpoint_of(&mut reader);
    for value in Value::several("r/", 10, 10_000) {
        assert_eq!(writer.put_with(&value, &WriteConfig::replicas(2)), 0);
        let copies = writer.replicas(&value.key);
        assert_eq!(copies.len(), 2, "{copies:?}");
        assert_ne!(copies[0].endpoint, copies[1].endpoint);
        assert!(copies.iter().all(|copy| copy.status == "COMPLETE" && copy.size == 10_000));
    }
    for value in Value::several("p/", 10, 10_000) {
        let config = WriteConfig::default().on(reader.segment());
        assert_eq!(writer.put_with(&value, &config), 0);
        assert_eq!(writer.replicas(&value.key)[0].endpoint, home);
        assert_eq!(reader.get(&value), Got::Right);
    }
}

#[test]
fn more_copies_than_segments_are_stored_as_far_as_there_are_segments() {
    let Some(bench) = Bench::start(&[]) else { return };
    let (mut writer, _other) = two_clients(&bench);
    let value = Value::new("k", 10_000);
    assert_eq!(writer.put_with(&value, &WriteConfig::replicas(3)), 0);
    assert_eq!(writer.replicas("k").len(), 2);
}
