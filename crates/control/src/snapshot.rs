//! The state as plain values, for whoever encodes it.

use std::collections::BTreeSet;

use leasehold_model::{NodeId, RulesVersion, ShardId, Stamp, TimeLine};
use leasehold_placement::{Move, ShardMap, Shards};

use crate::{AuditEntry, Cluster, Control, NodeRecord, RulesText};

/// Everything a [`Control`] holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The latest stamp applied.
    pub last: Stamp,
    /// The cluster's constants.
    pub cluster: Option<Cluster>,
    /// Every node, ascending by id.
    pub nodes: Vec<NodeRecord>,
    /// Every domain's rules, ascending by domain.
    pub rules: Vec<(std::sync::Arc<str>, RulesText)>,
    /// The version of the whole rule set.
    pub rules_version: RulesVersion,
    /// When that version came into force.
    pub rules_since: Stamp,
    /// The shard map.
    pub map: ShardMap,
    /// Replicas on their way, ascending by shard.
    pub moves: Vec<(ShardId, Move)>,
    /// Oldest first.
    pub audit: Vec<AuditEntry>,
}

/// Why values are no control state: somebody else wrote them, or they were damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A shard count that no cluster can have.
    #[error("{0} shards are not a power of two up to {max}", max = Shards::MAX)]
    Shards(u32),
    /// The map's length isn't the cluster's.
    #[error("the map holds {map} shards, the cluster {cluster}")]
    MapLength {
        /// Shards in the map.
        map: usize,
        /// Shards of the cluster.
        cluster: u32,
    },
    /// An id stands twice.
    #[error("node {0} stands twice")]
    Twice(NodeId),
    /// A domain's version is newer than the whole set's.
    #[error("rules of {0} are newer than the rule set")]
    Newer(std::sync::Arc<str>),
}

impl Control {
    /// Everything, as plain values.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            last: self.last(),
            cluster: self.cluster.clone(),
            nodes: self.nodes.values().cloned().collect(),
            rules: self.rules.iter().map(|(domain, rules)| (domain.clone(), rules.clone())).collect(),
            rules_version: self.rules_version,
            rules_since: self.rules_since,
            map: self.map.clone(),
            moves: self.moves.iter().map(|(shard, moving)| (*shard, *moving)).collect(),
            audit: self.audit.iter().cloned().collect(),
        }
    }

    /// A machine that continues from `snapshot`.
    ///
    /// # Errors
    /// [`RestoreError`] names what contradicts itself.
    pub fn restore(snapshot: Snapshot) -> Result<Self, RestoreError> {
        if let Some(cluster) = &snapshot.cluster {
            Shards::new(cluster.shards).map_err(|_| RestoreError::Shards(cluster.shards))?;
            if usize::try_from(cluster.shards) != Ok(snapshot.map.shards.len()) {
                return Err(RestoreError::MapLength {
                    map: snapshot.map.shards.len(),
                    cluster: cluster.shards,
                });
            }
        }
        let mut seen = BTreeSet::new();
        if let Some(node) = snapshot.nodes.iter().find(|node| !seen.insert(node.id)) {
            return Err(RestoreError::Twice(node.id));
        }
        if let Some((domain, _)) =
            snapshot.rules.iter().find(|(_, rules)| rules.version > snapshot.rules_version)
        {
            return Err(RestoreError::Newer(domain.clone()));
        }
        Ok(Self {
            line: TimeLine::from(snapshot.last),
            cluster: snapshot.cluster,
            nodes: snapshot.nodes.into_iter().map(|node| (node.id, node)).collect(),
            rules: snapshot.rules.into_iter().collect(),
            rules_version: snapshot.rules_version,
            rules_since: snapshot.rules_since,
            map: snapshot.map,
            moves: snapshot.moves.into_iter().collect(),
            audit: snapshot.audit.into(),
        })
    }
}
