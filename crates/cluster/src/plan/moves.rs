//! The shards' replicas on their way to where they should be.
//!
//! Invariant: everything is read off the control state and what the shards' leaders say, so a planner that stops anywhere
//! is followed by one that goes on. A node is named by the map or by a move for as long as it may be a voter: the map
//! takes over what the leader confirmed before the move ends, and a move that is given up ends when its learner is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_control::Command;
use leasehold_model::{Epoch, NodeId, ShardId};
use leasehold_placement::{
    Move, MoveBounds, Phase, Progress, ShardMap, Step, assign, next_steps, prefer_leaders,
};
use leasehold_wire::peer::Change;

use super::decide::ask;
use super::view::{Action, GroupView, View};

/// A move toward a node that is silent for so long is given up: others may want its place among the moves under way.
const TARGET_SILENT_MAX: Duration = Duration::from_secs(10);

/// What one shard needs.
enum Need {
    /// Nothing, or time.
    Nothing,
    Change(Change),
    Propose(Command),
    /// The map has to say that these are the replicas.
    Map(BTreeSet<NodeId>),
}

/// The next actions for all shards.
pub(super) fn shards(view: &View<'_>) -> Vec<Action> {
    let Some(layout) = view.control.layout() else { return Vec::new() };
    if !view.quorate() {
        return Vec::new();
    }
    let mut actions = Vec::new();
    let mut replicas = BTreeMap::new();
    for shard in layout.shards.iter() {
        let Some(group) = view.shard(shard) else { continue };
        match need(view, shard, group) {
            Need::Nothing => {}
            Need::Change(change) => actions.extend(ask(view, GroupId::of_shard(shard), change)),
            Need::Propose(command) => actions.push(Action::Propose(command)),
            Need::Map(voters) => drop(replicas.insert(shard, voters)),
        }
    }
    // Before every shard has a leader, no founder may take the first map for an old one.
    if view.all_led() {
        match next_map(view, &replicas) {
            Some(map) => actions.push(Action::Propose(Command::SetMap { map })),
            None => actions.extend(start(view)),
        }
    }
    actions
}

fn need(view: &View<'_>, shard: ShardId, group: &GroupView) -> Need {
    let Some(voters) = group.settled() else {
        return view.finish(group).map_or(Need::Nothing, Need::Change);
    };
    let mapped = view.control.map().shards.get(index(shard));
    let mapped = mapped.is_some_and(|placement| placement.replicas.iter().eq(voters));
    if let Some(moving) = view.control.moves().get(&shard) {
        return go_on(view, shard, moving, group, mapped);
    }
    match group.learners.first() {
        Some(left) => Need::Change(Change::RemoveLearner(*left)),
        None if mapped => Need::Nothing,
        None => Need::Map(voters.clone()),
    }
}

fn go_on(view: &View<'_>, shard: ShardId, moving: &Move, group: &GroupView, mapped: bool) -> Need {
    let votes = |node: NodeId| group.voters.iter().any(|voters| voters.contains(&node));
    let coming = moving.to.filter(|to| !votes(*to));
    let leaving = moving.from.filter(|from| votes(*from));
    let changed = |change: Option<Change>| change.map_or(Need::Nothing, Need::Change);
    let Some(to) = coming else {
        return match leaving {
            Some(_) => changed(view.swap(group, None, leaving)),
            None if mapped => Need::Propose(Command::Moved { shard }),
            None => Need::Map(group.voters.iter().flatten().copied().collect()),
        };
    };
    let learns = group.learners.contains(&to);
    if !view.eligible(to) || view.silent(to) >= TARGET_SILENT_MAX {
        return if learns {
            Need::Change(Change::RemoveLearner(to))
        } else {
            Need::Propose(Command::Moved { shard })
        };
    }
    match moving.phase {
        _ if !learns => Need::Change(Change::AddLearner(to)),
        _ if !view.connected(to) || !group.has_all(to) => Need::Nothing,
        Phase::Learning => {
            Need::Propose(Command::Moving { shard, moving: Move { phase: Phase::Changing, ..*moving } })
        }
        Phase::Changing | Phase::Retiring => changed(view.swap(group, Some(to), leaving)),
    }
}

