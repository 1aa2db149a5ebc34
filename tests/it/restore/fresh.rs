//! A new node in the test's process at a chosen time, and roots of snapshots to restore from.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooncake_ha::clock::ManualClock;
use mooncake_ha::config::{Config, Loaded, load};
use mooncake_ha::model::{Deadline, Millis};
use mooncake_ha::node::MasterNode;
use mooncake_ha::node::settings::NodeSettings;
use mooncake_ha::restore::{RestoreError, Restorer, Wanted};
use mooncake_ha::state::State;
use mooncake_ha_snapshot::catalog::CLUSTER_ID_DEFAULT;
use mooncake_ha_snapshot::store::LocalStore;
use mooncake_ha_snapshot::{Catalog, Limits, RestoreReport, Survival};
use tempfile::TempDir;

use crate::support::node::until;

/// Where a fixture's root is.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snapshots").join(name)
}

/// A copy of a fixture that a test may change.
pub fn copy_of(name: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    copy(&fixture(name), dir.path());
    dir
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The directory of the cluster below a root.
pub fn cluster_in(root: &Path) -> PathBuf {
    root.join("mooncake_master_snapshot").join(CLUSTER_ID_DEFAULT)
}

pub fn catalog(root: &Path) -> Catalog {
    let store = LocalStore::open_existing(root).unwrap();
    Catalog::new(Arc::new(store), CLUSTER_ID_DEFAULT, Limits::default())
}

/// A node that leads a cluster of one and has never served.
pub struct Fresh {
    pub node: MasterNode,
    pub config: Config,
    pub clock: Arc<ManualClock>,
    dir: TempDir,
}

impl Fresh {
    pub async fn at(now_ms: u64, flags: &[&str]) -> Self {
        let args: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let Ok(Loaded::Settings(settings)) = load(&args, []) else { panic!("{args:?}") };
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(ManualClock::at(Millis(now_ms)));
        let config = settings.config;
        let node = open(&dir, &config, &clock).await;
        Fresh { node, config, clock, dir }
    }

    /// Stops it and opens the same directory again.
    pub async fn reopened(self) -> Self {
        self.node.shutdown().await;
        let Fresh { node, config, clock, dir } = self;
        drop(node);
        let node = open(&dir, &config, &clock).await;
        Fresh { node, config, clock, dir }
    }

    pub async fn restore(
        &self,
        root: &Path,
        survival: Survival,
    ) -> Result<RestoreReport, RestoreError> {
        let restorer = Restorer::new(catalog(root), self.node.clone());
        let restored = restorer.run(Wanted { only: None, survival, is_dry_run: false }).await;
        assert_eq!(self.node.look(State::check), Vec::<String>::new());
        assert!(self.node.look(|state| state.restore().stage().is_none()), "a stage is left");
        restored
    }

    /// Committed deadlines by key, of those that the index has.
    pub fn pins(&self) -> Vec<(String, u64)> {
        self.node.look(|state| {
            let live = state.deadlines().first_live(usize::MAX);
            let mut pins: Vec<(String, u64)> = live
                .into_iter()
                .map(|(Deadline(at), object)| {
                    let key = state.view().table.peek(object, |object| object.key.clone());
                    (String::from_utf8(key.unwrap().to_vec()).unwrap(), at)
                })
                .collect();
            pins.sort();
            pins
        })
    }

    /// Every key, ascending.
    pub fn keys(&self) -> Vec<String> {
        let shards = self.node.look(|state| state.view().table.freeze());
        let keys = shards.iter().flat_map(|shard| shard.objects());
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let mut keys: Vec<String> = keys.map(|object| text(&object.key)).collect();
        keys.sort();
        keys
    }
}

async fn open(dir: &TempDir, config: &Config, clock: &Arc<ManualClock>) -> MasterNode {
    let mut raft = mooncake_ha_raft::Config::new(1, "test", dir.path().join("data"));
    raft.durability = mooncake_ha_raft::Durability::Async;
    let settings = NodeSettings::new(config, "127.0.0.1:1", "");
    let node = MasterNode::open(raft, settings, clock.clone()).await.unwrap();
    until("it leads", async || node.leader().is_some()).await;
    node
}
