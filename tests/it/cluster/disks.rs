//! Stock clients with disks of their own, and a leader that is killed in the middle of offloads, of eviction to disk,
//! of promotions, and of a tenant that outgrows its quota: every acknowledged value is read with its own bytes.

use std::time::Duration;

use super::trio::Trio;
use crate::support::{Got, StockClient, Value, WriteConfig, eventually_within};

const MIB: u64 = 1 << 20;
/// The clients look for another leader after some seconds, and speak of their disks each second.
const PATIENCE: Duration = Duration::from_secs(120);
const LEASE: &str = "--default_kv_lease_ttl=500";
/// What was handed to a client and reported to the dead leader alone is over after this.
const RELEASE: &str = "--put_start_release_timeout_sec=31";

/// One client that has memory and a disk, and one that only reads.
struct Disks {
    trio: Trio,
    owner: StockClient,
    reader: StockClient,
}

impl Disks {
    fn start(flags: &[&str], segment_mib: u64) -> Option<Self> {
        let flags = [&["--enable_offload", "--client_ttl=600", LEASE], flags].concat();
        let trio = Trio::start(&flags);
        let owner = trio.client_with_disk("owner", None, &trio.etcd(), segment_mib)?;
        let reader = trio.client("reader", &trio.etcd(), 0)?;
        Some(Disks { trio, owner, reader })
    }

    /// What is on disk, and what is on its way there.
    fn offloads(&self) -> (u64, u64) {
        (self.trio.metric("file_cache_nums_"), self.trio.metric("master_offloads_in_flight"))
    }

    /// Kills the leader once some values are on disk and others on their way; answers it and how many were on disk.
    fn kill_amid_offloads(&mut self, values: &mut Vec<Value>) -> (usize, u64) {
        let mut on_disk = 0;
        eventually_within(PATIENCE, "offloads are under way", || {
            write(&mut self.owner, "v/", values, 1);
            let (done, open) = self.offloads();
            on_disk = done;
            done > 0 && open > 0
        });
        (kill(&mut self.trio), on_disk)
    }

    fn assert_all_right(&mut self, values: &[Value]) {
        for client in [&mut self.reader, &mut self.owner] {
            for value in values {
                assert_eq!(client.get(value), Got::Right, "{}", value.key);
            }
        }
    }
}

/// Kills the leader and waits for the next one.
fn kill(trio: &mut Trio) -> usize {
    let leader = trio.leader();
    trio.kill(leader);
    assert_ne!(trio.leader(), leader);
    leader
}

/// Writes values of a MiB until so many more are acknowledged. A name whose write was refused or had no answer is not
/// used again: nobody knows what is under it.
fn write(client: &mut StockClient, prefix: &str, written: &mut Vec<Value>, more: usize) {
    let goal = written.len() + more;
    let mut refused = 0;
    eventually_within(PATIENCE, "the values are acknowledged", || {
        while written.len() < goal {
            let value = Value::new(&format!("{prefix}{}.{refused}", written.len()), MIB);
            // Every second one is pinned: a pin has nothing to do with where a value lies.
            let config = match written.len() % 2 {
                0 => WriteConfig::default(),
                _ => WriteConfig::soft_pin_for(3_600_000),
            };
            if client.put_with(&value, &config) != 0 {
                refused += 1;
                return false;
            }
            written.push(value);
        }
        true
    });
}

/// m for a finished replica in memory, l for one on a client's disk; a question that grants no lease.
fn kinds(trio: &Trio, tenant: &str, value: &Value) -> String {
    let path = format!("/api/v1/object?key={}&tenant={tenant}", value.key);
    let page = trio.http(trio.leader()).json(&path);
    let finished = page["replicas"].as_array().unwrap().iter();
    let finished = finished.filter(|replica| replica["status"] == "COMPLETE");
    finished.map(|replica| &replica["kind"].as_str().unwrap()[..1]).collect()
}

fn of(trio: &Trio, values: &[Value], wanted: &str) -> usize {
    values.iter().filter(|value| kinds(trio, "default", value) == wanted).count()
}

#[test]
fn stock_clients_write_to_disk_over_the_death_of_a_leader() {
    let Some(mut disks) = Disks::start(&["--eviction_ratio=0.5"], 64) else { return };
    let mut values = Vec::new();
    write(&mut disks.owner, "v/", &mut values, 20);
    let (leader, on_disk) = disks.kill_amid_offloads(&mut values);
    assert!(disks.offloads().0 >= on_disk, "no copy on disk is lost");
    let before = values.len();
    write(&mut disks.owner, "v/", &mut values, 5);
    disks.trio.start_again(leader);
    disks.trio.settled();
    eventually_within(PATIENCE, "what is written now goes to disk", || {
        of(&disks.trio, &values[before..], "ml") == 5
    });
    disks.assert_all_right(&values);
    // Whoever is on disk and neither read nor pinned can leave memory.
    let mut fill = Vec::new();
    eventually_within(PATIENCE, "memory is full of others", || {
        write(&mut disks.owner, "fill/", &mut fill, 4);
        of(&disks.trio, &values, "l") > 0
    });
    assert_eq!(disks.trio.told().pins.len(), values.len() / 2 + fill.len() / 2);
    disks.assert_all_right(&values);
}

