//! Restores the newest good snapshot of one root and publishes it in another, changed on request.
//!
//! For trying our output with a real master by hand and from process tests:
//!
//! ```text
//! cargo run --example recode -- FROM TO NOW_MS [--lease-ms N] [--pin-ms N] [--drop-every N]
//! ```
//!
//! FROM and TO are roots. Every COMPLETE object is kept. `--lease-ms` and `--pin-ms` set the absolute
//! end of all leases and pins; `--drop-every N` leaves out each N-th object, so that node tables are
//! made new.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use mooncake_ha_snapshot::catalog::CLUSTER_ID_DEFAULT;
use mooncake_ha_snapshot::codec::manifest::Descriptor;
use mooncake_ha_snapshot::store::LocalStore;
use mooncake_ha_snapshot::{
    Catalog, Image, Limits, RestoreOptions, Survival, encode_image, refit_allocators, restore,
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, now_ms, options @ ..] = arguments.as_slice() else {
        return Err("usage: recode FROM TO NOW_MS [--option N]...".into());
    };
    let now_ms: u64 = now_ms.parse()?;
    let source = catalog(LocalStore::open_existing(Path::new(from))?);
    let choice = RestoreOptions { now_ms, survival: Survival::Complete, only: None };
    let restored = restore(&source, &choice)?;
    println!("{}", restored.report);
    let (_, mut image) = restored.image.ok_or("nothing to recode")?;
    for option in options.chunks(2) {
        let [name, value] = option else { return Err("an option without value".into()) };
        change(&mut image, name, value.parse()?)?;
    }
    refit_allocators(&mut image)?;
    let target = catalog(LocalStore::open(Path::new(to))?);
    let id = target.next_id(now_ms)?;
    let descriptor = Descriptor { created_ms: now_ms.cast_signed(), ..Descriptor::default() };
    target.publish(id, &encode_image(&image)?, &descriptor)?;
    println!("published {id} with {} objects", image.object_count());
    Ok(())
}

fn catalog(store: LocalStore) -> Catalog {
    Catalog::new(Arc::new(store), CLUSTER_ID_DEFAULT, Limits::default())
}

fn change(image: &mut Image, name: &str, value: u64) -> Result<(), String> {
    let objects = image.shards.values_mut().flatten();
    match name {
        "--lease-ms" => objects.for_each(|object| object.lease_ms = value),
        "--pin-ms" => objects.for_each(|object| object.soft_pin_ms = Some(value)),
        "--drop-every" => {
            let mut count = 0;
            for objects in image.shards.values_mut() {
                objects.retain(|_| {
                    count += 1;
                    count % value.max(1) != 0
                });
            }
        }
        other => return Err(format!("unknown option {other}")),
    }
    Ok(())
}
