//! The algorithms: each a handful of pure functions over its state; this file only picks among them.
//!
//! Invariant: every function is total. Any stamp and any cost get an answer; a stamp before the state's own counts as
//! the state's own, so time that runs backwards mints nothing.

mod bucket;
mod calendar;
mod counter;
mod lend;
mod log;
mod parts;
mod queue;
#[cfg(test)]
mod tests;
mod window;

use leasehold_model::{Nanos, Stamp};

use self::bucket::Bucket;
use self::counter::Counter;
use self::log::Log;
use self::parts::Rate;
use self::queue::Queue;
use self::window::Windows;
use crate::{Algorithm, Ask, Decision, Limit, Out, RetryAfter, State};

/// What every algorithm can do. Docs are on [`Limit`]'s methods of the same names; `out` is what leases hold.
trait Counting {
    type State;

    fn cap(&self) -> u64;
    fn decide(&self, state: &Self::State, at: Stamp, want: Want, out: Out<'_>) -> Decision;
    fn charge(&self, state: &mut Self::State, at: Stamp, cost: u64);
    fn acquire(&self, state: &mut Self::State, at: Stamp, want: Want) -> Decision {
        let decision = self.decide(state, at, want, Out::NONE);
        if decision.granted > 0 {
            self.charge(state, at, decision.granted);
        }
        decision
    }
    fn refund(&self, state: &mut Self::State, at: Stamp, cost: u64, charged_at: Stamp, out: u64) -> u64;
    fn fresh_at(&self, state: &Self::State) -> Stamp;
    /// Whole units in use, those that are out among them, rounded up, and the stamp they are so at: what another
    /// algorithm takes over.
    fn in_use(&self, state: &Self::State, at: Stamp, out: u64) -> (u64, Stamp);
    /// A state with that many units in use at `at`, those that are out among them, clipped where the state can't hold
    /// more than the limit.
    fn holding(&self, units: u64, at: Stamp, out: u64) -> Self::State;

    fn lease_max(&self, _at: Stamp) -> Option<Nanos> {
        None
    }
    /// Brings the state to `at`. What is out was so all the time since it was settled last.
    fn settle(&self, state: &mut Self::State, at: Stamp, out: u64);
    /// Puts units out, of a state that is settled at `at`.
    fn lend(&self, state: &mut Self::State, at: Stamp, units: u64) {
        self.charge(state, at, units);
    }
    /// Units that were out became spent, of a state that is settled at `at`; `out` are still out.
    fn spent(&self, _state: &mut Self::State, _at: Stamp, _units: u64, _out: u64) {}
    /// Units that were out came back, to a state that is settled at `at`; `out` are still out.
    fn returned(&self, state: &mut Self::State, at: Stamp, units: u64, granted_at: Stamp, out: u64) {
        self.refund(state, at, units, granted_at, out);
    }
}

/// An [`Ask`] put in order: 1 ≤ least ≤ most.
#[derive(Clone, Copy)]
struct Want {
    least: u64,
    most: u64,
    peek: bool,
}

/// What a [`Want`] gets of the units that are left.
#[derive(Clone, Copy)]
struct Grant {
    allowed: bool,
    units: u64,
    least: u64,
}

impl Want {
    fn of(ask: Ask) -> Self {
        let least = if ask.is_peek() { 1 } else { ask.min.max(1) };
        Self { least, most: ask.max.max(least), peek: ask.is_peek() }
    }

    fn grant(self, left: u64) -> Grant {
        let allowed = left >= self.least;
        let units = if allowed && !self.peek { self.most.min(left) } else { 0 };
        Grant { allowed, units, least: self.least }
    }
}

impl Grant {
    /// `wait` is only asked when the least that is wanted is refused now and could fit later.
    fn retry(self, cap: u64, wait: impl FnOnce() -> RetryAfter) -> Option<RetryAfter> {
        if self.allowed {
            None
        } else if self.least > cap {
            Some(RetryAfter::Never)
        } else {
            Some(wait())
        }
    }
}

/// A limit's numbers as its algorithm takes them.
enum Kind<'l> {
    Bucket(Bucket),
    Queue(Queue),
    Window(Windows<'l>),
    Log(Log),
    Counter(Counter),
}

/// Runs `$body` with the algorithm of `$limit` and its own kind of state out of `$state`.
macro_rules! with {
    ($limit:expr, $state:expr, |$algorithm:ident, $own:ident| $body:expr) => {
        match ($limit.kind(), $state) {
            (Kind::Bucket($algorithm), State::Bucket($own)) => $body,
            (Kind::Queue($algorithm), State::Queue($own)) => $body,
            (Kind::Window($algorithm), State::Window($own)) => $body,
            (Kind::Log($algorithm), State::Log($own)) => $body,
            (Kind::Counter($algorithm), State::Counter($own)) => $body,
            _ => {
                unreachable!("a state belongs to its limit: whoever changes the limit carries the state over")
            }
        }
    };
}

use with;

impl Limit {
    fn kind(&self) -> Kind<'_> {
        let (n, period) = (self.n(), self.period().0);
        let rate = Rate { n, period };
        match self.algorithm() {
            Algorithm::TokenBucket { burst } | Algorithm::LeakyBucket { burst } => {
                Kind::Bucket(Bucket { rate, burst: *burst })
            }
            Algorithm::Shaper { queue } => Kind::Queue(Queue { rate, queue: *queue }),
            Algorithm::FixedWindow(window) => Kind::Window(Windows { window, period, n }),
            Algorithm::SlidingLog => Kind::Log(Log { n, period: self.period() }),
            Algorithm::SlidingCounter => Kind::Counter(Counter { n, period }),
        }
    }

