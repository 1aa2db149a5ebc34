//! A client's segment and its heartbeat.
//!
//! A master that has lost its memory tells its clients so in the answer to a ping. After a take-over that must
//! not happen, so it is noted.

use std::time::Duration;

use tokio::sync::watch;

use super::{Caller, LoadPlan, Shared, client_id, pause};
use crate::drill::history::ClientNo;
use crate::drill::moment::Moment;
use crate::model::{ClientId, ErrorCode, SegmentId};
use crate::wire::calls::{MountSegment, Ping, ReMountSegment, UnmountSegment};
use crate::wire::requests::{MountSegmentRequest, ReMountSegmentRequest, UnmountSegmentRequest};
use crate::wire::types::{ClientStatus, Segment};

const BEAT: Duration = Duration::from_millis(1_000);
const RETRY: Duration = Duration::from_millis(100);
/// Address space between two clients' segments.
const SEGMENT_STRIDE_BITS: u32 = 40;

/// A client's segment, as the master is told of it.
pub struct Heart {
    client: ClientId,
    name: String,
    base: u64,
    bytes: u64,
}

impl Heart {
    /// The heart of a client.
    pub fn new(plan: &LoadPlan, client: ClientNo) -> Self {
        Heart {
            client: client_id(&plan.run, client),
            name: plan.segment_name(client.0),
            base: (u64::from(client.0) + 1) << SEGMENT_STRIDE_BITS,
            bytes: plan.segment_bytes,
        }
    }

    fn segment(&self) -> Segment<&[u8]> {
        Segment {
            id: SegmentId(self.client.0),
            name: self.name.as_bytes(),
            base: self.base,
            size: self.bytes,
            te_endpoint: self.name.as_bytes(),
            protocol: b"tcp",
            host_id: b"",
        }
    }

    /// Offers the segment until a master has it; answers whether the load goes on.
    pub async fn mount(&self, caller: &mut Caller, stopping: &mut watch::Receiver<bool>) -> bool {
        if self.bytes == 0 {
            return !*stopping.borrow();
        }
        loop {
            let request = MountSegmentRequest { segment: self.segment(), client_id: self.client };
            let is_there = |code| code == ErrorCode::SegmentAlreadyExists;
            match caller.call::<MountSegment>(&request).await {
                Ok(Ok(())) => return true,
                Ok(Err(code)) if is_there(code) => return true,
                _ if pause(RETRY, stopping).await => return false,
                _ => {}
            }
        }
    }

    /// Takes the segment back; a master that cannot be reached will miss the heartbeat.
    pub async fn unmount(&self, caller: &mut Caller) {
        if self.bytes > 0 {
            let segment_id = SegmentId(self.client.0);
            let request = UnmountSegmentRequest { segment_id, client_id: self.client };
            let _ = caller.call::<UnmountSegment>(&request).await;
        }
    }

    /// Pings until the client ends; answers when it was told that it is not known.
    pub async fn beat(
        self,
        mut caller: Caller,
        shared: Shared,
        mut resting: watch::Receiver<bool>,
    ) -> Vec<Moment> {
        let mut forgotten = Vec::new();
        // By the protocol the first ping after a mount is told to mount again; only then is a client alive.
        let mut is_known = false;
        // A client without a segment is not kept by a master and would always be told to mount.
        while self.bytes > 0 && !pause(BEAT, &mut resting).await {
            let Ok(Ok(answer)) = caller.call::<Ping>(&self.client).await else { continue };
            is_known |= answer.client_status == ClientStatus::OK;
            if answer.client_status == ClientStatus::NEED_REMOUNT {
                forgotten.extend(is_known.then(|| shared.stopwatch.now()));
                let segments = vec![self.segment()];
                let request = ReMountSegmentRequest { segments, client_id: self.client };
                // If it fails, the next ping says so again.
                is_known = matches!(caller.call::<ReMountSegment>(&request).await, Ok(Ok(())));
            }
        }
        forgotten
    }
}
