//! Who we are to others and who they were to us: addresses, the secret, incarnations.
//!
//! Guards: a node of another cluster, a node that claims our id, a node that lost its disk and
//! with it its votes, and whoever does not know the secret are refused, with a reason that an
//! operator can act on. Leaves to `client.rs` and `server.rs` the sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use sha2::Sha256;
use tokio::time::Instant;

use crate::config::Config;
use crate::dir::DataDir;
use crate::error::OpenError;
use crate::files::{How, write_file};
use crate::net::acked::Acked;
use crate::net::client::Pool;
use crate::net::message::{Channel, Hello, PROTOCOL, Welcome};
use crate::net::tls::Tls;
use crate::record;
use crate::types::{Membership, NodeId};

/// What is common to all connections of a node.
pub(crate) struct Peers {
    pub(crate) node_id: NodeId,
    pub(crate) incarnation: u64,
    pub(crate) config: Config,
    /// Certificates, if connections are encrypted.
    pub(crate) tls: Option<Tls>,
    /// Incarnation of each peer as first met.
    known: Mutex<BTreeMap<NodeId, u64>>,
    file: PathBuf,
    pools: Mutex<BTreeMap<NodeId, Arc<Pool>>>,
    complaints: Mutex<BTreeMap<NodeId, Instant>>,
    /// When each voter is known to have heard this node lead.
    pub(crate) acked: Arc<Acked>,
    /// Peers to which the last question came to nothing.
    unreached: Mutex<BTreeSet<NodeId>>,
}

/// Largest list of peers read; a hundred of them take two kilobytes.
const PEERS_BYTES_MAX: u64 = 1 << 20;
/// The same complaint about a peer is logged this rarely: it is met again at every retry.
const COMPLAINT: Duration = Duration::from_secs(10);

impl Peers {
    /// Reads what is known of peers; blocking.
    pub(crate) fn open(config: &Config, dir: &DataDir) -> Result<Self, OpenError> {
        let file = dir.peers_file();
        let found = config.world.disk().open(&file, How::Read);
        let known = match found.and_then(|found| found.read_start(PEERS_BYTES_MAX)) {
            Ok(bytes) => record::open::<BTreeMap<NodeId, u64>>(&bytes)
                .map_err(|e| OpenError::damaged("list of peers", &file, e))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(OpenError::Io { what: "read", path: file, why: source }),
        };
        let tls = config.tls.as_ref().map(Tls::open).transpose()?;
        Ok(Self {
            tls,
            node_id: config.node_id,
            incarnation: dir.identity.incarnation,
            config: config.clone(),
            known: Mutex::new(known),
            file,
            pools: Mutex::new(BTreeMap::new()),
            complaints: Mutex::new(BTreeMap::new()),
            acked: Arc::default(),
            unreached: Mutex::new(BTreeSet::new()),
        })
    }

    /// Where to reach a peer: as configured here, else as the membership says.
    pub(crate) fn address(&self, id: NodeId, stored: &str) -> String {
        self.config.peers.get(&id).cloned().unwrap_or_else(|| stored.to_owned())
    }

    /// The control connections to a peer.
    pub(crate) fn pool(&self, id: NodeId) -> Arc<Pool> {
        Arc::clone(self.pools.lock().entry(id).or_default())
    }

    /// Notes whether a peer has answered the last question, or could not be asked. The operator is
    /// told when that changes, not at every heartbeat to a node that is down.
    pub(crate) fn note_reached(&self, id: NodeId, answer: Result<(), &std::io::Error>) {
        let mut unreached = self.unreached.lock();
        let has_changed = match answer {
            Ok(()) => unreached.remove(&id),
            Err(_) => unreached.insert(id),
        };
        drop(unreached);
        match answer {
            _ if !has_changed => {}
            Ok(()) => tracing::info!("node {id} is reached again"),
            Err(e) => self.complain(id, &format!("node {id} cannot be reached: {e}")),
        }
    }

