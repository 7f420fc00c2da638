//! The configuration of a node: plain structs, read from YAML and checked as a whole before any port opens.
//!
//! Invariant: a `Config` from [`Config::from_yaml`] needs no second look. What only the system can say (is the port
//! free, is the file there) is said by [`Node::start`](crate::Node::start).

mod cluster;
mod fields;
mod read;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

pub use cluster::{ClusterConfig, GossipConfig, PeersConfig};
pub use leasehold_service::config::{
    AddressConfig, AuthorizeConfig, ConfigError, DoorConfig, ForwardedBy, ForwardingHeader, HttpConfig,
    IntakeConfig, LogConfig, LogFormat, XRateLimit,
};

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
    pub admin: AdminConfig,
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

/// The port for operators, and what they may see there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// Address and port; port 0 takes any free one.
    #[serde(deserialize_with = "fields::socket_addr")]
    pub listen: SocketAddr,
    /// Says yes to unencrypted traffic from other machines. Loopback needs no such word.
    pub plaintext: bool,
    /// Whether the values that keys are hashes of are kept, of keys that are asked for often, and shown to whoever asks.
    pub show_key_values: bool,
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
        if let Some(listen) = options.clients {
            config.clients = DoorConfig { listen, plaintext: true };
        }
        if let Some(listen) = options.admin {
            config.admin = AdminConfig { listen, plaintext: true, ..config.admin };
        }
        // Who is on this machine sees what it asks for anyway.
        config.admin.show_key_values = config.admin.listen.ip().is_loopback();
        config
    }
}

/// Whether a node can be called so; what to write instead.
pub(crate) fn check_node_name(name: &str) -> Result<(), String> {
    fields::check_name(name)
}

impl Default for Config {
    fn default() -> Self {
        Self {
            clients: DoorConfig { listen: (Ipv4Addr::LOCALHOST, 7600).into(), plaintext: false },
            admin: AdminConfig::default(),
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

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 7602).into(), plaintext: false, show_key_values: false }
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

#[cfg(test)]
mod tests;
