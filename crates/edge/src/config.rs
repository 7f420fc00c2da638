//! The configuration of an edge: plain structs, read from YAML and checked as a whole before any port opens.

mod fields;
mod read;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use leasehold_client::stream::Address;
use leasehold_lease::LIFETIME_DEFAULT;
use leasehold_model::Nanos;
use leasehold_service::config::read::same;
use leasehold_service::config::{
    AddressConfig, AuthorizeConfig, ConfigError, DoorConfig, HttpConfig, IntakeConfig, LogConfig,
};
use serde::Deserialize;

/// The default configuration, every field with its comment. Reading it gives `Config::default()`.
pub const DEFAULT_CONFIG_YAML: &str = include_str!("config/default.yaml");

/// What an edge is called that isn't told.
const NAME_DEFAULT: &str = "edge";

/// An edge's configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where nodes serve their clients: nodes of one cluster, or one that runs alone.
    #[serde(deserialize_with = "fields::upstreams")]
    pub upstreams: Vec<Address>,
    /// What the nodes' operators see of this edge.
    #[serde(deserialize_with = "fields::name")]
    pub name: String,
    /// The doors for clients: HTTP, gRPC and Envoy RLS.
    pub clients: ClientsConfig,
    /// The door for operators.
    pub admin: DoorConfig,
    /// Who is calling.
    pub addresses: AddressConfig,
    /// The door for proxies, `/v1/authorize`.
    pub authorize: AuthorizeConfig,
    /// How HTTP answers look.
    pub http: HttpConfig,
    /// What each door for clients takes in.
    pub intake: IntakeConfig,
    /// What is held, and how long a request waits for more.
    pub wallet: WalletConfig,
    /// Logs.
    pub log: LogConfig,
    /// How long what is in flight may take to finish at shutdown, and what is held to be handed back.
    #[serde(deserialize_with = "leasehold_service::config::fields::drain_seconds")]
    pub drain_seconds: u64,
}

/// Where clients are served: a port, a socket file, or both.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientsConfig {
    /// Address and port; port 0 takes any free one. `None`: no port.
    #[serde(deserialize_with = "fields::socket_addr")]
    pub listen: Option<SocketAddr>,
    /// Says yes to unencrypted traffic from other machines. Loopback needs no such word.
    pub plaintext: bool,
    /// A socket file. `None`: none.
    #[serde(deserialize_with = "fields::socket_path")]
    pub unix: Option<PathBuf>,
    /// Permissions of the socket file.
    pub unix_mode: Mode,
}

/// Permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

/// What is held, and how long a request waits for more.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WalletConfig {
    /// How long a request waits that names no time. Then its rule's `on_unavailable` stands in.
    #[serde(deserialize_with = "fields::patience_ms")]
    pub patience_ms: u64,
    /// For how long to ask for leases.
    #[serde(deserialize_with = "fields::lifetime_ms")]
    pub lifetime_ms: u64,
    /// Demand of so much time is held, besides that of a round trip.
    #[serde(deserialize_with = "fields::horizon_ms")]
    pub horizon_ms: u64,
    /// After so long without a request a counter's units go back.
    #[serde(deserialize_with = "fields::horizon_ms")]
    pub idle_ms: u64,
    /// Counters that units are held of, about. Others are asked for each time.
    #[serde(deserialize_with = "leasehold_service::config::fields::positive_u32")]
    pub keys_max: u32,
}

/// What the command line names instead of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Instead of `upstreams`, if any.
    pub upstreams: Vec<Address>,
    /// Instead of `name`.
    pub name: Option<String>,
    /// Instead of `clients.listen`.
    pub http: Option<SocketAddr>,
    /// Instead of `clients.unix`; without `http` no port is served beside it.
    pub unix: Option<PathBuf>,
    /// Instead of `admin.listen`.
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

    /// This, with what the command line says. A door named there is served in plaintext wherever it listens: naming it is the
    /// explicit word.
    ///
    /// # Errors
    /// What is wrong with a flag, and what to write instead.
    pub fn with(mut self, flags: Flags) -> Result<Self, String> {
        let Flags { upstreams, name, http, unix, admin } = flags;
        if !upstreams.is_empty() {
            self.upstreams = upstreams;
        }
        if let Some(name) = name {
            fields::check_name(&name).map_err(|message| format!("--name: {message}"))?;
            self.name = name;
        }
        if let Some(path) = &unix {
            fields::check_socket_path(path).map_err(|message| format!("--unix: {message}"))?;
            self.clients = ClientsConfig { listen: None, unix, ..self.clients };
        }
        if http.is_some() {
            self.clients = ClientsConfig { listen: http, plaintext: true, ..self.clients };
        }
        if let Some(listen) = admin {
            self.admin = DoorConfig { listen, plaintext: true };
        }
        if self.clients.listen.is_some_and(|clients| same(clients, self.admin.listen)) {
            return Err(format!(
                "{} is for clients and for operators; choose another with --admin",
                self.admin.listen
            ));
        }
        Ok(self)
    }
}

impl WalletConfig {
    /// How long a request waits.
    #[must_use]
    pub const fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    /// As a wallet takes it.
    #[must_use]
    pub fn settings(&self) -> leasehold_lease::Settings {
        leasehold_lease::Settings {
            lifetime: Nanos::from_millis(self.lifetime_ms),
            horizon: Nanos::from_millis(self.horizon_ms),
            idle: Nanos::from_millis(self.idle_ms),
            keys_max: usize::try_from(self.keys_max).unwrap_or(usize::MAX),
            ..leasehold_lease::Settings::default()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            upstreams: vec![Address::Tcp("127.0.0.1:7600".to_owned())],
            name: NAME_DEFAULT.to_owned(),
            clients: ClientsConfig::default(),
            admin: DoorConfig { listen: (Ipv4Addr::LOCALHOST, 7682).into(), plaintext: false },
            addresses: AddressConfig::default(),
            authorize: AuthorizeConfig::default(),
            http: HttpConfig::default(),
            intake: IntakeConfig::default(),
            wallet: WalletConfig::default(),
            log: LogConfig::default(),
            drain_seconds: 10,
        }
    }
}

impl Default for ClientsConfig {
    fn default() -> Self {
        let listen = Some((Ipv4Addr::LOCALHOST, 7680).into());
        Self { listen, plaintext: false, unix: None, unix_mode: Mode(0o660) }
    }
}

impl Default for WalletConfig {
    fn default() -> Self {
        let settings = leasehold_lease::Settings::default();
        Self {
            patience_ms: 1_000,
            lifetime_ms: LIFETIME_DEFAULT.millis_ceil(),
            horizon_ms: settings.horizon.millis_ceil(),
            idle_ms: settings.idle.millis_ceil(),
            keys_max: u32::try_from(settings.keys_max).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests;
