//! The TCP under the transport: the system's, or a simulated one.
//!
//! Invariant: everything above speaks to the same names, so what is simulated is the code that runs.

#[cfg(not(feature = "simulated"))]
pub(super) use tokio::net::{TcpListener, TcpStream};
#[cfg(feature = "simulated")]
pub(super) use turmoil::net::{TcpListener, TcpStream};
