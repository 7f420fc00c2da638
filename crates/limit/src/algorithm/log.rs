//! Sliding log: every admitted cost of the last period, so the limit holds in every span of one period, exactly.
//!
//! Invariant: stamps ascend, no entry is empty, and entries never outnumber the units admitted in a period. An entry
//! exactly one period old has left. A look passes over the entries that have left since the last charge, which drops
//! them, and, when it has to tell a wait, over those that must leave first.

use leasehold_model::{Nanos, Stamp};

use super::{Counting, Want};
use crate::{Decision, LogState, RetryAfter};

/// The numbers of one sliding log.
#[derive(Clone, Copy)]
pub(super) struct Log {
    pub(super) n: u64,
    pub(super) period: Nanos,
}

impl Log {
    fn expired(self, entry: Stamp, at: Stamp) -> bool {
        at.since(entry) >= self.period
    }

    /// Entries that still count at `at`, oldest first.
    fn live(self, state: &LogState, at: Stamp) -> impl Iterator<Item = (Stamp, u64)> {
        state.entries().iter().copied().skip_while(move |&(entry, _)| self.expired(entry, at))
    }

    /// Units that still count. Wider than a count, because a changed period may bring more than n together.
    fn used(self, state: &LogState, at: Stamp) -> u128 {
        match state.entries().back() {
            Some(&(youngest, _)) if !self.expired(youngest, at) => {
                let left = state.entries().iter().take_while(|&&(entry, _)| self.expired(entry, at));
                state.sum() - left.map(|&(_, units)| u128::from(units)).sum::<u128>()
            }
            Some(_) | None => 0,
        }
    }

    fn fits(self, used: u128, cost: u64) -> bool {
        used + u128::from(cost) <= u128::from(self.n)
    }

    /// Time until `cost` (at most n) units fit, when `used` count at `at` and the youngest of them may not be in `state`.
    fn until_fits(self, state: &LogState, at: Stamp, mut used: u128, cost: u64) -> Nanos {
        for (entry, units) in self.live(state, at) {
            if self.fits(used, cost) {
                break;
            }
            used -= u128::from(units);
            if self.fits(used, cost) {
                return self.left_of(entry, at);
            }
        }
        if self.fits(used, cost) { Nanos::ZERO } else { self.period }
    }

    /// Time until a live entry leaves.
    fn left_of(self, entry: Stamp, at: Stamp) -> Nanos {
        Nanos(self.period.0.saturating_sub(at.since(entry).0))
    }

    /// The stamp that holds: never before the youngest entry.
    fn now(state: &LogState, at: Stamp) -> Stamp {
        state.entries().back().map_or(at, |&(youngest, _)| youngest.max(at))
    }
}

impl Counting for Log {
    type State = LogState;

    fn cap(&self) -> u64 {
        self.n
    }

    fn decide(&self, state: &LogState, at: Stamp, want: Want) -> Decision {
        let at = Self::now(state, at);
        let used = self.used(state, at);
        let left = u64::try_from(u128::from(self.n).saturating_sub(used)).unwrap_or(u64::MAX);
        let grant = want.grant(left);
        let remaining = left - grant.units;
        let used_after = used + u128::from(grant.units);
        let next_unit_after = match (remaining, self.n) {
            (0, 0) => Nanos::MAX,
            (0, _) => self.until_fits(state, at, used_after, 1),
            (_, _) => Nanos::ZERO,
        };
        let reset_after = match state.entries().back() {
            _ if grant.units > 0 => self.period,
            Some(&(youngest, _)) if used > 0 => self.left_of(youngest, at),
            Some(_) | None => Nanos::ZERO,
        };
        Decision {
            allowed: grant.allowed,
            granted: grant.units,
            remaining,
            retry_after: grant.retry(self.n, || RetryAfter::In(self.until_fits(state, at, used, want.least))),
            reset_after,
            next_unit_after,
            wait: None,
        }
    }

    fn charge(&self, state: &mut LogState, at: Stamp, cost: u64) {
        let at = Self::now(state, at);
        while state.entries().front().is_some_and(|&(oldest, _)| self.expired(oldest, at)) {
            state.drop_oldest();
        }
        state.add(at, cost);
    }

    /// Takes the units out of the entry that holds them, while it still counts.
    fn refund(&self, state: &mut LogState, at: Stamp, cost: u64, charged_at: Stamp) -> u64 {
        let at = Self::now(state, at);
        match state.entries().binary_search_by_key(&charged_at, |&(entry, _)| entry) {
            Ok(index) if !self.expired(charged_at, at) => state.take(index, cost),
            Ok(_) | Err(_) => 0,
        }
    }

    fn in_use(&self, state: &LogState, at: Stamp) -> (u64, Stamp) {
        let at = Self::now(state, at);
        (u64::try_from(self.used(state, at)).unwrap_or(u64::MAX), at)
    }

    fn holding(&self, units: u64, at: Stamp) -> LogState {
        (units > 0).then_some((at, units)).into_iter().collect()
    }

    fn fresh_at(&self, state: &LogState) -> Stamp {
        state.entries().back().map_or(Stamp::ZERO, |&(youngest, _)| youngest.after(self.period))
    }
}