    /// The peers to which the last question came to nothing.
    pub(crate) fn unreached(&self) -> BTreeSet<NodeId> {
        self.unreached.lock().clone()
    }

    /// How long a peer may take to answer. Long enough for a stalled disk, short enough that a
    /// healed network is not waited for on a dead connection.
    pub(crate) fn reply_max(&self) -> Duration {
        self.config.election_max * 4
    }

    /// Tells the operator why a peer and we do not talk, now and then.
    pub(crate) fn complain(&self, id: NodeId, text: &str) {
        let mut complaints = self.complaints.lock();
        let due = complaints.get(&id).is_none_or(|last| last.elapsed() >= COMPLAINT);
        if due {
            complaints.insert(id, Instant::now());
            tracing::warn!("{text}");
        }
    }

    /// Our first word to `to`.
    pub(crate) fn hello(&self, to: NodeId, channel: Channel, challenge: &[u8; 16]) -> Hello {
        let mut hello = Hello {
            protocol: PROTOCOL,
            cluster_id: self.config.cluster_id.clone(),
            from: self.node_id,
            incarnation: self.incarnation,
            to,
            channel,
            nonce: rand::random(),
            proof: [0; 32],
        };
        hello.proof = self.proof("hello", &hello, challenge);
        hello
    }

    /// Checks a peer's first word; the error is for that peer's operator.
    pub(crate) fn accept(&self, hello: &Hello, challenge: &[u8; 16]) -> Result<Welcome, String> {
        let me = self.node_id;
        if hello.protocol != PROTOCOL {
            return Err(format!("protocol {} there, {PROTOCOL} here", hello.protocol));
        }
        if hello.cluster_id != self.config.cluster_id {
            return Err(format!(
                "cluster id {:?} there, {:?} here",
                hello.cluster_id, self.config.cluster_id
            ));
        }
        if !self.proves("hello", hello, challenge, &hello.proof) {
            return Err("the cluster secrets differ".to_owned());
        }
        if hello.to != me {
            return Err(format!("node {} is looked for here, but this is node {me}", hello.to));
        }
        if hello.from == me {
            return Err(format!("there are two nodes {me}; give one of them another node id"));
        }
        self.meet(hello.from, hello.incarnation)?;
        let proof = self.proof("welcome", hello, challenge);
        Ok(Welcome { incarnation: self.incarnation, proof })
    }

    /// Checks the answer to our first word; the error is for our operator.
    pub(crate) fn check_welcome(
        &self,
        hello: &Hello,
        challenge: &[u8; 16],
        welcome: &Welcome,
    ) -> Result<(), String> {
        if !self.proves("welcome", hello, challenge, &welcome.proof) {
            return Err("the cluster secrets differ".to_owned());
        }
        self.meet(hello.to, welcome.incarnation)
    }

    /// Remembers a peer's incarnation at the first meeting and insists on it later.
    fn meet(&self, id: NodeId, incarnation: u64) -> Result<(), String> {
        let mut known = self.known.lock();
        match known.get(&id) {
            Some(before) if *before == incarnation => Ok(()),
            Some(_) => Err(format!(
                "node {id} came back with another data directory and may have forgotten its \
                 votes; remove it from the cluster, then add it anew (docs/raft.md#lost-disk)"
            )),
            None => {
                known.insert(id, incarnation);
                self.save(&known)
            }
        }
    }

    /// Forgets the incarnations of nodes that are members no more, so that they can be added anew.
    pub(crate) fn members_changed(&self, membership: &Membership) {
        let mut known = self.known.lock();
        let before = known.len();
        known.retain(|id, _| membership.get_node(id).is_some());
        if known.len() < before
            && let Err(e) = self.save(&known)
        {
            tracing::warn!("{e}");
        }
    }

