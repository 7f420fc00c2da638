//! One rule of a file, from its map to a [`Rule`] that still lacks its overrides.

use std::sync::Arc;

use super::error::{Place, Report, did_you_mean, quoted};
use super::escrow::Away;
use super::fields::{Fields, choice, is_attribute_name, join, list, name, text};
use super::numbers::Spec;
use super::pattern::Pattern;
use super::yaml::{Node, Value};
use super::{Absent, Condition, Dimension, Lease, OnUnavailable, Scope};
use crate::Limit;

/// Most attributes that tell one rule's counters apart.
pub(super) const PER_MAX: usize = 8;

const FIELDS: [&str; 16] = [
    "name",
    "when",
    "per",
    "limit",
    "burst",
    "queue",
    "algorithm",
    "zone",
    "absent",
    "lease",
    "max_overshoot",
    "scope",
    "on_unavailable",
    "local_share",
    "edges",
    "shadow",
];

const ABSENT: [(&str, Absent); 3] =
    [("skip", Absent::Skip), ("share", Absent::Share), ("deny", Absent::Deny)];
const LEASE: [(&str, Lease); 2] = [("auto", Lease::Auto), ("never", Lease::Never)];
const SCOPE: [(&str, Scope); 2] = [("global", Scope::Global), ("region", Scope::Region)];
const ON_UNAVAILABLE: [(&str, OnUnavailable); 3] =
    [("allow", OnUnavailable::Allow), ("deny", OnUnavailable::Deny), ("local", OnUnavailable::Local)];
const BOOL: [(&str, bool); 2] = [("true", true), ("false", false)];

/// A rule as read: checked by itself, its domain and overrides to follow.
pub(super) struct Draft {
    pub(super) name: Arc<str>,
    pub(super) spec: Spec,
    pub(super) limit: Limit,
    pub(super) when: Vec<Condition>,
    pub(super) per: Vec<Dimension>,
    pub(super) lease: Lease,
    pub(super) away: Away,
    pub(super) scope: Scope,
    pub(super) on_unavailable: OnUnavailable,
    pub(super) shadow: bool,
}

/// The attributes that a file declares; `None` when it declares none and every name is good.
pub(super) struct Declared<'n>(pub(super) Option<Vec<&'n str>>);

impl Declared<'_> {
    /// Whether `name` can be an attribute here; reports why not.
    fn check(&self, name: &str, at: Place, path: &str, report: &mut Report<'_>) -> bool {
        if !is_attribute_name(name) {
            let fix = "an attribute's name has 1 to 128 bytes and no blanks";
            report.add(at, path, format!("{} is no attribute name", quoted(name)), fix);
            return false;
        }
        match &self.0 {
            Some(known) if !known.contains(&name) => {
                let fix = format!(
                    "{}list it in attributes, or use one of those",
                    did_you_mean(name, known.iter().copied())
                );
                report.add(at, path, format!("unknown attribute {}", quoted(name)), fix);
                false
            }
            Some(_) | None => true,
        }
    }
}

impl Draft {
    /// Reads one rule; every mistake in it is reported.
    pub(super) fn read(
        node: &Node,
        path: &str,
        declared: &Declared<'_>,
        report: &mut Report<'_>,
    ) -> Option<Self> {
        let rule = Fields::read(node, path, &FIELDS, report)?;
        let given = rule.require("name", "give every rule a name, such as name: login", report);
        let name = given.and_then(|node| name(node, &rule.path("name"), report));
        let when = read_when(&rule, declared, report);
        let per = read_per(&rule, declared, report);
        let spec = Spec::read(&rule, report);
        let limit = spec.as_ref().and_then(|spec| spec.limit(&rule, report));
        let lease = pick(&rule, "lease", &LEASE, report);
        let scope = pick(&rule, "scope", &SCOPE, report);
        let on_unavailable = pick(&rule, "on_unavailable", &ON_UNAVAILABLE, report);
        let shadow = pick(&rule, "shadow", &BOOL, report);
        let away = Away::read(&rule, on_unavailable, report);
        Some(Self {
            name: name?.into(),
            spec: spec?,
            limit: limit?,
            when: when?,
            per: per?,
            lease: lease?,
            away: away?,
            scope: scope?,
            on_unavailable: on_unavailable?,
            shadow: shadow?,
        })
    }
}

