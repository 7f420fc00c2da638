//! Who is calling: the client's address from the peer and the forwarding headers of proxies that we trust.
//!
//! Invariant: only what a trusted proxy wrote is believed. One header is read, the configured one; others are never
//! consulted. The walk begins at the peer and goes through the header's entries from the right, each written by the hop
//! to its right: while the hop is trusted its entry is the next hop. It ends at the first address that isn't trusted,
//! and at an entry that is no address, where the last good hop is the client. Nothing here resolves names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// Longest address with brackets, zone and port that is looked at; anything longer is no address.
const NODE_LEN_MAX: usize = 128;

/// Proxies whose word is taken, and the one header that they write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Vec<IpNet>,
    header: Box<str>,
    syntax: Syntax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// Addresses separated by commas: `X-Forwarded-For` and every other header (a single address is a list of one).
    List,
    /// RFC 7239.
    Forwarded,
}

impl TrustedProxies {
    /// Nobody is trusted: the peer is the client.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Vec::new(), "x-forwarded-for")
    }

    /// Trusts `networks` to write `header` (any case): `forwarded` is read by RFC 7239, every other as a list of addresses.
    #[must_use]
    pub fn new(networks: Vec<IpNet>, header: &str) -> Self {
        let header = header.to_ascii_lowercase().into_boxed_str();
        let syntax = if &*header == "forwarded" { Syntax::Forwarded } else { Syntax::List };
        Self { networks: networks.into_iter().map(canonical_network).collect(), header, syntax }
    }

    /// The header to read, in lower case.
    #[must_use]
    pub fn header(&self) -> &str {
        &self.header
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// The network that a client counts by: its IPv4 address as a /32, or its IPv6 network of `v6_prefix` bits.
///
/// `lines` are the values of [`TrustedProxies::header`] in the order they arrived; they count as one list.
#[must_use]
pub fn client_network<'a>(
    peer: IpAddr,
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    proxies: &TrustedProxies,
    v6_prefix: u8,
) -> IpNet {
    network_of(client_address(peer, lines, proxies), v6_prefix)
}

/// The client's own address, before it is widened to a network. See [`client_network`].
#[must_use]
pub fn client_address<'a>(
    peer: IpAddr,
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    proxies: &TrustedProxies,
) -> IpAddr {
    let mut hop = peer.to_canonical();
    if !proxies.trusts(hop) {
        return hop;
    }
    for line in lines.rev() {
        let mut entries = FromRight::new(line, b',');
        while let Some(entry) = entries.next() {
            if entry.is_empty() {
                continue; // an empty element is no entry (RFC 9110, section 5.6.1)
            }
            let address = match proxies.syntax {
                Syntax::List => parse_node(entry),
                Syntax::Forwarded => forwarded_for(entry),
            };
            match address {
                None => return hop,
                Some(address) if !proxies.trusts(address) => return address,
                Some(address) => hop = address,
            }
        }
    }
    hop
}

/// An address as the network that it counts by.
#[must_use]
pub fn network_of(address: IpAddr, v6_prefix: u8) -> IpNet {
    let address = address.to_canonical();
    let prefix = match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => v6_prefix.min(128),
    };
    IpNet::new(address, prefix).expect("the prefix fits the family").trunc()
}

/// A network as an attribute's value: a single address without its prefix length, anything else as `address/length`.
#[must_use]
pub fn network_text(network: IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() {
        network.addr().to_string()
    } else {
        network.to_string()
    }
}

/// Reads `address/length`, or an address as the network of just itself. IPv4-mapped IPv6 is IPv4.
#[must_use]
pub fn parse_network(text: &str) -> Option<IpNet> {
    match text.parse::<IpNet>() {
        Ok(network) => Some(canonical_network(network)),
        Err(_) => text.parse::<IpAddr>().ok().map(|address| IpNet::from(address.to_canonical())),
    }
}

