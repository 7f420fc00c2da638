//! `apply`, and what can be read of the outcome.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leasehold_model::planted::{self, Bug};
use leasehold_model::{Epoch, NodeId, RulesVersion, ShardId, Stamp, TimeLine};
use leasehold_placement::{Layout, Member, Move, ShardMap, Shards, Standing};

use crate::{AuditEntry, Cluster, Command, NodeRecord, Refusal, Reply, RulesChange, RulesText};

/// The control group's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    pub(crate) line: TimeLine,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) nodes: BTreeMap<NodeId, NodeRecord>,
    pub(crate) rules: BTreeMap<Arc<str>, RulesText>,
    pub(crate) rules_version: RulesVersion,
    pub(crate) rules_since: Stamp,
    pub(crate) map: ShardMap,
    pub(crate) moves: BTreeMap<ShardId, Move>,
    pub(crate) audit: VecDeque<AuditEntry>,
}

impl Control {
    /// Audit entries kept; older ones are dropped.
    pub const AUDIT_MAX: usize = 1_000;
    /// Nodes known, dead ones included; a further one is refused until dead ones are forgotten.
    pub const NODES_MAX: usize = 1_000;
    /// Domains with rules; a further one is refused.
    pub const DOMAINS_MAX: usize = 1_000;

    /// Nothing yet: the cluster is made by [`Command::Create`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one command at `max(at, last)`.
    pub fn apply(&mut self, command: Command, at: Stamp) -> Reply {
        let at = self.line.advance(at);
        let outcome = match command {
            Command::Create { cluster, nodes, map } => self.create(cluster, nodes, map, at),
            _ if self.cluster.is_none() => Err(Refusal::NotCreated),
            Command::Register(record) => self.register(record, at),
            Command::SetStanding { node, standing, by } => self.set_standing(node, standing, &by, at),
            Command::Forget { node, by } => self.forget(node, &by, at),
            Command::Rules(change) => self.change_rules(change, at),
            Command::Moving { shard, moving } => {
                self.moves.insert(shard, moving);
                Ok(Reply::Done)
            }
            Command::Moved { shard } => {
                self.moves.remove(&shard);
                Ok(Reply::Done)
            }
            Command::SetMap { map } => self.set_map(map),
        };
        outcome.unwrap_or_else(Reply::Refused)
    }

    fn create(
        &mut self,
        cluster: Cluster,
        nodes: Vec<NodeRecord>,
        map: ShardMap,
        at: Stamp,
    ) -> Result<Reply, Refusal> {
        if let Some(existing) = &self.cluster {
            return if *existing == cluster { Ok(Reply::Done) } else { Err(Refusal::Exists) };
        }
        if nodes.len() > Self::NODES_MAX {
            return Err(Refusal::TooMany(Self::NODES_MAX));
        }
        self.record(at, "founding nodes", format!("cluster {} of {} nodes created", cluster.id, nodes.len()));
        self.cluster = Some(cluster);
        self.nodes = nodes.into_iter().map(|record| (record.id, record)).collect();
        self.map = map;
        Ok(Reply::Done)
    }

    fn register(&mut self, record: NodeRecord, at: Stamp) -> Result<Reply, Refusal> {
        if self.nodes.get(&record.id).is_some_and(|known| known.standing == Standing::Dead) {
            return Err(Refusal::Replaced(record.id));
        }
        let namesake = self.nodes.values().find(|known| {
            known.name == record.name && known.id != record.id && known.standing != Standing::Dead
        });
        if let Some(known) = namesake {
            return Err(Refusal::NameTaken(known.id));
        }
        let full = self.nodes.len() >= Self::NODES_MAX;
        match self.nodes.get_mut(&record.id) {
            Some(known) => *known = NodeRecord { standing: known.standing, ..record },
            None if full => return Err(Refusal::TooMany(Self::NODES_MAX)),
            None => {
                self.record(at, &record.name, format!("node {} joined", record.id));
                self.nodes.insert(record.id, record);
            }
        }
        Ok(Reply::Done)
    }

    fn set_standing(
        &mut self,
        node: NodeId,
        standing: Standing,
        by: &str,
        at: Stamp,
    ) -> Result<Reply, Refusal> {
        let known = self.nodes.get_mut(&node).ok_or(Refusal::NoSuchNode(node))?;
        if known.standing == standing {
            return Ok(Reply::Done);
        }
        if known.standing == Standing::Dead {
            return Err(Refusal::Replaced(node));
        }
        known.standing = standing;
        let word = match standing {
            Standing::Active => "active",
            Standing::Draining => "draining",
            Standing::Dead => "dead",
        };
        self.record(at, by, format!("node {node} is {word}"));
        Ok(Reply::Done)
    }

