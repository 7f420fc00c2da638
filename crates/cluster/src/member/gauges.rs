//! How a node stands at a moment, in numbers that cost next to nothing to read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_consensus::runner::LeadershipEvent;
use leasehold_consensus::types::GroupId;
use leasehold_model::NodeId;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

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
    /// How often a group with a replica here was led by another than before, since the start.
    pub leader_changes: u64,
}

/// Counts them until the runner ends.
pub(super) async fn count_leaders(mut events: Receiver<LeadershipEvent>, changes: &AtomicU64) {
    let mut leaders: BTreeMap<GroupId, NodeId> = BTreeMap::new();
    loop {
        match events.recv().await {
            Ok(LeadershipEvent { group, now }) => {
                let Some(leader) = now.leader else { continue };
                if leaders.insert(group, leader).is_some_and(|before| before != leader) {
                    changes.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

impl Cluster {
    /// How this node stands now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let mut gauges = Gauges {
            member: matches!(&*self.0.phase.borrow(), Phase::Member(_)),
            log_full: *self.0.log.full().borrow(),
            leader_changes: self.0.leader_changes.load(Ordering::Relaxed),
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
