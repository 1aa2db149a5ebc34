//! One test's world: a directory, a master, and as many stock clients as it asks for.
//!
//! `TEST_MASTER=peer` runs the same tests against the C++ master, which shows that the tests ask
//! for nothing that the original does not do. The default is the program of this build.

use std::env;

use tempfile::TempDir;

use super::master::{Kind, Master};
use super::stock_client::StockClient;
use super::venv::{self, Venv};

/// Parts of the product that a test needs and that one of the two masters lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// State on disk, and the admin pages about it: only ours.
    Durable,
    /// Upserts.
    Upsert,
    /// Object groups.
    Groups,
    /// Removal by pattern, and by client and segment.
    BulkRemoval,
    /// Eviction under memory pressure.
    Eviction,
    /// Copy and move tasks.
    Tasks,
    /// Unmounting after a grace period.
    GracefulUnmount,
}

/// What the master of this build does not do yet.
const NOT_YET_OURS: &[Feature] = &[];
const NOT_PEER: &[Feature] = &[Feature::Durable];

/// A running master with a place for everything around it.
pub struct Bench {
    /// The master under test.
    pub master: Master,
    venv: Venv,
    dir: TempDir,
}

impl Bench {
    /// Starts the master under test with `flags`; `None` if the test cannot run here.
    pub fn start(flags: &[&str]) -> Option<Self> {
        Bench::needing(&[], flags)
    }

    /// The same for a test that makes sense only where `features` exist.
    pub fn needing(features: &[Feature], flags: &[&str]) -> Option<Self> {
        let venv = venv::find()?;
        let kind = match env::var("TEST_MASTER").as_deref() {
            Ok("peer") => Kind::Peer,
            Ok("ours") | Err(_) => Kind::Ours,
            Ok(other) => panic!("TEST_MASTER is {other}; it is ours or peer"),
        };
        let missing = if kind == Kind::Ours { NOT_YET_OURS } else { NOT_PEER };
        if let Some(feature) = features.iter().find(|feature| missing.contains(feature)) {
            venv::skip(&format!("{kind:?} has no {feature:?}"));
            return None;
        }
        let dir = TempDir::new().unwrap();
        let master = match kind {
            Kind::Ours => Master::ours(dir.path(), flags),
            Kind::Peer => Master::peer(&venv.peer_master, dir.path(), flags),
        };
        Some(Bench { master, venv, dir })
    }

    /// A client process that has not been set up.
    pub fn bare_client(&self, name: &str) -> StockClient {
        StockClient::spawn(&self.venv, name, self.dir.path())
    }

    /// A client of release 0.3.12, set up with one segment of `segment_mib` MiB (0: none); `None` if it is not
    /// installed.
    pub fn old_client(&self, name: &str, segment_mib: u64) -> Option<StockClient> {
        let mut client = StockClient::spawn(&venv::find_old()?, name, self.dir.path());
        let code = client.setup(&self.master.address(), segment_mib << 20);
        assert_eq!(code, 0, "setup of client {name}");
        Some(client)
    }

    /// A client with one segment of `segment_mib` MiB and a disk.
    pub fn client_with_disk(&self, name: &str, segment_mib: u64) -> StockClient {
        let path = self.dir.path().join(format!("disk_{name}"));
        let mut client = StockClient::spawn_with_disk(&self.venv, name, self.dir.path());
        let address = self.master.address();
        let code = client.setup_with_disk(None, &address, segment_mib << 20, &path);
        assert_eq!(code, 0, "setup of client {name} with a disk");
        client
    }

    /// A client set up with one segment of `segment_mib` MiB (0: none).
    pub fn client(&self, name: &str, segment_mib: u64) -> StockClient {
        let mut client = self.bare_client(name);
        let code = client.setup(&self.master.address(), segment_mib << 20);
        assert_eq!(code, 0, "setup of client {name}");
        client
    }
}
