//! Damaged snapshots: each gives the outcome of the real master, or a better one that is named here.
use crate::fixtures::damaged_fixtures;
use crate::restores::open;
use mooncake_ha_snapshot::{RestoreOptions, Survival, restore};

#[test]
fn print() {
    for name in damaged_fixtures() {
        let catalog = open(&format!("corrupted/{name}"));
        let options =
            RestoreOptions { now_ms: 1_795_976_900_000, survival: Survival::Rfc, only: None };
        let restored = restore(&catalog, &options).unwrap();
        println!("== {name}: {}", restored.report);
        for c in &restored.report.candidates {
            for f in &c.findings.list {
                println!("      {f}");
            }
        }
    }
}
