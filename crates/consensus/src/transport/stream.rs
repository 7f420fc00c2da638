//! The byte stream under a connection: plain TCP here; encryption is another [`Secure`].
//!
//! Invariant: what is read and written above this line doesn't know whether it is encrypted.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use leasehold_model::NodeId;
use tokio::io::{AsyncRead, AsyncWrite};

use super::net::TcpStream;

/// What a connection is read from.
pub type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
/// What a connection is written to.
pub type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;
/// A wrapped stream, once its handshake is done.
pub type Wrapped<'a> = Pin<Box<dyn Future<Output = io::Result<SecureStream>> + Send + 'a>>;

/// Both halves of a connection, and who is at its other end.
pub struct SecureStream {
    /// What arrives.
    pub reader: ReadHalf,
    /// What leaves.
    pub writer: WriteHalf,
    /// The node that the other end has proven to be, by its certificate. A hello that says otherwise is refused. None
    /// when it has proven nothing: then the hello is believed.
    pub proven: Option<NodeId>,
}

impl fmt::Debug for SecureStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureStream").field("proven", &self.proven).finish_non_exhaustive()
    }
}

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

fn halves(stream: TcpStream) -> SecureStream {
    let (reader, writer) = stream.into_split();
    SecureStream { reader: Box::new(reader), writer: Box::new(writer), proven: None }
}
