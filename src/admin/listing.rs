//! `/get_all_keys`: every readable key of the default tenant, one a line, streamed shard by shard.
//!
//! A shard is locked for as long as its keys take to copy, and the next one is looked at only when the reader
//! has taken what was sent, so a listing of millions of keys holds little memory and stops nobody. It is
//! therefore no picture of one moment.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use http_body::Frame;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use super::answer::Refused;
use super::{Door, answer};
use crate::model::TenantIdx;
use crate::model::ids::SHARD_COUNT;
use crate::node::MasterNode;
use crate::state::view::Directory;

/// A line is at least this long on its way out, unless the listing ends.
const CHUNK_BYTES_WANTED: usize = 64 << 10;

/// In a key that does not fit a line: what would break the line, and the sign of encoding itself.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// `GET /get_all_keys`.
pub async fn get_all_keys(State(door): State<Arc<Door>>) -> Result<Response, Refused> {
    let (node, guard) = door.leading().await?;
    let directory = Arc::new(guard.directory().clone());
    let listing = Listing { node: node.clone(), directory, shard: 0 };
    Ok(answer::text(StatusCode::OK, Body::new(listing)))
}

struct Listing {
    node: MasterNode,
    directory: Arc<Directory>,
    /// The next shard.
    shard: usize,
}

impl Listing {
    /// The lines of the next shards; empty at the end.
    fn next_lines(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        while self.shard < SHARD_COUNT && lines.len() < CHUNK_BYTES_WANTED {
            let directory = &self.directory;
            self.node.machine().view().table.look_shard(self.shard, |shard| {
                let shown = |object: &&crate::model::Object| {
                    object.tenant == TenantIdx(0) && directory.is_readable(object)
                };
                shard
                    .objects()
                    .filter(shown)
                    .for_each(|object| write_line(&object.key, &mut lines));
            });
            self.shard += 1;
        }
        lines
    }
}

/// A key as it is if it fits a line of text; else with control characters, percent signs and bytes that are
/// not UTF-8 encoded.
fn write_line(key: &[u8], lines: &mut Vec<u8>) {
    let is_plain = std::str::from_utf8(key).is_ok_and(|text| !text.contains(char::is_control));
    match is_plain {
        true => lines.extend_from_slice(key),
        false => lines.extend_from_slice(percent_encode(key, ENCODED).to_string().as_bytes()),
    }
    lines.push(b'\n');
}

impl http_body::Body for Listing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let lines = self.next_lines();
        let frame = (!lines.is_empty()).then(|| Ok(Frame::data(Bytes::from(lines))));
        Poll::Ready(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_would_break_its_line_is_encoded() {
        let line = |key: &[u8]| {
            let mut lines = Vec::new();
            write_line(key, &mut lines);
            String::from_utf8(lines).unwrap()
        };
        assert_eq!(line(b"a b/50%"), "a b/50%\n");
        assert_eq!(line("caf\u{e9}".as_bytes()), "caf\u{e9}\n");
        assert_eq!(line(b"a\nb%"), "a%0Ab%25\n");
        assert_eq!(line(b"\xff"), "%FF\n");
    }
}
