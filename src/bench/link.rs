//! One connection of the load: requests gather and go out with one write, answers are cut from what arrives.
//!
//! Beside `rpc::client` because a load generator that wakes a task an answer measures itself.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rpc::client::ResponseFrame;
use crate::wire::frame::ResponseHead;
use crate::wire::{Call, encode_request};

/// Bytes to make room for before each read.
const READ_BYTES: usize = 64 << 10;

/// A connection with what is on its way in both directions.
#[derive(Debug)]
pub struct Link {
    socket: TcpStream,
    input: BytesMut,
    output: Vec<u8>,
}

impl Link {
    /// Connects. Errors: those of the socket.
    pub async fn connect(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Link { socket, input: BytesMut::new(), output: Vec::new() })
    }

    /// Adds a request to what the next [`Link::flush`] sends.
    pub fn request<C: Call>(&mut self, sequence: u32, request: &C::Request<'_>) {
        encode_request::<C>(sequence, request, &mut self.output);
    }

    /// Sends what was gathered. Errors: those of the socket.
    pub async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.socket.write_all(&self.output).await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Waits until more bytes are there. Errors: those of the socket; `UnexpectedEof` if it was closed.
    pub async fn receive(&mut self) -> io::Result<()> {
        self.input.reserve(READ_BYTES);
        match self.socket.read_buf(&mut self.input).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Takes what is there without waiting; returns whether there was something. Errors: as
    /// [`Link::receive`].
    pub fn try_receive(&mut self) -> io::Result<bool> {
        self.input.reserve(READ_BYTES);
        match self.socket.try_read_buf(&mut self.input) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next answer that has arrived as a whole. Errors: `InvalidData` for bytes that are no answer.
    pub fn next_answer(&mut self) -> io::Result<Option<ResponseFrame>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let Some((head, length)) = ResponseHead::parse(&self.input).map_err(invalid)? else {
            return Ok(None);
        };
        if self.input.len() < length {
            return Ok(None);
        }
        Ok(Some(ResponseFrame { head, bytes: self.input.split_to(length).freeze() }))
    }
}
