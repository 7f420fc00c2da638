//! What an attribute's value must look like: read from `when`, and tested on the hot path.
//!
//! Invariant: values are bytes, compared as they are. Only a network condition reads its value as an address.

use ipnet::IpNet;

use super::error::{Report, quoted};
use super::fields::{Fields, list, text};
use super::yaml::{Node, Value};
use crate::address::{canonical_network, parse_network};

/// Most alternatives of one condition: they are tried one after the other for every request.
pub(super) const ALTERNATIVES_MAX: usize = 256;

/// What a value must look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// These bytes.
    Exact(Box<[u8]>),
    /// Anything that starts so.
    Prefix(Box<[u8]>),
    /// Any of these patterns.
    OneOf(Vec<Pattern>),
    /// An address in any of these networks, or a network within one.
    Cidr(Vec<IpNet>),
}

impl Pattern {
    /// Whether `value` fulfils it.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(bytes) => **bytes == *value,
            Self::Prefix(bytes) => value.starts_with(bytes),
            Self::OneOf(patterns) => patterns.iter().any(|pattern| pattern.matches(value)),
            Self::Cidr(networks) => {
                let network = std::str::from_utf8(value).ok().and_then(parse_network);
                network.is_some_and(|network| networks.iter().any(|within| within.contains(&network)))
            }
        }
    }

    /// Reads one condition's value.
    pub(super) fn read(node: &Node, path: &str, report: &mut Report<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(given) => read_glob(given, node, path, report),
            Value::List(_) => Self::read_alternatives(node, path, report),
            Value::Map(_) => Self::read_literal(node, path, report),
            Value::Refused => None,
            Value::Null => {
                let fix =
                    "write a text, text*, a list, or { cidr: [..] }; '' for an empty value, '*' for any";
                report.add(node.at, path, "there is no value to compare with", fix);
                None
            }
        }
    }

    fn read_alternatives(node: &Node, path: &str, report: &mut Report<'_>) -> Option<Self> {
        let items = alternatives(node, path, report)?;
        let patterns = items.iter().enumerate().map(|(index, item)| {
            let path = format!("{path}[{index}]");
            read_glob(text(item, &path, "a text or text*", report)?, item, &path, report)
        });
        all(patterns).map(Self::OneOf)
    }

    fn read_literal(node: &Node, path: &str, report: &mut Report<'_>) -> Option<Self> {
        const KNOWN: [&str; 4] = ["exact", "prefix", "one_of", "cidr"];
        let fields = Fields::read(node, path, &KNOWN, report)?;
        let given: Vec<&str> = KNOWN.into_iter().filter(|name| fields.get(name).is_some()).collect();
        let [name] = given[..] else {
            // A map of unknown fields only has been reported as such.
            if fields.is_empty() || given.len() > 1 {
                let message = format!("{} comparisons, not one", given.len());
                report.add(node.at, path, message, "write one of exact, prefix, one_of, cidr");
            }
            return None;
        };
        let (node, path) = (fields.get(name)?, fields.path(name));
        match name {
            "exact" => Some(Self::Exact(text(node, &path, "a text", report)?.as_bytes().into())),
            "prefix" => Some(Self::Prefix(text(node, &path, "a text", report)?.as_bytes().into())),
            "one_of" => {
                let items = alternatives(node, &path, report)?.iter().enumerate();
                all(items.map(|(index, item)| {
                    let text = text(item, &format!("{path}[{index}]"), "a text", report)?;
                    Some(Self::Exact(text.as_bytes().into()))
                }))
                .map(Self::OneOf)
            }
            _ => Self::read_networks(node, &path, report),
        }
    }

    /// One network or a list of them.
    fn read_networks(node: &Node, path: &str, report: &mut Report<'_>) -> Option<Self> {
        if matches!(node.value, Value::Scalar(_)) {
            return read_network(node, path, report).map(|network| Self::Cidr(vec![network]));
        }
        let items = alternatives(node, path, report)?.iter().enumerate();
        all(items.map(|(index, item)| read_network(item, &format!("{path}[{index}]"), report)))
            .map(Self::Cidr)
    }
}

fn alternatives<'n>(node: &'n Node, path: &str, report: &mut Report<'_>) -> Option<&'n [Node]> {
    let items = list(node, path, ALTERNATIVES_MAX, "[a, b]", report)?;
    if items.is_empty() {
        report.add(
            node.at,
            path,
            "an empty list matches nothing",
            "list at least one value, or leave the condition out",
        );
        return None;
    }
    Some(items)
}

/// Everything or nothing, after all items have had their say.
fn all<T>(items: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let items: Vec<Option<T>> = items.collect();
    items.into_iter().collect()
}

/// A text, or a prefix if it ends in a star.
fn read_glob(given: &str, node: &Node, path: &str, report: &mut Report<'_>) -> Option<Pattern> {
    let prefix = given.strip_suffix('*');
    if prefix.unwrap_or(given).contains('*') {
        let fix = "a star stands at the end only; for a literal star write { exact: .. } or { prefix: .. }";
        report.add(node.at, path, format!("star inside {}", quoted(given)), fix);
        return None;
    }
    Some(match prefix {
        Some(prefix) => Pattern::Prefix(prefix.as_bytes().into()),
        None => Pattern::Exact(given.as_bytes().into()),
    })
}

fn read_network(node: &Node, path: &str, report: &mut Report<'_>) -> Option<IpNet> {
    let given = text(node, path, "a network such as 10.0.0.0/8", report)?;
    let Some(network) = parse_network(given) else {
        let fix = "write an address and a length, such as 10.0.0.0/8 or 2001:db8::/32";
        report.add(node.at, path, format!("{} is no network", quoted(given)), fix);
        return None;
    };
    if network.trunc() != network {
        let message = format!("{network} has bits set beyond its length");
        report.add(node.at, path, message, format!("did you mean {}?", network.trunc()));
        return None;
    }
    Some(canonical_network(network))
}
