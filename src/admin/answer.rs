//! How pages answer: the peer's content types, its error body, its HTTP codes (behaviour 13.1).

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::model::ErrorCode;
use crate::node::error::NodeError;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");
const WORD: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The error body.
#[derive(Serialize)]
struct ErrorBody<'a> {
    success: bool,
    error_code: i32,
    error_message: &'a str,
}

/// Why a page was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This node does not lead, or is not open yet.
    NotServing,
    /// The store's own error, by its name.
    Code(ErrorCode),
    /// The request is wrong, in a sentence.
    Bad(String),
    /// A write without the token.
    Unauthorized,
    /// A write from another host where there is no token that it could send.
    Stranger,
    /// It was tried and failed, in a sentence.
    Failed(String),
    /// The outcome of a write is unknown.
    Unknown(String),
}

impl From<ErrorCode> for Refused {
    fn from(code: ErrorCode) -> Self {
        Refused::Code(code)
    }
}

impl From<NodeError> for Refused {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::NotLeader { .. } | NodeError::Unavailable(_) => Refused::NotServing,
            NodeError::OutcomeUnknown(why) => Refused::Unknown(format!("outcome unknown: {why}")),
            NodeError::TooLarge(why) => Refused::Bad(why),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mode = ErrorCode::UnavailableInCurrentMode;
        match self {
            Refused::NotServing => {
                error(StatusCode::SERVICE_UNAVAILABLE, mode, "service plane is not active")
            }
            Refused::Code(code) => error(status_of(code), code, code.name()),
            Refused::Bad(why) => error(StatusCode::BAD_REQUEST, ErrorCode::InvalidParams, &why),
            Refused::Unauthorized => {
                let why = "send the admin token: Authorization: Bearer <token>";
                error(StatusCode::UNAUTHORIZED, ErrorCode::InvalidParams, why)
            }
            Refused::Stranger => {
                let why = "changes are accepted from this host only, because no admin_token is set";
                error(StatusCode::FORBIDDEN, ErrorCode::InvalidParams, why)
            }
            Refused::Failed(why) => {
                error(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::InternalError, &why)
            }
            Refused::Unknown(why) => {
                error(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::InternalError, &why)
            }
        }
    }
}

/// The HTTP code of an error.
pub fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidParams => StatusCode::BAD_REQUEST,
        ErrorCode::JobNotFound
        | ErrorCode::SegmentNotFound
        | ErrorCode::ObjectNotFound
        | ErrorCode::TenantNotRegistered => StatusCode::NOT_FOUND,
        ErrorCode::UnavailableInCurrentMode
        | ErrorCode::UnavailableInCurrentStatus
        | ErrorCode::TenantNotEmpty => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The error body with a code of its own.
pub fn error(status: StatusCode, code: ErrorCode, message: &str) -> Response {
    let body = ErrorBody { success: false, error_code: code.number(), error_message: message };
    json(status, &body)
}

/// A JSON answer.
pub fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(text) => (status, [(CONTENT_TYPE, JSON)], text).into_response(),
        // Only a map with keys that are not text can fail, and no page has one.
        Err(error) => {
            tracing::error!(%error, "a page could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// JSON that was written by hand.
pub fn json_text(body: String) -> Response {
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

/// Text in the form in which the peer sends metrics and listings.
pub fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, TEXT)], body.into()).into_response()
}

/// A word.
pub fn word(word: &'static str) -> Response {
    ([(CONTENT_TYPE, WORD)], word).into_response()
}

/// A page that does not exist, or not for this method.
pub async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, Body::from("404 Not Found")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_the_peers_http_codes() {
        assert_eq!(status_of(ErrorCode::InvalidParams), 400);
        assert_eq!(status_of(ErrorCode::SegmentNotFound), 404);
        assert_eq!(status_of(ErrorCode::UnavailableInCurrentMode), 409);
        assert_eq!(status_of(ErrorCode::InternalError), 500);
        assert_eq!(Refused::NotServing.into_response().status(), 503);
    }
}
