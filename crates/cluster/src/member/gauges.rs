//! How a node stands at a moment, in numbers that cost next to nothing to read.

use leasehold_consensus::types::GroupId;

use super::{Cluster, Phase};

/// A node at a moment. What it knows of leaders is its own view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Whether it knows its cluster's state.
    pub member: bool,
    /// Replicas of shards that it holds.
    pub replicas: u64,
    /// Shards that it leads and answers for.
    pub leads: u64,
    /// Shards of which it holds a replica and knows no leader.
    pub leaderless: u64,
    /// Whether it leads the control group.
    pub leads_control: bool,
    /// Whether the log's disk is full.
    pub log_full: bool,
}

impl Cluster {
    /// How this node stands now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let mut gauges = Gauges {
            member: matches!(&*self.0.phase.borrow(), Phase::Member(_)),
            log_full: *self.0.log.full().borrow(),
            ..Gauges::default()
        };
        let Some(part) = self.0.part.get() else { return gauges };
        gauges.leads_control = part.runner.is_leader(GroupId::CONTROL);
        for group in part.runner.groups().into_iter().filter(|group| group.shard().is_some()) {
            gauges.replicas += 1;
            gauges.leads += u64::from(part.runner.is_leader(group));
            gauges.leaderless += u64::from(part.runner.leader(group).is_none());
        }
        gauges
    }
}
