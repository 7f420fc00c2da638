//! Where connections come from: a port, or a socket of this machine.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// When the kernel asks a silent peer whether it is there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Accepts connections.
pub trait Listener: Send + Sync + 'static {
    /// What it accepts.
    type Connection: Connection;

    /// The next connection, with the address of its peer. Nothing is lost if the future is dropped.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Connection, SocketAddr)>> + Send;
}

/// One accepted connection.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static {
    /// Sets what a connection of this kind needs.
    ///
    /// # Errors
    /// What the system says; the connection can be served all the same.
    fn set_options(&self) -> io::Result<()>;

    /// Waits for bytes and looks at the first without taking them; how many there are. 0: the peer hung up.
    fn peek(&self, first: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
}

impl Listener for TcpListener {
    type Connection = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        Self::accept(self).await
    }
}

impl Connection for TcpStream {
    fn set_options(&self) -> io::Result<()> {
        self.set_nodelay(true)?;
        let keepalive = socket2::TcpKeepalive::new().with_time(TCP_KEEPALIVE);
        socket2::SockRef::from(self).set_tcp_keepalive(&keepalive)
    }

    async fn peek(&self, first: &mut [u8]) -> io::Result<usize> {
        Self::peek(self, first).await
    }
}
