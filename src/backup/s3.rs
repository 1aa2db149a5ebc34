//! A bucket as an object store, over the S3 protocol.
//!
//! The crate behind it is async and the catalog is not, so requests run on one thread of this store's own and the
//! caller waits. Guards that a file appears whole or not at all (a put is one request, or a multipart upload
//! that is completed last), that memory follows what really comes, and that every request has an end.

use std::sync::Arc;
use std::sync::mpsc;

use futures_util::{StreamExt, TryStreamExt};
use mooncake_ha_snapshot::store::{LISTED_KEYS_MAX, ObjectStore, StoreError, parts};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ClientOptions, MultipartUpload, ObjectStoreExt, RetryConfig, WriteMultipart};
use tokio::runtime::Runtime;

use super::BackupError;
use super::s3_settings::S3Settings;

/// Files above this are sent and fetched in pieces of this size, so that one request never takes long.
const PIECE_BYTES: usize = 16 << 20;
/// Pieces on the way at once.
const PIECES_AT_ONCE_MAX: usize = 4;
/// How often a request is repeated.
const RETRIES_MAX: usize = 4;
/// Requests may be repeated for this many times their timeout.
const RETRY_TIMEOUTS: u32 = 2;
const ADVICE: &str = "check the bucket, MOONCAKE_AWS_S3_ENDPOINT and the MOONCAKE_AWS credentials";

/// Files in a bucket.
pub struct S3Store {
    bucket: Arc<AmazonS3>,
    /// What all keys start with, for people: `s3://bucket/prefix`.
    name: String,
    prefix: String,
    /// Taken out when the store goes; a runtime must not be dropped where tasks run.
    runtime: Option<Runtime>,
}

impl S3Store {
    /// A store in a bucket. Nothing is sent yet.
    ///
    /// Errors: the endpoint is no URL, or no thread can be started.
    pub fn open(settings: S3Settings) -> Result<Self, BackupError> {
        let refused = |error: &dyn std::fmt::Display| {
            BackupError(format!("s3://{}: {error}; {ADVICE}", settings.bucket))
        };
        // A second call finds one in place, which is this or as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = ClientOptions::new()
            .with_allow_http(true)
            .with_connect_timeout(settings.connect_timeout)
            .with_timeout(settings.request_timeout);
        let retry = RetryConfig {
            max_retries: RETRIES_MAX,
            retry_timeout: settings.request_timeout.saturating_mul(RETRY_TIMEOUTS),
            ..RetryConfig::default()
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_client_options(options)
            .with_retry(retry);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint_of(endpoint, &settings));
        }
        builder = builder.with_virtual_hosted_style_request(settings.is_virtual_addressing);
        builder = match &settings.credentials {
            Some((id, secret)) => {
                builder.with_access_key_id(id).with_secret_access_key(secret.reveal())
            }
            None => builder.with_skip_signature(true),
        };
        let bucket = builder.build().map_err(|error| refused(&error))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mooncake-ha-s3")
            .enable_all()
            .build()
            .map_err(|error| refused(&error))?;
        let mut name = format!("s3://{}", settings.bucket);
        if !settings.prefix.is_empty() {
            name.push('/');
            name.push_str(&settings.prefix);
        }
        let (bucket, runtime) = (Arc::new(bucket), Some(runtime));
        Ok(S3Store { bucket, name, prefix: settings.prefix, runtime })
    }

    /// Runs a request on the store's own thread and waits for its end.
    fn wait<T: Send + 'static>(
        &self,
        key: &str,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (told, outcome) = mpsc::sync_channel(1);
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                // Nobody waits any more only if the waiting thread died.
                let _ = told.send(request.await);
            });
        }
        match outcome.recv() {
            Ok(answer) => answer.map_err(|error| self.failed(key, &error)),
            Err(_) => Err(self.remote(key, "the request was dropped".into())),
        }
    }

    fn failed(&self, key: &str, error: &object_store::Error) -> StoreError {
        match error {
            object_store::Error::NotFound { .. } => StoreError::NotFound { key: key.to_owned() },
            error => self.remote(key, chain(error)),
        }
    }

    fn remote(&self, key: &str, cause: String) -> StoreError {
        StoreError::Remote { place: format!("{}/{key}", self.name), cause, advice: ADVICE }
    }

    /// The path of a key in the bucket.
    fn path(&self, key: &str) -> Result<Path, StoreError> {
        parts(key)?;
        let full = match self.prefix.as_str() {
            "" => key.to_owned(),
            prefix => format!("{prefix}/{key}"),
        };
        Path::parse(&full).map_err(|_| StoreError::BadKey { key: key.to_owned() })
    }

    /// The key of a path in the bucket.
    fn key_of(&self, path: &Path) -> Option<String> {
        let path: &str = path.as_ref();
        let key = match self.prefix.as_str() {
            "" => path,
            prefix => path.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        parts(key).is_ok().then(|| key.to_owned())
    }
}

