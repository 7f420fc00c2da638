//! Counters that don't refill while a run lasts: what is used of them at the end can be compared with what was admitted,
//! unit by unit.
//!
//! Only buckets whose whole refill in the run is less than a unit, and logs that are longer than the run, of which nothing is
//! set aside, that no rule change touched and that somebody peeked at, at the owner.

use std::collections::BTreeMap;

use leasehold_tests::bound::Operation;

use super::charges::{charges, is_open};
use super::spans::spans;
use crate::history::{Algorithm, History, Limit, Name, OnUnavailable, Source};

/// What is known of such a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) key: Name,
    /// When it was last peeked at.
    pub(super) at: u64,
    /// Units used then, leases that are out included.
    pub(super) used: u64,
    /// Units that had been admitted for sure before that.
    pub(super) admitted_before: u64,
    /// Units that may have been charged by then at most: also what began before its answer came, and what nobody knows.
    pub(super) charged_max: u64,
    /// Whether units of it may be lent.
    pub(super) leased: bool,
    /// Whether some request on it counts on others as well.
    pub(super) shared: bool,
}

/// All of them.
pub(super) fn quotas(history: &History) -> Vec<Quota> {
    let charged = charges(history);
    let peeks = peeks(history);
    let of_peek = |(key, peek): (&Name, &Peek)| {
        let (limit, units_max) = unrefilled(history, *key)?;
        let operations = charged.get(key).map_or(&[][..], Vec::as_slice);
        let units = |wanted: &dyn Fn(&Operation) -> bool| -> u64 {
            operations.iter().filter(|operation| wanted(operation)).map(|operation| operation.cost).sum()
        };
        let on_key = || history.calls.iter().filter(|call| history.keys(call.keys).contains(key));
        let open: u64 = on_key().filter(|call| is_open(history, call)).map(|call| call.cost).sum();
        Some(Quota {
            key: *key,
            at: peek.invoked,
            used: units_max.saturating_sub(peek.remaining),
            admitted_before: units(&|operation| operation.returned <= peek.invoked),
            charged_max: units(&|operation| operation.invoked <= peek.returned).saturating_add(open),
            leased: limit.leased,
            shared: on_key().any(|call| history.keys(call.keys).len() > 1),
        })
    };
    peeks.iter().filter_map(of_peek).collect()
}

/// A look at a counter that changed nothing.
#[derive(Clone, Copy, Debug)]
struct Peek {
    invoked: u64,
    returned: u64,
    remaining: u64,
}

/// The last peek at each counter by its owner.
fn peeks(history: &History) -> BTreeMap<Name, Peek> {
    let mut peeks: BTreeMap<Name, Peek> = BTreeMap::new();
    for call in &history.calls {
        let by_owner = call.cost == 0 && call.source == Some(Source::Owner) && !call.degraded;
        let ([key], Some(returned), Some(remaining)) =
            (history.keys(call.keys), call.returned, call.remaining)
        else {
            continue;
        };
        if by_owner && peeks.get(key).is_none_or(|last| last.invoked < call.invoked) {
            peeks.insert(*key, Peek { invoked: call.invoked, returned, remaining });
        }
    }
    peeks
}

/// How many units a counter has, if none come back while the run lasts.
fn unrefilled(history: &History, key: Name) -> Option<(&Limit, u64)> {
    let limit = history.limit(key, history.rules.first()?)?;
    let whole = limit.on_unavailable != OnUnavailable::Local && limit.max_overshoot <= 0.0;
    let (refill, units) = match limit.algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            (u128::from(limit.amount) * u128::from(history.end()), limit.burst)
        }
        // What entered it leaves after a period.
        Algorithm::SlidingLog => (u128::from(history.end()), limit.amount),
        // A window may end at any time, and a queue tells its turns.
        Algorithm::FixedWindow | Algorithm::SlidingCounter | Algorithm::Shaper => return None,
    };
    let still = refill < u128::from(limit.period_ns);
    (whole && still && spans(history, key).len() == 1).then_some((limit, units))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::history::sample::{SECOND, allowed, limit, unknown, with_limits};
    use crate::history::{Check, Outcome};

    /// A hundred a day, never lent.
    pub(in super::super) fn quota_history() -> History {
        let day = 86_400 * SECOND;
        with_limits(vec![Limit { period_ns: day, leased: false, ..limit("a", 100) }])
    }

    /// A look at `shop/a=x` by its owner.
    pub(in super::super) fn peek(at: u64, remaining: u64) -> Check {
        Check { remaining: Some(remaining), outcome: Outcome::Allowed, ..allowed(at, 0) }
    }

    #[test]
    fn the_last_peek_counts_and_what_was_under_way_may_be_in_it_or_not() {
        let under_way = Check { invoked: 90, returned: Some(110), ..allowed(0, 3) };
        let history = quota_history().with_checks([
            allowed(5, 2),
            peek(50, 98),
            under_way,
            peek(100, 94),
            unknown(60, 4, "lost"),
        ]);
        let found = quotas(&history);
        let known: Vec<_> =
            found.iter().map(|quota| (quota.used, quota.admitted_before, quota.charged_max)).collect();
        assert_eq!(known, [(6, 2, 9)]);
    }

    #[test]
    fn a_sliding_log_that_is_longer_than_the_run_is_one_as_well() {
        let log = Limit {
            algorithm: Algorithm::SlidingLog,
            burst: 0,
            period_ns: 86_400 * SECOND,
            ..limit("a", 100)
        };
        let history = with_limits(vec![log]).with_checks([allowed(5, 2), peek(SECOND, 98)]);
        assert_eq!(quotas(&history).first().map(|quota| quota.used), Some(2));
    }

    #[test]
    fn counters_that_refill_or_were_not_looked_at_are_none() {
        let quick = with_limits(vec![limit("a", 100)]).with_checks([allowed(5, 2), peek(SECOND, 98)]);
        assert_eq!(quotas(&quick), []);
        assert_eq!(quotas(&quota_history().with_checks([allowed(5, 2)])), []);
    }
}
