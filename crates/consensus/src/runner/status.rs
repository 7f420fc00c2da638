//! What a replica says about itself, for operators and for the planner of moves.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_model::NodeId;
use openraft::ServerState;

use super::Runner;
use crate::clock;
use crate::types::GroupId;

/// What a replica is to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It gets the log and doesn't vote.
    Learner,
    /// It votes.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It leads.
    Leader,
}

/// A replica at a moment. Places are indexes in the group's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// The group.
    pub group: GroupId,
    /// What this replica is to it.
    pub role: Role,
    /// The newest term it knows.
    pub term: u64,
    /// Who leads, as far as it knows.
    pub leader: Option<NodeId>,
    /// Whether this replica answers for the group.
    pub serving: bool,
    /// The last entry in its log.
    pub last_log: Option<u64>,
    /// The last entry that it knows to be committed.
    pub committed: Option<u64>,
    /// The last entry applied to its machine.
    pub applied: Option<u64>,
    /// The last entry in its newest snapshot.
    pub snapshot: Option<u64>,
    /// The last entry that its log has no more.
    pub purged: Option<u64>,
    /// The voters, as committed: whoever isn't among them is needed for no majority. Two sets while they change.
    pub voters: Vec<BTreeSet<NodeId>>,
    /// The nodes that have a replica and don't vote.
    pub learners: BTreeSet<NodeId>,
    /// At a leader: the last entry that each other replica has for sure.
    pub matched: BTreeMap<NodeId, Option<u64>>,
}

impl Runner {
    /// What the replica of a group says about itself; none when there is no replica here, or it has stopped.
    pub async fn status(&self, group: GroupId) -> Option<GroupStatus> {
        let group = self.0.group(group)?;
        let state = group.raft.with_raft_state(|state| {
            (state.committed, state.membership_state.committed().membership().clone())
        });
        let (committed, membership) = state.await.ok()?;
        let metrics = group.raft.metrics().borrow().clone();
        let index = |id: openraft::LogId<u64>| id.index;
        Some(GroupStatus {
            group: group.id,
            role: match metrics.state {
                ServerState::Learner | ServerState::Shutdown => Role::Learner,
                ServerState::Follower => Role::Follower,
                ServerState::Candidate => Role::Candidate,
                ServerState::Leader => Role::Leader,
            },
            term: metrics.current_term,
            leader: group.leader(),
            serving: group.serves(clock::now()),
            last_log: metrics.last_log_index,
            committed: committed.map(index),
            applied: group.machine.read(|state| state.applied).map(index),
            snapshot: metrics.snapshot.map(index),
            purged: metrics.purged.map(index),
            voters: membership
                .get_joint_config()
                .iter()
                .map(|voters| voters.iter().copied().map(NodeId).collect())
                .collect(),
            learners: membership.learner_ids().map(NodeId).collect(),
            matched: metrics
                .replication
                .iter()
                .flatten()
                .map(|(node, matched)| (NodeId(*node), matched.map(index)))
                .collect(),
        })
    }

    /// The last entry applied to a group's machine, and the hash of its state after it.
    #[must_use]
    pub fn state_hash(&self, group: GroupId) -> Option<(Option<u64>, u64)> {
        let group = self.0.group(group)?;
        Some(group.machine.read(|state| (state.applied.map(|at| at.index), state.machine.state_hash())))
    }
}
