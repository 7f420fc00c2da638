//! What this node does as the leader of a group: whether it serves, what the time is there, what is put into the log.
//!
//! Invariant: a stamp is only taken by a replica that serves, since only that one knows where the group's line stands.

use std::any::Any;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::runner::Runner;
use leasehold_consensus::types::GroupId;
use leasehold_model::{NodeId, Stamp};
use tokio::time::{Instant, sleep};

use crate::attempt::AttemptError;
use crate::lines::{Ground, Lines};
use crate::machine::{ControlMachine, ShardMachine};

/// An entry that isn't applied after so long is given up: its asks are asked again, maybe of another leader. Beyond what a
/// slow disk takes.
const APPLIED_MAX: Duration = Duration::from_secs(2);
/// How often a proposal under way looks whether its replica still serves. One that doesn't may never be told.
const SERVES_EVERY: Duration = Duration::from_millis(50);

/// The groups of this node, as far as it leads them.
#[derive(Debug)]
pub(crate) struct LocalGroups {
    pub(crate) node: NodeId,
    pub(crate) runner: Runner,
    pub(crate) lines: Lines,
}

impl LocalGroups {
    /// Whether this node answers for the group now.
    pub(crate) fn serves(&self, group: GroupId) -> bool {
        self.runner.is_leader(group)
    }

    /// The other node that leads, as far as this one knows.
    pub(crate) fn hint(&self, group: GroupId) -> Option<NodeId> {
        self.runner.leader(group).filter(|leader| *leader != self.node)
    }

    /// The time of what is proposed or read now. None when this node doesn't serve the group.
    pub(crate) fn stamp(&self, group: GroupId) -> Option<Stamp> {
        let leadership = *self.runner.leadership(group)?.borrow();
        if !leadership.serving {
            return None;
        }
        self.lines.stamp(group, leadership.term, || self.ground(group))
    }

    fn ground(&self, group: GroupId) -> Ground {
        let ground = match group.shard() {
            Some(_) => self.runner.with_machine(group, |machine: &ShardMachine| Ground {
                anchor: machine.anchor(),
                empty: !machine.holds_anything(),
            }),
            None => self.runner.with_machine(group, |machine: &ControlMachine| Ground {
                anchor: machine.anchor(),
                empty: false,
            }),
        };
        ground.unwrap_or(Ground { anchor: None, empty: false })
    }

    /// Proposes an entry, whose answer is an `A`, and gives it up early when the replica loses its lease: it may be committed
    /// nevertheless.
    pub(crate) async fn propose<A: Any>(
        &self,
        group: GroupId,
        entry: Bytes,
        deadline: Instant,
    ) -> Result<A, AttemptError> {
        let deadline = deadline.min(Instant::now() + APPLIED_MAX);
        let mut proposal = pin!(self.runner.propose(group, entry, deadline));
        loop {
            tokio::select! {
                outcome = &mut proposal => {
                    let answer = outcome?.downcast();
                    return Ok(*answer.expect("the group's machine answers so"));
                }
                () = sleep(SERVES_EVERY) => {
                    if !self.serves(group) {
                        return Err(AttemptError::Unknown);
                    }
                }
            }
        }
    }
}
