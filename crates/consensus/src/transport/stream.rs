//! The byte stream under a connection: plain TCP here; encryption is another [`Secure`].
//!
//! Invariant: what is read and written above this line doesn't know whether it is encrypted.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use leasehold_model::NodeId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What a connection is read from.
pub type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
/// What a connection is written to.
pub type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;
/// A wrapped stream, once its handshake is done.
pub type Wrapped<'a> = Pin<Box<dyn Future<Output = io::Result<(ReadHalf, WriteHalf)>> + Send + 'a>>;

/// Wraps a TCP stream before the first byte: the place for TLS.
pub trait Secure: fmt::Debug + Send + Sync + 'static {
    /// The calling side; `to` is the node that is meant, none when it isn't known yet.
    fn connect(&self, stream: TcpStream, to: Option<NodeId>) -> Wrapped<'_>;
    /// The answering side.
    fn accept(&self, stream: TcpStream) -> Wrapped<'_>;
}

/// No encryption: for loopback and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Secure for Plain {
    fn connect(&self, stream: TcpStream, _to: Option<NodeId>) -> Wrapped<'_> {
        Box::pin(std::future::ready(Ok(halves(stream))))
    }

    fn accept(&self, stream: TcpStream) -> Wrapped<'_> {
        Box::pin(std::future::ready(Ok(halves(stream))))
    }
}

fn halves(stream: TcpStream) -> (ReadHalf, WriteHalf) {
    let (reader, writer) = stream.into_split();
    (Box::new(reader), Box::new(writer))
}