/// An optional field with a default.
fn pick<T: Copy + Default>(
    rule: &Fields<'_>,
    field: &str,
    choices: &[(&str, T)],
    report: &mut Report<'_>,
) -> Option<T> {
    match rule.get(field) {
        Some(node) => choice(node, &rule.path(field), choices, report),
        None => Some(T::default()),
    }
}

fn read_when(rule: &Fields<'_>, declared: &Declared<'_>, report: &mut Report<'_>) -> Option<Vec<Condition>> {
    let (Some(node), path) = (rule.get("when"), rule.path("when")) else {
        return Some(Vec::new());
    };
    let Value::Map(entries) = &node.value else {
        if !matches!(node.value, Value::Refused) {
            let message = format!("expected a map, found {}", node.value.kind());
            report.add(
                node.at,
                &path,
                message,
                "write attribute: value, such as { path: /login }; leave it out to match all",
            );
        }
        return None;
    };
    let conditions: Vec<Option<Condition>> = entries
        .iter()
        .map(|entry| {
            let path = join(&path, &entry.key);
            let known = declared.check(&entry.key, entry.at, &path, report);
            let pattern = Pattern::read(&entry.node, &path, report);
            known.then_some(Condition { attribute: entry.key.as_str().into(), pattern: pattern? })
        })
        .collect();
    conditions.into_iter().collect()
}

fn read_per(rule: &Fields<'_>, declared: &Declared<'_>, report: &mut Report<'_>) -> Option<Vec<Dimension>> {
    let absent = pick(rule, "absent", &ABSENT, report);
    let Some(node) = rule.get("per") else {
        if let Some(node) = rule.get("absent") {
            report.add(
                node.at,
                &rule.path("absent"),
                "absent without per",
                "leave it out: nothing can be absent",
            );
        }
        return absent.map(|_| Vec::new());
    };
    let path = rule.path("per");
    let items = list(node, &path, PER_MAX, "per: [ip]", report)?;
    let mut dimensions: Vec<Dimension> = Vec::with_capacity(items.len());
    let mut good = true;
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(dimension) = read_dimension(item, &path, absent.unwrap_or_default(), declared, report)
        else {
            good = false;
            continue;
        };
        if dimensions.iter().any(|earlier| earlier.attribute == dimension.attribute) {
            report.add(
                item.at,
                &path,
                format!("{} is listed twice", quoted(&dimension.attribute)),
                "list it once",
            );
            good = false;
        }
        dimensions.push(dimension);
    }
    (good && absent.is_some()).then_some(dimensions)
}

/// A name, or `{ attribute: name, absent: skip|share|deny }`.
fn read_dimension(
    node: &Node,
    path: &str,
    default: Absent,
    declared: &Declared<'_>,
    report: &mut Report<'_>,
) -> Option<Dimension> {
    let (given, path, absent) = if matches!(node.value, Value::Map(_)) {
        let fields = Fields::read(node, path, &["attribute", "absent"], report)?;
        let given = fields.require("attribute", "write { attribute: ip, absent: share }", report);
        let absent = match fields.get("absent") {
            Some(node) => choice(node, &fields.path("absent"), &ABSENT, report),
            None => Some(default),
        };
        (given?, fields.path("attribute"), absent)
    } else {
        (node, path.to_owned(), Some(default))
    };
    let name = text(given, &path, "an attribute's name, such as ip", report)?;
    let known = declared.check(name, given.at, &path, report);
    let dimension = Dimension { attribute: name.into(), absent: absent? };
    known.then_some(dimension)
}
