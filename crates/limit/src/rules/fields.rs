//! Reading checked values out of a YAML tree: every function notes what is wrong and goes on.
//!
//! Invariant: `None` means "absent or reported", never "wrong and silent". A refused node is passed over without a word.

use super::error::{Place, QUOTE_LEN_MAX, Report, did_you_mean, quoted};
use super::rate::parse_count;
use super::yaml::{Entry, Node, Value};

/// Bytes of an attribute's name, in a rule and at a front door alike. Longer: refused as invalid.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 128;

/// Bytes of a domain's name, in a rule file and at a front door alike. Longer: refused as invalid.
pub const DOMAIN_BYTES_MAX: usize = 128;

/// A map whose keys are all known.
pub(super) struct Fields<'n> {
    /// Where the map is.
    pub(super) at: Place,
    path: String,
    entries: &'n [Entry],
}

/// Words that other limiters use for one of our fields.
const SYNONYMS: [(&str, &str); 12] = [
    ("rate", "limit"),
    ("requests_per_unit", "limit"),
    ("unit", "limit"),
    ("match", "when"),
    ("if", "when"),
    ("by", "per"),
    ("key", "per"),
    ("keys", "per"),
    ("rules", "limits"),
    ("descriptors", "limits"),
    ("timezone", "zone"),
    ("shadow_mode", "shadow"),
];

impl<'n> Fields<'n> {
    /// `node` as a map of `known` fields. Unknown ones are reported and passed over.
    pub(super) fn read(node: &'n Node, path: &str, known: &[&str], report: &mut Report<'_>) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Refused => return None,
            other @ (Value::Scalar(_) | Value::Null | Value::List(_)) => {
                let fix = format!("write a map of the fields {}", known.join(", "));
                report.add(node.at, path, format!("expected a map, found {}", other.kind()), fix);
                return None;
            }
        };
        let fields = Self { at: node.at, path: path.to_owned(), entries };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let synonym = SYNONYMS.iter().find(|(word, field)| *word == entry.key && known.contains(field));
            let hint = match synonym {
                Some((_, field)) => format!("use {field}; "),
                None => did_you_mean(&entry.key, known.iter().copied()),
            };
            let fix = format!("{hint}the fields here are {}", known.join(", "));
            report.add(
                entry.at,
                &fields.path(&entry.key),
                format!("unknown field {}", quoted(&entry.key)),
                fix,
            );
        }
        Some(fields)
    }

    /// The value of a field, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node)
    }

    /// Whether the map holds nothing, not even unknown fields.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a field that must be there; its absence is reported.
    pub(super) fn require(&self, name: &str, fix: &str, report: &mut Report<'_>) -> Option<&'n Node> {
        let found = self.get(name);
        if found.is_none() {
            report.add(self.at, &self.path(name), "it is missing", fix);
        }
        found
    }

    /// Where a field's value is; where the map is if it is absent.
    pub(super) fn place(&self, name: &str) -> Place {
        self.get(name).map_or(self.at, |node| node.at)
    }

    /// The full path of a field.
    pub(super) fn path(&self, name: &str) -> String {
        join(&self.path, name)
    }
}

/// `path.name`, with names that aren't plain words in brackets and quotes, where they are cut if need be.
pub(super) fn join(path: &str, name: &str) -> String {
    let plain = name.len() <= QUOTE_LEN_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match (plain && !name.is_empty(), path.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{path}.{name}"),
        (false, _) => format!("{path}[{}]", quoted(name)),
    }
}

/// `node` as text; `example` shows what belongs there.
pub(super) fn text<'n>(
    node: &'n Node,
    path: &str,
    example: &str,
    report: &mut Report<'_>,
) -> Option<&'n str> {
    match &node.value {
        Value::Scalar(text) => Some(text),
        Value::Refused => None,
        Value::Null => {
            report.add(node.at, path, "there is no value", format!("write {example}"));
            None
        }
        other @ (Value::List(_) | Value::Map(_)) => {
            report.add(
                node.at,
                path,
                format!("expected one value, found {}", other.kind()),
                format!("write {example}"),
            );
            None
        }
    }
}

