//! Token bucket and leaky bucket: one algorithm, told by what is used.
//!
//! A token bucket holds `burst − used` tokens and refills; a leaky bucket's level *is* `used` and drains. Refilling at
//! n/period up to `burst` and draining at n/period down to 0 are the same motion, so one state and one set of functions
//! serve both, and they can't disagree. Invariant: 0 ≤ used ≤ burst.

use leasehold_model::{Nanos, Stamp};

use super::parts::{Rate, rescale_ceil};
use super::{Counting, Want};
use crate::{BucketState, Decision, RetryAfter};

/// The numbers of one bucket, of either name.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub(super) rate: Rate,
    pub(super) burst: u64,
}

impl Bucket {
    /// Parts used at `at` (a token bucket's missing tokens, a leaky bucket's level), and the stamp they hold at.
    fn used(self, state: &BucketState, at: Stamp) -> (u128, Stamp) {
        (self.rate.drained(state.used, at.since(state.at)), at.max(state.at))
    }

    fn capacity(self) -> u128 {
        self.rate.parts(self.burst)
    }

    /// Time until `cost` (at most `burst`) units fit beside `used` parts.
    fn until_fits(self, used: u128, cost: u64) -> Nanos {
        self.rate.time_to_drain(used.saturating_sub(self.rate.parts(self.burst - cost)))
    }

    /// Takes over a state that `old` numbers kept: what is used stays used, clipped to the new burst. A begun part is
    /// counted whole, so a change of period can't mint.
    pub(super) fn change(self, old: Self, state: &mut BucketState, at: Stamp) {
        let (used, at) = old.used(state, at);
        let used = rescale_ceil(used, old.rate.period, self.rate.period);
        *state = BucketState { used: used.min(self.capacity()), at };
    }
}

impl Counting for Bucket {
    type State = BucketState;

    fn cap(&self) -> u64 {
        self.burst
    }

    fn decide(&self, state: &BucketState, at: Stamp, want: Want) -> Decision {
        let (used, _) = self.used(state, at);
        let left = self.rate.units_floor(self.capacity().saturating_sub(used));
        let grant = want.grant(left);
        let used_after = used + self.rate.parts(grant.units);
        let remaining = left - grant.units;
        Decision {
            allowed: grant.allowed,
            granted: grant.units,
            remaining,
            retry_after: grant.retry(self.burst, || RetryAfter::In(self.until_fits(used, want.least))),
            reset_after: self.rate.time_to_drain(used_after),
            next_unit_after: if remaining > 0 { Nanos::ZERO } else { self.until_fits(used_after, 1) },
            wait: None,
        }
    }

    fn charge(&self, state: &mut BucketState, at: Stamp, cost: u64) {
        let (used, at) = self.used(state, at);
        *state = BucketState { used: used.saturating_add(self.rate.parts(cost)).min(self.capacity()), at };
    }

    /// Credits what hasn't been refilled since the charge. Without the charge at least that much more would be there
    /// now: the difference it made can shrink by refilling only, and refilling takes n parts a nanosecond at most.
    fn refund(&self, state: &mut BucketState, at: Stamp, cost: u64, charged_at: Stamp) -> u64 {
        let (used, at) = self.used(state, at);
        let credit = self.rate.drained(self.rate.parts(cost), at.since(charged_at)).min(used);
        *state = BucketState { used: used - credit, at };
        self.rate.units_floor(credit)
    }

    fn in_use(&self, state: &BucketState, at: Stamp) -> (u64, Stamp) {
        let (used, at) = self.used(state, at);
        (self.rate.units_ceil(used), at)
    }

    fn holding(&self, units: u64, at: Stamp) -> BucketState {
        BucketState { used: self.rate.parts(units.min(self.burst)), at }
    }

    fn fresh_at(&self, state: &BucketState) -> Stamp {
        match state.used {
            0 => Stamp::ZERO,
            used => state.at.after(self.rate.time_to_drain(used)),
        }
    }
}
