//! Values of single fields: from text to a checked value, with the fix in the message (after the semicolon).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ipnet::IpNet;
use leasehold_limit::rules::{is_attribute_name, is_domain_name};
use serde::de::{Deserialize, Deserializer, Error};

/// The longest drain: an orchestrator that waits longer for a process to end than this is not known.
const DRAIN_SECONDS_MAX: u64 = 3_600;

/// The longest a request may take: a caller that still waits then has better things to do.
const REQUEST_TIMEOUT_MS_MAX: u64 = 600_000;

/// Bytes of headers: fewer keep ordinary clients out, more are held for each connection that sends them.
const HEADER_BYTES: (u32, u32) = (4_096, 1 << 20);

/// Attributes that every authorize request has by itself. Of two with one name only the first would count.
const AUTHORIZE_OWN: [&str; 4] = ["path", "method", "host", "ip"];

/// Headers that may become attributes: with more, a request that has them all would be refused for its attributes.
const AUTHORIZE_HEADERS_MAX: usize = leasehold_front::bounds::ATTRIBUTES_MAX - AUTHORIZE_OWN.len();

/// An address with a port.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn socket_addr<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!(
            "{text:?} is not an address with a port; write for example 127.0.0.1:7600 or [::1]:7600"
        ))
    })
}

/// Networks, or single addresses.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    /// One network, so that a mistake is found at its own line.
    struct Network(IpNet);
    impl<'de> Deserialize<'de> for Network {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            let bare = || text.parse::<std::net::IpAddr>().map(IpNet::from);
            text.parse::<IpNet>().or_else(|_| bare()).map(Self).map_err(|_| {
                D::Error::custom(format!(
                    "{text:?} is not a network; write for example 10.0.0.0/8, 2001:db8::/32 or one address"
                ))
            })
        }
    }
    let networks = Vec::<Network>::deserialize(deserializer)?;
    Ok(networks.into_iter().map(|network| network.0).collect())
}

/// Bits of a network.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn v6_prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    within(deserializer, 1, 128)
}

/// How long a drain may take.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn drain_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, 0, DRAIN_SECONDS_MAX)
}

/// How long a request may take.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn request_timeout_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, 1, REQUEST_TIMEOUT_MS_MAX)
}

/// Bytes of a request's headers.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn header_bytes_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, HEADER_BYTES.0, HEADER_BYTES.1)
}

/// A domain that rules can have: with another, every request that names none would go without a limit.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn domain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    if !is_domain_name(&name) {
        return Err(D::Error::custom(format!(
            "{name:?} is no domain name; use a letter or digit, then up to 127 letters, digits, _ . : / or -"
        )));
    }
    Ok(Some(name))
}

/// A status that refuses: 2xx would let pass what was refused, 3xx would send it elsewhere.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn deny_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    // Read wider than it is, so that a number of any size gets the same words.
    let Some(number) = Option::<i128>::deserialize(deserializer)? else { return Ok(None) };
    match u16::try_from(number) {
        Ok(status) if (400..=599).contains(&status) => Ok(Some(status)),
        Ok(_) | Err(_) => Err(D::Error::custom(format!("{number} refuses nothing; use 400 to 599"))),
    }
}

/// A number that isn't 0.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn positive_u32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, u32::MAX)
}

/// A number from `least` to `most`.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn within<'de, D, T>(deserializer: D, least: T, most: T) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i128> + Into<i128> + Copy + std::fmt::Display,
{
    let number = i128::deserialize(deserializer)?;
    if !(least.into()..=most.into()).contains(&number) {
        return Err(D::Error::custom(format!("{number} is out of range; use {least} to {most}")));
    }
    T::try_from(number).map_err(|_| D::Error::custom("not a number of this size"))
}

/// Headers and the attributes they become.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn header_names<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let headers = BTreeMap::<String, String>::deserialize(deserializer)?;
    if headers.len() > AUTHORIZE_HEADERS_MAX {
        return Err(D::Error::custom(format!(
            "{} headers; use at most {AUTHORIZE_HEADERS_MAX}",
            headers.len()
        )));
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (header, attribute) in &headers {
        if header.is_empty() || !header.chars().all(is_token) {
            return Err(D::Error::custom(format!(
                "{header:?} is not a header name; use letters, digits and hyphens"
            )));
        }
        if attribute.is_empty() {
            return Err(D::Error::custom(format!(
                "header {header:?} names no attribute; write for example x-api-key: api_key"
            )));
        }
        if !is_attribute_name(attribute) {
            return Err(D::Error::custom(format!(
                "{attribute:?} is no attribute name; use 1 to 128 bytes without blanks"
            )));
        }
        if AUTHORIZE_OWN.contains(&attribute.as_str()) {
            return Err(D::Error::custom(format!(
                "every request has an attribute {attribute} of its own; name that of header {header:?} differently"
            )));
        }
    }
    Ok(headers.into_iter().map(|(header, attribute)| (header.to_ascii_lowercase(), attribute)).collect())
}

/// A level, or a list of targets with levels.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn log_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let level = String::deserialize(deserializer)?;
    match crate::logging::check_level(&level) {
        Ok(()) => Ok(level),
        Err(error) => Err(D::Error::custom(error)),
    }
}
