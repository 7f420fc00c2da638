//! Token bucket and leaky bucket: one algorithm, told by what is used.
//!
//! A token bucket holds `burst − used` tokens and refills; a leaky bucket's level *is* `used` and drains. Refilling at
//! n/period up to `burst` and draining at n/period down to 0 are the same motion, so one state and one set of functions
//! serve both, and they can't disagree. Invariant: out ≤ used ≤ burst, where `out` is what leases hold: what they may
//! spend doesn't refill. (After a burst was lowered below it, used = out > burst, until the leases end.)

use leasehold_model::planted::{self, Bug};
use leasehold_model::{Nanos, Stamp};

use super::parts::{Rate, rescale_ceil};
use super::{Counting, Want};
use crate::{BucketState, Decision, Out, RetryAfter};

/// The numbers of one bucket, of either name.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub(super) rate: Rate,
    pub(super) burst: u64,
}

impl Bucket {
    /// Parts used at `at` (a token bucket's missing tokens, a leaky bucket's level), and the stamp they hold at.
    fn used(self, state: &BucketState, at: Stamp, out: u64) -> (u128, Stamp) {
        let out = if planted::is(Bug::UncoupledRefill) { 0 } else { out };
        (self.rate.drained(state.used, at.since(state.at)).max(self.rate.parts(out)), at.max(state.at))
    }

    fn capacity(self) -> u128 {
        self.rate.parts(self.burst)
    }

    /// Time until at most `target` of `used` parts are left.
    fn until(self, target: u128, used: u128, at: Stamp, out: Out<'_>) -> Nanos {
        self.rate.time_to_reach(target, (used, self.capacity()), at, out)
    }

    /// Time until `cost` (at most `burst`) units fit beside `used` parts.
    fn until_fits(self, used: u128, cost: u64, at: Stamp, out: Out<'_>) -> Nanos {
        self.until(self.rate.parts(self.burst - cost), used, at, out)
    }

    /// What is used, clipped to the burst or to what is out beyond it.
    fn clipped(self, used: u128, out: u64) -> u128 {
        let out = self.rate.parts(out);
        used.min(self.capacity().max(out)).max(out)
    }

    /// Takes over a state that `old` numbers kept: what is used stays used, clipped to the new burst. A begun part is
    /// counted whole, so a change of period can't mint.
    pub(super) fn change(self, old: Self, state: &mut BucketState, at: Stamp, out: u64) {
        let (used, at) = old.used(state, at, out);
        let used = rescale_ceil(used, old.rate.period, self.rate.period);
        *state = BucketState { used: self.clipped(used, out), at };
    }
}

impl Counting for Bucket {
    type State = BucketState;

    fn cap(&self) -> u64 {
        self.burst
    }

    fn decide(&self, state: &BucketState, at: Stamp, want: Want, out: Out<'_>) -> Decision {
        let (used, at) = self.used(state, at, out.units());
        let left = self.rate.units_floor(self.capacity().saturating_sub(used));
        let grant = want.grant(left);
        let used_after = used + self.rate.parts(grant.units);
        let remaining = left - grant.units;
        Decision {
            allowed: grant.allowed,
            granted: grant.units,
            remaining,
            retry_after: grant
                .retry(self.burst, || RetryAfter::In(self.until_fits(used, want.least, at, out))),
            reset_after: self.until(0, used_after, at, out),
            next_unit_after: match remaining {
                0 => self.until_fits(used_after, 1, at, out),
                _ => Nanos::ZERO,
            },
            wait: None,
        }
    }

    fn charge(&self, state: &mut BucketState, at: Stamp, cost: u64) {
        let (used, at) = self.used(state, at, 0);
        let charged = used.saturating_add(self.rate.parts(cost));
        *state = BucketState { used: charged.min(self.capacity().max(used)), at };
    }

    /// Credits what hasn't been refilled since the charge. Without the charge at least that much more would be there
    /// now: the difference it made can shrink by refilling only, and refilling takes n parts a nanosecond at most.
    fn refund(&self, state: &mut BucketState, at: Stamp, cost: u64, charged_at: Stamp, out: u64) -> u64 {
        let (used, at) = self.used(state, at, out);
        let most = used - self.rate.parts(out);
        let credit = self.rate.drained(self.rate.parts(cost), at.since(charged_at)).min(most);
        *state = BucketState { used: used - credit, at };
        self.rate.units_floor(credit)
    }

    fn in_use(&self, state: &BucketState, at: Stamp, out: u64) -> (u64, Stamp) {
        let (used, at) = self.used(state, at, out);
        (self.rate.units_ceil(used), at)
    }

    fn holding(&self, units: u64, at: Stamp, out: u64) -> BucketState {
        BucketState { used: self.clipped(self.rate.parts(units), out), at }
    }

    /// Drains, and stops at what is out.
    fn settle(&self, state: &mut BucketState, at: Stamp, out: u64) {
        let (used, at) = self.used(state, at, out);
        *state = BucketState { used, at };
    }

    /// From now on they drain like any other.
    fn spent(&self, state: &mut BucketState, _at: Stamp, _units: u64, out: u64) {
        state.used = self.clipped(state.used, out);
    }

    /// Credits all of it, however long it was out: nothing was refilled in its stead.
    fn returned(&self, state: &mut BucketState, _at: Stamp, units: u64, _granted_at: Stamp, out: u64) {
        state.used = self.clipped(state.used.saturating_sub(self.rate.parts(units)), out);
    }

    fn fresh_at(&self, state: &BucketState) -> Stamp {
        match state.used {
            0 => Stamp::ZERO,
            used => state.at.after(self.rate.time_to_drain(used)),
        }
    }
}
