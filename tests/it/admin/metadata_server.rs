//! The embedded HTTP metadata server: the peer's words, and values that survive what the peer's do not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use super::seed::{SEGMENT, Seeded};
use crate::support::{Http, Master, eventually, wall_ms};

const ON: &[&str] = &["--enable_http_metadata_server=true"];

/// Status, content type and body, as one text.
fn ask(http: &Http, method: &str, query: &str, body: &str) -> String {
    let (status, kind, body) = http.send(method, &format!("/metadata{query}"), body.as_bytes());
    format!("{status} {kind} {body}")
}

#[test]
fn values_are_put_got_and_deleted_with_the_peers_words() {
    let dir = TempDir::new().unwrap();
    let master = Master::ours(dir.path(), ON);
    let http = master.metadata_http();
    for (method, query, body, answer) in [
        ("GET", "", "", "400  Missing key parameter"),
        ("GET", "?key=", "", "400  Missing key parameter"),
        ("PUT", "", "x", "400  Missing key parameter"),
        ("DELETE", "?k=1", "", "400  Missing key parameter"),
        ("GET", "?key=k", "", "404  metadata not found"),
        ("DELETE", "?key=k", "", "404  metadata not found"),
        ("PUT", "?key=k", "{\"a\":1}", "200  metadata updated"),
        ("GET", "?key=k", "", "200 application/json {\"a\":1}"),
        ("PUT", "?key=k", "", "200  metadata updated"),
        ("GET", "?key=k", "", "200 application/json "),
        ("DELETE", "?key=k", "", "200  metadata deleted"),
        // The key is the text as it stands: other encodings are other keys.
        ("PUT", "?key=x%2Frpc_meta", "1", "200  metadata updated"),
        ("PUT", "?key=x%2Frpc_meta", "1", "200  metadata unchanged"),
        ("PUT", "?key=x%2Frpc_meta", "2", "400  Duplicate rpc_meta key not allowed"),
        ("GET", "?key=x%2Frpc_meta", "", "200 application/json 1"),
        ("GET", "?key=x%2frpc_meta", "", "404  metadata not found"),
        ("GET", "?key=x/rpc_meta", "", "404  metadata not found"),
        ("PUT", "?foo=1&key=q&bar=2", "w", "200  metadata updated"),
        ("GET", "?key=q&key=k", "", "200 application/json w"),
        ("PUT", "?key=a=b", "w", "200  metadata updated"),
        ("GET", "?key=a", "", "404  metadata not found"),
        ("GET", "?key=a=b", "", "200 application/json w"),
        ("POST", "?key=k", "x", "404  404 Not Found"),
        ("GET", "/?key=q", "", "404  404 Not Found"),
    ] {
        assert_eq!(ask(&http, method, query, body), answer, "{method} {query}");
    }
    assert_eq!(http.send("GET", "/health", b""), (200, String::new(), "OK".into()));
}

#[test]
fn values_survive_a_killed_master() {
    let dir = TempDir::new().unwrap();
    let mut master = Master::ours(dir.path(), ON);
    let http = master.metadata_http();
    for n in 0..20 {
        let query = format!("?key=mooncake%2Fram%2Fhost{n}");
        assert_eq!(ask(&http, "PUT", &query, &format!("v{n}")), "200  metadata updated");
    }
    assert_eq!(ask(&http, "DELETE", "?key=mooncake%2Fram%2Fhost7", ""), "200  metadata deleted");
    master.kill();
    master.start_again();
    let http = master.metadata_http();
    for n in 0..20 {
        let query = format!("?key=mooncake%2Fram%2Fhost{n}");
        let expected = match n {
            7 => "404  metadata not found".to_owned(),
            _ => format!("200 application/json v{n}"),
        };
        assert_eq!(ask(&http, "GET", &query, ""), expected);
    }
    assert_eq!(master.count("master_metadata_keys"), 19);
}

#[test]
fn a_value_beyond_the_limit_is_refused_and_the_largest_is_kept() {
    let dir = TempDir::new().unwrap();
    let master = Master::ours(dir.path(), ON);
    let http = master.metadata_http();
    let largest = "v".repeat(mooncake_ha::admin::te_metadata::VALUE_BYTES_MAX);
    assert_eq!(ask(&http, "PUT", "?key=k", &largest), "200  metadata updated");
    let more = format!("{largest}v");
    assert_eq!(ask(&http, "PUT", "?key=k", &more), "413  metadata is too large");
    let (status, _, body) = http.send("GET", "/metadata?key=k", b"");
    assert_eq!((status, body.len()), (200, largest.len()));
}