    fn forget(&mut self, node: NodeId, by: &str, at: Stamp) -> Result<Reply, Refusal> {
        if !self.nodes.contains_key(&node) {
            return Err(Refusal::NoSuchNode(node));
        }
        if self.map.shards.iter().any(|placement| placement.replicas.contains(&node)) {
            return Err(Refusal::StillHolds(node));
        }
        self.nodes.remove(&node);
        self.record(at, by, format!("node {node} forgotten"));
        Ok(Reply::Done)
    }

    fn change_rules(&mut self, change: RulesChange, at: Stamp) -> Result<Reply, Refusal> {
        let RulesChange { domain, text, expected, by } = change;
        if expected.is_some_and(|expected| expected != self.rules_version) {
            return Err(Refusal::RulesConflict(self.rules_version));
        }
        let known = self.rules.get(&domain);
        if known.map(|known| &known.text) == text.as_ref() {
            return Ok(Reply::Rules(self.rules_version));
        }
        if known.is_none() && self.rules.len() >= Self::DOMAINS_MAX {
            return Err(Refusal::TooMany(Self::DOMAINS_MAX));
        }
        self.rules_version = RulesVersion(self.rules_version.0 + 1);
        self.rules_since = at;
        let version = self.rules_version;
        self.record(
            at,
            &by,
            format!(
                "rules of {domain} {}, version {version}",
                if text.is_some() { "set" } else { "removed" }
            ),
        );
        match text {
            Some(text) => self.rules.insert(domain, RulesText { text, version }),
            None => self.rules.remove(&domain),
        };
        Ok(Reply::Rules(version))
    }

    fn set_map(&mut self, map: ShardMap) -> Result<Reply, Refusal> {
        if map == self.map {
            return Ok(Reply::Map(map.epoch));
        }
        if map.epoch.0 != self.map.epoch.0 + 1 || map.shards.len() != self.map.shards.len() {
            return Err(Refusal::MapConflict(self.map.epoch));
        }
        let epoch = if planted::is(Bug::EpochNotBumped) { self.map.epoch } else { map.epoch };
        self.map = ShardMap { epoch, ..map };
        Ok(Reply::Map(epoch))
    }

    fn record(&mut self, at: Stamp, by: &str, what: String) {
        if self.audit.len() >= Self::AUDIT_MAX {
            self.audit.pop_front();
        }
        self.audit.push_back(AuditEntry { at, by: by.into(), what: what.into() });
    }

    /// The cluster's constants, once it was created.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// The shape of its map, once it was created.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        let cluster = self.cluster.as_ref()?;
        Some(Layout {
            shards: Shards::new(cluster.shards).ok()?,
            replicas: usize::try_from(cluster.replicas).ok()?,
        })
    }

    /// Every node, by id.
    #[must_use]
    pub const fn nodes(&self) -> &BTreeMap<NodeId, NodeRecord> {
        &self.nodes
    }

    /// Every node, as placement sees it.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.nodes.values().map(NodeRecord::member).collect()
    }

    /// Every domain's rules.
    #[must_use]
    pub const fn rules(&self) -> &BTreeMap<Arc<str>, RulesText> {
        &self.rules
    }

    /// The version of the whole rule set.
    #[must_use]
    pub const fn rules_version(&self) -> RulesVersion {
        self.rules_version
    }

    /// When that version came into force, on this machine's line.
    #[must_use]
    pub const fn rules_since(&self) -> Stamp {
        self.rules_since
    }

    /// The shard map in force.
    #[must_use]
    pub const fn map(&self) -> &ShardMap {
        &self.map
    }

    /// Its epoch.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// Replicas on their way.
    #[must_use]
    pub const fn moves(&self) -> &BTreeMap<ShardId, Move> {
        &self.moves
    }

    /// Who changed what and when, oldest first.
    pub fn audit(&self) -> impl DoubleEndedIterator<Item = &AuditEntry> {
        self.audit.iter()
    }

    /// The latest stamp applied.
    #[must_use]
    pub const fn last(&self) -> Stamp {
        self.line.last()
    }
}

#[cfg(test)]
mod tests;
