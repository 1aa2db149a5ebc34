//! One fuzz target for all decoders: `MOONCAKE_FUZZ` names the probe. `fuzz/run` builds and starts it.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

fn probe() -> fn(&[u8]) {
    static PROBE: OnceLock<fn(&[u8])> = OnceLock::new();
    *PROBE.get_or_init(|| {
        let name = std::env::var("MOONCAKE_FUZZ").unwrap_or_default();
        let all = [
            mooncake_ha::probes::PROBES,
            mooncake_ha_raft::probes::PROBES,
            mooncake_ha_snapshot::PROBES,
        ];
        let found = all.into_iter().flatten().find(|(known, _)| *known == name);
        found.map(|(_, probe)| *probe).expect("MOONCAKE_FUZZ names a probe")
    })
}

fuzz_target!(|bytes: &[u8]| probe()(bytes));
