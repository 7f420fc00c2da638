//! What the configurations of processes have in common: doors, how answers look, what comes in, logs; and mistakes in them.
//!
//! Invariant: a configuration is plain structs that are checked as a whole, before any port opens.

pub mod fields;
pub mod read;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;

/// A port that is served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorConfig {
    /// Address and port; port 0 takes any free one.
    #[serde(deserialize_with = "fields::socket_addr")]
    pub listen: SocketAddr,
    /// Says yes to unencrypted traffic from other machines. Loopback needs no such word.
    #[serde(default)]
    pub plaintext: bool,
}

/// How a client's address is found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AddressConfig {
    /// Proxies whose forwarding headers are believed.
    #[serde(deserialize_with = "fields::networks")]
    pub trusted_proxies: Vec<IpNet>,
    /// The header they write.
    pub header: ForwardingHeader,
    /// IPv6 clients count by networks of this many bits.
    #[serde(deserialize_with = "fields::v6_prefix")]
    pub v6_prefix: u8,
}

/// Which header carries the addresses a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ForwardingHeader {
    /// The habit.
    #[serde(rename = "x-forwarded-for")]
    XForwardedFor,
    /// RFC 7239.
    #[serde(rename = "forwarded")]
    Forwarded,
}

/// The door for proxies, `/v1/authorize`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthorizeConfig {
    /// The domain when the query names none. `None`: such requests are refused.
    #[serde(deserialize_with = "fields::domain")]
    pub domain: Option<String>,
    /// The status of a refusal when the query names none. `None`: 429, or 503 when it could not be decided.
    #[serde(deserialize_with = "fields::deny_status")]
    pub deny_status: Option<u16>,
    /// Which headers tell the original request.
    pub forwarded_by: ForwardedBy,
    /// Request headers that become attributes: header (lower case) to attribute.
    #[serde(deserialize_with = "fields::header_names")]
    pub headers: BTreeMap<String, String>,
}

/// Which headers tell the original request: only one pair may count, or a client could name another path than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardedBy {
    /// Whichever pair is there; a request with both is refused.
    Either,
    /// `X-Forwarded-Method` and its like (Traefik, Caddy).
    XForwarded,
    /// `X-Original-Method` and its like (nginx).
    XOriginal,
    /// The request's own method and target (Envoy, Gateway API).
    Own,
}

/// How HTTP answers look.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Whether `RateLimit` and `RateLimit-Policy` are written (IETF draft 11).
    pub rate_limit: bool,
    /// Whether and how `X-RateLimit-*` are written beside them.
    pub x_rate_limit: XRateLimit,
    /// Whether callers may reset counters, over HTTP and gRPC alike.
    pub reset: bool,
}

/// What `X-RateLimit-Reset` holds, if the headers are written at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XRateLimit {
    /// No such headers.
    Off,
    /// Seconds from now.
    DeltaSeconds,
    /// Seconds since the Unix epoch.
    EpochSeconds,
}

/// What the client door takes in at once. Nothing waits in a queue: beyond a bound a caller is told so at once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IntakeConfig {
    /// Connections. Beyond: closed at once.
    #[serde(deserialize_with = "fields::positive_u32")]
    pub connections_max: u32,
    /// Requests being answered. Beyond: 503, or UNAVAILABLE.
    #[serde(deserialize_with = "fields::positive_u32")]
    pub requests_max: u32,
    /// HTTP/2 streams of one connection.
    #[serde(deserialize_with = "fields::positive_u32")]
    pub streams_per_connection_max: u32,
    /// Bytes of one request's headers. Beyond: 431.
    #[serde(deserialize_with = "fields::header_bytes_max")]
    pub header_bytes_max: u32,
    /// How long one request may take. Beyond: 503, or DEADLINE_EXCEEDED.
    #[serde(deserialize_with = "fields::request_timeout_ms")]
    pub request_timeout_ms: u64,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Lines for people or for machines.
    pub format: LogFormat,
    /// A level, or a list of targets with levels.
    #[serde(deserialize_with = "fields::log_level")]
    pub level: String,
}

/// Lines for people or for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// One readable line an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// A mistake in a configuration: where it is and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// As the caller named it.
    pub file: String,
    /// From 1; 0 when it belongs to no line.
    pub line: u64,
    /// From 1; 0 when it belongs to no line.
    pub column: u64,
    /// Path of the field, such as `clients.listen`; empty for the file as a whole.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead; empty when the message says it.
    pub fix: String,
}

impl Default for AddressConfig {
    fn default() -> Self {
        // A proxy on this machine writes what it likes anyway: whoever runs here is not kept out by a header.
        let v4 = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
        let v6 = Ipv6Net::from(Ipv6Addr::LOCALHOST);
        let trusted_proxies = vec![v4.into(), v6.into()];
        Self { trusted_proxies, header: ForwardingHeader::XForwardedFor, v6_prefix: 64 }
    }
}

impl Default for AuthorizeConfig {
    fn default() -> Self {
        Self {
            domain: None,
            deny_status: None,
            forwarded_by: ForwardedBy::Either,
            headers: BTreeMap::from([("x-api-key".to_owned(), "api_key".to_owned())]),
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { rate_limit: true, x_rate_limit: XRateLimit::Off, reset: true }
    }
}

impl Default for IntakeConfig {
    fn default() -> Self {
        Self {
            connections_max: 8_192,
            requests_max: 8_192,
            streams_per_connection_max: 512,
            header_bytes_max: 16_384,
            request_timeout_ms: 10_000,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)?;
        if self.fix.is_empty() { Ok(()) } else { write!(f, "; {}", self.fix) }
    }
}

impl std::error::Error for ConfigError {}
