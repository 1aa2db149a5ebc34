//! Mutual TLS between nodes: who may talk at all, and that nobody else reads or changes it.
//!
//! Guards: with TLS on, no byte is exchanged with a peer whose certificate the cluster's own
//! authority has not signed, in either direction; a server's certificate must name the host it was
//! looked for at; a certificate that names nodes speaks for those only. TLS 1.3 and nothing older,
//! as both ends are ours. Leaves to `peers.rs` the cluster secret, which is asked for as well.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::config::TlsFiles;
use crate::error::OpenError;
use crate::types::NodeId;
use crate::world::{ReadHalf, WriteHalf};

/// What the name of a node in a certificate begins with; its id follows.
const NODE_NAME: &str = "mooncake-node-";

/// A connection, and for whom its other end may speak.
pub(crate) struct Stream {
    pub(crate) reader: ReadHalf,
    pub(crate) writer: WriteHalf,
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

/// This node's certificate and the authority it trusts, for both directions.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl Tls {
    /// Reads the files; blocking.
    pub(crate) fn open(files: &TlsFiles) -> Result<Self, OpenError> {
        let chain = certificates(&files.cert)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(unreadable(&files.key))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.ca)? {
            roots.add(authority).map_err(unusable(&files.ca))?;
        }
        let roots = Arc::new(roots);
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(unusable(&files.ca))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable(&files.cert))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unusable(&files.cert))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable(&files.cert))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unusable(&files.cert))?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
        })
    }

    /// Takes a connection from a peer.
    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<Stream> {
        let stream = self.acceptor.accept(stream).await?;
        let certificate = first(stream.get_ref().1.peer_certificates());
        Ok(split(stream, certificate))
    }

    /// Talks to the peer at `addr`, whose certificate must name the host in it.
    pub(crate) async fn connect(&self, stream: TcpStream, addr: &str) -> std::io::Result<Stream> {
        let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
        let stream = self.connector.connect(name, stream).await?;
        let certificate = first(stream.get_ref().1.peer_certificates());
        Ok(split(stream, certificate))
    }
}

/// A connection without TLS.
pub(crate) fn plain(stream: TcpStream) -> Stream {
    let (reader, writer) = stream.into_split();
    Stream { reader: Box::new(reader), writer: Box::new(writer), certificate: None }
}

fn split<S>(stream: S, certificate: Option<CertificateDer<'static>>) -> Stream
where
    S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
{
    let (reader, writer) = tokio::io::split(stream);
    Stream { reader: Box::new(reader), writer: Box::new(writer), certificate }
}

fn first(chain: Option<&[CertificateDer<'_>]>) -> Option<CertificateDer<'static>> {
    chain.and_then(|chain| chain.first()).map(|one| one.clone().into_owned())
}

/// Whether the other end may speak for node `id`. A certificate without a name of a node speaks for
/// any: one certificate for all hosts is what many clusters have.
pub(crate) fn speaks_for(
    certificate: Option<&CertificateDer<'_>>,
    id: NodeId,
) -> Result<(), String> {
    let Some(certificate) = certificate else { return Ok(()) };
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|e| e.to_string())?;
    let named: Vec<&str> =
        parsed.valid_dns_names().filter(|name| name.starts_with(NODE_NAME)).collect();
    if named.is_empty() || named.contains(&format!("{NODE_NAME}{id}").as_str()) {
        return Ok(());
    }
    Err(format!("its certificate is for {}, not for {NODE_NAME}{id}", named.join(", ")))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(unreadable(path))?;
    if found.is_empty() {
        return Err(bad(path, "there is no certificate in it".to_owned()));
    }
    Ok(found)
}

fn bad(path: &Path, detail: String) -> OpenError {
    OpenError::Tls { path: PathBuf::from(path), detail }
}

fn unreadable(path: &Path) -> impl FnOnce(pem::Error) -> OpenError {
    move |e| bad(path, e.to_string())
}

fn unusable<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> OpenError {
    move |e| bad(path, e.to_string())
}
