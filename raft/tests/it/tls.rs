//! Mutual TLS between nodes: who is let in, who is not, and what the operator reads.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mooncake_ha_raft::{Config, OpenError, TlsFiles};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::Cluster;
use crate::support::{Member, eventually, single};

/// An authority and where it puts what it signs.
struct Authority {
    dir: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { dir, issuer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A certificate with these names, in files called `name`.
    fn sign(&self, name: &str, names: &[&str]) -> TlsFiles {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let files = TlsFiles {
            cert: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
            ca: self.path("ca.pem"),
        };
        std::fs::write(&files.cert, cert.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
}

/// The authority of all clusters here.
static OURS: LazyLock<Authority> = LazyLock::new(Authority::new);

/// A certificate of ours for one node.
fn signed(config: &mut Config) {
    let name = format!("mooncake-node-{}", config.node_id);
    config.tls = Some(OURS.sign(&format!("{name}-{:p}", &config), &["127.0.0.1", &name]));
}

/// Puts `change` in the place of a follower and waits until its peers had time to let it in.
async fn in_the_place_of_a_follower(change: fn(&mut Config)) -> usize {
    let mut cluster = Cluster::start_direct(3, signed).await;
    cluster.add(1, 0).await;
    let leader = cluster.leader().await;
    let out = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(out).await;
    let dir = tempfile::tempdir().unwrap();
    let mut config = cluster.config(out);
    config.data_dir = dir.path().to_owned();
    change(&mut config);
    let listener = TcpListener::bind(config.listen.unwrap()).await.unwrap();
    let stranger = Member::open_on(listener, config).await.unwrap();
    cluster.add(2, 0).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let learnt = stranger.machine.len();
    stranger.node.shutdown().await;
    cluster.open(out).await;
    let node = &cluster.members[&out];
    eventually("the real node is let in", || node.machine.has(2)).await;
    cluster.shutdown().await;
    learnt
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_certificates_of_one_authority_form_a_cluster_and_survive_the_leader() {
    let mut cluster = Cluster::start_direct(3, signed).await;
    for number in 0..20 {
        cluster.add(number, 100_000).await;
    }
    let leader = cluster.leader().await;
    cluster.stop(leader).await;
    cluster.add(20, 0).await;
    cluster.open(leader).await;
    assert_eq!(cluster.settle().await, 21);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_tls_stays_outside() {
    assert_eq!(in_the_place_of_a_follower(|config| config.tls = None).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_certificate_of_another_authority_stays_outside() {
    static OTHER: LazyLock<Authority> = LazyLock::new(Authority::new);
    let foreign = |config: &mut Config| config.tls = Some(OTHER.sign("foreign", &["127.0.0.1"]));
    assert_eq!(in_the_place_of_a_follower(foreign).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_node_does_not_speak_for_this_one() {
    let other = |config: &mut Config| {
        config.tls = Some(OURS.sign("nine", &["127.0.0.1", "mooncake-node-9"]));
    };
    assert_eq!(in_the_place_of_a_follower(other).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_host_is_not_talked_to() {
    let elsewhere = |config: &mut Config| config.tls = Some(OURS.sign("far", &["far.example"]));
    assert_eq!(in_the_place_of_a_follower(elsewhere).await, 0);
}

/// Lines that were logged, for a test that reads them.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Also what explains a failure before the lines are looked at.
        print!("{}", String::from_utf8_lossy(bytes));
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Sends `bytes` to the port; true if it answers nothing but an alert and closes.
async fn is_refused(addr: SocketAddr, bytes: &[u8]) -> bool {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer));
    read.await.is_ok() && !answer.starts_with(b"RFN1")
}

#[test]
fn a_peer_without_tls_is_refused_with_a_reason_in_the_log() {
    let lines = Lines::default();
    let copy = lines.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || copy.clone()).finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(log, || {
        runtime.block_on(async {
            let cluster = Cluster::start_direct(3, signed).await;
            cluster.leader().await;
            let addr = cluster.config(1).listen.unwrap();
            assert!(is_refused(addr, b"GET / HTTP/1.1\r\nhost: example\r\n\r\n").await);
            cluster.shutdown().await;
        });
    });
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    assert!(text.contains("was refused here: TLS:"), "{text}");
}

async fn open_error(dir: &Path, tls: TlsFiles) -> String {
    let mut config = single(dir);
    config.tls = Some(tls);
    match Member::try_open(config).await {
        Err(error @ OpenError::Tls { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it opened"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_used_is_named_at_the_start() {
    let authority = Authority::new();
    let good = authority.sign("good", &["127.0.0.1"]);
    let dir = tempfile::tempdir().unwrap();
    let missing = TlsFiles { key: authority.path("none.key"), ..good.clone() };
    assert!(open_error(dir.path(), missing).await.contains("none.key"));
    let swapped = TlsFiles { cert: good.key.clone(), ..good.clone() };
    assert!(open_error(dir.path(), swapped).await.contains("no certificate"));
    let other = authority.sign("other", &["127.0.0.1"]);
    let mixed = TlsFiles { key: other.key, ..good };
    assert!(open_error(dir.path(), mixed).await.contains("good.pem"));
}