#[test]
fn full_memory_goes_to_disk_over_the_death_of_a_leader() {
    let flags = ["--offload_on_evict", "--eviction_high_watermark_ratio=0.6", RELEASE];
    let Some(mut disks) = Disks::start(&flags, 32) else { return };
    let mut values = Vec::new();
    let (leader, on_disk) = disks.kill_amid_offloads(&mut values);
    assert!(disks.offloads().0 >= on_disk, "no copy on disk is lost");
    let rest = 60_usize.saturating_sub(values.len());
    write(&mut disks.owner, "v/", &mut values, rest);
    disks.trio.start_again(leader);
    disks.trio.settled();
    let told = disks.trio.told();
    assert!(values.iter().all(|value| told.keys.contains(&value.key)), "{:?}", told.keys);
    assert_eq!(told.pins.len(), values.len() / 2);
    assert!(of(&disks.trio, &values, "l") > 20, "more than memory holds");
    disks.assert_all_right(&values);
}

#[test]
fn what_is_read_from_disk_comes_back_to_memory_over_the_death_of_a_leader() {
    let flags = [
        "--promotion_on_hit",
        "--promotion_max_per_heartbeat=2",
        "--eviction_high_watermark_ratio=0.8",
        "--eviction_ratio=0.5",
        RELEASE,
    ];
    let Some(mut disks) = Disks::start(&flags, 32) else { return };
    let values = Value::several("hot/", 10, MIB);
    for value in &values {
        assert_eq!(disks.owner.put(value), 0);
    }
    eventually_within(PATIENCE, "they are on disk", || disks.offloads().0 == 10);
    let mut fill = Vec::new();
    eventually_within(PATIENCE, "they are on disk alone", || {
        write(&mut disks.owner, "fill/", &mut fill, 1);
        of(&disks.trio, &values, "l") == 10
    });
    let counts = |trio: &Trio| {
        ["in_flight", "completed_total"]
            .map(|name| trio.metric(&format!("master_promotion_{name}")))
    };
    eventually_within(PATIENCE, "some are in memory again and others on their way", || {
        for value in &values {
            assert_eq!(disks.reader.get(value), Got::Right, "{}", value.key);
        }
        counts(&disks.trio).iter().all(|count| *count > 0)
    });
    let leader = kill(&mut disks.trio);
    let [open, done] = counts(&disks.trio);
    assert!(open > 0 && done > 0, "the next leader knows of both: {open}, {done}");
    eventually_within(PATIENCE, "all are in memory again", || {
        for value in &values {
            // The reader is looking for the leader: there is no answer, or the right one.
            let got = disks.reader.get(value);
            assert!(!matches!(got, Got::Wrong(_)), "{}: {got:?}", value.key);
        }
        of(&disks.trio, &values, "lm") == 10
    });
    disks.trio.start_again(leader);
    disks.trio.settled();
    eventually_within(PATIENCE, "nothing is left over", || counts(&disks.trio)[0] == 0);
    disks.assert_all_right(&values);
}

fn charged(trio: &Trio, tenant: &str) -> u64 {
    let page = trio.http(trio.leader()).json(&format!("/api/v1/tenant_quotas?tenant_id={tenant}"));
    page["data"]["charged_bytes"].as_u64().unwrap()
}

#[test]
fn tenants_with_disks_keep_their_bytes_and_quotas_over_the_death_of_a_leader() {
    const QUOTA: u64 = 16 * MIB;
    let flags = ["--enable_offload", "--enable_multi_tenants", "--client_ttl=600", LEASE];
    let mut trio = Trio::start(&flags);
    for tenant in ["a", "b"] {
        let path = format!("/api/v1/tenant_quotas?tenant_id={tenant}");
        let body = format!("{{\"requested_quota_bytes\":{QUOTA}}}");
        eventually_within(PATIENCE, "the quota is set", || {
            trio.http(trio.leader()).send("PUT", &path, body.as_bytes()).0 == 200
        });
    }
    let of =
        |name: &'static str, trio: &Trio| trio.client_with_disk(name, Some(name), &trio.etcd(), 32);
    let Some(mut a) = of("a", &trio) else { return };
    let Some(mut b) = of("b", &trio) else { return };
    let ours = Value::several("k/", 10, MIB);
    let theirs: Vec<Value> = ours.iter().map(|value| value.changed(MIB)).collect();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!((a.put(ours), b.put(theirs)), (0, 0));
    }
    eventually_within(PATIENCE, "both have them on disk", || trio.metric("file_cache_nums_") == 20);
    // Ten are there and sixteen fit: what is on disk leaves memory for what is written.
    let mut more = Vec::new();
    write(&mut a, "more/", &mut more, 8);
    assert!(ours.iter().any(|value| kinds(&trio, "a", value) == "l"));
    let leader = kill(&mut trio);
    write(&mut a, "more/", &mut more, 16);
    trio.start_again(leader);
    trio.settled();
    for value in ours.iter().chain(&more) {
        assert_eq!(a.get(value), Got::Right, "{}", value.key);
    }
    for value in &theirs {
        assert_eq!(kinds(&trio, "b", value), "ml", "nobody else's quota takes memory away");
        assert_eq!(b.get(value), Got::Right, "{}", value.key);
    }
    assert!(more.iter().all(|value| b.is_exist(&value.key) == 0));
    assert!(charged(&trio, "a") <= QUOTA, "{}", charged(&trio, "a"));
    assert_eq!(charged(&trio, "b"), 10 * MIB);
}
