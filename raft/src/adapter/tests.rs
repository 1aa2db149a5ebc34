//! openraft's own storage suite over the real log and the real raft snapshot files.

use std::io::{Read, Write};

use openraft::testing::log::{StoreBuilder, Suite};
use tokio::sync::watch;

use super::*;
use crate::config::Config;
use crate::log::LogStore;
use crate::machine::{Erased, Machine, MachineError};

struct Nothing;

impl Machine for Nothing {
    type Reply = ();
    type Frozen = ();

    fn apply(&self, _index: u64, _entry: &[u8]) -> Result<(), MachineError> {
        Ok(())
    }

    fn freeze(&self) {}

    fn save((): (), to: &mut dyn Write) -> io::Result<()> {
        to.write_all(b"nothing")
    }

    fn load(&self, from: &mut dyn Read) -> Result<(), MachineError> {
        let mut content = Vec::new();
        from.read_to_end(&mut content).map_err(|e| MachineError::new(e.to_string()))?;
        if content == b"nothing" { Ok(()) } else { Err(MachineError::new("something")) }
    }
}

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, Adapter, tempfile::TempDir> for Builder {
    async fn build(
        &self,
    ) -> Result<(tempfile::TempDir, LogStore, Adapter), openraft::StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(1, "suite", dir.path());
        // Small, so that the suite reads from the store and not only from memory.
        config.log_cache_bytes = 1;
        let (mark, journal) = (dir.path().join("mark"), dir.path().join("journal"));
        let fatal = watch::Sender::new(None);
        let log = LogStore::open(&dir.path().join("log"), &mark, &journal, &config, fatal);
        let snapshots =
            SnapshotDir::open(config.world.clone(), dir.path().join("snapshot")).unwrap();
        let machine = Arc::new(Erased(Arc::new(Nothing)));
        let adapter = Adapter::open(machine, snapshots, Box::new(|_| {})).unwrap();
        Ok((dir, log.unwrap(), adapter))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_storage_suite_of_openraft_passes() {
    Suite::test_all(Builder).await.unwrap();
}
