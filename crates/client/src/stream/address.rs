//! Where a node is reached.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use leasehold_wire::lease::RESPONSE_BYTES_MAX;
use leasehold_wire::proto::leasehold::v1::lease_service_client::LeaseServiceClient;
use tonic::transport::{Channel, Endpoint};

/// How long a connection may take to be made; then another address is tried.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How often a silent connection is pinged.
const PING_EVERY: Duration = Duration::from_secs(2);
/// How long a ping may stay unanswered. With its period, how long a dead node goes unnoticed while nothing is asked.
const PING_MAX: Duration = Duration::from_secs(2);
/// Bytes that a node may send ahead: a message with rules at once.
const WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of a node's headers, decoded. More end the stream.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Streams that are remembered after their reset, so that what is still on its way for them is dropped.
const RESET_STREAMS_MAX: usize = 8;
/// Resets because of a node's errors; beyond, the connection ends.
const LOCAL_ERROR_RESETS_MAX: usize = 16;

/// Where a node's clients are served: `http://HOST:PORT` or `unix:/PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host or address with its port, in plaintext.
    Tcp(String),
    /// A socket of this machine.
    Unix(PathBuf),
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no node's address: write http://HOST:PORT or unix:/PATH")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            return if path.is_absolute() { Ok(Self::Unix(path.to_owned())) } else { Err(wrong()) };
        }
        let host = text.strip_prefix("http://").ok_or_else(wrong)?;
        let host = host.strip_suffix('/').unwrap_or(host);
        let authority: http::uri::Authority = host.parse().map_err(|_| wrong())?;
        if authority.host().is_empty() || authority.port_u16().is_none() || host.contains('@') {
            return Err(wrong());
        }
        Ok(Self::Tcp(host.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host) => write!(f, "http://{host}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// A connection to there.
    pub(super) async fn connect(&self) -> Result<LeaseServiceClient<Channel>, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(self.to_string())?
            .connect_timeout(CONNECT_MAX)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_MAX)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .http2_max_concurrent_reset_streams(RESET_STREAMS_MAX)
            .http2_max_local_error_reset_streams(LOCAL_ERROR_RESETS_MAX);
        let channel = endpoint.connect().await?;
        Ok(LeaseServiceClient::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<Address>) {
        assert_eq!(text.parse().ok(), expected, "{text}");
    }

    #[test]
    fn an_address_is_a_host_with_its_port_or_a_socket() {
        check("http://127.0.0.1:7600", Some(Address::Tcp("127.0.0.1:7600".into())));
        check("http://node-1.example:7600/", Some(Address::Tcp("node-1.example:7600".into())));
        check("http://[::1]:7600", Some(Address::Tcp("[::1]:7600".into())));
        check("unix:/run/leasehold.sock", Some(Address::Unix("/run/leasehold.sock".into())));
        check("unix:///run/leasehold.sock", Some(Address::Unix("/run/leasehold.sock".into())));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "node:7600", "https://node:7600", "http://node", "http://:1", "unix:relative", "unix:"]
        {
            check(text, None);
        }
        check("http://user@node:7600", None);
        check("http://node:7600/path", None);
    }

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for text in ["http://127.0.0.1:7600", "unix:/run/leasehold.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }
}
