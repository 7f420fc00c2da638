//! Overrides: other numbers for particular values of a rule, without touching the rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_model::Key;

use super::error::{Report, did_you_mean, quoted};
use super::fields::{Fields, list, text};
use super::rule::Draft;
use super::yaml::Node;
use super::{Override, PER_MAX};
use crate::RuleKeys;

/// A rule on its way to completion, with what its overrides need of it.
pub(super) struct Target {
    /// The rule.
    pub(super) draft: Draft,
    /// Keys of its counters.
    pub(super) keys: RuleKeys,
    /// Its overrides so far.
    pub(super) overrides: BTreeMap<Key, Override>,
}

/// Reads one override and puts it with its rule. `names` are all rules of the file, the wrong ones too.
pub(super) fn read(node: &Node, path: &str, targets: &mut [Target], names: &[&str], report: &mut Report<'_>) {
    let Some(fields) = Fields::read(node, path, &["limit", "values", "set"], report) else {
        return;
    };
    let name = read_name(&fields, names, report);
    let values = read_values(&fields, report);
    let set = fields.require("set", "write set: { limit: 100/min }", report);
    let set =
        set.and_then(|node| Fields::read(node, &fields.path("set"), &["limit", "burst", "queue"], report));
    if let Some(set) = &set
        && set.is_empty()
    {
        report.add(set.at, &fields.path("set"), "nothing is set", "write limit, burst or queue");
    }
    // A rule that is wrong itself has been reported; its overrides wait until it is mended.
    let target = targets.iter_mut().find(|target| Some(&*target.draft.name) == name);
    let Some(target) = target else { return };
    let values = values.filter(|values| check_arity(values, &target.draft, &fields, report));
    let limit = set.and_then(|set| target.draft.spec.with(&set, report)?.limit(&set, report));
    let (Some(values), Some(limit)) = (values, limit) else {
        return;
    };
    let key = target.keys.key(values.iter().map(|value| Some(&**value)));
    if target.overrides.contains_key(&key) {
        let message = format!("a second override of {} for these values", target.draft.name);
        report.add(fields.place("values"), &fields.path("values"), message, "keep one of them");
        return;
    }
    let escrow = target.draft.away.escrow(&limit);
    target.overrides.insert(key, Override { values, limit: Arc::new(limit), escrow });
}

fn read_name<'n>(fields: &Fields<'n>, names: &[&str], report: &mut Report<'_>) -> Option<&'n str> {
    let node = fields.require("limit", "name the rule, such as limit: login", report)?;
    let path = fields.path("limit");
    let name = text(node, &path, "the name of a rule", report)?;
    if !names.contains(&name) {
        let fix =
            format!("{}write the name of a rule of this file", did_you_mean(name, names.iter().copied()));
        report.add(node.at, &path, format!("there is no rule {}", quoted(name)), fix);
        return None;
    }
    Some(name)
}

fn read_values(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<Vec<Box<[u8]>>> {
    let node = fields.require("values", "write values: one for each attribute in the rule's per", report)?;
    let path = fields.path("values");
    let items = list(node, &path, PER_MAX, "values: [acme]", report)?;
    let values: Vec<Option<Box<[u8]>>> = items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            text(item, &format!("{path}[{index}]"), "the attribute's value", report)
                .map(|text| text.as_bytes().into())
        })
        .collect();
    values.into_iter().collect()
}

fn check_arity(values: &[Box<[u8]>], draft: &Draft, fields: &Fields<'_>, report: &mut Report<'_>) -> bool {
    let (at, path) = (fields.place("values"), fields.path("values"));
    if draft.per.is_empty() {
        let message = format!("{} has no per: it has one counter and nothing to tell apart", draft.name);
        report.add(at, &path, message, "change the rule's own numbers, or give it a per");
        return false;
    }
    if values.len() != draft.per.len() {
        let names: Vec<&str> = draft.per.iter().map(|dimension| &*dimension.attribute).collect();
        let message = format!("{} values, the rule has {} in per", values.len(), draft.per.len());
        report.add(
            at,
            &path,
            message,
            format!("write a value for each of [{}], in this order", names.join(", ")),
        );
        return false;
    }
    true
}