/// IPv4-mapped networks (`::ffff:10.0.0.0/104`) as the IPv4 networks they are.
#[must_use]
pub fn canonical_network(network: IpNet) -> IpNet {
    if let IpNet::V6(v6) = network
        && let Some(v4) = v6.addr().to_ipv4_mapped()
        && let Some(prefix) = v6.prefix_len().checked_sub(96)
    {
        return IpNet::V4(Ipv4Net::new(v4, prefix).expect("at most 128 - 96 bits"));
    }
    network
}

/// The `for` of one RFC 7239 element. `None` when it is missing, given twice or no address.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut pairs = FromRight::new(element, b';');
    while let Some(pair) = pairs.next() {
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
            if pair.is_empty() { continue } else { return None }
        };
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    let value = found?;
    match value {
        [b'"', inner @ .., b'"'] if inner.contains(&b'\\') => {
            let mut buffer = [0; NODE_LEN_MAX];
            parse_node(unescape(inner, &mut buffer)?)
        }
        [b'"', inner @ .., b'"'] => parse_node(inner),
        _ => parse_node(value),
    }
}

/// Resolves the backslashes of a quoted string. `None` when it doesn't fit or ends in one.
fn unescape<'b>(quoted: &[u8], buffer: &'b mut [u8; NODE_LEN_MAX]) -> Option<&'b [u8]> {
    let mut length = 0;
    let mut bytes = quoted.iter();
    while let Some(byte) = bytes.next() {
        *buffer.get_mut(length)? = if *byte == b'\\' { *bytes.next()? } else { *byte };
        length += 1;
    }
    Some(&buffer[..length])
}

/// An address as proxies write it: `1.2.3.4`, `1.2.3.4:5`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:5`, zones allowed.
fn parse_node(entry: &[u8]) -> Option<IpAddr> {
    if entry.len() > NODE_LEN_MAX {
        return None;
    }
    let text = std::str::from_utf8(entry).ok()?.trim_ascii();
    let address = if let Some(bracketed) = text.strip_prefix('[') {
        let (inner, rest) = bracketed.split_once(']')?;
        if !(rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)) {
            return None;
        }
        IpAddr::V6(parse_v6(inner)?)
    } else if let Some((address, port)) = text.split_once(':').filter(|(_, port)| !port.contains(':')) {
        if !is_port(port) {
            return None;
        }
        IpAddr::V4(address.parse::<Ipv4Addr>().ok()?)
    } else if text.contains(':') {
        IpAddr::V6(parse_v6(text)?)
    } else {
        IpAddr::V4(text.parse::<Ipv4Addr>().ok()?)
    };
    Some(address.to_canonical())
}

fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    match text.split_once('%') {
        Some((_, "")) => None,
        Some((address, _zone)) => address.parse().ok(),
        None => text.parse().ok(),
    }
}

/// One to five digits, or an obfuscated port of RFC 7239.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(hidden) => {
            !hidden.is_empty() && hidden.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        }
        None => (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()),
    }
}

/// Parts of a header line from the right, separated outside quoted strings, blanks trimmed.
///
/// From the right, because the right end is what the nearest proxy wrote: a quote that a client leaves open at the left
/// can't swallow it. In a well-formed line both directions give the same parts.
struct FromRight<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> FromRight<'a> {
    fn new(line: &'a [u8], separator: u8) -> Self {
        Self { rest: Some(line), separator }
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let mut quoted = false;
        let mut at = rest.len();
        while at > 0 {
            at -= 1;
            match rest[at] {
                b'"' if !quoted => quoted = true,
                b'"' => {
                    let slashes = rest[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                    quoted = !slashes.is_multiple_of(2);
                    at -= slashes;
                }
                byte if byte == self.separator && !quoted => {
                    self.rest = Some(&rest[..at]);
                    return Some(rest[at + 1..].trim_ascii());
                }
                _ => {}
            }
        }
        self.rest = None;
        Some(rest.trim_ascii())
    }
}

#[cfg(test)]
mod tests;
