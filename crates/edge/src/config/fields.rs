//! Values of single fields: from text to a checked value, with the fix in the message (after the semicolon).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use leasehold_client::stream::Address;
use leasehold_lease::{LIFETIME_MAX, LIFETIME_MIN};
use leasehold_service::config::fields::within;
use serde::de::{Deserialize, Deserializer, Error};

use super::Mode;

/// Nodes to connect to. More than a few are tried in vain when none can be reached.
const UPSTREAMS_MAX: usize = 64;
/// Bytes of an edge's name.
const NAME_BYTES_MAX: usize = 128;
/// Bytes of a socket's path: what the system takes, less those that tell one from another while it is made.
const SOCKET_PATH_BYTES_MAX: usize = 90;
/// The longest that a request without a time of its own waits.
const PATIENCE_MS_MAX: u64 = 60_000;
/// The longest time whose demand is held.
const HORIZON_MS_MAX: u64 = 60_000;

/// One node's address, so that a mistake is found at its own line.
struct Upstream(Address);

impl<'de> Deserialize<'de> for Upstream {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| {
            D::Error::custom(format!(
                "{text:?} is no node's address; write http://HOST:PORT or unix:/PATH, as the node's clients reach it"
            ))
        })
    }
}

pub(super) fn upstreams<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Address>, D::Error> {
    let upstreams = Vec::<Upstream>::deserialize(deserializer)?;
    match upstreams.len() {
        0 => Err(D::Error::custom("no node to lease from; write for example [http://127.0.0.1:7600]")),
        many if many > UPSTREAMS_MAX => {
            Err(D::Error::custom(format!("{many} nodes; name at most {UPSTREAMS_MAX} of the cluster")))
        }
        _ => Ok(upstreams.into_iter().map(|Upstream(address)| address).collect()),
    }
}

pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    check_name(&name).map_err(D::Error::custom)?;
    Ok(name)
}

/// Whether an edge can be called so; what to write instead.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!("{name:?} is no name; use 1 to {NAME_BYTES_MAX} bytes of text"));
    }
    Ok(())
}

pub(super) fn socket_addr<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        D::Error::custom(format!(
            "{text:?} is not an address with a port; write for example 127.0.0.1:7680, or null for no port"
        ))
    })
}

pub(super) fn socket_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let path = PathBuf::from(text);
    check_socket_path(&path).map_err(D::Error::custom)?;
    Ok(Some(path))
}

/// Whether a socket can be there; what to write instead.
pub(super) fn check_socket_path(path: &Path) -> Result<(), String> {
    if path.is_absolute() && path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "{} is no path of a socket; write one from the root, such as /run/leasehold/edge.sock, of at most \
         {SOCKET_PATH_BYTES_MAX} bytes",
        path.display()
    ))
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.trim_start_matches("0o");
        let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777 && digits.len() >= 3);
        mode.map(Self).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} are no permissions; write octal digits in quotes, such as \"0660\""
            ))
        })
    }
}

pub(super) fn patience_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, 1, PATIENCE_MS_MAX)
}

pub(super) fn horizon_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, 1, HORIZON_MS_MAX)
}

pub(super) fn lifetime_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, LIFETIME_MIN.millis_ceil(), LIFETIME_MAX.millis_ceil())
}
