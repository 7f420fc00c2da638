//! From a configuration to the parts of a node. Nothing is served yet.

pub(crate) mod cluster;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_decide::TopKeys;
use leasehold_front::http as door;
use leasehold_limit::KeySecret;
use leasehold_limit::rules::RuleError;
use leasehold_model::Nanos;
use leasehold_service::doors;
use leasehold_shard::Bounds;

use crate::authority::LocalAuthority;
use crate::clock;
use crate::config::{Config, CountersConfig};
use crate::core::Core;
use crate::files::read_text;
use crate::lease_service::Greeter;
use crate::metrics::Metrics;
use crate::rules::{FileRules, Keeper, LoadError, Source};

/// Bytes of a key secret, written as twice as many hexadecimal digits.
const SECRET_BYTES: usize = 16;

/// Bytes of the file with the secret. A larger one holds something else.
const SECRET_FILE_BYTES_MAX: usize = 1_024;

/// Why a node did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rules are wrong. Print each mistake; there are no older rules to fall back to.
    #[error("{} mistakes in the rules", .0.len())]
    Rules(Vec<RuleError>),
    /// The rules could not be read.
    #[error("reading rules from {path}: {source}")]
    ReadRules {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A secret could not be read, or isn't one.
    #[error("{field} {path}: {message}")]
    Secret {
        /// The field of the configuration.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong and what it must hold.
        message: String,
    },
    /// A port could not be bound.
    #[error("binding {field} to {addr}: {source}")]
    Bind {
        /// The field of the configuration.
        field: &'static str,
        /// As configured.
        addr: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A field can't be as it is on this machine.
    #[error("{field}: {message}")]
    Setting {
        /// The field of the configuration.
        field: &'static str,
        /// What is wrong and what to write instead.
        message: String,
    },
    /// The node's part in a cluster could not be taken up.
    #[error("joining the cluster: {0}")]
    Cluster(#[source] Box<leasehold_cluster::StartError>),
    /// The system refused something else that a node needs.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Reads what a node that runs alone needs and puts it together. Blocks on the disk.
pub(crate) fn core(config: &Config) -> Result<(Core<LocalAuthority>, Arc<FileRules>), StartError> {
    let secret = secret(config.key_secret_file.as_deref())?;
    let metrics = Arc::new(Metrics::new());
    let source = Source::at(config.rules.as_deref());
    let bounds = shard_bounds(&config.counters);
    let authority = LocalAuthority::new(bounds);
    let fallback_domain = config.authorize.domain.clone();
    let rules = FileRules::load(source, secret, Arc::clone(&metrics), fallback_domain)?;
    let rules = Arc::new(rules.since_by(authority.line()));
    let keeper = Keeper::Files(Arc::clone(&rules));
    let top_keys = TopKeys::new(config.admin.show_key_values);
    Ok((Core::new(keeper, authority, metrics, top_keys, demands_max(bounds)), rules))
}

/// How a node that runs alone greets edges.
pub(crate) fn greeter(config: &Config) -> Greeter {
    Greeter { reset: config.http.reset, ..Greeter::default() }
}

/// Counters that one request may be charged to.
fn demands_max(bounds: Bounds) -> usize {
    usize::try_from(bounds.items_max).unwrap_or(usize::MAX)
}

impl From<LoadError> for StartError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Read(error) => Self::ReadRules { path: error.path, source: error.source },
            LoadError::Mistakes(mistakes) => Self::Rules(mistakes),
        }
    }
}

/// The configured secret, or a new one.
fn secret(path: Option<&Path>) -> Result<KeySecret, StartError> {
    let Some(path) = path else { return random_secret() };
    let wrong = |message| StartError::Secret { field: "key_secret_file", path: path.to_owned(), message };
    let text = read_text(path, SECRET_FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
    let digits = SECRET_BYTES * 2;
    let bytes: [u8; SECRET_BYTES] = from_hex(text.trim()).ok_or_else(|| {
        wrong(format!(
            "it must hold {digits} hexadecimal digits; make one by openssl rand -hex {SECRET_BYTES}"
        ))
    })?;
    Ok(KeySecret::new(bytes))
}

fn random_secret() -> Result<KeySecret, StartError> {
    random("drawing a key secret").map(KeySecret::new)
}

fn random<const N: usize>(what: &'static str) -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    let failed = |error: getrandom::Error| StartError::System {
        what,
        source: std::io::Error::other(error.to_string()),
    };
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Bytes written as twice as many hexadecimal digits, and nothing else.
fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    if digits.len() != N * 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[index * 2..index * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

fn shard_bounds(counters: &CountersConfig) -> Bounds {
    Bounds {
        keys_per_tenant_max: counters.keys_per_domain_max,
        keys_max: counters.keys_max,
        replies_per_tenant_max: counters.request_ids_per_domain_max,
        retry_window: Nanos::from_secs(counters.retry_window_seconds),
        items_max: Bounds::default().items_max,
        leases_max: Bounds::default().leases_max,
    }
}

/// How the clients' door answers over HTTP.
pub(crate) fn http_door(config: &Config) -> door::HttpConfig {
    let epoch = Arc::new(|| clock::wall().0 / 1_000_000_000);
    doors::http_door(&config.http, &config.authorize, &config.addresses, epoch)
}

#[cfg(test)]
mod tests;
