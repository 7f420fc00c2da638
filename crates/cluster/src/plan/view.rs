//! What a pass of the planner decides by, all of it gathered before the pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_control::{Command, Control};
use leasehold_model::{NodeId, ShardId};
use leasehold_placement::Standing;
use leasehold_wire::peer::{Change, Founding};

/// A replica that lacks at most so many entries of what was committed when its leader was asked counts as caught up:
/// under load the last few are always on their way.
const LAG_MAX: u64 = 64;

/// What the leader of a group says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupView {
    pub(crate) leader: NodeId,
    pub(crate) term: u64,
    pub(crate) committed: u64,
    /// As committed; two sets while they change.
    pub(crate) voters: Vec<BTreeSet<NodeId>>,
    pub(crate) learners: BTreeSet<NodeId>,
    /// What each other replica has for sure; those that have nothing yet are absent.
    pub(crate) matched: BTreeMap<NodeId, u64>,
}

/// How a node is heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether the connection to it stands.
    pub(crate) connected: bool,
    /// For how long neither a connection nor gossip has shown any life of it, as this planner saw it.
    pub(crate) silent: Duration,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) control: &'a Control,
    /// The node that plans: it leads the control group.
    pub(crate) me: NodeId,
    /// By group, where a leader answered.
    pub(crate) groups: &'a BTreeMap<GroupId, GroupView>,
    /// By registered node.
    pub(crate) seen: &'a BTreeMap<NodeId, Seen>,
    /// What to make the cluster from, while there is none.
    pub(crate) founding: Option<&'a Founding>,
    /// Rules that a new cluster starts with: domain and text.
    pub(crate) rules: &'a [(Arc<str>, Arc<str>)],
    /// A node that is silent for so long is replaced.
    pub(crate) replace_after: Duration,
    /// Who may hold replicas has changed since leaders were last spread.
    pub(crate) leaders_stale: bool,
}

/// What a pass wants done. Each is safe to repeat and safe to lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A command for the control group.
    Propose(Command),
    /// A change of a group, asked of its leader.
    Ask { group: GroupId, leader: NodeId, change: Change },
}

impl GroupView {
    /// The voters, unless they are changing.
    pub(crate) fn settled(&self) -> Option<&BTreeSet<NodeId>> {
        match self.voters.as_slice() {
            [voters] => Some(voters),
            _ => None,
        }
    }

    /// Whether a replica has what was committed a moment ago.
    pub(crate) fn has_all(&self, node: NodeId) -> bool {
        node == self.leader
            || self
                .matched
                .get(&node)
                .is_some_and(|matched| matched.saturating_add(LAG_MAX) >= self.committed)
    }
}

impl View<'_> {
    pub(crate) fn shard(&self, shard: ShardId) -> Option<&GroupView> {
        self.groups.get(&GroupId::of_shard(shard))
    }

    pub(crate) fn connected(&self, node: NodeId) -> bool {
        node == self.me || self.seen.get(&node).is_some_and(|seen| seen.connected)
    }

    pub(crate) fn silent(&self, node: NodeId) -> Duration {
        if node == self.me {
            Duration::ZERO
        } else {
            self.seen.get(&node).map_or(Duration::ZERO, |seen| seen.silent)
        }
    }

    /// Whether the node is registered and not dead.
    pub(crate) fn lives(&self, node: NodeId) -> bool {
        self.control.nodes().get(&node).is_some_and(|record| record.standing != Standing::Dead)
    }

    /// Whether new replicas may be put there.
    pub(crate) fn eligible(&self, node: NodeId) -> bool {
        self.control.nodes().get(&node).is_some_and(|record| record.member().eligible())
    }

    /// Replicas of each group.
    pub(crate) fn replicas(&self) -> usize {
        self.control.layout().map_or(0, |layout| layout.replicas)
    }

    /// Whether most nodes can be reached: a planner on the small side of a partition holds still.
    pub(crate) fn quorate(&self) -> bool {
        let living: Vec<NodeId> =
            self.control.nodes().keys().copied().filter(|node| self.lives(*node)).collect();
        living.iter().filter(|node| self.connected(**node)).count() * 2 > living.len()
    }

    /// Whether a leader answered for every shard.
    pub(crate) fn all_led(&self) -> bool {
        self.control
            .layout()
            .is_some_and(|layout| layout.shards.iter().all(|shard| self.shard(shard).is_some()))
    }

    /// Whether most of these would vote at once for what the group's leader proposes.
    pub(crate) fn works(&self, group: &GroupView, voters: &BTreeSet<NodeId>) -> bool {
        let ready = |node: &&NodeId| self.connected(**node) && group.has_all(**node);
        voters.iter().filter(ready).count() * 2 > voters.len()
    }

    /// The change of voters that lets `to` in and `from` out, or the handover that has to come first. None when there is
    /// nothing to change, or the new voters couldn't go on at once.
    pub(crate) fn swap(&self, group: &GroupView, to: Option<NodeId>, from: Option<NodeId>) -> Option<Change> {
        let voters = group.settled()?;
        let mut next = voters.clone();
        next.extend(to);
        next.retain(|node| Some(*node) != from);
        if next == *voters || next.is_empty() || !self.works(group, &next) {
            return None;
        }
        if next.contains(&group.leader) {
            return Some(Change::Voters(next));
        }
        let staying = next.iter().copied().filter(|node| voters.contains(node));
        let ready = staying.filter(|node| self.connected(*node) && group.has_all(*node));
        ready
            .max_by_key(|node| (self.eligible(*node), group.matched.get(node).copied()))
            .map(Change::Transfer)
    }

    /// Ends a change of voters that was begun: forward if the new ones can go on, else back.
    pub(crate) fn finish(&self, group: &GroupView) -> Option<Change> {
        if group.voters.len() < 2 {
            return None;
        }
        group.voters.iter().rev().find(|voters| self.works(group, voters)).cloned().map(Change::Voters)
    }
}
