//! How a node's replicas stand, for operators and for the planner of moves.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, Bytes};
use leasehold_model::NodeId;
use prost::Message as _;

use super::PeerError;
use crate::part::{PartError, each};
use crate::proto::leasehold::peer::v1 as proto;

/// Asks how the receiver's replicas stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRequest {
    /// Of which groups; empty: of all that it has.
    pub groups: Vec<u32>,
    /// Whether to hash their states, which takes time.
    pub hash: bool,
}

/// How they stand. A group that the receiver has no replica of is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReply {
    /// One a group.
    pub replicas: Vec<ReplicaStatus>,
}

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
pub struct ReplicaStatus {
    /// The group.
    pub group: u32,
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
    /// The voters, as committed; two sets while they change.
    pub voters: Vec<BTreeSet<NodeId>>,
    /// The nodes that have a replica and don't vote.
    pub learners: BTreeSet<NodeId>,
    /// At a leader: the last entry that each other replica has for sure.
    pub matched: BTreeMap<NodeId, Option<u64>>,
    /// The hash of its state, if it was asked for.
    pub hash: Option<StateHash>,
    /// Counters held; `None` in the control group.
    pub keys: Option<u64>,
}

/// The hash of a machine's state. Replicas that applied the same entries have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHash {
    /// The last entry that is in the state.
    pub applied: Option<u64>,
    /// The hash.
    pub hash: u64,
}

impl StatusRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        proto::StatusRequest { groups: self.groups, hash: self.hash }.encode_to_vec().into()
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let proto = proto::StatusRequest::decode(from)?;
        Ok(Self { groups: proto.groups, hash: proto.hash })
    }
}

impl StatusReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let replicas = self.replicas.into_iter().map(to_proto).collect();
        proto::StatusReply { replicas }.encode_to_vec().into()
    }

    /// The reply that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let proto = proto::StatusReply::decode(from)?;
        Ok(Self { replicas: each(proto.replicas, "replicas", from_proto)? })
    }
}

pub(super) fn set_to_proto(nodes: &BTreeSet<NodeId>) -> proto::NodeSet {
    proto::NodeSet { nodes: nodes.iter().map(|node| node.0).collect() }
}

pub(super) fn set_from_proto(proto: proto::NodeSet) -> BTreeSet<NodeId> {
    proto.nodes.into_iter().map(NodeId).collect()
}

fn to_proto(status: ReplicaStatus) -> proto::ReplicaStatus {
    let role = match status.role {
        Role::Learner => proto::Role::Learner,
        Role::Follower => proto::Role::Follower,
        Role::Candidate => proto::Role::Candidate,
        Role::Leader => proto::Role::Leader,
    };
    let matched = |(node, index): (NodeId, Option<u64>)| proto::Matched { node: node.0, index };
    proto::ReplicaStatus {
        group: status.group,
        role: role.into(),
        term: status.term,
        leader: status.leader.map(|node| node.0),
        serving: status.serving,
        last_log: status.last_log,
        committed: status.committed,
        applied: status.applied,
        snapshot: status.snapshot,
        purged: status.purged,
        voters: status.voters.iter().map(set_to_proto).collect(),
        learners: status.learners.iter().map(|node| node.0).collect(),
        matched: status.matched.into_iter().map(matched).collect(),
        hash: status.hash.map(|hash| proto::StateHash { applied: hash.applied, hash: hash.hash }),
        keys: status.keys,
    }
}

fn from_proto(proto: proto::ReplicaStatus) -> Result<ReplicaStatus, PartError> {
    let role = match proto.role() {
        proto::Role::Unspecified => return Err(PartError::unknown("role", proto.role)),
        proto::Role::Learner => Role::Learner,
        proto::Role::Follower => Role::Follower,
        proto::Role::Candidate => Role::Candidate,
        proto::Role::Leader => Role::Leader,
    };
    Ok(ReplicaStatus {
        group: proto.group,
        role,
        term: proto.term,
        leader: proto.leader.map(NodeId),
        serving: proto.serving,
        last_log: proto.last_log,
        committed: proto.committed,
        applied: proto.applied,
        snapshot: proto.snapshot,
        purged: proto.purged,
        voters: proto.voters.into_iter().map(set_from_proto).collect(),
        learners: proto.learners.into_iter().map(NodeId).collect(),
        matched: proto.matched.into_iter().map(|matched| (NodeId(matched.node), matched.index)).collect(),
        hash: proto.hash.map(|hash| StateHash { applied: hash.applied, hash: hash.hash }),
        keys: proto.keys,
    })
}
