//! Sliding log: every admitted cost of the last period, so the limit holds in every span of one period, exactly.
//!
//! Invariant: stamps ascend, no entry is empty, and entries never outnumber the units admitted in a period. An entry
//! exactly one period old has left. A look passes over the entries that have left since the last charge, which drops
//! them, and, when it has to tell a wait, over those that must leave first.
//!
//! What is out on leases stands beside the log: entries + out ≤ n. It enters when it is reported as spent, which is never
//! before it was, or when its lease ends.

use leasehold_model::{Nanos, Stamp};

use super::{Counting, Want};
use crate::{Decision, LogState, Out, RetryAfter};

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

    /// Time until `cost` (at most n) units fit, when `used` count at `at`: those in `state`, those out, which enter as
    /// their leases end, and `taken` just now.
    fn until_fits(
        self,
        state: &LogState,
        at: Stamp,
        used: u128,
        cost: u64,
        (taken, out): (u64, Out<'_>),
    ) -> Nanos {
        if self.fits(used, cost) {
            return Nanos::ZERO;
        }
        let entering = out.due().iter().map(|due| (due.at.max(at), due.units));
        let mut left = used;
        for (entry, units) in self.live(state, at).chain([(at, taken)]).chain(entering) {
            left = left.saturating_sub(u128::from(units));
            if self.fits(left, cost) {
                return self.left_of(entry, at);
            }
        }
        self.period
    }

    /// Time until an entry leaves that is live or will be.
    fn left_of(self, entry: Stamp, at: Stamp) -> Nanos {
        Nanos(self.period.0.saturating_sub(at.since(entry).0).saturating_add(entry.since(at).0))
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

    fn decide(&self, state: &LogState, at: Stamp, want: Want, out: Out<'_>) -> Decision {
        let at = Self::now(state, at);
        let used = self.used(state, at) + u128::from(out.units());
        let left = u64::try_from(u128::from(self.n).saturating_sub(used)).unwrap_or(u64::MAX);
        let grant = want.grant(left);
        let remaining = left - grant.units;
        let used_after = used + u128::from(grant.units);
        let next_unit_after = match (remaining, self.n) {
            (0, 0) => Nanos::MAX,
            (0, _) => self.until_fits(state, at, used_after, 1, (grant.units, out)),
            (_, _) => Nanos::ZERO,
        };
        let last_entry = match state.entries().back() {
            _ if grant.units > 0 => Some(at),
            Some(&(youngest, _)) if !self.expired(youngest, at) => Some(youngest),
            Some(_) | None => None,
        };
        Decision {
            allowed: grant.allowed,
            granted: grant.units,
            remaining,
            retry_after: grant
                .retry(self.n, || RetryAfter::In(self.until_fits(state, at, used, want.least, (0, out)))),
            reset_after: out.last().or(last_entry).map_or(Nanos::ZERO, |last| self.left_of(last, at)),
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
    fn refund(&self, state: &mut LogState, at: Stamp, cost: u64, charged_at: Stamp, _out: u64) -> u64 {
        let at = Self::now(state, at);
        match state.entries().binary_search_by_key(&charged_at, |&(entry, _)| entry) {
            Ok(index) if !self.expired(charged_at, at) => state.take(index, cost),
            Ok(_) | Err(_) => 0,
        }
    }

    fn in_use(&self, state: &LogState, at: Stamp, out: u64) -> (u64, Stamp) {
        let at = Self::now(state, at);
        (u64::try_from(self.used(state, at) + u128::from(out)).unwrap_or(u64::MAX), at)
    }

    fn holding(&self, units: u64, at: Stamp, out: u64) -> LogState {
        let entered = units.saturating_sub(out);
        (entered > 0).then_some((at, entered)).into_iter().collect()
    }

    fn settle(&self, _state: &mut LogState, _at: Stamp, _out: u64) {}

    fn lend(&self, _state: &mut LogState, _at: Stamp, _units: u64) {}

    fn spent(&self, state: &mut LogState, at: Stamp, units: u64, _out: u64) {
        self.charge(state, at, units);
    }

    fn returned(&self, _state: &mut LogState, _at: Stamp, _units: u64, _granted_at: Stamp, _out: u64) {}

    fn fresh_at(&self, state: &LogState) -> Stamp {
        state.entries().back().map_or(Stamp::ZERO, |&(youngest, _)| youngest.after(self.period))
    }
}
