//! Shaper: a queue that lets one unit depart every period/n.
//!
//! A request's turn is the departure of its first unit; it takes as many slots as it has units. A unit whose departure
//! has come waits no more. Invariant: at most `queue` units wait, so the next free slot is at most `queue + 1` slots
//! ahead. What it isn't: a scheduler; the caller waits out the `wait` it was given.
//!
//! A shaper lends nothing: a unit's turn is told to who asks. What other numbers lent before counts as queued.

use leasehold_model::{Nanos, Stamp};

use super::parts::{Rate, rescale_ceil};
use super::{Counting, Want};
use crate::{Decision, Out, QueueState, RetryAfter};

/// The numbers of one shaper. A slot is `period` parts, as a unit is in a bucket.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) rate: Rate,
    pub(super) queue: u64,
}

impl Queue {
    /// Parts until the next free slot, and the stamp they count from.
    fn ahead(self, state: &QueueState, at: Stamp, out: u64) -> (u128, Stamp) {
        (self.rate.drained(state.ahead, at.since(state.at)).max(self.rate.parts(out)), at.max(state.at))
    }

    /// Units whose departure is still to come: the slots ahead, less the one in which the last of them departs. That is
    /// ⌈ahead / slot⌉ − 1, in the form that doesn't pass 2^64 on the way.
    fn waiting(self, ahead: u128) -> u64 {
        self.rate.units_floor(ahead.saturating_sub(1))
    }

    /// The furthest that the free slot may be for `cost` (at most `queue`) more units to find a place.
    fn room_for(self, cost: u64) -> u128 {
        self.rate.parts(self.queue - cost) + u128::from(self.rate.period)
    }

    fn until(self, target: u128, ahead: u128, at: Stamp, out: Out<'_>) -> Nanos {
        self.rate.time_to_reach(target, (ahead, self.room_for(0)), at, out)
    }

    fn until_fits(self, ahead: u128, cost: u64, at: Stamp, out: Out<'_>) -> Nanos {
        self.until(self.room_for(cost), ahead, at, out)
    }

    /// What is ahead, clipped to a full queue or to what is out beyond it.
    fn clipped(self, ahead: u128, out: u64) -> u128 {
        let out = self.rate.parts(out);
        ahead.min(self.room_for(0).max(out)).max(out)
    }

    /// Takes over a queue that `old` numbers kept. Departures that were promised stay, so the *time* of the free slot is
    /// kept (rounded up); it is clipped to a full queue of the new limit, or a mistaken slow rule would bind for hours.
    pub(super) fn change(self, old: Self, state: &mut QueueState, at: Stamp, out: u64) {
        let (ahead, at) = old.ahead(state, at, out);
        let ahead = rescale_ceil(ahead, old.rate.n, self.rate.n);
        *state = QueueState { ahead: self.clipped(ahead, out), at };
    }
}

impl Counting for Queue {
    type State = QueueState;

    fn cap(&self) -> u64 {
        self.queue
    }

    fn decide(&self, state: &QueueState, at: Stamp, want: Want, out: Out<'_>) -> Decision {
        let (ahead, at) = self.ahead(state, at, out.units());
        let left = self.queue.saturating_sub(self.waiting(ahead));
        let grant = want.grant(left);
        let ahead_after = ahead + self.rate.parts(grant.units);
        let remaining = self.queue.saturating_sub(self.waiting(ahead_after));
        Decision {
            allowed: grant.allowed,
            granted: grant.units,
            remaining,
            retry_after: grant
                .retry(self.queue, || RetryAfter::In(self.until_fits(ahead, want.least, at, out))),
            reset_after: self.until(0, ahead_after, at, out),
            next_unit_after: match remaining {
                0 => self.until_fits(ahead_after, 1, at, out),
                _ => Nanos::ZERO,
            },
            wait: grant.allowed.then(|| self.rate.time_to_drain(ahead)),
        }
    }

    fn charge(&self, state: &mut QueueState, at: Stamp, cost: u64) {
        let (ahead, at) = self.ahead(state, at, 0);
        let charged = ahead.saturating_add(self.rate.parts(cost));
        *state = QueueState { ahead: charged.min(self.room_for(0).max(ahead)), at };
    }

    /// A slot that was given away stays empty: the departures behind it were promised already.
    fn refund(&self, _: &mut QueueState, _at: Stamp, _cost: u64, _charged_at: Stamp, _out: u64) -> u64 {
        0
    }

    fn in_use(&self, state: &QueueState, at: Stamp, out: u64) -> (u64, Stamp) {
        let (ahead, at) = self.ahead(state, at, out);
        (self.rate.units_ceil(ahead), at)
    }

    fn holding(&self, units: u64, at: Stamp, out: u64) -> QueueState {
        QueueState { ahead: self.clipped(self.rate.parts(units), out), at }
    }

    fn settle(&self, state: &mut QueueState, at: Stamp, out: u64) {
        let (ahead, at) = self.ahead(state, at, out);
        *state = QueueState { ahead, at };
    }

    fn spent(&self, state: &mut QueueState, _at: Stamp, _units: u64, out: u64) {
        state.ahead = self.clipped(state.ahead, out);
    }

    fn fresh_at(&self, state: &QueueState) -> Stamp {
        match state.ahead {
            0 => Stamp::ZERO,
            ahead => state.at.after(self.rate.time_to_drain(ahead)),
        }
    }
}
