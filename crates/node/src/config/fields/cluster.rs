//! Fields of the section `cluster:`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use leasehold_placement::Shards;
use serde::de::{Deserialize, Deserializer, Error};

use super::within;

/// Bytes of a name of a cluster, a node, a zone or a region: it stands in every gossip message.
const NAME_BYTES_MAX: usize = 64;

/// Bytes of `host:port`, a DNS name of the greatest length included.
const ADDRESS_BYTES_MAX: usize = 262;

/// Nodes that found a cluster: each must hear of all others before it begins.
const SEEDS_MAX: usize = 64;

/// Relative to other nodes, so that a hundred times the usual share is enough to tell any two apart.
const WEIGHT_MAX: u32 = 10_000;

/// Copies of a shard. Each more is a disk that every charge waits for.
const REPLICAS_MAX: u32 = 7;

/// Shorter than a restart of a process, every restart would move its replicas.
const REPLACE_AFTER_SECONDS: (u64, u64) = (10, 604_800);

/// Fewer would write snapshots all the time; more would make a restart replay for minutes.
const SNAPSHOT_EVERY: (u64, u64) = (100, 10_000_000);

pub(in crate::config) fn cluster_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    check_name(&name).map_err(D::Error::custom)?;
    Ok(name)
}

pub(in crate::config) fn node_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.as_deref().map_or(Ok(()), check_name).map_err(D::Error::custom)?;
    Ok(name)
}

/// Whether people, logs and gossip can all carry the name.
pub(in crate::config) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    // An id is a number: a name that is one would leave in doubt which is meant.
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    if begins && !is_number && name.chars().all(plain) && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "{name:?} is no name; use a letter or digit, then up to {} letters, digits, _ . or -, and not only digits",
        NAME_BYTES_MAX - 1
    ))
}

/// A zone or a region. May be empty.
pub(in crate::config) fn place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(D::Error::custom(format!(
            "it is too long or holds control characters; use at most {NAME_BYTES_MAX} bytes of text"
        )));
    }
    Ok(name)
}

pub(in crate::config) fn directory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    if path.as_os_str().is_empty() {
        return Err(D::Error::custom("it is empty; name a directory, for example /var/lib/leasehold"));
    }
    Ok(path)
}

pub(in crate::config) fn seeds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    /// One seed, so that a mistake is found at its own line.
    struct Seed(String);
    impl<'de> Deserialize<'de> for Seed {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            check_host_port(&text).map_err(D::Error::custom)?;
            Ok(Self(text))
        }
    }
    let seeds: Vec<String> = Vec::<Seed>::deserialize(deserializer)?.into_iter().map(|seed| seed.0).collect();
    if seeds.is_empty() || seeds.len() > SEEDS_MAX {
        return Err(D::Error::custom(format!(
            "{} seeds; name the peer addresses of the nodes that found the cluster, 1 to {SEEDS_MAX}, for example \
             [10.0.0.1:7601, 10.0.0.2:7601, 10.0.0.3:7601]",
            seeds.len()
        )));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = seeds.iter().find(|seed| !seen.insert(*seed)) {
        return Err(D::Error::custom(format!("{twice:?} stands twice; name each node once")));
    }
    Ok(seeds)
}

pub(in crate::config) fn host_port<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    check_host_port(&text).map_err(D::Error::custom)?;
    Ok(Some(text))
}

/// An address that others reach.
fn check_host_port(text: &str) -> Result<(), String> {
    let reached = match (text.parse::<SocketAddr>(), text.rsplit_once(':')) {
        (Ok(address), _) => address.port() != 0 && !address.ip().is_unspecified(),
        (Err(_), Some((host, port))) => is_host(host) && port.parse::<u16>().is_ok_and(|port| port != 0),
        (Err(_), None) => false,
    };
    if reached && text.len() <= ADDRESS_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "{text:?} is no host and port that others reach; write for example 10.0.0.1:7601 or node-1.example:7601"
    ))
}

fn is_host(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !host.is_empty() && host.bytes().all(plain)
}

/// What stands before the port.
pub(in crate::config) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

pub(in crate::config) fn socket_addr_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 && !address.ip().is_unspecified() => Ok(Some(address)),
        Ok(_) | Err(_) => Err(D::Error::custom(format!(
            "{text:?} is no address and port that others reach; write for example 10.0.0.1:7603"
        ))),
    }
}

pub(in crate::config) fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 0, WEIGHT_MAX)
}

pub(in crate::config) fn shards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let count: u32 = within(deserializer, 1, Shards::MAX)?;
    match Shards::new(count) {
        Ok(shards) => Ok(shards.count()),
        Err(_) => Err(D::Error::custom(format!("{count} is no power of two; use for example 16, 32 or 64"))),
    }
}

pub(in crate::config) fn replicas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, REPLICAS_MAX)
}

pub(in crate::config) fn replace_after_seconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<u64, D::Error> {
    within(deserializer, REPLACE_AFTER_SECONDS.0, REPLACE_AFTER_SECONDS.1)
}

pub(in crate::config) fn snapshot_every<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, SNAPSHOT_EVERY.0, SNAPSHOT_EVERY.1)
}