/// The map that says what is so; with its leaders spread anew when it changes, or when those that may lead have.
fn next_map(view: &View<'_>, replicas: &BTreeMap<ShardId, BTreeSet<NodeId>>) -> Option<ShardMap> {
    let now = view.control.map();
    let mut map = now.clone();
    for (shard, voters) in replicas {
        map.shards.get_mut(index(*shard))?.replicas = voters.iter().copied().collect();
    }
    let may_lead = |node: &NodeId| view.eligible(*node);
    let misled = map.shards.iter().any(|placement| {
        !placement.leader.as_ref().is_some_and(may_lead) && placement.replicas.iter().any(may_lead)
    });
    if map != *now || misled || view.leaders_stale {
        prefer_leaders(&mut map, &view.control.members());
    }
    (map != *now).then(|| {
        map.epoch = Epoch(now.epoch.0 + 1);
        map
    })
}

/// Moves that may start now.
fn start(view: &View<'_>) -> Vec<Action> {
    let Some(layout) = view.control.layout() else { return Vec::new() };
    let current = as_if_arrived(view);
    let Ok(mut target) = assign(&layout, &view.control.members(), &current) else { return Vec::new() };
    for (shall, is) in target.shards.iter_mut().zip(&current.shards) {
        keep_what_cant_move(view, &mut shall.replicas, &is.replicas);
    }
    let under_way = view.control.moves().clone();
    let progress = Progress { under_way, caught_up: BTreeSet::new() };
    let steps = next_steps(&current, &target, &progress, MoveBounds::default());
    let new = steps.into_iter().filter(|(shard, _)| !progress.under_way.contains_key(shard));
    new.filter_map(|(shard, step)| {
        let is = &current.shards.get(index(shard))?.replicas;
        let shall = &target.shards.get(index(shard))?.replicas;
        let moving = new_move(view, step, is, shall)?;
        Some(Action::Propose(Command::Moving { shard, moving }))
    })
    .collect()
}

/// The map as it will be when the moves under way have arrived: what is planned next doesn't undo them.
fn as_if_arrived(view: &View<'_>) -> ShardMap {
    let mut map = view.control.map().clone();
    for (shard, moving) in view.control.moves() {
        let Some(placement) = map.shards.get_mut(index(*shard)) else { continue };
        let mut replicas: BTreeSet<NodeId> = placement.replicas.iter().copied().collect();
        replicas.extend(moving.to);
        replicas.retain(|node| Some(*node) != moving.from);
        placement.replicas = replicas.into_iter().collect();
    }
    map
}

/// Takes out of a shard's target what can't be had now: a node that isn't there, or fewer replicas for want of nodes.
fn keep_what_cant_move(view: &View<'_>, shall: &mut Vec<NodeId>, is: &[NodeId]) {
    if shall.iter().any(|node| !is.contains(node) && !view.connected(*node)) {
        *shall = is.to_vec();
    }
    let mut kept: Vec<NodeId> = is.iter().copied().filter(|node| !shall.contains(node)).collect();
    kept.sort_by_key(|node| (!view.lives(*node), !view.connected(*node)));
    let missing = is.len().min(view.replicas()).saturating_sub(shall.len());
    shall.extend(kept.into_iter().take(missing));
    shall.sort_unstable();
}

fn new_move(view: &View<'_>, step: Step, is: &[NodeId], shall: &[NodeId]) -> Option<Move> {
    match step {
        Step::AddLearner { to } => {
            let leaving = is.iter().copied().filter(|node| !shall.contains(node));
            let worst = leaving.min_by_key(|node| (view.lives(*node), view.connected(*node)));
            let from = worst.filter(|_| is.len() >= shall.len());
            Some(Move { to: Some(to), from, phase: Phase::Learning })
        }
        Step::ChangeVoters { to: None, from } => Some(Move { to: None, from, phase: Phase::Changing }),
        Step::ChangeVoters { to: Some(_), .. } | Step::Retire { .. } => None,
    }
}

fn index(shard: ShardId) -> usize {
    usize::try_from(shard.0).unwrap_or(usize::MAX)
}
