//! Requests that a rule applies to, made up from the rule.

use std::collections::BTreeMap;

use leasehold_limit::rules::{Pattern, Rule};

/// What a request says that `rule` applies to: what its conditions want, and of what tells its counters apart `ip` for
/// addresses and `other` for the rest.
pub(super) fn attributes(rule: &Rule, ip: &str, other: &str) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::new();
    for condition in &rule.when {
        attributes.insert(condition.attribute.to_string(), accepted(&condition.pattern));
    }
    for dimension in &rule.per {
        let value = if &*dimension.attribute == "ip" { ip } else { other };
        attributes.entry(dimension.attribute.to_string()).or_insert_with(|| value.to_owned());
    }
    attributes
}

/// A value that a pattern accepts.
fn accepted(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(bytes) | Pattern::Prefix(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Pattern::OneOf(patterns) => patterns.first().map(accepted).unwrap_or_default(),
        Pattern::Cidr(networks) => networks.first().map(|net| net.addr().to_string()).unwrap_or_default(),
    }
}
