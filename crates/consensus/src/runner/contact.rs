//! When a group's replicas last heard of each other.
//!
//! Invariant: a leader's lease is over before any voter that it counts on would vote for another, whatever is lost or
//! late: the leader counts from when it sent what was accepted, the voter from when it had accepted it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_model::{Nanos, Stamp};
use parking_lot::Mutex;

/// A leader's lease is shorter than its voters' by one part in so many: more than two clocks of one group drift apart.
const MARGIN_PARTS: u64 = 10;

/// A candidate gets so long, and the time that a message to the farthest voter and back takes, to win before anybody is told
/// that there is no leader: two at a time would undo each other.
pub(super) const CANDIDATE: Nanos = Nanos::from_millis(150);

/// A way there and back that takes longer counts as this: a peer that is stopped keeps nobody waiting.
pub(super) const ROUND_TRIP_MAX: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Debug)]
pub(super) struct Contact {
    lease: Nanos,
    /// Before this, nobody is voted for: what was promised before the restart isn't known any more.
    promised: Stamp,
    heard: AtomicU64,
    /// When this replica last voted, for itself or another.
    voted: AtomicU64,
    /// How often it agreed that a replica with a higher id be elected.
    yielded: AtomicU64,
    /// By follower: in which term it last accepted something, and when that was sent.
    accepted: Mutex<BTreeMap<u64, (u64, Stamp)>>,
}

impl Contact {
    /// `promised` is a lease after the start for a replica that may have heard a leader before it was restarted.
    pub(super) fn new(lease: Nanos, promised: Stamp) -> Self {
        Self {
            lease,
            promised,
            heard: AtomicU64::new(0),
            voted: AtomicU64::new(0),
            yielded: AtomicU64::new(0),
            accepted: Mutex::default(),
        }
    }

    /// How long a voter's promise lasts.
    pub(super) const fn lease(&self) -> Nanos {
        self.lease
    }

    /// This replica has accepted what a leader sent.
    pub(super) fn hear(&self, now: Stamp) {
        self.heard.fetch_max(now.0, Ordering::Relaxed);
    }

    /// When it last did; zero for never.
    pub(super) fn heard(&self) -> Stamp {
        Stamp(self.heard.load(Ordering::Relaxed))
    }

    /// This replica has voted, for itself or another.
    pub(super) fn vote(&self, now: Stamp) {
        self.voted.fetch_max(now.0, Ordering::Relaxed);
    }

    /// This replica has agreed that one with a higher id be elected.
    pub(super) fn yield_to(&self) {
        self.yielded.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes when a leader was heard or another was agreed to: what was asked before is out of date then.
    pub(super) fn mark(&self) -> (Stamp, u64) {
        (self.heard(), self.yielded.load(Ordering::Relaxed))
    }

    /// How long from now on this replica wants nobody to be elected: a leader has its promise, or a candidate, which gets
    /// `candidate` to win, its vote.
    pub(super) fn promised_for(&self, now: Stamp, candidate: Nanos) -> Nanos {
        let after = |at: Stamp, time| if at == Stamp::ZERO { at } else { at.after(time) };
        let voted = Stamp(self.voted.load(Ordering::Relaxed));
        after(self.heard(), self.lease).max(after(voted, candidate)).max(self.promised).since(now)
    }

    /// How long from now on this replica votes for nobody because it was restarted.
    pub(super) fn restarted_for(&self, now: Stamp) -> Nanos {
        self.promised.since(now)
    }

    /// A follower has accepted what was sent at `sent` in `term`.
    pub(super) fn accept(&self, follower: u64, term: u64, sent: Stamp) {
        let mut accepted = self.accepted.lock();
        let known = accepted.entry(follower).or_insert((term, sent));
        *known = (*known).max((term, sent));
    }

    /// Whether `me`, who leads in `term`, surely leads still: a majority of each voter set has promised so.
    pub(super) fn has_lease(&self, me: u64, term: u64, voter_sets: &[BTreeSet<u64>], now: Stamp) -> bool {
        let lease = Nanos(self.lease.0 - self.lease.0 / MARGIN_PARTS);
        let accepted = self.accepted.lock();
        let promises = |voter: &&u64| {
            **voter == me
                || accepted
                    .get(*voter)
                    .is_some_and(|(in_term, sent)| *in_term == term && now < sent.after(lease))
        };
        !voter_sets.is_empty()
            && voter_sets.iter().all(|voters| voters.iter().filter(promises).count() > voters.len() / 2)
    }
}

#[cfg(test)]
mod tests;
