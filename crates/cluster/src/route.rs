//! Whom to ask for a group that this node doesn't lead.
//!
//! Invariant: only a wish: whoever is asked and doesn't lead says so. A node that was asked in vain is passed over for a
//! moment, so that every other candidate gets its turn and a silent one is not asked again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_model::NodeId;
use tokio::time::Instant;

/// A node that gave no answer is passed over for so long: about the time in which another is elected.
const SILENT_FOR: Duration = Duration::from_millis(600);
/// One that there is no connection with: connections are made again soon.
const UNREACHABLE_FOR: Duration = Duration::from_millis(50);
/// One that answered that it doesn't lead.
const FOLLOWS_FOR: Duration = Duration::from_millis(20);
/// How long an answer may take at first. A silent leader costs no more than this before another node is asked.
const PATIENCE_MIN: Duration = Duration::from_millis(400);
/// Times that the patience with a node doubles while no leader answers: one that is only slow isn't given up for ever.
const DOUBLINGS_MAX: u32 = 2;
const PATIENCE_MAX: Duration = PATIENCE_MIN.saturating_mul(1 << DOUBLINGS_MAX);
/// Who takes so many times as long as usual is silent. Under load leaders are slow, and to give them up would add to it: all
/// that they were asked would be asked again.
const USUAL_TIMES: u32 = 4;

/// What came of asking one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It leads, and answered.
    Answered {
        /// After so long; none when it only said that it has too much to do.
        took: Option<Duration>,
    },
    /// It doesn't lead, or can't tell what became of the ask.
    Elsewhere {
        /// Who leads, as far as it knows.
        hint: Option<NodeId>,
    },
    /// There is no connection, or it broke.
    Unreachable,
    /// No answer in time.
    Silent,
    /// No answer to a caller who couldn't wait for long.
    Late {
        /// When it asked.
        since: Instant,
    },
}

/// See the module. One for each group.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// Who leads by the last answer.
    last: Option<NodeId>,
    /// Passed over until then.
    avoided: BTreeMap<NodeId, Instant>,
    /// Silences of each since a leader answered.
    silences: BTreeMap<NodeId, u32>,
    /// Since when each has been late with every answer.
    late: BTreeMap<NodeId, Instant>,
    /// How long a leader's answers take, smoothed.
    usual: Duration,
}

impl Route {
    /// The first candidate that isn't passed over now; the one that leads by the last answer comes second.
    pub(crate) fn pick(
        &mut self,
        first: Option<NodeId>,
        others: impl IntoIterator<Item = NodeId>,
        now: Instant,
    ) -> Option<NodeId> {
        self.avoided.retain(|_, until| *until > now);
        let mut candidates = first.into_iter().chain(self.last).chain(others);
        candidates.find(|node| !self.avoided.contains_key(node))
    }

    /// Who leads by the last answer.
    pub(crate) const fn last(&self) -> Option<NodeId> {
        self.last
    }

    /// How long to wait for that node's answer now.
    pub(crate) fn patience(&self, node: NodeId) -> Duration {
        let silences = self.silences.get(&node).copied().unwrap_or(0);
        let doubled = PATIENCE_MIN * (1 << silences.min(DOUBLINGS_MAX));
        doubled.max((self.usual * USUAL_TIMES).min(PATIENCE_MAX))
    }

    /// Notes what came of asking `node`.
    pub(crate) fn note(&mut self, node: NodeId, asked: Asked, now: Instant) {
        let first_late = match asked {
            Asked::Late { since } => *self.late.entry(node).or_insert(since),
            Asked::Answered { .. } | Asked::Elsewhere { .. } | Asked::Unreachable | Asked::Silent => {
                self.late.remove(&node);
                now
            }
        };
        let until = match asked {
            Asked::Late { .. } if now - first_late < self.patience(node) => return,
            Asked::Answered { took } => {
                self.usual = took.map_or(self.usual, |took| self.usual - self.usual / 8 + took / 8);
                self.last = Some(node);
                self.silences.clear();
                self.avoided.remove(&node);
                return;
            }
            Asked::Elsewhere { hint } => {
                self.last = hint.filter(|hint| *hint != node);
                now + FOLLOWS_FOR
            }
            Asked::Unreachable => now + UNREACHABLE_FOR,
            Asked::Silent | Asked::Late { .. } => {
                // Of asks that were under way together one counts.
                if !self.avoided.contains_key(&node) {
                    *self.silences.entry(node).or_default() += 1;
                }
                now + SILENT_FOR
            }
        };
        let avoided = self.avoided.entry(node).or_insert(until);
        *avoided = until.max(*avoided);
    }
}

#[cfg(test)]
mod tests;
