//! The forms of release 0.3.12, whose clients announce the same service version as 0.3.13.
//!
//! Fourteen functions have other types there: a write's configuration has a boolean soft pin, an End
//! names keys without checksums, a replica has no place in a distributed file system. `calls` names
//! them, `translate` turns requests into today's and answers into theirs. A request whose own type
//! changed shows its release by its type hash; the others look the same in both
//! ([`Release::of_request`]), and who asked must be known from elsewhere (`rpc/release`).

pub mod calls;
mod translate;
mod types;

pub use translate::{FromOlder, ToOlder};
pub use types::{
    BatchPutStartRequest, CopyStartResponse, GetReplicaListResponse, MoveStartResponse,
    PromotionAllocStartResponse, PutStartRequest, ReplicaDescriptor, ReplicateConfig,
};

use super::call::Call;
use super::function::Function;

/// A release of the clients, as far as their forms differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Release {
    /// 0.3.12.
    V0312,
    /// 0.3.13, whose forms are those of [`super::calls`].
    #[default]
    V0313,
}

/// What a request says of the release of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The request and its answer look the same in every release.
    Nothing,
    /// The type hash of the request belongs to this release alone.
    Release(Release),
    /// The request looks the same, but its answer does not.
    AnswerDiffers,
}

impl Release {
    /// What the body of a request shows.
    pub fn of_request(function: Function, body: &[u8]) -> Shown {
        let Some((request, response)) = calls::hashes(function) else { return Shown::Nothing };
        if request == function.request_hash() {
            let is_same = response == function.response_hash();
            return if is_same { Shown::Nothing } else { Shown::AnswerDiffers };
        }
        let head = body.first_chunk().map(|head| u32::from_le_bytes(*head) & !1);
        // Anything else is refused by the handler of today's form.
        let is_older = head == Some(request);
        Shown::Release(if is_older { Release::V0312 } else { Release::V0313 })
    }
}

/// The type hashes of `C`.
const fn hashes_of<C: Call>() -> (u32, u32) {
    (C::REQUEST.hash(), C::RESPONSE.hash())
}
