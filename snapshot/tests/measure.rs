//! Measures how long one million objects take to be encoded, decoded and normalized.
//!
//! ```text
//! cargo run --release --example measure -- [OBJECTS] [ROOT]
//! ```
//!
//! With a root the snapshot is published there, so that a node can be measured restoring it.

use std::sync::Arc;
use std::time::Instant;

use mooncake_ha_snapshot::catalog::CLUSTER_ID_DEFAULT;
use mooncake_ha_snapshot::codec::manifest::Descriptor;
use mooncake_ha_snapshot::store::LocalStore;
use mooncake_ha_snapshot::{
    Catalog, Decoder, Findings, Image, Limits, Payloads, ShardEncoder, SnapshotEncoder,
    SnapshotError, Survival, decode_image, encode_image, normalize, read_container,
    write_container,
};

#[path = "it/made.rs"]
#[expect(clippy::unwrap_used, reason = "shared with the tests")]
mod made;

const LEVEL: i32 = 1;

fn main() -> Result<(), SnapshotError> {
    let objects = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let image = image(objects);
    let payloads = timed("encode, one thread", || encode_image(&image))?;
    if let Some(root) = std::env::args().nth(2) {
        publish(&payloads, &root)?;
    }
    let bytes = payloads.total_bytes();
    println!("{objects} objects, {bytes} bytes");
    timed("encode, two threads", || encode_on_two_threads(&image))?;
    let mut stream = Vec::new();
    timed("write container", || write_container(&payloads, &mut stream))?;
    timed("read container", || read_container(&mut stream.as_slice(), u64::MAX))?;
    let limits = Limits::default();
    timed("decode shard by shard", || {
        let mut decoder = Decoder::open(&payloads, &limits)?;
        let mut count = 0;
        while let Some(shard) = decoder.next_shard()? {
            count += shard.objects.len();
        }
        Ok::<usize, SnapshotError>(count)
    })?;
    drop(image);
    let decoded = timed("decode and check all", || decode_image(&payloads, &limits))?;
    for now_ms in [0, u64::MAX] {
        let mut image = decoded.image.clone();
        let what = if now_ms == 0 { "normalize, all survive" } else { "normalize, none survives" };
        timed(what, || normalize(&mut image, now_ms, Survival::Rfc, &mut Findings::default()))?;
    }
    Ok(())
}

fn publish(payloads: &Payloads, root: &str) -> Result<(), SnapshotError> {
    let store = LocalStore::open(root.as_ref())?;
    let catalog = Catalog::new(Arc::new(store), CLUSTER_ID_DEFAULT, Limits::default());
    let descriptor = Descriptor { last_included: 0, view_version: 0, created_ms: 0 };
    catalog.publish(catalog.next_id(1_795_976_860_000)?, payloads, &descriptor)
}

fn image(objects: u64) -> Image {
    let mut maker = made::Maker::default();
    for number in 0..objects {
        maker.object("default", format!("bench-key-{number:012}").as_bytes(), 64);
    }
    maker.finish()
}

fn encode_on_two_threads(image: &Image) -> Result<u64, SnapshotError> {
    let encode = |parity: u16| {
        let mut encoder = ShardEncoder::new(LEVEL)?;
        let own = image.shards.iter().filter(move |(shard, _)| *shard % 2 == parity);
        own.map(|(shard, objects)| encoder.encode(*shard, objects)).collect::<Result<Vec<_>, _>>()
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| encode(1));
        (encode(0), odd.join())
    });
    let odd = odd.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let mut encoder = SnapshotEncoder::with_level(LEVEL)?;
    even?.into_iter().chain(odd).for_each(|shard| encoder.push(shard));
    Ok(encoder.finish(&image.globals)?.total_bytes())
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
fn timed<T, E>(what: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let start = Instant::now();
    let result = work();
    println!("{what:28} {:6} ms", start.elapsed().as_millis());
    result
}
