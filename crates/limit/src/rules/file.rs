//! A domain's file as a whole: `domain`, `attributes`, `limits`, `overrides`.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_model::TenantId;

use super::error::{Place, Report, quoted};
use super::escrow::Away;
use super::fields::{Fields, domain_name, is_attribute_name, list, text};
use super::overrides::{self, Target};
use super::rule::{Declared, Draft};
use super::yaml::{self, Node, Value};
use super::{Domain, Rule, RuleError};
use crate::{KeySecret, RuleKeys};

/// Most rules of one domain: as many counters as one request may ask. With more, a request that matches them all could
/// not be decided, so the file is refused.
pub const RULES_MAX: usize = 256;

/// Most overrides of one domain. Past it, give the values a plan as an attribute and the plan a rule.
pub const OVERRIDES_MAX: usize = 10_000;

/// Most attributes that a file declares.
const ATTRIBUTES_MAX: usize = 256;

/// Reads and validates one domain's rule file.
///
/// # Errors
/// Every mistake found, in the order of the file; nothing of a bad file is used.
pub fn parse(file: &str, text: &str, secret: &KeySecret) -> Result<Domain, Vec<RuleError>> {
    let mut report = Report::new(file);
    let domain = yaml::parse(text, &mut report).and_then(|root| read(&root, text, secret, &mut report));
    match domain {
        Some(domain) if report.is_empty() => Ok(domain),
        Some(_) | None => Err(report.into_errors()),
    }
}

/// Where a text names its domain; the beginning if it doesn't.
pub(super) fn domain_place(text: &str) -> Place {
    let mut report = Report::new("");
    match yaml::parse(text, &mut report) {
        Some(Node { value: Value::Map(entries), .. }) => {
            entries.iter().find(|entry| entry.key == "domain").map_or(Place::START, |entry| entry.node.at)
        }
        Some(_) | None => Place::START,
    }
}

fn read(root: &Node, source: &str, secret: &KeySecret, report: &mut Report<'_>) -> Option<Domain> {
    let root = Fields::read(root, "", &["domain", "attributes", "limits", "overrides"], report)?;
    let domain = root.require("domain", "name the domain in the first line, such as domain: api", report);
    let domain = domain.and_then(|node| domain_name(node, "domain", report));
    let declared = Declared(root.get("attributes").and_then(|node| read_attributes(node, report)));
    let limits = root.require("limits", "write limits: a list of rules", report);
    let limits =
        limits.and_then(|node| list(node, "limits", RULES_MAX, "- { name: login, limit: 5/min }", report));
    let limits = limits.unwrap_or_default();
    let names = read_names(limits, report);
    // A domain without a good name is refused anyway; its rules are still checked.
    let domain = domain.unwrap_or_default();
    let mut targets: Vec<Target> = limits
        .iter()
        .enumerate()
        .filter_map(|(index, node)| Draft::read(node, &format!("limits[{index}]"), &declared, report))
        .map(|draft| Target {
            keys: RuleKeys::new(secret, domain, &draft.name),
            draft,
            overrides: BTreeMap::new(),
        })
        .collect();
    if let Some(node) = root.get("overrides") {
        read_overrides(node, &mut targets, &names, report);
    }
    let (name, tenant): (Arc<str>, _) = (domain.into(), secret.tenant(domain));
    let rules = targets.into_iter().map(|target| Arc::new(finish(target, &name, tenant))).collect();
    Some(Domain { name, rules, source: source.into() })
}

fn read_overrides(node: &Node, targets: &mut [Target], names: &[&str], report: &mut Report<'_>) {
    let example = "- { limit: login, values: [acme], set: { limit: 100/min } }";
    let items = list(node, "overrides", OVERRIDES_MAX, example, report).unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        overrides::read(item, &format!("overrides[{index}]"), targets, names, report);
    }
}

fn finish(target: Target, domain: &Arc<str>, tenant: TenantId) -> Rule {
    let Target { draft, keys, overrides } = target;
    let Away { local_share_ppm, edges, max_overshoot_ppm } = draft.away;
    Rule {
        name: draft.name,
        domain: domain.clone(),
        tenant,
        when: draft.when,
        per: draft.per,
        escrow: draft.away.escrow(&draft.limit),
        limit: Arc::new(draft.limit),
        overrides,
        keys,
        lease: draft.lease,
        max_overshoot_ppm,
        local_share_ppm,
        edges,
        scope: draft.scope,
        on_unavailable: draft.on_unavailable,
        shadow: draft.shadow,
    }
}

/// The names of all rules, good or not; a name given twice is reported where it comes again.
fn read_names<'n>(limits: &'n [Node], report: &mut Report<'_>) -> Vec<&'n str> {
    let mut first: BTreeMap<&str, Place> = BTreeMap::new();
    for (index, node) in limits.iter().enumerate() {
        let Value::Map(entries) = &node.value else { continue };
        let Some(entry) = entries.iter().find(|entry| entry.key == "name") else { continue };
        let Value::Scalar(name) = &entry.node.value else { continue };
        match first.get(name.as_str()) {
            Some(earlier) => {
                let message =
                    format!("the name {} is taken by the rule in line {}", quoted(name), earlier.line);
                let path = format!("limits[{index}].name");
                report.add(entry.node.at, &path, message, "give every rule of a domain its own name");
            }
            None => {
                first.insert(name, entry.node.at);
            }
        }
    }
    first.into_keys().collect()
}

/// The declared attributes. `None` when the list itself is wrong, so that not every use of one is reported too.
fn read_attributes<'n>(node: &'n Node, report: &mut Report<'_>) -> Option<Vec<&'n str>> {
    let items = list(node, "attributes", ATTRIBUTES_MAX, "[ip, path]", report)?;
    let mut names = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let path = format!("attributes[{index}]");
        let Some(name) = text(item, &path, "an attribute's name, such as ip", report) else { continue };
        if !is_attribute_name(name) {
            let fix = "an attribute's name has 1 to 128 bytes and no blanks";
            report.add(item.at, &path, format!("{} is no attribute name", quoted(name)), fix);
        } else if names.contains(&name) {
            report.add(item.at, &path, format!("{} is listed twice", quoted(name)), "list it once");
        }
        names.push(name);
    }
    Some(names)
}
