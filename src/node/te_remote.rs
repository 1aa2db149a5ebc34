//! The same clean-up as `te_cleanup.rs` at an HTTP metadata server that is deployed by itself (behaviour 13.4).
//!
//! It is found where the peer looks: `MOONCAKE_TE_META_DATA_SERVER`, else `metadata_server` of the JSON file that
//! `MOONCAKE_CONFIG_PATH` names. Nobody waits for it: what it does not answer to in time is given up and said. An
//! `https://` server must have a certificate that this machine trusts.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_encode;
use tokio::sync::Semaphore;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

use super::te_cleanup::{ENCODED, plain_keys};

/// Bytes of the client's configuration file that are read at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How long a request may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Clean-ups that run or wait at most; a further one is given up.
const CLEANUPS_MAX: usize = 64;

static CLEANUPS: Semaphore = Semaphore::const_new(CLEANUPS_MAX);
static TURN: Semaphore = Semaphore::const_new(1);

/// Where the server is, from the environment; a warning if what is named there cannot be used.
pub(super) fn find() -> Result<Option<Arc<str>>, String> {
    let variable = |name| std::env::var(name).ok().filter(|text: &String| !text.is_empty());
    let named = match variable("MOONCAKE_TE_META_DATA_SERVER") {
        Some(url) => Some(url),
        None => variable("MOONCAKE_CONFIG_PATH").and_then(|path| in_file(&path)),
    };
    named.map_or(Ok(None), |url| usable(&url).map(Some))
}

fn in_file(path: &str) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let page: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(page.get("metadata_server")?.as_str()?.to_owned())
}

/// Errors: it is not an `http://` or `https://` address; clients then use another kind of server, which cleans up
/// by itself.
fn usable(url: &str) -> Result<Arc<str>, String> {
    match url.starts_with("http://") || url.starts_with("https://") {
        true => Ok(Arc::from(url)),
        false => Err(format!(
            "metadata of lost clients is not removed at {url}: only http:// and https:// addresses can be \
             asked"
        )),
    }
}

/// Removes both keys of each segment, in the background.
pub(super) fn clean(server: &Arc<str>, prefix: &str, segments: &[String]) {
    let Ok(place) = CLEANUPS.try_acquire() else {
        tracing::warn!(%server, "the metadata server is too slow; keys of lost clients are left there");
        return;
    };
    let keys = segments.iter().flat_map(|segment| plain_keys(prefix, segment));
    let urls: Vec<String> = keys.map(|key| url_of(server, &key)).collect();
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let _place = place;
        // Never closed.
        let _turn = TURN.acquire().await;
        let count = urls.len();
        match tokio::task::spawn_blocking(move || delete(&urls)).await {
            Ok(Ok(())) => tracing::info!(%server, count, "keys of lost clients were removed"),
            Ok(Err(error)) => tracing::warn!(%server, %error, "keys of lost clients may be left"),
            Err(error) => tracing::warn!(%server, %error, "keys of lost clients may be left"),
        }
    });
}

fn url_of(server: &str, key: &str) -> String {
    let join = if server.contains('?') { '&' } else { '?' };
    format!("{server}{join}key={}", percent_encode(key.as_bytes(), ENCODED))
}

/// Errors: the first request that came to nothing; the rest is left undone, for the server is not there.
fn delete(urls: &[String]) -> Result<(), String> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(ANSWER_MAX))
        .http_status_as_error(false)
        .tls_config(tls())
        .build();
    let agent: ureq::Agent = config.into();
    for url in urls {
        // Any answer will do: a key that is not there is gone.
        agent.delete(url).call().map_err(|error| format!("{url}: {error}"))?;
    }
    Ok(())
}

/// Encryption by rustls, as everywhere here, with the certificates of this machine.
fn tls() -> TlsConfig {
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(crypto)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_asked_for_as_the_peer_asks() {
        let url = url_of("http://h:1/metadata", "mooncake/ram/10.0.0.1:7");
        assert_eq!(url, "http://h:1/metadata?key=mooncake%2Fram%2F10.0.0.1%3A7");
    }

    #[test]
    fn only_http_is_used_and_a_file_names_the_server() {
        for url in ["http://h:1/metadata", "https://h/metadata"] {
            assert!(usable(url).is_ok(), "{url}");
        }
        for other in ["etcd://h:1", "redis://h:1", "P2PHANDSHAKE"] {
            assert!(usable(other).unwrap_err().contains(other));
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            in_file(path.to_str().unwrap())
        };
        let url = "http://h:1/metadata";
        assert_eq!(read("{\"metadata_server\":\"http://h:1/metadata\"}").as_deref(), Some(url));
        assert_eq!(read("{}"), None);
        assert_eq!(in_file("/nowhere"), None);
    }
}
