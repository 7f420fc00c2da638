//! The one ask of a key that is under way.
//!
//! Invariant: sent again, it is the same ask under the same id, and a lease that it brings is counted from its *first*
//! sending, since the owner may have granted it then. When a lease from then would be over, the ask is given up for a new one.

use leasehold_model::{BootTime, Nanos, RequestId};

use super::sizing;
use crate::{LeaseAsk, edge_lifetime};

#[cfg_attr(test, derive(Hash))]
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) id: RequestId,
    pub(super) ask: LeaseAsk,
    /// When it was first sent.
    pub(super) sent: BootTime,
    tries: u32,
    resend_at: BootTime,
}

impl Flight {
    pub(super) fn new(id: RequestId, ask: LeaseAsk, now: BootTime, round_trip: Nanos) -> Self {
        Self { id, ask, sent: now, tries: 0, resend_at: sizing::resend_at(now, 0, round_trip) }
    }

    /// Whether a round trip can be told from its answer.
    pub(super) const fn was_sent_once(&self) -> bool {
        self.tries == 0
    }

    pub(super) fn is_due(&self, now: BootTime) -> bool {
        self.resend_at <= now
    }

    pub(super) fn is_stale(&self, now: BootTime) -> bool {
        self.stale_at() <= now
    }

    fn stale_at(&self) -> BootTime {
        BootTime(self.sent.0.saturating_add(edge_lifetime(self.ask.lifetime).0))
    }

    /// Sent again now.
    pub(super) fn resent(&mut self, now: BootTime, round_trip: Nanos) {
        self.tries = self.tries.saturating_add(1);
        self.resend_at = sizing::resend_at(now, self.tries, round_trip);
    }

    /// The way it went is known to be broken: sent again at the next occasion.
    pub(super) fn hurry(&mut self, now: BootTime) {
        self.resend_at = self.resend_at.min(now);
    }

    pub(super) fn next_deadline(&self) -> BootTime {
        self.resend_at.min(self.stale_at())
    }
}
