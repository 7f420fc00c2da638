//! Calls to the leader of a group that another node leads, wherever it is now.
//!
//! Invariant: one hop. A node that is asked and doesn't lead answers so; it never asks on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::transport::{CallError, Kind, Refusal, Transport};
use leasehold_consensus::types::GroupId;
use leasehold_control::Control;
use leasehold_model::NodeId;
use leasehold_wire::peer::Answered;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::attempt::AttemptError;
use crate::counts::Meters;
use crate::local_groups::LocalGroups;
use crate::route::{Asked, Route};

/// Who leads a group, by word of other nodes.
pub type Hint = Arc<dyn Fn(GroupId) -> Option<NodeId> + Send + Sync>;

/// See the module.
pub(crate) struct LeaderClient {
    pub(crate) local: Arc<LocalGroups>,
    pub(crate) transport: Transport,
    pub(crate) control: watch::Receiver<Arc<Control>>,
    pub(crate) hint: Hint,
    pub(crate) routes: Mutex<BTreeMap<GroupId, Route>>,
    pub(crate) meters: Arc<Meters>,
}

impl fmt::Debug for LeaderClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderClient").field("local", &self.local).finish_non_exhaustive()
    }
}

impl LeaderClient {
    /// Asks the node that most probably leads, and notes what comes of it.
    pub(crate) async fn ask<T>(
        &self,
        kind: Kind,
        group: GroupId,
        payload: Bytes,
        deadline: Instant,
        read: impl FnOnce(Bytes) -> Option<Answered<T>>,
    ) -> Result<T, AttemptError> {
        let now = Instant::now();
        let Some(node) = self.pick(group, now) else { return Err(AttemptError::NotLeader) };
        if group.shard().is_some() && self.is_far(node) {
            Meters::count(&self.meters.far);
        }
        let patience = self.routes.lock().entry(group).or_default().patience(node);
        let within = patience.min(deadline.saturating_duration_since(now));
        let called = self.transport.call(node, kind, group, payload, within).await;
        let (asked, outcome) = match called {
            Ok(answer) => judge(read(answer), now.elapsed()),
            Err(error) => judge_error(error, (within < patience).then_some(now)),
        };
        if let Some(asked) = asked {
            self.routes.lock().entry(group).or_default().note(node, asked, Instant::now());
        }
        outcome
    }

    /// The other node that leads most probably: as the replica here knows, or by the last answer, or by word of others.
    pub(crate) fn known(&self, group: GroupId) -> Option<NodeId> {
        let last = || self.routes.lock().get(&group).and_then(Route::last);
        self.local.hint(group).or_else(last).or_else(|| (self.hint)(group))
    }

    /// Whether there is anybody to ask now.
    pub(crate) fn anybody(&self, group: GroupId) -> bool {
        self.pick(group, Instant::now()).is_some()
    }

    /// In this order: the leader that the replica here knows of, the one that answered last, the one that gossip names, the
    /// one that the map wants, and whoever else may lead. Who has no control state yet knows its connections.
    fn pick(&self, group: GroupId, now: Instant) -> Option<NodeId> {
        let me = self.local.node;
        let first = self.local.hint(group);
        let control = Arc::clone(&self.control.borrow());
        let mapped = group.shard().and_then(|shard| control.map().shards.get(usize::try_from(shard.0).ok()?));
        let named = (self.hint)(group).into_iter().chain(mapped.and_then(|mapped| mapped.leader));
        let others: Vec<NodeId> = match group.shard() {
            Some(_) => mapped.map(|mapped| mapped.replicas.clone()).unwrap_or_default(),
            None => control.nodes().keys().copied().chain(self.connected()).collect(),
        };
        let others = named.chain(others).filter(|node| *node != me);
        self.routes.lock().entry(group).or_default().pick(first, others, now)
    }

    /// Whether a node is in another region than this one. Where regions aren't named, none is.
    fn is_far(&self, node: NodeId) -> bool {
        let control = self.control.borrow();
        let region = |node| control.nodes().get(&node).map(|record| &record.region);
        region(node) != region(self.local.node)
    }

    fn connected(&self) -> impl Iterator<Item = NodeId> {
        self.transport.peers().into_iter().filter(|(_, up)| *up).map(|(node, _)| node)
    }
}

/// What an answer says of the one who gave it.
fn judge<T>(answered: Option<Answered<T>>, took: Duration) -> (Option<Asked>, Result<T, AttemptError>) {
    match answered {
        Some(Answered::Reply(reply)) => (Some(Asked::Answered { took: Some(took) }), Ok(reply)),
        Some(Answered::Overloaded) => (Some(Asked::Answered { took: None }), Err(AttemptError::Overloaded)),
        Some(Answered::NotLeader { hint }) => (Some(Asked::Elsewhere { hint }), Err(AttemptError::NotLeader)),
        Some(Answered::Unknown { hint }) => (Some(Asked::Elsewhere { hint }), Err(AttemptError::Unknown)),
        // It speaks another version of the messages.
        None => (Some(Asked::Silent), Err(AttemptError::Unknown)),
    }
}

/// What a call without an answer says; `hurried` is when it was made, if its own deadline cut it short.
fn judge_error<T>(error: CallError, hurried: Option<Instant>) -> (Option<Asked>, Result<T, AttemptError>) {
    let asked = match error {
        CallError::Overloaded | CallError::Refused(Refusal::Busy) => {
            return (None, Err(AttemptError::Overloaded));
        }
        CallError::TooLarge => {
            tracing::error!("a message to a group's leader is too long");
            return (None, Err(AttemptError::Overloaded));
        }
        CallError::UnknownPeer | CallError::Unreachable | CallError::Lost => Some(Asked::Unreachable),
        CallError::Refused(Refusal::NotServed) => Some(Asked::Elsewhere { hint: None }),
        CallError::Deadline => Some(hurried.map_or(Asked::Silent, |since| Asked::Late { since })),
        CallError::Refused(Refusal::Failed | Refusal::NotAllowed | Refusal::Malformed) => Some(Asked::Silent),
    };
    (asked, Err(if error.unsent() { AttemptError::NotLeader } else { AttemptError::Unknown }))
}
