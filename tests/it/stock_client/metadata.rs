//! Clients that find each other through the master's embedded metadata server.

use crate::support::{Bench, Feature, Got, StockClient, Value, WriteConfig, eventually};

const ON: &str = "--enable_http_metadata_server=true";

fn client(bench: &Bench, name: &str, segment_mib: u64) -> StockClient {
    let mut client = bench.bare_client(name);
    let (master, metadata) = (bench.master.address(), bench.master.metadata_url());
    assert_eq!(client.setup_with_metadata(&master, segment_mib << 20, &metadata), 0);
    client
}

/// The stored text under one of the client's own keys.
fn stored(bench: &Bench, kind: &str, client: &StockClient) -> (u16, String) {
    let name = client.segment().replace(':', "%3A");
    bench.master.metadata_http().get(&format!("/metadata?key=mooncake%2F{kind}%2F{name}"))
}

#[test]
fn clients_exchange_values_through_the_embedded_metadata_server() {
    let Some(bench) = Bench::start(&[ON]) else { return };
    let mut a = client(&bench, "a", 32);
    let mut b = client(&bench, "b", 32);
    for value in Value::several("v/", 20, 50_000) {
        assert_eq!(a.put_with(&value, &WriteConfig::replicas(2)), 0);
        assert_eq!(b.get(&value), Got::Right);
    }
    for kind in ["ram", "rpc_meta"] {
        let (status, body) = stored(&bench, kind, &a);
        assert_eq!(status, 200, "{kind}: {body}");
        assert!(body.starts_with('{'), "{kind}: {body}");
    }
    assert_eq!(a.replicas("v/0").len(), 2);
    assert_eq!(b.close(), 0);
    assert_eq!(bench.master.metadata_http().get("/metadata?key=nothing").0, 404);
}

#[test]
fn what_clients_published_is_still_there_after_the_master_was_killed() {
    let Some(mut bench) = Bench::needing(&[Feature::Durable], &[ON]) else { return };
    let mut a = client(&bench, "a", 32);
    let value = Value::new("k", 100_000);
    assert_eq!(a.put(&value), 0);
    let before = [stored(&bench, "ram", &a), stored(&bench, "rpc_meta", &a)];
    assert_eq!((before[0].0, before[1].0), (200, 200));
    bench.master.kill();
    bench.master.start_again();
    assert_eq!([stored(&bench, "ram", &a), stored(&bench, "rpc_meta", &a)], before);
    // A client that has never met `a` needs its published description to read from it.
    let mut late = client(&bench, "late", 32);
    assert_eq!(late.get(&value), Got::Right);
    let next = Value::new("next", 100_000);
    eventually("the old client works on", || a.put(&next) == 0 && late.get(&next) == Got::Right);
}
