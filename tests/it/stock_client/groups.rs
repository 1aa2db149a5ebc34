//! Objects in groups share their read leases.

use crate::support::{Bench, Feature, Got, Value, WriteConfig, eventually};

const FLAGS: &[&str] = &["--default_kv_lease_ttl=3s"];

#[test]
fn reading_one_member_protects_the_whole_group_for_the_lease_time() {
    let Some(bench) = Bench::needing(&[Feature::Groups], FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let values = Value::several("g/", 4, 1000);
    assert_eq!(client.put_batch(&values, &WriteConfig::groups(&["g", "g", "g", "h"])), 0);
    assert_eq!(client.get(&values[0]), Got::Right);
    let codes: Vec<i64> = values.iter().map(|value| client.remove(&value.key, false)).collect();
    assert_eq!(codes, [-706, -706, -706, 0]);
    eventually("the group's lease has run out", || client.remove("g/2", false) == 0);
    assert_eq!(client.remove("g/1", false), 0);
}

#[test]
fn an_upsert_may_repeat_or_omit_a_keys_group_but_not_change_it() {
    let features = [Feature::Groups, Feature::Upsert];
    let Some(bench) = Bench::needing(&features, FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let value = Value::new("k", 1000);
    assert_eq!(client.put_with(&value, &WriteConfig::groups(&["g"])), 0);
    let next = value.changed(1000);
    assert_eq!(client.upsert_with(&next, &WriteConfig::groups(&["h"])), -600);
    assert_eq!(client.get(&value), Got::Right);
    assert_eq!(client.upsert_with(&next, &WriteConfig::groups(&["g"])), 0);
    assert_eq!(client.upsert_with(&next.changed(2000), &WriteConfig::default()), 0);
    assert_eq!(client.get(&next.changed(2000)), Got::Right);
}

#[test]
fn a_list_of_groups_of_the_wrong_length_is_refused() {
    let Some(bench) = Bench::needing(&[Feature::Groups], FLAGS) else { return };
    let mut client = bench.client("c", 32);
    let config = WriteConfig::groups(&["g", "h"]);
    assert_eq!(client.put_with(&Value::new("k", 1000), &config), -600);
    assert_ne!(client.put_batch(&Value::several("b/", 3, 1000), &config), 0);
    assert_eq!(bench.master.count("master_key_count"), 0);
}
