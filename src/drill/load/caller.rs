//! A client's connection to some node: made when needed, left for another node when it fails.
//!
//! Guards the one thing a history stands on: a call that may have been carried out is never reported as one that
//! was not.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::rpc::client::{ClientError, RpcClient};
use crate::wire::Call;

const CONNECT_MAX: Duration = Duration::from_millis(1_000);

/// RPC-layer error of a handler that ended with an exception: what it did is not known.
const RPC_EXCEPTION: u8 = 10;

/// Where clients may connect; it can change while they work.
#[derive(Clone, Debug, Default)]
pub struct Doors(Arc<RwLock<Vec<String>>>);

impl Doors {
    /// These addresses.
    pub fn new(addresses: Vec<String>) -> Self {
        Doors(Arc::new(RwLock::new(addresses)))
    }

    /// Other addresses from now on.
    pub fn set(&self, addresses: Vec<String>) {
        *self.0.write() = addresses;
    }

    /// Another address in the place of the one of that index.
    pub fn replace(&self, at: usize, address: String) {
        if let Some(door) = self.0.write().get_mut(at) {
            *door = address;
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.read().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `turn`-th, counted round.
    pub fn at(&self, turn: usize) -> Option<String> {
        let doors = self.0.read();
        doors.get(turn.checked_rem(doors.len())?).cloned()
    }
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was not carried out.
    NotSent,
    /// It may have been carried out, or may yet be.
    Unknown,
}

/// One connection at a time.
#[derive(Debug)]
pub struct Caller {
    doors: Doors,
    turn: usize,
    /// Whether it always comes back to the same node.
    is_pinned: bool,
    timeout: Duration,
    client: Option<RpcClient>,
}

impl Caller {
    /// Will connect to the door of number `turn`; not yet.
    pub fn new(doors: Doors, turn: usize, is_pinned: bool, timeout: Duration) -> Self {
        Caller { doors, turn, is_pinned, timeout, client: None }
    }

    /// Calls, once. After a failure the next call goes to the next node, or again to the same if pinned.
    ///
    /// Errors: by what is known of the call, see [`Failure`].
    pub async fn call<C: Call>(
        &mut self,
        request: &C::Request<'_>,
    ) -> Result<C::Response, Failure> {
        let Some(client) = self.connected().await else {
            self.leave();
            return Err(Failure::NotSent);
        };
        let failure = match client.call::<C>(request).await {
            Ok(response) => return Ok(response),
            Err(error) => failure(&error),
        };
        self.leave();
        Err(failure)
    }

    async fn connected(&mut self) -> Option<&RpcClient> {
        if self.client.as_ref().is_none_or(RpcClient::is_closed) {
            self.client = None;
            let address = self.doors.at(self.turn)?;
            let connecting = tokio::time::timeout(CONNECT_MAX, RpcClient::connect(address)).await;
            self.client = Some(connecting.ok()?.ok()?.with_timeout(self.timeout));
        }
        self.client.as_ref()
    }

    fn leave(&mut self) {
        self.client = None;
        if !self.is_pinned {
            self.turn = self.turn.wrapping_add(1);
        }
    }
}

fn failure(error: &ClientError) -> Failure {
    match error {
        ClientError::TooManyCalls => Failure::NotSent,
        ClientError::Rpc { code, .. } if *code != RPC_EXCEPTION => Failure::NotSent,
        ClientError::Io(_)
        | ClientError::Timeout(_)
        | ClientError::Unpack(_)
        | ClientError::Rpc { .. } => Failure::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_surely_not_carried_out_counts_as_not_sent() {
        let lost = ClientError::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(failure(&lost), Failure::Unknown);
        assert_eq!(failure(&ClientError::Timeout(Duration::ZERO)), Failure::Unknown);
        let exception = ClientError::Rpc { code: 10, text: String::new() };
        assert_eq!(failure(&exception), Failure::Unknown);
        let refused = ClientError::Rpc { code: 4, text: String::new() };
        assert_eq!(failure(&refused), Failure::NotSent);
    }

    #[tokio::test]
    async fn a_closed_door_is_not_sent_and_the_next_call_goes_to_the_next_door() {
        use crate::wire::NoArguments;
        use crate::wire::calls::ServiceReady;
        let door = crate::drill::ports::free_port().unwrap();
        let doors = Doors::new(vec![format!("127.0.0.1:{door}"); 2]);
        let mut caller = Caller::new(doors, 0, false, Duration::from_secs(1));
        let refused = caller.call::<ServiceReady>(&NoArguments).await;
        assert_eq!(refused.unwrap_err(), Failure::NotSent);
        assert_eq!(caller.turn, 1);
    }
}
