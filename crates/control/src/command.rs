//! What the control group is told and what it answers.

use std::sync::Arc;

use leasehold_model::{Epoch, NodeId, RulesVersion, ShardId};
use leasehold_placement::{Move, ShardMap, Standing};

use crate::{Cluster, NodeRecord};

/// One command of the control group's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes the cluster: once, by the nodes that agreed to found it.
    Create {
        /// Its constants.
        cluster: Cluster,
        /// Its first nodes.
        nodes: Vec<NodeRecord>,
        /// Its first shard map.
        map: ShardMap,
    },
    /// A node registers itself, or changes what it registered. Its standing is kept if it is known.
    Register(NodeRecord),
    /// A node is drained, brought back, or declared dead.
    SetStanding {
        /// Which.
        node: NodeId,
        /// Its new standing.
        standing: Standing,
        /// Who asked.
        by: Arc<str>,
    },
    /// A node that holds nothing any more is forgotten.
    Forget {
        /// Which.
        node: NodeId,
        /// Who asked.
        by: Arc<str>,
    },
    /// One domain's rules change.
    Rules(RulesChange),
    /// A replica starts to move, or comes one phase further.
    Moving {
        /// Of which shard.
        shard: ShardId,
        /// The move.
        moving: Move,
    },
    /// A move is over, arrived or given up.
    Moved {
        /// Of which shard.
        shard: ShardId,
    },
    /// The shard map changes. Refused unless it continues the map in force.
    SetMap {
        /// The new map; its epoch is that of the one in force plus one.
        map: ShardMap,
    },
}

/// One domain's rules change: put in force, or taken out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesChange {
    /// The domain.
    pub domain: Arc<str>,
    /// Its rules; `None` takes the domain away.
    pub text: Option<Arc<str>>,
    /// Only if this version is in force.
    pub expected: Option<RulesVersion>,
    /// Who asked.
    pub by: Arc<str>,
}

/// The answer to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Carried out, or already so.
    Done,
    /// The version of the rules that now hold.
    Rules(RulesVersion),
    /// The epoch of the map that now holds.
    Map(Epoch),
    /// Not carried out, and nothing changed.
    Refused(Refusal),
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is a cluster already.
    #[error("the cluster exists already")]
    Exists,
    /// There is no cluster yet.
    #[error("there is no cluster yet: it is created when its founding nodes have met")]
    NotCreated,
    /// No such node.
    #[error("no node has the id {0}")]
    NoSuchNode(NodeId),
    /// The id was declared dead: it comes back under a new one, with an empty data directory.
    #[error("node {0} was declared dead and replaced; empty its data directory and let it join anew")]
    Replaced(NodeId),
    /// Another node has the name.
    #[error("another node has this name (id {0}); names are unique")]
    NameTaken(NodeId),
    /// The node holds replicas.
    #[error("node {0} still holds replicas; drain it and wait until they have moved")]
    StillHolds(NodeId),
    /// Another version is in force.
    #[error("another version of the rules is in force: {0}")]
    RulesConflict(RulesVersion),
    /// The map doesn't continue the one in force.
    #[error("the map doesn't continue the one in force, of epoch {0}")]
    MapConflict(Epoch),
    /// More than the bound.
    #[error("too many: at most {0}")]
    TooMany(usize),
}