/// The endpoint as the crate wants it: with virtual addressing the bucket is part of the host name.
fn endpoint_of(endpoint: &str, settings: &S3Settings) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    match (settings.is_virtual_addressing, endpoint.split_once("://")) {
        (true, Some((scheme, host))) => format!("{scheme}://{}.{host}", settings.bucket),
        _ => endpoint.to_owned(),
    }
}

/// An error with its causes, without those that repeat the one before.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}

async fn send(bucket: Arc<AmazonS3>, path: Path, bytes: Vec<u8>) -> object_store::Result<()> {
    if bytes.len() <= PIECE_BYTES {
        bucket.put(&path, bytes.into()).await?;
        return Ok(());
    }
    let upload: Box<dyn MultipartUpload> = bucket.put_multipart(&path).await?;
    let mut pieces = WriteMultipart::new_with_chunk_size(upload, PIECE_BYTES);
    let bytes = bytes::Bytes::from(bytes);
    for start in (0..bytes.len()).step_by(PIECE_BYTES) {
        // Each piece is a handle on the same bytes; a failed one shows at the end.
        if let Err(error) = pieces.wait_for_capacity(PIECES_AT_ONCE_MAX).await {
            pieces.abort().await?;
            return Err(error);
        }
        pieces.put(bytes.slice(start..bytes.len().min(start + PIECE_BYTES)));
    }
    // A failure here aborts the upload by itself.
    pieces.finish().await?;
    Ok(())
}

/// What came of a file: its bytes, or its size if that is above the limit.
async fn fetch(
    bucket: Arc<AmazonS3>,
    path: Path,
    limit: u64,
) -> object_store::Result<Result<Vec<u8>, u64>> {
    let answer = bucket.get(&path).await?;
    let size = answer.meta.size;
    if size > limit {
        return Ok(Err(size));
    }
    if size <= PIECE_BYTES as u64 {
        return Ok(Ok(answer.bytes().await?.into()));
    }
    drop(answer);
    let starts = (0..size).step_by(PIECE_BYTES);
    let pieces = starts.map(|start| {
        let (bucket, path) = (Arc::clone(&bucket), path.clone());
        let end = size.min(start.saturating_add(PIECE_BYTES as u64));
        async move { bucket.get_range(&path, start..end).await }
    });
    let mut pieces = futures_util::stream::iter(pieces).buffered(PIECES_AT_ONCE_MAX);
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.try_next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(Ok(bytes))
}

/// Paths below a prefix, one more than allowed at most.
async fn list(bucket: Arc<AmazonS3>, below: Option<Path>) -> object_store::Result<Vec<Path>> {
    let found = object_store::ObjectStore::list(&*bucket, below.as_ref());
    found.map_ok(|about| about.location).take(LISTED_KEYS_MAX + 1).try_collect().await
}

impl ObjectStore for S3Store {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(key)?;
        self.wait(key, send(Arc::clone(&self.bucket), path, bytes.to_vec()))
    }

    fn get(&self, key: &str, limit: u64) -> Result<Vec<u8>, StoreError> {
        let path = self.path(key)?;
        match self.wait(key, fetch(Arc::clone(&self.bucket), path, limit))? {
            Ok(bytes) => Ok(bytes),
            Err(bytes) => Err(StoreError::TooLarge { key: key.to_owned(), bytes, limit }),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let below = match (prefix, self.prefix.as_str()) {
            ("", "") => None,
            ("", own) => Some(Path::parse(own))
                .transpose()
                .map_err(|_| StoreError::BadKey { key: own.to_owned() })?,
            (prefix, _) => Some(self.path(prefix)?),
        };
        let found = self.wait(prefix, list(Arc::clone(&self.bucket), below))?;
        if found.len() > LISTED_KEYS_MAX {
            return Err(StoreError::TooMany { prefix: prefix.to_owned() });
        }
        let mut keys: Vec<String> = found.iter().filter_map(|path| self.key_of(path)).collect();
        keys.sort();
        Ok(keys)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        let (bucket, path) = (Arc::clone(&self.bucket), self.path(key)?);
        match self.wait(key, async move { bucket.delete(&path).await }) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn delete_prefix(&self, prefix: &str) -> Result<(), StoreError> {
        parts(prefix)?;
        // One by one: not every server knows the request that deletes many, and there are a handful.
        self.list(prefix)?.iter().try_for_each(|key| self.delete(key))
    }
}

impl Drop for S3Store {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
