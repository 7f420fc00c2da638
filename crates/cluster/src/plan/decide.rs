//! One pass: from what is known to what should be done about it.

use std::sync::Arc;

use leasehold_consensus::types::GroupId;
use leasehold_control::{Command, RulesChange};
use leasehold_model::RulesVersion;
use leasehold_wire::peer::{Change, Founding};

use crate::follow::first_map;

use super::view::{Action, View};
use super::{members, moves};

/// Who the planner is in the audit.
pub(super) const PLANNER: &str = "the planner";

/// What to do now. Empty when all is as it should be, or when all there is to do is wait.
pub(crate) fn decide(view: &View<'_>) -> Vec<Action> {
    if view.control.cluster().is_none() {
        return view.founding.and_then(create).map(Action::Propose).into_iter().collect();
    }
    let mut actions: Vec<Action> = initial_rules(view).into_iter().map(Action::Propose).collect();
    actions.extend(members::silent_for_too_long(view).map(Action::Propose));
    actions.extend(members::control_group(view));
    actions.extend(moves::shards(view));
    actions
}

fn create(founding: &Founding) -> Option<Command> {
    let map = first_map(founding)?;
    Some(Command::Create { cluster: founding.cluster.clone(), nodes: founding.founders.clone(), map })
}

/// The rules that the cluster starts with and that it hasn't yet. Once anybody else has changed a rule it is no longer new.
fn initial_rules(view: &View<'_>) -> Vec<Command> {
    let RulesVersion(version) = view.control.rules_version();
    let known = view.control.rules();
    let given = |domain: &str| view.rules.iter().find(|(name, _)| **name == *domain).map(|(_, text)| text);
    let new = known.iter().all(|(domain, rules)| given(domain) == Some(&rules.text));
    if !new || usize::try_from(version).ok() != Some(known.len()) {
        return Vec::new();
    }
    let missing = view.rules.iter().filter(|(domain, _)| !known.contains_key(domain));
    let change = |(expected, (domain, text)): (u64, &(Arc<str>, Arc<str>))| {
        Command::Rules(RulesChange {
            domain: domain.clone(),
            text: Some(text.clone()),
            expected: Some(RulesVersion(expected)),
            by: "the configuration".into(),
        })
    };
    (version..).zip(missing).map(change).collect()
}

/// An action for the leader of a group.
pub(super) fn ask(view: &View<'_>, group: GroupId, change: Change) -> Option<Action> {
    Some(Action::Ask { group, leader: view.groups.get(&group)?.leader, change })
}
