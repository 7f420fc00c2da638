//! What the planner remembers from one pass to the next: who was heard when, and whether there is anything to look at.
//!
//! Invariant: all of it may be lost; a pass that remembers nothing only looks more often.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_control::Control;
use leasehold_model::NodeId;
use leasehold_placement::Standing;
use tokio::time::Instant;

use super::Seen;
use crate::coordinator::Parts;

/// Where nothing is to be done, replicas are asked how they stand only so often.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What one term of planning remembers. All of it may be lost.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// When a node last showed any life; since the beginning of the term for those that never did.
    heard: BTreeMap<NodeId, Instant>,
    /// Who could be reached in the last pass.
    connected: BTreeSet<NodeId>,
    /// Who might hold replicas when leaders were last spread.
    pub(super) eligible: Option<BTreeSet<NodeId>>,
    /// When replicas were last asked how they stand.
    pub(super) looked: Option<Instant>,
    /// The control state of the last pass.
    pub(super) control: Option<Arc<Control>>,
    /// The last pass wanted something done.
    pub(super) busy: bool,
}

impl Memory {
    /// How every registered node is heard now.
    pub(super) fn see(&mut self, parts: &Parts, control: &Control, now: Instant) -> BTreeMap<NodeId, Seen> {
        let peers: BTreeMap<NodeId, bool> = parts.transport.peers().into_iter().collect();
        let members = (parts.members)();
        self.heard.retain(|node, _| control.nodes().contains_key(node));
        let see = |node: &NodeId| {
            let connected = *node == parts.node || peers.get(node) == Some(&true);
            let live = members.get(*node).is_some_and(leasehold_gossip::Member::is_live);
            let heard = self.heard.entry(*node).or_insert(now);
            if connected || live {
                *heard = now;
            }
            (*node, Seen { connected, silent: now.saturating_duration_since(*heard) })
        };
        control.nodes().keys().map(see).collect()
    }

    /// Whether replicas have to be asked how they stand: while things change, and every now and then.
    pub(super) fn look_is_due(
        &mut self,
        parts: &Parts,
        control: &Arc<Control>,
        seen: &BTreeMap<NodeId, Seen>,
        now: Instant,
    ) -> bool {
        let connected = seen.iter().filter(|(_, seen)| seen.connected).map(|(node, _)| *node).collect();
        let moved = std::mem::replace(&mut self.connected, connected) != self.connected;
        let changed = self.control.as_ref().is_none_or(|known| !Arc::ptr_eq(known, control));
        let lives =
            |node: &NodeId| control.nodes().get(node).is_some_and(|record| record.standing != Standing::Dead);
        let silent = seen.iter().any(|(node, seen)| seen.silent >= parts.replace_after && lives(node));
        let waited = self.looked.is_none_or(|at| now.saturating_duration_since(at) >= LOOK_EVERY);
        self.busy || moved || changed || silent || waited || !control.moves().is_empty()
    }
}
