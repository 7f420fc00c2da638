//! Exact meters: what a limit without leases would have had left, at every unit that was really spent.
//!
//! A unit counts when it is taken out of a lease, or when the owner consumes it for a request that waits. No meter knows
//! anything of leases. Buckets and logs run on true time; windows on the shard's line, which is what defines them.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher};

use leasehold_limit::{Algorithm, Ask, Limit, State};
use leasehold_model::Stamp;

/// One limit, metered.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    limit: Limit,
    /// For buckets: the same bucket, asked directly.
    bucket: State,
    /// For windows and logs: units by when they were spent.
    spent: BTreeMap<Stamp, u64>,
    /// Units beyond the limit.
    pub(super) overshoot: u64,
}

impl Meter {
    pub(super) fn new(limit: &Limit) -> Self {
        Self { limit: limit.clone(), bucket: limit.fresh(), spent: BTreeMap::new(), overshoot: 0 }
    }

    pub(super) fn hash(&self, hash: &mut impl Hasher) {
        hash_state(&self.bucket, hash);
        self.spent.hash(hash);
    }

    /// Units that are spent at a moment, which is `line` on the shard's line.
    pub(super) fn spend(&mut self, units: u64, now: Stamp, line: Stamp) {
        let n = self.limit.n();
        let period = self.limit.period().0;
        let beyond = match self.limit.algorithm() {
            Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } | Algorithm::Shaper { .. } => {
                let ask = Ask { min: 1, max: units };
                units - self.limit.acquire(&mut self.bucket, now, ask).granted
            }
            Algorithm::FixedWindow(_) => {
                let start = Stamp(line.0 - line.0 % period);
                self.note(units, line);
                self.sum(start, line).saturating_sub(n)
            }
            Algorithm::SlidingLog => {
                self.note(units, now);
                self.sum(Stamp((now.0 + 1).saturating_sub(period)), now).saturating_sub(n)
            }
            Algorithm::SlidingCounter => {
                let (start, elapsed) = (line.0 - line.0 % period, line.0 % period);
                self.note(units, line);
                let before = self.sum(Stamp(start - period), Stamp(start - 1));
                let weighted = u128::from(before) * u128::from(period - elapsed) / u128::from(period);
                let estimate = u64::try_from(weighted).expect("small") + self.sum(Stamp(start), line);
                estimate.saturating_sub(n)
            }
        };
        self.overshoot = self.overshoot.max(beyond);
    }

    fn note(&mut self, units: u64, at: Stamp) {
        *self.spent.entry(at).or_default() += units;
    }

    fn sum(&self, from: Stamp, to: Stamp) -> u64 {
        self.spent.range(from..=to).map(|(_, units)| units).sum()
    }
}

pub(super) fn hash_state(state: &State, hash: &mut impl Hasher) {
    match state {
        State::Bucket(bucket) => (bucket.used, bucket.at).hash(hash),
        State::Queue(queue) => (queue.ahead, queue.at).hash(hash),
        State::Window(window) => (window.start, window.count).hash(hash),
        State::Log(log) => log.entries().hash(hash),
        State::Counter(counter) => (counter.window, counter.previous, counter.current).hash(hash),
    }
}