    fn save(&self, known: &BTreeMap<NodeId, u64>) -> Result<(), String> {
        let bytes = record::seal(known).map_err(|e| e.to_string())?;
        write_file(&*self.config.world.disk(), &self.file, &bytes)
            .map_err(|e| format!("write {}: {e}", self.file.display()))
    }

    fn mac(&self, side: &str, hello: &Hello, challenge: &[u8; 16]) -> Option<Hmac<Sha256>> {
        let secret = self.config.secret.as_deref()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
        mac.update(side.as_bytes());
        mac.update(challenge);
        mac.update(&hello.nonce);
        mac.update(&hello.from.to_le_bytes());
        mac.update(&hello.to.to_le_bytes());
        mac.update(&hello.incarnation.to_le_bytes());
        mac.update(hello.cluster_id.as_bytes());
        Some(mac)
    }

    /// Proof of the secret; zeros without one.
    fn proof(&self, side: &str, hello: &Hello, challenge: &[u8; 16]) -> [u8; 32] {
        self.mac(side, hello, challenge).map_or([0; 32], |mac| mac.finalize().into_bytes().into())
    }

    fn proves(&self, side: &str, hello: &Hello, challenge: &[u8; 16], proof: &[u8; 32]) -> bool {
        match self.mac(side, hello, challenge) {
            Some(mac) => mac.verify_slice(proof).is_ok(),
            None => *proof == [0; 32],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(id: NodeId, cluster: &str, secret: Option<&str>) -> (tempfile::TempDir, Peers) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(id, cluster, dir.path());
        config.secret = secret.map(str::to_owned);
        let data = DataDir::open(&config).unwrap();
        let peers = Peers::open(&config, &data).unwrap();
        (dir, peers)
    }

    fn meet(client: &Peers, server: &Peers) -> Result<(), String> {
        let challenge = [7; 16];
        let hello = client.hello(server.node_id, Channel::Control, &challenge);
        let welcome = server.accept(&hello, &challenge)?;
        client.check_welcome(&hello, &challenge, &welcome)
    }

    #[test]
    fn nodes_of_one_cluster_with_one_secret_meet() {
        let (_a, one) = peers(1, "c", Some("s"));
        let (_b, two) = peers(2, "c", Some("s"));
        meet(&one, &two).unwrap();
        meet(&two, &one).unwrap();
        meet(&one, &two).unwrap();
    }

    #[test]
    fn another_cluster_secret_or_target_and_a_double_id_are_refused_with_a_reason() {
        let (_a, one) = peers(1, "c", Some("s"));
        let refused = |other: &(tempfile::TempDir, Peers)| meet(&other.1, &one).unwrap_err();
        assert!(refused(&peers(2, "d", Some("s"))).contains("cluster id"));
        assert!(refused(&peers(2, "c", Some("x"))).contains("secret"));
        assert!(refused(&peers(2, "c", None)).contains("secret"));
        assert!(refused(&peers(1, "c", Some("s"))).contains("two nodes 1"));
        let (_b, two) = peers(2, "c", Some("s"));
        let hello = two.hello(9, Channel::Append, &[0; 16]);
        assert!(one.accept(&hello, &[0; 16]).unwrap_err().contains("looked for"));
    }

    #[test]
    fn a_node_that_lost_its_disk_is_refused_until_it_was_removed() {
        let (_a, one) = peers(1, "c", None);
        let (_b, two) = peers(2, "c", None);
        meet(&two, &one).unwrap();
        let (_c, wiped) = peers(2, "c", None);
        assert!(meet(&wiped, &one).unwrap_err().contains("another data directory"));
        assert!(meet(&one, &wiped).unwrap_err().contains("another data directory"));
        let record = crate::record::MembershipRecord {
            voters: vec![[1].into()],
            nodes: [(1, String::new())].into(),
        };
        let without = Membership::try_from(record);
        one.members_changed(&without.unwrap());
        meet(&wiped, &one).unwrap();
    }
}
