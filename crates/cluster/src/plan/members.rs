//! Who has a part in the control group, and who is taken for dead.
//!
//! Invariant: every node that isn't dead has a replica of the control group; as many of them vote as a shard has replicas,
//! and they change one at a time. A node is declared dead only when others can take its place, and the next one only when
//! they have.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_consensus::types::GroupId;
use leasehold_control::Command;
use leasehold_model::NodeId;
use leasehold_placement::{Layout, Placement, ShardMap, Shards, Standing, assign};
use leasehold_wire::peer::Change;

use super::decide::{PLANNER, ask};
use super::view::{Action, GroupView, View};

/// The next changes of the control group.
pub(super) fn control_group(view: &View<'_>) -> Vec<Action> {
    let Some(group) = view.groups.get(&GroupId::CONTROL) else { return Vec::new() };
    let change = match view.finish(group) {
        Some(finish) => Some(finish),
        None if view.quorate() => voters(view, group),
        None => None,
    };
    if group.settled().is_none() {
        return change.and_then(|change| ask(view, GroupId::CONTROL, change)).into_iter().collect();
    }
    let changes = learners(view, group).into_iter().chain(change);
    changes.filter_map(|change| ask(view, GroupId::CONTROL, change)).collect()
}

/// Everybody who lives follows, nobody else.
fn learners(view: &View<'_>, group: &GroupView) -> Vec<Change> {
    let votes = |node: &NodeId| group.voters.iter().any(|voters| voters.contains(node));
    let gone = group.learners.iter().copied().filter(|node| !view.lives(*node));
    let new = view.control.nodes().keys().copied();
    let new = new.filter(|node| view.lives(*node) && !votes(node) && !group.learners.contains(node));
    gone.map(Change::RemoveLearner).chain(new.map(Change::AddLearner)).collect()
}

/// One voter in for one out, on the way to those that should vote.
fn voters(view: &View<'_>, group: &GroupView) -> Option<Change> {
    let voters = group.settled()?;
    let wanted = wanted_voters(view, voters)?;
    let ready = |node: &&NodeId| {
        !voters.contains(node)
            && group.learners.contains(node)
            && view.connected(**node)
            && group.has_all(**node)
    };
    let to = wanted.iter().find(ready).copied();
    // The planner itself leaves last: each handover is a pause.
    let leaving = voters.iter().copied().filter(|node| !wanted.contains(node));
    let from = leaving.min_by_key(|node| (view.lives(*node), view.connected(*node), *node == view.me));
    let replicas = view.replicas();
    match to {
        Some(_) if voters.len() < replicas => view.swap(group, to, None),
        Some(_) if from.is_some() => view.swap(group, to, from),
        _ if voters.len() > replicas => view.swap(group, None, from),
        _ => None,
    }
}

/// Those that should vote: as if the control group were one shard that is at home nowhere, spread over regions where there
/// are several: no region's loss takes it from the others.
fn wanted_voters(view: &View<'_>, voters: &BTreeSet<NodeId>) -> Option<BTreeSet<NodeId>> {
    let layout = Layout { shards: Shards::new(1).ok()?, replicas: view.replicas() };
    let now = Placement { home: None, replicas: voters.iter().copied().collect(), leader: None };
    let before = ShardMap { shards: vec![now], ..ShardMap::default() };
    let mut members = view.control.members();
    let regions: BTreeSet<_> =
        members.iter().filter(|member| member.eligible()).map(|member| &member.region).collect();
    if regions.len() > 1 {
        members.iter_mut().for_each(|member| member.zone = Arc::clone(&member.region));
    }
    let map = assign(&layout, &members, &before).ok()?;
    map.shards.first().map(|placement| placement.replicas.iter().copied().collect())
}

/// Declares dead the node that has been silent for longest, if it was for long enough and others can take its place.
pub(super) fn silent_for_too_long(view: &View<'_>) -> Option<Command> {
    let nodes = view.control.nodes();
    let mourned = nodes.keys().any(|node| !view.lives(*node) && holds(view, *node));
    if mourned || !view.quorate() || !view.all_led() {
        return None;
    }
    let silent = nodes.keys().copied().filter(|node| view.lives(*node) && *node != view.me);
    let silent = silent.filter(|node| view.silent(*node) >= view.replace_after && replaceable(view, *node));
    let node = silent.max_by_key(|node| view.silent(*node))?;
    Some(Command::SetStanding { node, standing: Standing::Dead, by: PLANNER.into() })
}

/// Whether the node holds anything, or is about to.
fn holds(view: &View<'_>, node: NodeId) -> bool {
    let control = view.control;
    control.map().shards.iter().any(|placement| placement.replicas.contains(&node))
        || control.moves().values().any(|moving| moving.to == Some(node) || moving.from == Some(node))
        || view.groups.values().any(|group| group.voters.iter().any(|voters| voters.contains(&node)))
}

/// Whether there are nodes enough without it, and every group that it votes in goes on without it.
fn replaceable(view: &View<'_>, node: NodeId) -> bool {
    let others = view
        .control
        .nodes()
        .keys()
        .filter(|other| **other != node && view.eligible(**other) && view.connected(**other));
    let goes_on = |group: &GroupView| {
        let sets = group.voters.iter().filter(|voters| voters.contains(&node));
        sets.into_iter().all(|voters| {
            let ready =
                |other: &&NodeId| **other != node && view.connected(**other) && group.has_all(**other);
            voters.iter().filter(ready).count() * 2 > voters.len()
        })
    };
    others.count() >= view.replicas() && view.groups.values().all(goes_on)
}
