//! Who may change something where no token is set: this host, and nobody else.
//!
//! Guards that a node which listens on every interface, as the peer does by default, lets no stranger empty its
//! store. Pages that only read are open.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;

use super::Door;
use super::answer::Refused;
use super::listener::BoundedListener;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller(pub SocketAddr);

impl axum::extract::connect_info::Connected<IncomingStream<'_, BoundedListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        Caller(*stream.remote_addr())
    }
}

/// Answers callers from elsewhere that want to change something where no token is set.
pub(super) async fn turn_away(
    State(door): State<Arc<Door>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    request: Request,
    next: Next,
) -> Response {
    match door.token.is_empty() && is_stranger(request.method(), caller.0) {
        true => Refused::Stranger.into_response(),
        false => next.run(request).await,
    }
}

/// Whether that caller may ask for this only with a token.
fn is_stranger(method: &Method, caller: SocketAddr) -> bool {
    let is_reading = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    !is_reading && !caller.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_on_this_host_may_change_things_and_who_is_not_may_read() {
        for (method, caller, expected) in [
            (Method::POST, "127.0.0.1:9", false),
            (Method::DELETE, "127.8.0.1:9", false),
            (Method::PUT, "[::1]:9", false),
            (Method::POST, "[::ffff:127.0.0.1]:9", false),
            (Method::POST, "10.0.0.7:9", true),
            (Method::DELETE, "[2001:db8::1]:9", true),
            (Method::PUT, "[::ffff:10.0.0.7]:9", true),
            (Method::GET, "10.0.0.7:9", false),
        ] {
            assert_eq!(
                is_stranger(&method, caller.parse().unwrap()),
                expected,
                "{method} {caller}"
            );
        }
    }
}
