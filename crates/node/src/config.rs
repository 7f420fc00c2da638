//! The configuration of a node: plain structs, read from YAML and checked as a whole before any port opens.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;

/// The default configuration, every field with its comment. Reading it gives `Config::default()`.
pub const DEFAULT_CONFIG_YAML: &str = "";

/// A node's configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The door for clients: HTTP, gRPC and Envoy RLS.
    pub clients: ClientsConfig,
    /// The door for operators.
    pub admin: AdminConfig,
    /// A rule file, or a folder of them, one a domain. `None`: the built-in example rules.
    pub rules: Option<PathBuf>,
    /// Who is calling.
    pub addresses: AddressConfig,
    /// Logs.
    pub log: LogConfig,
    /// How long what is in flight may take to finish at shutdown.
    pub drain_seconds: u64,
    /// File with the secret that keys counter names. `None`: random at each start.
    pub key_secret_file: Option<PathBuf>,
}

/// The door for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientsConfig {
    /// Address and port; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Says yes to unencrypted traffic from other machines. Loopback needs no such word.
    pub plaintext: bool,
}

/// The door for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Address and port; port 0 takes any free one.
    pub listen: SocketAddr,
    /// See [`ClientsConfig::plaintext`].
    pub plaintext: bool,
}

/// How a client's address is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressConfig {
    /// Proxies whose forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The header they write, lower case: `x-forwarded-for` or `forwarded`.
    pub header: String,
    /// IPv6 clients count by networks of this many bits.
    pub v6_prefix: u8,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Lines for people or for machines.
    pub format: LogFormat,
    /// A level, or a list of targets with levels.
    pub level: String,
}

/// Lines for people or for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {field}: {message}; {fix}")]
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
    pub fn from_yaml(_file_name: &str, _text: &str) -> Result<Self, ConfigError> {
        todo!()
    }

    /// A configuration for trying things out on one machine: the built-in example rules, unless others are named.
    #[must_use]
    pub fn dev(options: DevOptions) -> Self {
        let mut config = Self::default();
        config.rules = options.rules;
        if let Some(listen) = options.clients {
            config.clients.listen = listen;
        }
        if let Some(listen) = options.admin {
            config.admin.listen = listen;
        }
        config
    }
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            clients: ClientsConfig { listen: loopback(7600), plaintext: false },
            admin: AdminConfig { listen: loopback(7602), plaintext: false },
            rules: None,
            addresses: AddressConfig {
                trusted_proxies: Vec::new(),
                header: "x-forwarded-for".to_owned(),
                v6_prefix: 64,
            },
            log: LogConfig { format: LogFormat::Text, level: "info".to_owned() },
            drain_seconds: 10,
            key_secret_file: None,
        }
    }
}
