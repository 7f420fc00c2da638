//! Units out on leases, beside what is decided, charged and refunded.
//!
//! Invariant (coupling): what a counter has left and what is out of it together never pass its capacity. Units that are
//! out count as used all the while and refill only once it is known that they were spent, or can't be any more; so an
//! interval admits no more than it would without leases, whatever edges do and whenever they say so.
//!
//! Order matters in one way: a counter is settled with what was out until now before that changes. All methods here do.

use leasehold_model::{Nanos, Stamp};

use super::{Counting, Kind, Want, with};
use crate::{Algorithm, Ask, Decision, Limit, Out, State};

impl Limit {
    /// Whether units of it can be out on leases. A shaper's can't: it tells each unit its turn.
    #[must_use]
    pub const fn lends(&self) -> bool {
        match self.algorithm() {
            Algorithm::Shaper { .. } => false,
            Algorithm::TokenBucket { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::FixedWindow(_)
            | Algorithm::SlidingLog
            | Algorithm::SlidingCounter => true,
        }
    }

    /// The longest that the owner may count a lease granted at `at`: to the last stamp of the window. `None`: any length.
    #[must_use]
    pub fn lease_max(&self, at: Stamp) -> Option<Nanos> {
        match self.kind() {
            Kind::Window(windows) => windows.lease_max(at),
            Kind::Counter(counter) => counter.lease_max(at),
            Kind::Bucket(_) | Kind::Queue(_) | Kind::Log(_) => None,
        }
    }

    /// As [`Limit::decide`], beside what is out. Waits are told as if nothing will be heard of it: by then each lease has
    /// ended, and is counted as spent from its end on.
    #[must_use]
    pub fn decide_beside(&self, state: &State, at: Stamp, ask: Ask, out: Out<'_>) -> Decision {
        with!(self, state, |algorithm, own| algorithm.decide(own, at, Want::of(ask), out))
    }

    /// Brings `state` to `at`, when `out` units were out all the time since it was settled last.
    pub fn settle(&self, state: &mut State, at: Stamp, out: u64) {
        if out > 0 {
            with!(self, state, |algorithm, own| algorithm.settle(own, at, out));
        }
    }

    /// As [`Limit::charge`], beside what is out: units that are spent at once.
    pub fn charge_beside(&self, state: &mut State, at: Stamp, cost: u64, out: u64) {
        self.settle(state, at, out);
        self.charge(state, at, cost);
    }

    /// Puts `units` that [`Limit::decide_beside`] said fit at `at` out on a lease, beside those that are out already.
    pub fn lend(&self, state: &mut State, at: Stamp, units: u64, out: u64) {
        self.settle(state, at, out);
        with!(self, state, |algorithm, own| algorithm.lend(own, at, units));
    }

    /// Of `out` units, some were spent: reported at `at`, or of a lease that ended then. (Of that nobody knows what was
    /// spent, so all of it counts.)
    pub fn spent(&self, state: &mut State, at: Stamp, units: u64, out: u64) {
        self.settle(state, at, out);
        let rest = out.saturating_sub(units);
        with!(self, state, |algorithm, own| algorithm.spent(own, at, units, rest));
    }

    /// Of `out` units, some of a lease granted at `granted_at` come back unspent at `at`.
    pub fn returned(&self, state: &mut State, at: Stamp, units: u64, granted_at: Stamp, out: u64) {
        self.settle(state, at, out);
        let rest = out.saturating_sub(units);
        with!(self, state, |algorithm, own| algorithm.returned(own, at, units, granted_at, rest));
    }

    /// As [`Limit::refund`], beside what is out: never lowers what is used below that.
    pub fn refund_beside(
        &self,
        state: &mut State,
        at: Stamp,
        cost: u64,
        charged_at: Stamp,
        out: Out<'_>,
    ) -> u64 {
        with!(self, state, |algorithm, own| algorithm.refund(own, at, cost, charged_at, out.units()))
    }

    /// A counter at `at` of which nothing is used but what is out.
    #[must_use]
    pub fn fresh_beside(&self, at: Stamp, out: Out<'_>) -> State {
        match out.units() {
            0 => self.fresh(),
            units => self.holding(units, at, units),
        }
    }

    /// As [`Limit::carry_over`], beside what is out, all of which stays out and counted whatever counted it before.
    pub fn carry_over_beside(&self, old: &Self, state: &mut State, at: Stamp, out: Out<'_>) {
        let out = out.units();
        old.settle(state, at, out);
        match (self.kind(), old.kind(), &mut *state) {
            (Kind::Bucket(new), Kind::Bucket(old), State::Bucket(own)) => new.change(old, own, at, out),
            (Kind::Queue(new), Kind::Queue(old), State::Queue(own)) => new.change(old, own, at, out),
            (Kind::Window(new), Kind::Window(old), State::Window(own)) => new.change(&old, own, at),
            // Entries carry their own stamps: any period can read them.
            (Kind::Log(_), Kind::Log(_), State::Log(_)) => {}
            (Kind::Counter(new), Kind::Counter(old), State::Counter(_)) if new.period == old.period => {}
            (_, _, state) => {
                let (units, at) = with!(old, &*state, |algorithm, own| algorithm.in_use(own, at, out));
                *state = self.holding(units, at, out);
            }
        }
        self.settle(state, at, out);
    }
}
