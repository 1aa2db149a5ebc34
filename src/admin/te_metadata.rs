//! The embedded HTTP metadata server, by which transfer engines find each other (wire protocol 7).
//!
//! One path, and the text behind `key=` is the key, not decoded, as on the peer. Values are replicated, so they
//! survive what the peer loses them in. While nobody leads a request is held for a moment, then answered 503;
//! repeating one does no harm.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{Door, answer, query, serve_router};
use crate::node::error::NodeError;
use crate::state::Reply;
use crate::state::command::{Command, Key};
use crate::state::reply::MetadataOutcome;

/// Bytes of a value at most; a larger one is refused. A command must fit an entry of the log.
pub const VALUE_BYTES_MAX: usize = 8 << 20;

/// How long a request is held while nobody leads.
const HOLD_MAX: Duration = Duration::from_secs(5);

/// Pause between two attempts.
const HOLD_STEP: Duration = Duration::from_millis(50);

/// Serves the metadata server until `stop` turns true.
pub async fn serve(listener: TcpListener, door: Arc<Door>, stop: watch::Receiver<bool>) {
    let router = Router::new().fallback(handle).with_state(door);
    serve_router(listener, router, stop).await;
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    // The peer names no content type for its own words.
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

async fn handle(State(door): State<Arc<Door>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if path == "/health" && head.method == Method::GET {
        return plain(StatusCode::OK, "OK");
    }
    let is_known = [Method::GET, Method::PUT, Method::DELETE].contains(&head.method);
    if path != "/metadata" || !is_known {
        return answer::not_found().await;
    }
    let key = match query::raw(head.uri.query(), "key") {
        Some(key) if !key.is_empty() => key.as_bytes().to_vec(),
        _ => return plain(StatusCode::BAD_REQUEST, "Missing key parameter"),
    };
    match head.method {
        Method::GET => get(&door, key).await,
        Method::PUT => match axum::body::to_bytes(body, VALUE_BYTES_MAX).await {
            Ok(value) => put(&door, key, value).await,
            Err(_) => plain(StatusCode::PAYLOAD_TOO_LARGE, "metadata is too large"),
        },
        _ => change(&door, Command::MetadataDelete { key: Key(key) }).await,
    }
}

/// What a request asks of the store.
enum Ask {
    Get(Vec<u8>),
    Change(Command),
}

/// What the store says.
enum Told {
    Value(Option<Arc<[u8]>>),
    Changed(Reply),
}

async fn get(door: &Door, key: Vec<u8>) -> Response {
    match held(door, &Ask::Get(key)).await {
        Ok(Told::Value(Some(value))) => {
            let json = HeaderValue::from_static("application/json");
            ([(CONTENT_TYPE, json)], Body::from(value.to_vec())).into_response()
        }
        Ok(_) => plain(StatusCode::NOT_FOUND, "metadata not found"),
        Err(error) => unavailable(&error),
    }
}

async fn put(door: &Door, key: Vec<u8>, value: Bytes) -> Response {
    let (key, value) = (Key(key), Key(value.to_vec()));
    change(door, Command::MetadataPut { key, value }).await
}

async fn change(door: &Door, command: Command) -> Response {
    let outcome = match held(door, &Ask::Change(command)).await {
        Ok(Told::Changed(Reply::Metadata(outcome))) => outcome,
        Ok(_) => {
            tracing::error!("a metadata command was answered with something else");
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error");
        }
        Err(error) => return unavailable(&error),
    };
    match outcome {
        MetadataOutcome::Updated => plain(StatusCode::OK, "metadata updated"),
        MetadataOutcome::Unchanged => plain(StatusCode::OK, "metadata unchanged"),
        MetadataOutcome::Duplicate => {
            plain(StatusCode::BAD_REQUEST, "Duplicate rpc_meta key not allowed")
        }
        MetadataOutcome::Deleted => plain(StatusCode::OK, "metadata deleted"),
        MetadataOutcome::NotFound => plain(StatusCode::NOT_FOUND, "metadata not found"),
        MetadataOutcome::Full => {
            plain(StatusCode::INSUFFICIENT_STORAGE, "the metadata store is full")
        }
    }
}

fn unavailable(error: &NodeError) -> Response {
    tracing::warn!(%error, "a metadata request was not served");
    match error {
        NodeError::TooLarge(_) => plain(StatusCode::PAYLOAD_TOO_LARGE, "metadata is too large"),
        NodeError::OutcomeUnknown(_) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, "outcome unknown, try again")
        }
        NodeError::NotLeader { .. } | NodeError::Unavailable(_) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, "no leader, try again")
        }
    }
}

/// Tries again while nothing was done and nobody leads, for a moment.
async fn held(door: &Door, ask: &Ask) -> Result<Told, NodeError> {
    let until = Instant::now() + HOLD_MAX;
    loop {
        match attempt(door, ask).await {
            Err(error) if error.is_retryable() && Instant::now() < until => sleep(HOLD_STEP).await,
            done => return done,
        }
    }
}

async fn attempt(door: &Door, ask: &Ask) -> Result<Told, NodeError> {
    let starting = || NodeError::Unavailable("the node is starting".into());
    let node = door.node.get().ok_or_else(starting)?;
    match ask {
        Ask::Get(key) => {
            node.leader_guard().await?;
            Ok(Told::Value(node.look(|state| state.metadata().get(key))))
        }
        Ask::Change(command) => node.propose(command).await.map(Told::Changed),
    }
}
