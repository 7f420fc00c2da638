//! What refills or departs continuously. Three different pictures on purpose: tokens left, a maximum over the history of
//! charges, and the departure time of every unit.

use leasehold_limit::{Algorithm, Limit};
use num_rational::BigRational;
use num_traits::Zero;

use super::{Oracle, Time, whole};

fn rate(limit: &Limit) -> BigRational {
    whole(limit.n()) / whole(limit.period().0)
}

fn capacity(limit: &Limit) -> u64 {
    match limit.algorithm() {
        Algorithm::TokenBucket { burst } | Algorithm::LeakyBucket { burst } => *burst,
        Algorithm::Shaper { queue } => *queue,
        Algorithm::FixedWindow(_) | Algorithm::SlidingLog | Algorithm::SlidingCounter => {
            unreachable!("oracles change to numbers of their own algorithm only")
        }
    }
}

/// The contract rounds what is used up to a 1/period-th of a unit when the period changes.
fn round_up(used: &BigRational, limit: &Limit) -> BigRational {
    let parts = whole(limit.period().0);
    (used * &parts).ceil() / parts
}

/// Token bucket: the tokens that are left.
pub(super) struct Tokens {
    rate: BigRational,
    burst: u64,
    tokens: BigRational,
    at: Time,
}

impl Tokens {
    pub(super) fn new(limit: &Limit, burst: u64) -> Self {
        Self { rate: rate(limit), burst, tokens: whole(burst), at: 0 }
    }

    fn tokens(&self, at: Time) -> BigRational {
        (&self.tokens + whole(at - self.at) * &self.rate).min(whole(self.burst))
    }
}

impl Oracle for Tokens {
    fn fits(&self, at: Time, cost: u64) -> bool {
        self.tokens(at) >= whole(cost)
    }

    fn take(&mut self, at: Time, cost: u64) {
        self.tokens = self.tokens(at) - whole(cost);
        self.at = at;
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.tokens(at) == whole(self.burst)
    }

    fn change(&mut self, at: Time, limit: &Limit) {
        let used = round_up(&(whole(self.burst) - self.tokens(at)), limit);
        (self.rate, self.burst, self.at) = (rate(limit), capacity(limit), at);
        self.tokens = (whole(self.burst) - used).max(BigRational::zero());
    }

    fn forget(&mut self, _charged_at: Time, _cost: u64) {
        unreachable!("a bucket's refunds are bounded, not exact: see the properties of refunds");
    }
}

/// Leaky bucket: its level is the most by which charges since any one of them exceed what has drained since then.
pub(super) struct Meter {
    rate: BigRational,
    burst: u64,
    charges: Vec<(Time, BigRational)>,
}

impl Meter {
    pub(super) fn new(limit: &Limit, burst: u64) -> Self {
        Self { rate: rate(limit), burst, charges: Vec::new() }
    }

    fn level(&self, at: Time) -> BigRational {
        let (mut level, mut since) = (BigRational::zero(), BigRational::zero());
        for (charged_at, cost) in self.charges.iter().rev() {
            since += cost;
            level = level.max(&since - whole(at - charged_at) * &self.rate);
        }
        level
    }
}

impl Oracle for Meter {
    fn fits(&self, at: Time, cost: u64) -> bool {
        self.level(at) + whole(cost) <= whole(self.burst)
    }

    fn take(&mut self, at: Time, cost: u64) {
        if self.is_fresh(at) {
            self.charges.clear();
        }
        self.charges.push((at, whole(cost)));
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.level(at).is_zero()
    }

    fn change(&mut self, at: Time, limit: &Limit) {
        let level = round_up(&self.level(at), limit);
        (self.rate, self.burst) = (rate(limit), capacity(limit));
        self.charges = vec![(at, level.min(whole(self.burst)))];
    }

    fn forget(&mut self, _charged_at: Time, _cost: u64) {
        unreachable!("a bucket's refunds are bounded, not exact: see the properties of refunds");
    }
}

/// Shaper: runs of departures, one slot apart.
pub(super) struct Shaper {
    slot: BigRational,
    queue: u64,
    runs: Vec<Run>,
    /// Where the next run begins at the earliest.
    free: BigRational,
}

struct Run {
    first: BigRational,
    units: u64,
}

impl Shaper {
    pub(super) fn new(limit: &Limit, queue: u64) -> Self {
        Self { slot: rate(limit).recip(), queue, runs: Vec::new(), free: BigRational::zero() }
    }

    /// Units whose departure lies after `at`.
    fn waiting(&self, at: Time) -> BigRational {
        self.runs.iter().map(|run| self.waiting_of(run, &whole(at))).sum()
    }

    fn waiting_of(&self, run: &Run, at: &BigRational) -> BigRational {
        if &run.first > at {
            return whole(run.units);
        }
        let departed = ((at - &run.first) / &self.slot).floor() + whole(1);
        (whole(run.units) - departed).max(BigRational::zero())
    }
}

impl Oracle for Shaper {
    fn fits(&self, at: Time, cost: u64) -> bool {
        self.waiting(at) + whole(cost) <= whole(self.queue)
    }

    fn take(&mut self, at: Time, cost: u64) {
        let first = self.free.clone().max(whole(at));
        let departed: Vec<bool> =
            self.runs.iter().map(|run| self.waiting_of(run, &whole(at)).is_zero()).collect();
        let mut departed = departed.into_iter();
        self.runs.retain(|_| departed.next() == Some(false));
        self.free = &first + whole(cost) * &self.slot;
        self.runs.push(Run { first, units: cost });
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.free <= whole(at)
    }

    fn turn(&self, at: Time) -> Option<Time> {
        let turn = self.free.clone().max(whole(at)).ceil().to_integer();
        Some(turn.try_into().expect("turns are not before the epoch"))
    }

    fn change(&mut self, _at: Time, _limit: &Limit) {
        unreachable!(
            "departures that were promised at another pace have no closed form: see the properties of changes"
        );
    }

    fn forget(&mut self, _charged_at: Time, _cost: u64) {
        unreachable!("a shaper refunds nothing");
    }
}
