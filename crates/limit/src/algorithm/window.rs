//! Fixed window: a count that starts anew where the next window begins.
//!
//! Invariant: a state's `start` lies in the window that it counts, so the window can always be found again from it.
//! A lease is charged to its window and ends in it. One that other numbers lent may reach into the next: what is out
//! counts in every window that it may be spent in.

use leasehold_model::{Nanos, Stamp};

use super::{Counting, Want, calendar};
use crate::{Decision, Out, RetryAfter, Window, WindowState};

/// The numbers of one fixed-window limit.
#[derive(Clone, Copy)]
pub(super) struct Windows<'l> {
    pub(super) window: &'l Window,
    pub(super) period: u64,
    pub(super) n: u64,
}

/// The window that a stamp lies in. Its end is told as a length, since it may lie past the last stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Its first stamp.
    pub(super) start: Stamp,
    /// Time from the stamp that was asked about to the next window; never zero.
    pub(super) left: Nanos,
}

impl Windows<'_> {
    fn bounds(&self, at: Stamp) -> Bounds {
        match self.window {
            Window::Epoch => {
                let elapsed = at.0 % self.period;
                Bounds { start: Stamp(at.0 - elapsed), left: Nanos(self.period - elapsed) }
            }
            Window::Calendar { unit, zone } => calendar::bounds(*unit, zone.tz(), at),
        }
    }

    /// Units counted in the window of `at`, and its bounds there.
    fn used(&self, state: &WindowState, at: Stamp, out: u64) -> (u64, Bounds) {
        let bounds = self.bounds(at.max(state.start));
        let count = if bounds.start == state.start { state.count } else { 0 };
        (count.max(out), bounds)
    }

    /// Time until the first window in which `cost` (at most n) units fit beside what is still out when it begins.
    fn until_fits(&self, at: Stamp, bounds: Bounds, cost: u64, out: Out<'_>) -> Nanos {
        let mut next = at.after(bounds.left);
        if out.units_at(next) <= self.n - cost {
            return bounds.left;
        }
        for due in out.due().iter().filter(|due| due.at >= at.after(bounds.left)) {
            if due.at < next {
                continue;
            }
            next = due.at.after(self.bounds(due.at).left);
            if out.units_at(next) <= self.n - cost {
                break;
            }
        }
        next.since(at)
    }

    /// Time until a window in which nothing is counted or out.
    fn until_fresh(&self, at: Stamp, bounds: Bounds, out: Out<'_>) -> Nanos {
        match out.last().filter(|&last| last >= at.after(bounds.left)) {
            Some(last) => last.after(self.bounds(last).left).since(at),
            None => bounds.left,
        }
    }

    /// What `want` gets beside `used` units of a window.
    fn answer(&self, (used, bounds): (u64, Bounds), at: Stamp, want: Want, out: Out<'_>) -> Decision {
        let left = self.n.saturating_sub(used);
        let grant = want.grant(left);
        let remaining = left - grant.units;
        let next_unit_after = match (remaining, self.n) {
            (0, 0) => Nanos::MAX,
            (0, _) => self.until_fits(at, bounds, 1, out),
            (_, _) => Nanos::ZERO,
        };
        Decision {
            allowed: grant.allowed,
            granted: grant.units,
            remaining,
            retry_after: grant.retry(self.n, || RetryAfter::In(self.until_fits(at, bounds, want.least, out))),
            reset_after: match used == 0 && grant.units == 0 {
                true => Nanos::ZERO,
                false => self.until_fresh(at, bounds, out),
            },
            next_unit_after,
            wait: None,
        }
    }

    /// Takes over a count that `old` windows kept: it stays if any of its window lies in the new one, since how much of
    /// it does is not known.
    pub(super) fn change(&self, old: &Self, state: &mut WindowState, at: Stamp) {
        if self.period == old.period && self.window == old.window {
            return;
        }
        let start = self.bounds(at.max(state.start)).start;
        let overlaps = old.bounds(state.start).left > start.since(state.start);
        *state = WindowState { start, count: if overlaps { state.count } else { 0 } };
    }
}

impl Counting for Windows<'_> {
    type State = WindowState;

    fn cap(&self) -> u64 {
        self.n
    }

    fn decide(&self, state: &WindowState, at: Stamp, want: Want, out: Out<'_>) -> Decision {
        self.answer(self.used(state, at, out.units()), at.max(state.start), want, out)
    }

    fn charge(&self, state: &mut WindowState, at: Stamp, cost: u64) {
        let (used, bounds) = self.used(state, at, 0);
        *state = WindowState { start: bounds.start, count: used.saturating_add(cost) };
    }

    /// Looks the window up once: in a zone that is most of the work.
    fn acquire(&self, state: &mut WindowState, at: Stamp, want: Want) -> Decision {
        let (used, bounds) = self.used(state, at, 0);
        let decision = self.answer((used, bounds), at.max(state.start), want, Out::NONE);
        if decision.granted > 0 {
            *state = WindowState { start: bounds.start, count: used + decision.granted };
        }
        decision
    }

    /// Credits the window that was charged, while it is the one being counted.
    fn refund(&self, state: &mut WindowState, at: Stamp, cost: u64, charged_at: Stamp, out: u64) -> u64 {
        let (used, bounds) = self.used(state, at, out);
        if self.bounds(charged_at).start != bounds.start {
            return 0;
        }
        let credit = cost.min(used - out);
        *state = WindowState { start: bounds.start, count: used - credit };
        credit
    }

    fn in_use(&self, state: &WindowState, at: Stamp, out: u64) -> (u64, Stamp) {
        (self.used(state, at, out).0, at.max(state.start))
    }

    fn lease_max(&self, at: Stamp) -> Option<Nanos> {
        Some(Nanos(self.bounds(at).left.0 - 1))
    }

    fn settle(&self, state: &mut WindowState, at: Stamp, out: u64) {
        let (count, bounds) = self.used(state, at, out);
        *state = WindowState { start: bounds.start, count };
    }

    fn holding(&self, units: u64, at: Stamp, _out: u64) -> WindowState {
        match units {
            0 => WindowState::default(),
            _ => WindowState { start: self.bounds(at).start, count: units },
        }
    }

    fn fresh_at(&self, state: &WindowState) -> Stamp {
        match state.count {
            0 => Stamp::ZERO,
            _ => state.start.after(self.bounds(state.start).left),
        }
    }
}
