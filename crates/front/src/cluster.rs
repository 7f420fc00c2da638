//! A cluster as operators see it: members, shards, audit. Plain values; whoever serves them knows no cluster.

use std::sync::Arc;
use std::time::Duration;

use leasehold_model::{Epoch, NodeId, RulesVersion, Stamp};

/// A cluster, as the node that answers has gathered it from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Drawn when it was created.
    pub id: u128,
    /// As configured.
    pub name: String,
    /// Who answers.
    pub node: NodeId,
    /// Version of the shard map.
    pub epoch: Epoch,
    /// Version of the rules.
    pub rules_version: RulesVersion,
    /// Replicas that a shard should have.
    pub replicas: u32,
    /// The group that keeps members, rules and the shard map.
    pub control: GroupStatus,
    /// Ascending by name, dead ones last.
    pub members: Vec<MemberStatus>,
    /// By their numbers.
    pub shards: Vec<GroupStatus>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its id.
    pub id: NodeId,
    /// What people call it.
    pub name: String,
    /// Where peers reach it.
    pub peer_address: String,
    /// Where clients reach it.
    pub client_address: String,
    /// What fails together.
    pub zone: String,
    /// What is near each other.
    pub region: String,
    /// Share of the work.
    pub weight: u32,
    /// Whether it may hold replicas.
    pub standing: Standing,
    /// Whether it answered when it was asked for this.
    pub answers: bool,
    /// Whether gossip hears it.
    pub live: bool,
    /// Whether it votes in the control group.
    pub votes: bool,
    /// Replicas that the shard map gives it.
    pub replicas: u32,
    /// Shards that it leads.
    pub leads: u32,
    /// Counters that it holds, those of followers included. `None`: it didn't say.
    pub keys: Option<u64>,
    /// The rules by which it decides. `None`: it didn't say.
    pub rules_version: Option<RulesVersion>,
    /// How long a message from the node that answers to it and back takes. `None`: it isn't known.
    pub round_trip: Option<Duration>,
}

/// Whether a node may hold replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Active,
    /// It keeps serving what it holds until that has moved elsewhere.
    Draining,
    /// It was away for too long: what it held is replaced.
    Dead,
}

/// The replicas of a shard, or of the control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// Who leads it. `None`: nobody that answered.
    pub leader: Option<NodeId>,
    /// Who should, while it can.
    pub preferred: Option<NodeId>,
    /// The region whose nodes hold it. `None`: it is at home nowhere.
    pub home: Option<String>,
    /// Counters, as its leader has them. `None`: nobody leads.
    pub keys: Option<u64>,
    /// Ascending by node.
    pub replicas: Vec<ReplicaStatus>,
    /// The replica on its way, if there is one.
    pub moving: Option<MoveStatus>,
}

/// One replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Where it is.
    pub node: NodeId,
    /// What it is to its group. `None`: its node didn't say, or has none.
    pub role: Option<Role>,
    /// The last entry that it has applied. `None`: its node didn't say.
    pub applied: Option<u64>,
    /// Entries by which it is behind what its leader has committed. `None`: nobody leads.
    pub behind: Option<u64>,
    /// Hash of its state. `None`: it wasn't asked for, or its node didn't say.
    pub hash: Option<StateHash>,
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

/// Hash of a replica's state: replicas that have applied the same entries have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHash {
    /// The last entry that is in the state.
    pub applied: Option<u64>,
    /// The hash.
    pub hash: u64,
}

/// A replica on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveStatus {
    /// Where to.
    pub to: Option<NodeId>,
    /// Where from.
    pub from: Option<NodeId>,
    /// How far it is: learning, changing or retiring.
    pub phase: &'static str,
}

/// Who changed what and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// On the cluster's time line, which follows wall time.
    pub at: Stamp,
    /// Who asked for it, as the door knew them.
    pub by: Arc<str>,
    /// What changed.
    pub what: Arc<str>,
}

impl MemberStatus {
    /// The round trip in whole microseconds.
    #[must_use]
    pub fn round_trip_micros(&self) -> Option<u64> {
        self.round_trip.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Standing {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Dead => "dead",
        }
    }

    /// What a word stands for.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Active, Self::Draining, Self::Dead].into_iter().find(|standing| standing.name() == name)
    }
}

impl Role {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Learner => "learner",
            Self::Follower => "follower",
            Self::Candidate => "candidate",
            Self::Leader => "leader",
        }
    }
}