/// `node` as a list of at most `len_max` items; `example` shows one.
pub(super) fn list<'n>(
    node: &'n Node,
    path: &str,
    len_max: usize,
    example: &str,
    report: &mut Report<'_>,
) -> Option<&'n [Node]> {
    match &node.value {
        Value::List(items) if items.len() > len_max => {
            let message = format!("{} items, more than {len_max}", items.len());
            report.add(node.at, path, message, format!("keep it to {len_max}"));
            None
        }
        Value::List(items) => Some(items),
        Value::Refused => None,
        other @ (Value::Scalar(_) | Value::Null | Value::Map(_)) => {
            let message = format!("expected a list, found {}", other.kind());
            report.add(node.at, path, message, format!("write a list, such as {example}"));
            None
        }
    }
}

/// `node` as a whole number.
pub(super) fn count(node: &Node, path: &str, report: &mut Report<'_>) -> Option<u64> {
    match parse_count(text(node, path, "a whole number", report)?) {
        Ok(count) => Some(count),
        Err(error) => {
            report.add(node.at, path, error.to_string(), error.fix());
            None
        }
    }
}

/// `node` as one of `choices`.
pub(super) fn choice<T: Copy>(
    node: &Node,
    path: &str,
    choices: &[(&str, T)],
    report: &mut Report<'_>,
) -> Option<T> {
    let words = || choices.iter().map(|(word, _)| *word);
    let listed = words().collect::<Vec<_>>().join(", ");
    let given = text(node, path, &format!("one of {listed}"), report)?;
    let found = choices.iter().find(|(word, _)| *word == given);
    if found.is_none() {
        let fix = format!("{}use one of {listed}", did_you_mean(given, words()));
        report.add(node.at, path, format!("unknown value {}", quoted(given)), fix);
    }
    found.map(|(_, value)| *value)
}

/// A name that follows `[A-Za-z][A-Za-z0-9_.-]{0,63}`.
pub(super) fn name<'n>(node: &'n Node, path: &str, report: &mut Report<'_>) -> Option<&'n str> {
    let name = text(node, path, "a name such as login", report)?;
    let body = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let good = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.len() <= 64
        && name.bytes().all(body);
    if !good {
        let fix = "a name is a letter, then up to 63 letters, digits, _ . or -";
        report.add(node.at, path, format!("{} is no name", quoted(name)), fix);
    }
    good.then_some(name)
}

/// A domain's name: see [`is_domain_name`].
pub(super) fn domain_name<'n>(node: &'n Node, path: &str, report: &mut Report<'_>) -> Option<&'n str> {
    let name = text(node, path, "a name such as api", report)?;
    let good = is_domain_name(name);
    if !good {
        let fix = "a domain is a letter or digit, then up to 127 letters, digits, _ . : / or -";
        report.add(node.at, path, format!("{} is no domain name", quoted(name)), fix);
    }
    good.then_some(name)
}

/// Whether rules can be of this domain: `[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}`. Wider than a rule's name, as gateways make
/// theirs from paths.
#[must_use]
pub fn is_domain_name(name: &str) -> bool {
    let body = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte);
    let first = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    first && name.len() <= DOMAIN_BYTES_MAX && name.bytes().all(body)
}

/// Whether rules can name this attribute: 1 to [`ATTRIBUTE_NAME_BYTES_MAX`] bytes without blanks and control characters.
#[must_use]
pub fn is_attribute_name(name: &str) -> bool {
    let good = |c: char| !c.is_whitespace() && !c.is_control();
    !name.is_empty() && name.len() <= ATTRIBUTE_NAME_BYTES_MAX && name.chars().all(good)
}
