//! Calls whose behaviour this build does not have: refused in their normal form, and said once a minute.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::model::ErrorCode;
use crate::wire::call::{decode_request, encode_refusal, encode_rpc_error};
use crate::wire::calls::CallVisitor;
use crate::wire::frame::RpcError;
use crate::wire::{Call, Function};

/// At most one line in this time.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Counts refused calls between two lines.
#[derive(Debug, Default)]
pub struct NotBuilt {
    /// Monotonic time of the next line, in milliseconds.
    next_line_ms: AtomicU64,
    since_line: AtomicU64,
}

impl NotBuilt {
    /// Notes a refused call; `now` is monotonic.
    pub fn note(&self, function: Function, now: Duration) {
        let refused = self.since_line.fetch_add(1, Ordering::Relaxed) + 1;
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let due = self.next_line_ms.load(Ordering::Relaxed);
        let next = now_ms.saturating_add(LINE_INTERVAL.as_millis() as u64);
        let swapped =
            self.next_line_ms.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if now_ms >= due && swapped.is_ok() {
            self.since_line.store(0, Ordering::Relaxed);
            tracing::warn!(%function, refused, "call refused: there is no NVMe-oF pool");
        } else if swapped.is_ok() {
            self.next_line_ms.store(due, Ordering::Relaxed);
        }
    }
}

/// What the peer's release answers to calls that need a pool of NVMe-oF segments.
const REFUSAL: ErrorCode = ErrorCode::UnavailableInCurrentMode;

/// Refuses a call whose behaviour this build does not have, in the call's normal response form.
pub struct Refuse<'a> {
    /// The request's number.
    pub sequence: u32,
    /// Its bytes.
    pub body: &'a [u8],
    /// Where the answer goes.
    pub out: &'a mut Vec<u8>,
}

impl CallVisitor for Refuse<'_> {
    type Output = ();

    fn visit<C: Call>(self) {
        match decode_request::<C>(self.body) {
            Ok(request) => {
                encode_refusal::<C>(self.sequence, &request, REFUSAL, self.out);
            }
            Err(_) => encode_rpc_error(self.sequence, RpcError::InvalidArguments, self.out),
        }
    }
}
