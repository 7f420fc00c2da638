//! Who is at either end, and the rules that a node hands to its edges.

use std::fmt;

use leasehold_lease::EdgeId;
use leasehold_model::{Key, NodeId, RulesVersion, ShardId, Stamp};

use super::{DOMAINS_MAX, SHARDS_MAX, bounded, positive, short};
use crate::part::{PartError, Problem};
use crate::proto::leasehold::v1 as proto;

/// Bytes of the secret that keys counters' names.
const SECRET_BYTES: usize = 16;

/// An edge says who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// This life of it.
    pub edge: EdgeId,
    /// The highest feature level that it speaks.
    pub feature_level: u32,
    /// For people.
    pub name: String,
    /// Of its program.
    pub version: String,
}

/// A node says who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The highest feature level that both speak.
    pub feature_level: u32,
    /// The node.
    pub node: NodeId,
    /// For people.
    pub node_name: String,
    /// Where it is; empty where regions aren't named.
    pub region: String,
    /// Asks that may be unanswered at a time.
    pub asks_max: u32,
}

/// Rules to decide by, or a part of them. `Debug` hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// Their version.
    pub version: RulesVersion,
    /// When they came into force, on the counters' time line.
    pub since: Stamp,
    /// Keys counters' names.
    pub secret: [u8; SECRET_BYTES],
    /// Rule files, one a domain.
    pub domains: Vec<String>,
    /// Whether the next message goes on with this set.
    pub more: bool,
    /// Shards in all; 0: there is only one.
    pub shards: u32,
    /// Those whose home is the node's region.
    pub home_shards: Vec<ShardId>,
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RuleSet");
        shown.field("version", &self.version).field("domains", &self.domains.len());
        shown.field("more", &self.more).finish_non_exhaustive()
    }
}

impl From<Hello> for proto::Hello {
    fn from(hello: Hello) -> Self {
        let Hello { edge, feature_level, name, version } = hello;
        let Key { high, low } = Key::from_u128(edge.0);
        Self { edge_high: high, edge_low: low, feature_level, name, version }
    }
}

impl TryFrom<proto::Hello> for Hello {
    type Error = PartError;

    fn try_from(proto: proto::Hello) -> Result<Self, PartError> {
        Ok(Self {
            edge: EdgeId(Key { high: proto.edge_high, low: proto.edge_low }.to_u128()),
            feature_level: positive(proto.feature_level, "hello.feature_level")?,
            name: short(proto.name, "hello.name")?,
            version: short(proto.version, "hello.version")?,
        })
    }
}

impl From<Welcome> for proto::Welcome {
    fn from(welcome: Welcome) -> Self {
        let Welcome { feature_level, node, node_name, region, asks_max } = welcome;
        Self { feature_level, node: node.0, node_name, region, asks_max }
    }
}

impl TryFrom<proto::Welcome> for Welcome {
    type Error = PartError;

    fn try_from(proto: proto::Welcome) -> Result<Self, PartError> {
        Ok(Self {
            feature_level: positive(proto.feature_level, "welcome.feature_level")?,
            node: NodeId(proto.node),
            node_name: short(proto.node_name, "welcome.node_name")?,
            region: short(proto.region, "welcome.region")?,
            asks_max: positive(proto.asks_max, "welcome.asks_max")?,
        })
    }
}

impl From<RuleSet> for proto::RuleSet {
    fn from(rules: RuleSet) -> Self {
        Self {
            version: rules.version.0,
            since: rules.since.0,
            secret: rules.secret.to_vec().into(),
            domains: rules.domains,
            more: rules.more,
            shards: rules.shards,
            home_shards: rules.home_shards.into_iter().map(|shard| shard.0).collect(),
        }
    }
}

impl TryFrom<proto::RuleSet> for RuleSet {
    type Error = PartError;

    fn try_from(proto: proto::RuleSet) -> Result<Self, PartError> {
        bounded(&proto.domains, DOMAINS_MAX, "rules.domains")?;
        bounded(&proto.home_shards, SHARDS_MAX, "rules.home_shards")?;
        let secret = <[u8; SECRET_BYTES]>::try_from(proto.secret.as_ref()).map_err(|_| PartError {
            path: "rules.secret".to_owned(),
            problem: Problem::Length { found: proto.secret.len(), expected: SECRET_BYTES },
        })?;
        Ok(Self {
            version: RulesVersion(proto.version),
            since: Stamp(proto.since),
            secret,
            domains: proto.domains,
            more: proto.more,
            shards: proto.shards,
            home_shards: proto.home_shards.into_iter().map(ShardId).collect(),
        })
    }
}