#[test]
fn an_expired_clients_keys_go_if_the_operator_wants_it() {
    let flags = [ON[0], "--enable_metadata_cleanup_on_timeout=true", "--client_ttl=1"];
    let seeded = Seeded::start(&flags);
    let http = seeded.master.metadata_http();
    let name = SEGMENT.replace(':', "%3A");
    let keys = ["ram", "rpc_meta"].map(|kind| format!("?key=mooncake%2F{kind}%2F{name}"));
    let other = "?key=mooncake%2Fram%2Fsomebody";
    for query in keys.iter().map(String::as_str).chain([other]) {
        assert_eq!(ask(&http, "PUT", query, "v"), "200  metadata updated");
    }
    eventually("the keys of the silent client are gone", || {
        keys.iter().all(|query| ask(&http, "GET", query, "") == "404  metadata not found")
    });
    assert_eq!(ask(&http, "GET", other, ""), "200 application/json v");
}

#[test]
fn a_stop_does_not_wait_for_idle_connections() {
    let dir = TempDir::new().unwrap();
    let mut master = Master::ours(dir.path(), ON);
    let idle: Vec<TcpStream> = [master.metadata_url(), master.http().url("/")]
        .iter()
        .map(|url| url.trim_start_matches("http://").split('/').next().unwrap().to_owned())
        .map(|address| TcpStream::connect(address).unwrap())
        .collect();
    let started = wall_ms();
    assert!(master.terminate().success());
    assert!(wall_ms() - started < 10_000, "{} connections held the stop up", idle.len());
}

/// A connection to the server below, encrypted or not.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// A server that keeps the request lines it gets and answers 200. Whoever cannot agree with it on the
/// connection is not heard.
fn listen(
    open: impl Fn(TcpStream) -> Box<dyn Stream> + Send + 'static,
) -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(open(stream.unwrap()));
            let mut head = stream.by_ref().lines().map_while(Result::ok);
            let Some(first) = head.next() else { continue };
            while head.next().is_some_and(|line| !line.is_empty()) {}
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.get_mut().write_all(answer).unwrap();
            stream.get_mut().flush().unwrap();
            if heard.send(first).is_err() {
                return;
            }
        }
    });
    (port, lines)
}

/// A master with a client that falls silent, and what the separate server at `url` is asked then.
fn keys_are_removed(url: String, more: &[(String, String)], lines: &mpsc::Receiver<String>) {
    let server = ("MOONCAKE_TE_META_DATA_SERVER".to_owned(), url);
    let env = [&[server], more].concat();
    let flags = ["--enable_metadata_cleanup_on_timeout", "--client_ttl=1"];
    let _seeded = Seeded::start_with(&flags, &env);
    for kind in ["ram", "rpc_meta"] {
        let line = lines.recv_timeout(Duration::from_secs(20)).unwrap();
        let key = format!("mooncake%2F{kind}%2F10.0.0.1%3A12345");
        assert_eq!(line, format!("DELETE /metadata?key={key} HTTP/1.1"));
    }
}

#[test]
fn m5_the_keys_of_a_lost_client_are_removed_at_a_separate_server() {
    let (port, lines) = listen(|stream| Box::new(stream));
    keys_are_removed(format!("http://127.0.0.1:{port}/metadata"), &[], &lines);
}

#[test]
fn m5_a_separate_server_may_be_encrypted_with_a_certificate_that_the_machine_trusts() {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let cert = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let chain = vec![cert.der().clone()];
    let config = versions.unwrap().with_no_client_auth().with_single_cert(chain, secret).unwrap();
    let config = Arc::new(config);
    let (port, lines) = listen(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        Box::new(StreamOwned::new(connection, stream))
    });
    let dir = TempDir::new().unwrap();
    let trusted = dir.path().join("ca.pem");
    std::fs::write(&trusted, authority.pem()).unwrap();
    let trusted = ("SSL_CERT_FILE".to_owned(), trusted.display().to_string());
    keys_are_removed(format!("https://127.0.0.1:{port}/metadata"), &[trusted], &lines);
}
