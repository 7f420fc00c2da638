//! Nodes as placement sees them.

use std::sync::Arc;

use leasehold_model::NodeId;

/// One node that may hold replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// Share of the work relative to the others; 100 is usual, 0 holds nothing.
    pub weight: u32,
    /// What fails together: replicas of one shard are spread over zones.
    pub zone: Arc<str>,
    /// What is near each other: a shard's replicas stay in its home region where that has enough nodes.
    pub region: Arc<str>,
    /// Whether it may hold replicas.
    pub standing: Standing,
}

/// Whether a node may hold replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Active,
    /// It keeps serving what it holds until that has moved elsewhere.
    Draining,
    /// It has been away for longer than the grace: what it held is replaced.
    Dead,
}

impl Member {
    /// Whether new replicas may be put here.
    #[must_use]
    pub fn eligible(&self) -> bool {
        self.standing == Standing::Active && self.weight > 0
    }
}
