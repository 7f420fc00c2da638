//! The way from the map that is to the map that should be: one replica of a shard at a time, few shards at once.
//!
//! A replica moves in four phases, each a step that the caller carries out and reports back: the new one is added as a
//! learner, catches up, becomes a voter in the same joint change that removes the old one, and the old one is retired.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_model::{NodeId, ShardId};

use crate::ShardMap;

/// One replica on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The node that shall hold the shard; `None` when a surplus replica only leaves.
    pub to: Option<NodeId>,
    /// The node that shall not hold it any more; `None` when a missing replica is only added.
    pub from: Option<NodeId>,
    /// How far it has come.
    pub phase: Phase,
}

/// How far a move has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The new replica has been added as a learner and receives the log.
    Learning,
    /// It has caught up; the joint change of voters is under way.
    Changing,
    /// The change is committed; the old replica's data may go.
    Retiring,
}

/// What the caller should do next for one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Add `to` as a learner.
    AddLearner {
        /// The new replica.
        to: NodeId,
    },
    /// Commit a joint change of voters: `to` in, `from` out.
    ChangeVoters {
        /// Joins.
        to: Option<NodeId>,
        /// Leaves.
        from: Option<NodeId>,
    },
    /// Drop what `from` held of the shard.
    Retire {
        /// No longer a replica.
        from: NodeId,
    },
}

/// How many moves may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveBounds {
    /// In the whole cluster: each streams a snapshot.
    pub cluster_max: usize,
    /// Into one node: its disk takes them one after another anyway.
    pub node_max: usize,
}

impl Default for MoveBounds {
    fn default() -> Self {
        Self { cluster_max: 4, node_max: 2 }
    }
}

/// What is under way and how far the learners are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// By shard; at most one each.
    pub under_way: BTreeMap<ShardId, Move>,
    /// Shards whose learner holds everything that was committed a moment ago.
    pub caught_up: BTreeSet<ShardId>,
}

/// The steps to take now on the way from `current` to `target`, a shard each, ascending.
///
/// Moves under way are finished first; new ones start while the bounds allow, those of shards that lack a replica first.
/// Empty when the maps hold the same replicas and nothing is under way, or when all there is to do is wait.
#[must_use]
pub fn next_steps(
    current: &ShardMap,
    target: &ShardMap,
    progress: &Progress,
    bounds: MoveBounds,
) -> BTreeMap<ShardId, Step> {
    let mut steps: BTreeMap<ShardId, Step> = progress
        .under_way
        .iter()
        .filter_map(|(shard, moving)| Some((*shard, advance(moving, progress.caught_up.contains(shard))?)))
        .collect();
    let mut into: BTreeMap<NodeId, usize> = BTreeMap::new();
    for node in progress.under_way.values().filter_map(|moving| moving.to) {
        *into.entry(node).or_default() += 1;
    }
    let mut room = bounds.cluster_max.saturating_sub(progress.under_way.len());
    for (shard, wanted) in wanted_moves(current, target) {
        if progress.under_way.contains_key(&shard) || room == 0 {
            continue;
        }
        let step = match wanted {
            (Some(to), _) => {
                let load = into.entry(to).or_default();
                if *load >= bounds.node_max {
                    continue;
                }
                *load += 1;
                Step::AddLearner { to }
            }
            (None, from) => Step::ChangeVoters { to: None, from },
        };
        room -= 1;
        steps.insert(shard, step);
    }
    steps
}

/// The next step of one move, if there is anything to do but wait.
fn advance(moving: &Move, caught_up: bool) -> Option<Step> {
    match (moving.phase, moving.from) {
        (Phase::Learning, from) => caught_up.then_some(Step::ChangeVoters { to: moving.to, from }),
        (Phase::Changing, from) => Some(Step::ChangeVoters { to: moving.to, from }),
        (Phase::Retiring, from) => from.map(|from| Step::Retire { from }),
    }
}

type Wanted = (Option<NodeId>, Option<NodeId>);

/// One replica for each shard that differs: shards with the fewest replicas first.
fn wanted_moves(current: &ShardMap, target: &ShardMap) -> Vec<(ShardId, Wanted)> {
    let mut wanted: Vec<(usize, ShardId, Wanted)> = (0..)
        .map(ShardId)
        .zip(current.shards.iter().zip(&target.shards))
        .filter_map(|(shard, (is, shall))| {
            let to = shall.replicas.iter().find(|node| !is.replicas.contains(node)).copied();
            let leaves = is.replicas.iter().find(|node| !shall.replicas.contains(node)).copied();
            // A shard that lacks a replica gets one before it loses another.
            let from = leaves.filter(|_| is.replicas.len() >= shall.replicas.len());
            (to.is_some() || from.is_some()).then_some((is.replicas.len(), shard, (to, from)))
        })
        .collect();
    wanted.sort_by_key(|(replicas, shard, _)| (*replicas, *shard));
    wanted.into_iter().map(|(_, shard, wanted)| (shard, wanted)).collect()
}

#[cfg(test)]
mod tests;
