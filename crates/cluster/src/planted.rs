//! Known bugs of this crate, put back for harnesses. Without the feature `planted` each is a constant `false`, and whatever it
//! would do isn't reached.

use std::sync::Arc;

use leasehold_consensus::types::GroupId;
use leasehold_model::planted::{self, Bug};
use leasehold_model::{NodeId, Stamp};
use leasehold_shard::{Batch, Command, Reply, Shard};

use crate::attempt::AttemptError;
use crate::clock::{Clock, SystemClock};
use crate::local_groups::LocalGroups;
use crate::machine::ShardMachine;
use crate::sessions::OpenIds;

/// What is sent after an unknown outcome, if that is the bug: the same under other ids.
pub(crate) fn renamed(batch: &Arc<Batch>, failed: AttemptError, ids: &mut OpenIds) -> Option<Arc<Batch>> {
    if failed != AttemptError::Unknown || !planted::is(Bug::RetryUnderNewId) {
        return None;
    }
    let mut renamed = Batch::clone(batch);
    for command in &mut renamed.commands {
        if let Command::Acquire(acquire) = command {
            acquire.id = Some(ids.draw());
        }
    }
    Some(Arc::new(renamed))
}

/// What a replica that doesn't serve answers from its own state, if that is the bug: because nobody else does, or because
/// gossip names this node.
pub(crate) fn decided_alone(
    local: &LocalGroups,
    group: GroupId,
    batch: &Batch,
    failed: Option<AttemptError>,
    named: impl FnOnce() -> Option<NodeId>,
) -> Option<Vec<Reply>> {
    let by_itself = failed.is_some() && planted::is(Bug::FollowerGrants);
    let by_gossip = failed.is_none()
        && planted::is(Bug::GossipPicksOwner)
        && !local.serves(group)
        && named() == Some(local.node);
    if !by_itself && !by_gossip {
        return None;
    }
    let decide = |machine: &ShardMachine| {
        let anchor = machine.anchor()?;
        let mut shard = Shard::restore(machine.shard.snapshot(), machine.bounds()).ok()?;
        let at = Stamp(anchor.stamp.0 + SystemClock.boot().0.saturating_sub(anchor.boot.0));
        Some(shard.apply(batch, at))
    };
    local.runner.with_machine(group, decide)?
}
