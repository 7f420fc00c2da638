//! The configuration of a node: plain structs, read from YAML and checked as a whole before any port opens.
//!
//! Invariant: a `Config` from [`Config::from_yaml`] needs no second look. What only the system can say (is the port
//! free, is the file there) is said by [`Node::start`](crate::Node::start).

mod cluster;
mod fields;
mod read;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;

pub use cluster::{ClusterConfig, GossipConfig, PeersConfig};

/// The default configuration, every field with its comment. Reading it gives `Config::default()`; the section `cluster:`,
/// which has no default, stands in it as a comment.
pub const DEFAULT_CONFIG_YAML: &str = include_str!("config/default.yaml");

/// A node's configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The door for clients: HTTP, gRPC and Envoy RLS.
    pub clients: DoorConfig,
    /// The door for operators.
    pub admin: DoorConfig,
    /// A rule file, or a folder of them, one a domain. `None`: the built-in example rules. In a cluster: what it is
    /// created with, `None` being no rules.
    pub rules: Option<PathBuf>,
    /// Who is calling.
    pub addresses: AddressConfig,
    /// The door for proxies, `/v1/authorize`.
    pub authorize: AuthorizeConfig,
    /// How HTTP answers look.
    pub http: HttpConfig,
    /// What the client door takes in.
    pub intake: IntakeConfig,
    /// What the counters may grow to.
    pub counters: CountersConfig,
    /// Logs.
    pub log: LogConfig,
    /// How long what is in flight may take to finish at shutdown.
    #[serde(deserialize_with = "fields::drain_seconds")]
    pub drain_seconds: u64,
    /// File with the secret that keys counter names. `None`: random at each start. In a cluster it is the cluster's own.
    pub key_secret_file: Option<PathBuf>,
    /// The cluster that this node is a part of. `None`: it runs alone.
    pub cluster: Option<ClusterConfig>,
}

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

/// What the counters may grow to. What is held is never dropped to make room: at a bound the newcomer is refused, and
/// its rule's `on_unavailable` stands in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CountersConfig {
    /// Counters of one domain.
    #[serde(deserialize_with = "fields::positive_u32")]
    pub keys_per_domain_max: u32,
    /// Counters in all.
    #[serde(deserialize_with = "fields::positive_u32")]
    pub keys_max: u32,
    /// Remembered request ids of one domain. One of a request under more than four limits counts once for each four, so
    /// that this bounds bytes: some 600 for each. Beyond: requests with a new id are refused as overload.
    #[serde(deserialize_with = "fields::positive_u32")]
    pub request_ids_per_domain_max: u32,
    /// How long a request id is remembered: retries come within it.
    #[serde(deserialize_with = "fields::retry_window_seconds")]
    pub retry_window_seconds: u64,
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

/// What `leasehold dev` lets a user choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevOptions {
    /// A rule file or folder instead of the built-in examples.
    pub rules: Option<PathBuf>,
    /// Where clients are served instead of 127.0.0.1:7600.
    pub clients: Option<SocketAddr>,
    /// Where operators are served instead of 127.0.0.1:7602.
    pub admin: Option<SocketAddr>,
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

impl Config {
    /// Reads and checks a configuration. `file_name` only goes into errors.
    ///
    /// # Errors
    /// The first mistake found.
    pub fn from_yaml(file_name: &str, text: &str) -> Result<Self, ConfigError> {
        read::config(file_name, text)
    }

    /// This, with what differs from machine to machine when the file is the same on all: the node's name and directory.
    ///
    /// # Errors
    /// There is no cluster, or the name is none.
    pub fn on_this_machine(mut self, node: Option<String>, data: Option<PathBuf>) -> Result<Self, String> {
        if node.is_none() && data.is_none() {
            return Ok(self);
        }
        let Some(cluster) = &mut self.cluster else {
            return Err(
                "the configuration has no section `cluster:`, and a node that runs alone has neither"
                    .to_owned(),
            );
        };
        node.as_deref().map_or(Ok(()), check_node_name)?;
        cluster.node = node.or(cluster.node.take());
        cluster.data = data.unwrap_or_else(|| std::mem::take(&mut cluster.data));
        Ok(self)
    }

    /// A configuration for trying things out on one machine: the built-in example rules, unless others are named.
    /// A door named here is served in plaintext wherever it listens: naming it is the explicit word.
    #[must_use]
    pub fn dev(options: DevOptions) -> Self {
        let mut config = Self { rules: options.rules, ..Self::default() };
        for (door, listen) in [(&mut config.clients, options.clients), (&mut config.admin, options.admin)] {
            if let Some(listen) = listen {
                *door = DoorConfig { listen, plaintext: true };
            }
        }
        config
    }
}

/// Whether a node can be called so; what to write instead.
pub(crate) fn check_node_name(name: &str) -> Result<(), String> {
    fields::check_name(name)
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| DoorConfig { listen: (Ipv4Addr::LOCALHOST, port).into(), plaintext: false };
        Self {
            clients: loopback(7600),
            admin: loopback(7602),
            rules: None,
            addresses: AddressConfig::default(),
            authorize: AuthorizeConfig::default(),
            http: HttpConfig::default(),
            intake: IntakeConfig::default(),
            counters: CountersConfig::default(),
            log: LogConfig::default(),
            drain_seconds: 10,
            key_secret_file: None,
            cluster: None,
        }
    }
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

impl Default for CountersConfig {
    fn default() -> Self {
        let bounds = leasehold_shard::Bounds::default();
        Self {
            keys_per_domain_max: bounds.keys_per_tenant_max,
            keys_max: bounds.keys_max,
            request_ids_per_domain_max: bounds.replies_per_tenant_max,
            retry_window_seconds: bounds.retry_window.secs_ceil(),
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

#[cfg(test)]
mod tests;
