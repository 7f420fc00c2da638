//! Sliding counter: an estimate from two neighbouring epoch-aligned windows.
//!
//! The estimate is `previous · (period − elapsed)/period + current`; what counts is its floor. It never rises by itself,
//! so the first nanosecond at which a cost fits is well defined. Two numbers a key; not exact like the sliding log.
//!
//! A lease is charged to the current window and ends in it. So at any moment no more was spent in a window than is charged
//! to it, and since the older window's weight only falls, the estimate of what was spent never passes what it was at the
//! last grant. What other numbers lent may reach further: it counts in every window that it may be spent in.

use leasehold_model::{Nanos, Stamp};

use super::parts::div_ceil;
use super::{Counting, Want};
use crate::{CounterState, Decision, Out, RetryAfter};

/// The numbers of one sliding counter.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    pub(super) n: u64,
    pub(super) period: u64,
}

/// Both counts as the window of one stamp sees them.
#[derive(Clone, Copy)]
struct View {
    state: CounterState,
    /// Nanoseconds of the window that have passed; below the period.
    elapsed: u64,
}

impl Counter {
    fn view(self, state: &CounterState, at: Stamp) -> View {
        let at = at.0.max(state.window.saturating_mul(self.period));
        let window = at / self.period;
        let (previous, current) = match window - state.window.min(window) {
            0 => (state.previous, state.current),
            1 => (state.current, 0),
            _ => (0, 0),
        };
        View { state: CounterState { window, previous, current }, elapsed: at % self.period }
    }

    /// As [`view`](Self::view), with what is out counted in every window that has begun since it was last settled.
    fn view_beside(self, state: &CounterState, at: Stamp, out: u64) -> View {
        let mut view = self.view(state, at);
        if view.state.window.saturating_sub(state.window) > 1 {
            view.state.previous = out;
        }
        view.state.current = view.state.current.max(out);
        view
    }

    /// previous · (period − elapsed): the older window's weight, times the period.
    fn weighted(self, view: View) -> u128 {
        u128::from(view.state.previous) * u128::from(self.period - view.elapsed)
    }

    /// What counts: the estimate's floor.
    fn used(self, view: View) -> u128 {
        self.weighted(view) / u128::from(self.period) + u128::from(view.state.current)
    }

    fn left(self, used: u128) -> u64 {
        u64::try_from(u128::from(self.n).saturating_sub(used)).unwrap_or(u64::MAX)
    }

    /// Time until the estimate is below `n − cost + 1`, for a cost of at most n that doesn't fit now.
    fn until_fits(self, view: View, cost: u64) -> Nanos {
        let below = self.n - cost + 1;
        let CounterState { previous, current, .. } = view.state;
        let to_next = self.period - view.elapsed;
        if let Some(elapsed) = self.first_below(previous, current, below) {
            return Nanos(elapsed.saturating_sub(view.elapsed));
        }
        match self.first_below(current, 0, below) {
            Some(elapsed) => Nanos(to_next.saturating_add(elapsed)),
            None => Nanos(to_next.saturating_add(self.period)),
        }
    }

    /// How far into a window with these counts the estimate first is below `below`; `None` when not inside it.
    fn first_below(self, previous: u64, current: u64, below: u64) -> Option<u64> {
        let room = below.checked_sub(current).filter(|&room| room > 0)?;
        let Some(excess) = previous.checked_sub(room) else { return Some(0) };
        // previous · (period − elapsed) < room · period  ⇔  elapsed > excess · period / previous
        let elapsed = u128::from(excess) * u128::from(self.period) / u128::from(previous) + 1;
        u64::try_from(elapsed).ok().filter(|&elapsed| elapsed < self.period)
    }

    /// Time until nothing that reaches into the next window can weigh any more; zero when nothing does.
    fn until_over(self, view: View, at: Stamp, out: Out<'_>) -> Nanos {
        let next = at.after(Nanos(self.period - view.elapsed));
        let Some(last) = out.last().filter(|&last| last >= next) else { return Nanos::ZERO };
        let over = (last.0 / self.period).saturating_add(2).saturating_mul(self.period);
        Stamp(over).since(at)
    }

    /// Time until neither count weighs anything.
    fn until_fresh(self, view: View) -> Nanos {
        let to_next = self.period - view.elapsed;
        match (view.state.previous, view.state.current) {
            (0, 0) => Nanos::ZERO,
            (_, 0) => Nanos(to_next),
            (_, _) => Nanos(to_next.saturating_add(self.period)),
        }
    }
}

impl View {
    fn with(mut self, units: u64) -> Self {
        self.state.current = self.state.current.saturating_add(units);
        self
    }
}

impl Counting for Counter {
    type State = CounterState;

    fn cap(&self) -> u64 {
        self.n
    }

    fn decide(&self, state: &CounterState, at: Stamp, want: Want, out: Out<'_>) -> Decision {
        let view = self.view_beside(state, at, out.units());
        let at = at.max(Stamp(state.window.saturating_mul(self.period)));
        let left = self.left(self.used(view));
        let grant = want.grant(left);
        let after = view.with(grant.units);
        let remaining = left - grant.units;
        let next_unit_after = match (remaining, self.n) {
            (0, 0) => Nanos::MAX,
            (0, _) => self.until_fits(after, 1).max(self.until_over(view, at, out)),
            (_, _) => Nanos::ZERO,
        };
        let wait = || self.until_fits(view, want.least).max(self.until_over(view, at, out));
        Decision {
            allowed: grant.allowed,
            granted: grant.units,
            remaining,
            retry_after: grant.retry(self.n, || RetryAfter::In(wait())),
            reset_after: self.until_fresh(after).max(self.until_over(view, at, out)),
            next_unit_after,
            wait: None,
        }
    }

    fn charge(&self, state: &mut CounterState, at: Stamp, cost: u64) {
        *state = self.view(state, at).with(cost).state;
    }

    /// Lowers the count of the window that was charged, while it still weighs.
    fn refund(&self, state: &mut CounterState, at: Stamp, cost: u64, charged_at: Stamp, out: u64) -> u64 {
        let mut now = self.view_beside(state, at, out).state;
        let (count, kept) = match now.window.checked_sub(charged_at.0 / self.period) {
            Some(0) => (&mut now.current, out),
            Some(1) => (&mut now.previous, 0),
            Some(_) | None => return 0,
        };
        let credit = cost.min(*count - kept);
        *count -= credit;
        *state = now;
        credit
    }

    fn lease_max(&self, at: Stamp) -> Option<Nanos> {
        Some(Nanos(self.period - 1 - at.0 % self.period))
    }

    fn settle(&self, state: &mut CounterState, at: Stamp, out: u64) {
        *state = self.view_beside(state, at, out).state;
    }

    fn in_use(&self, state: &CounterState, at: Stamp, out: u64) -> (u64, Stamp) {
        let view = self.view_beside(state, at, out);
        let units = div_ceil(self.weighted(view), self.period).saturating_add(view.state.current);
        (units, at.max(Stamp(state.window.saturating_mul(self.period))))
    }

    fn holding(&self, units: u64, at: Stamp, _out: u64) -> CounterState {
        CounterState { window: at.0 / self.period, previous: 0, current: units }
    }

    fn fresh_at(&self, state: &CounterState) -> Stamp {
        let start = Stamp(state.window.saturating_mul(self.period));
        match (state.previous, state.current) {
            (0, 0) => Stamp::ZERO,
            (_, 0) => start.after(Nanos(self.period)),
            (_, _) => start.after(Nanos(self.period)).after(Nanos(self.period)),
        }
    }
}
