//! What the control group remembers.

use std::sync::Arc;

use leasehold_model::{NodeId, RulesVersion, Stamp};
use leasehold_placement::{Member, Standing};

/// Tells clusters apart: drawn at creation, carried by every data directory and every peer connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What a cluster is created with and keeps for ever.
#[derive(Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its id.
    pub id: ClusterId,
    /// Keys the hash that names counters. Never shown.
    pub secret: [u8; 16],
    /// How many shards.
    pub shards: u32,
    /// Replicas of each.
    pub replicas: u32,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("id", &self.id)
            .field("shards", &self.shards)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

/// One node, as it registered itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its id, drawn when its data directory was made; never reused.
    pub id: NodeId,
    /// What a person calls it; unique among nodes that are not gone.
    pub name: Arc<str>,
    /// Where peers reach it: `host:port`.
    pub peer_address: Arc<str>,
    /// Where gossip reaches it: `host:port`.
    pub gossip_address: Arc<str>,
    /// Where clients reach it.
    pub client_address: Arc<str>,
    /// What fails together.
    pub zone: Arc<str>,
    /// What is near each other.
    pub region: Arc<str>,
    /// Share of the work; 100 is usual.
    pub weight: u32,
    /// Whether it may hold replicas.
    pub standing: Standing,
}

impl NodeRecord {
    /// As placement sees it.
    #[must_use]
    pub fn member(&self) -> Member {
        Member {
            id: self.id,
            weight: self.weight,
            zone: self.zone.clone(),
            region: self.region.clone(),
            standing: self.standing,
        }
    }
}

/// One domain's rules in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesText {
    /// The YAML text, validated before it was proposed.
    pub text: Arc<str>,
    /// The version that brought it.
    pub version: RulesVersion,
}

/// Who changed what and when. The last [`crate::Control::AUDIT_MAX`] are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When it was applied.
    pub at: Stamp,
    /// Who asked for it, as the door knew them.
    pub by: Arc<str>,
    /// What changed, in words, without any key or value.
    pub what: Arc<str>,
}
