//! How a node reaches the leader's door: by TCP, or as a simulation has it.

use std::io;
use std::pin::Pin;

use super::client::{RawConnection, ResponseFrame};

/// A future of a [`Road`] or a [`Line`].
pub type Travel<'t, T> = Pin<Box<dyn Future<Output = T> + Send + 't>>;

/// A connection to a door.
pub trait Line: Send {
    /// Sends a request and waits for the answer; `None` if it is lost.
    fn exchange<'l>(&'l mut self, frame: &'l [u8]) -> Travel<'l, Option<ResponseFrame>>;

    /// Whether another request can be sent: it was not closed, and nothing came unasked.
    fn is_idle(&self) -> bool;
}

/// Makes connections.
pub trait Road: Send + Sync {
    /// Connects. Errors: those of the network.
    fn connect<'r>(&'r self, address: &'r str) -> Travel<'r, io::Result<Box<dyn Line>>>;
}

/// The network.
pub struct Tcp;

impl Road for Tcp {
    fn connect<'r>(&'r self, address: &'r str) -> Travel<'r, io::Result<Box<dyn Line>>> {
        Box::pin(async move {
            let connection = RawConnection::connect(address).await?;
            Ok(Box::new(connection) as Box<dyn Line>)
        })
    }
}

impl Line for RawConnection {
    fn exchange<'l>(&'l mut self, frame: &'l [u8]) -> Travel<'l, Option<ResponseFrame>> {
        Box::pin(async move {
            self.send(frame).await.ok()?;
            self.receive().await.ok()?
        })
    }

    fn is_idle(&self) -> bool {
        RawConnection::is_idle(self)
    }
}