    /// The state of a counter that nothing was ever taken from.
    #[must_use]
    pub fn fresh(&self) -> State {
        self.holding(0, Stamp::ZERO, 0)
    }

    /// The largest cost that could ever be admitted.
    #[must_use]
    pub fn cap(&self) -> u64 {
        match self.kind() {
            Kind::Bucket(bucket) => bucket.cap(),
            Kind::Queue(queue) => queue.cap(),
            Kind::Window(windows) => windows.cap(),
            Kind::Log(log) => log.cap(),
            Kind::Counter(counter) => counter.cap(),
        }
    }

    /// What `ask` would get at `at`; changes nothing. `state` must belong to this limit (see [`Limit::carry_over`]).
    ///
    /// # Panics
    /// When `state` is another algorithm's; the same holds for every method that takes one.
    #[must_use]
    pub fn decide(&self, state: &State, at: Stamp, ask: Ask) -> Decision {
        self.decide_beside(state, at, ask, Out::NONE)
    }

    /// Takes `cost` units that [`Limit::decide`] said fit at `at`.
    pub fn charge(&self, state: &mut State, at: Stamp, cost: u64) {
        with!(self, state, |algorithm, own| algorithm.charge(own, at, cost));
    }

    /// Decides and, when allowed, takes. A refusal and a peek change nothing.
    pub fn acquire(&self, state: &mut State, at: Stamp, ask: Ask) -> Decision {
        with!(self, state, |algorithm, own| algorithm.acquire(own, at, Want::of(ask)))
    }

    /// Gives back units that were charged at `charged_at` and not spent; returns how many whole units came back.
    ///
    /// Never gives back more than a history without that charge would hold now, so no interval gains anything: a window
    /// that ended credits nothing; a bucket credits what has not been refilled since; a shaper's slot stays empty.
    /// That holds for one limit: units charged before the last [`Limit::carry_over`] must not be refunded after it.
    pub fn refund(&self, state: &mut State, at: Stamp, cost: u64, charged_at: Stamp) -> u64 {
        self.refund_beside(state, at, cost, charged_at, Out::NONE)
    }

    /// Moves `state` from `old` numbers to these at `at`: what is used stays used, clipped to the new capacity.
    ///
    /// A bucket or queue that held more than the new capacity is full, not in debt; counts of windows and logs stay as
    /// they are, so raising a limit again gives back nothing. Where the old memory can't tell how much of it lies in the
    /// new one's reach (another length of window, another algorithm), all of it does.
    pub fn carry_over(&self, old: &Self, state: &mut State, at: Stamp) {
        self.carry_over_beside(old, state, at, Out::NONE);
    }

    /// The first stamp from which `state` answers everything as a fresh one would: from then on it may be dropped.
    /// Saturates at the end of the time line.
    #[must_use]
    pub fn fresh_at(&self, state: &State) -> Stamp {
        with!(self, state, |algorithm, own| algorithm.fresh_at(own))
    }

    fn holding(&self, units: u64, at: Stamp, out: u64) -> State {
        match self.kind() {
            Kind::Bucket(bucket) => State::Bucket(bucket.holding(units, at, out)),
            Kind::Queue(queue) => State::Queue(queue.holding(units, at, out)),
            Kind::Window(windows) => State::Window(windows.holding(units, at, out)),
            Kind::Log(log) => State::Log(log.holding(units, at, out)),
            Kind::Counter(counter) => State::Counter(counter.holding(units, at, out)),
        }
    }
}
