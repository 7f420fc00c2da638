//! By which limit a counter was decided when: parts of a run between changes of its rule, and what may be admitted in each.
//!
//! While a change is on its way from node to node, either limit may decide: the looser of both is the bound then.

use std::time::Duration;

use leasehold_tests::bound::Bound;

use crate::history::{Algorithm, History, Limit, Name};

const MILLION: u64 = 1_000_000;

/// Part of a run in which the bound of a counter doesn't change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Of every interval within.
    pub(crate) bound: Bound,
    /// So many at most in less than so long, where that says more: what left a sliding log has to be that old.
    pub(crate) short: Option<(u64, Duration)>,
}

/// The parts of a run, for one counter. Parts in which some node may have had no such limit aren't there.
pub(crate) fn spans(history: &History, key: Name) -> Vec<Span> {
    let mut changes: Vec<u64> = history
        .rules
        .iter()
        .flat_map(|rules| [Some(rules.pushed), rules.in_force])
        .flatten()
        .chain([0, u64::MAX])
        .collect();
    changes.sort_unstable();
    changes.dedup();
    let mut spans: Vec<Span> = Vec::new();
    for pair in changes.windows(2) {
        let Some((bound, short)) = bound_between(history, key, pair[0], pair[1]) else { continue };
        match spans.last_mut() {
            Some(last) if last.to == pair[0] && last.bound == bound && last.short == short => {
                last.to = pair[1];
            }
            Some(_) | None => spans.push(Span { from: pair[0], to: pair[1], bound, short }),
        }
    }
    spans
}

/// The loosest bound of all rules that may have been in force between two moments at which no rules changed.
fn bound_between(
    history: &History,
    key: Name,
    from: u64,
    to: u64,
) -> Option<(Bound, Option<(u64, Duration)>)> {
    let superseded = history
        .rules
        .iter()
        .filter(|rules| rules.in_force.is_some_and(|in_force| in_force <= from))
        .map(|rules| rules.version)
        .max()
        .unwrap_or(0);
    let mut possible = history
        .rules
        .iter()
        .filter(|rules| rules.version >= superseded && rules.pushed < to)
        .map(|rules| history.limit(key, rules).map(|limit| bound(limit, history.run.clock_ppm)));
    let first = possible.next()??;
    possible.try_fold(first, |(bound, short), other| {
        let (other, other_short) = other?;
        Some((bound.loosest(other), short.filter(|_| short == other_short)))
    })
}

/// What a limit lets be admitted in intervals of any length, and in short ones.
fn bound(limit: &Limit, clock_ppm: u64) -> (Bound, Option<(u64, Duration)>) {
    let over_ppm = millionths(limit.max_overshoot);
    let over = |units: u64| {
        let units = u128::from(units) * u128::from(MILLION + over_ppm) / u128::from(MILLION);
        u64::try_from(units).unwrap_or(u64::MAX)
    };
    let burst = match limit.algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => limit.burst,
        // One unit departs while others wait.
        Algorithm::Shaper => limit.burst.saturating_add(1),
        // An interval of no length may touch the end of one window and the beginning of the next.
        Algorithm::FixedWindow => limit.amount.saturating_mul(2),
        Algorithm::SlidingLog => limit.amount,
        // What is left of the last window is rounded down.
        Algorithm::SlidingCounter => limit.amount.saturating_add(1),
    };
    let bound = Bound {
        burst,
        units: limit.amount,
        period: Duration::from_nanos(limit.period_ns),
        fast_ppm: clock_ppm,
        over_ppm,
    };
    let slow = u128::from(limit.period_ns) * u128::from(MILLION) / u128::from(MILLION + clock_ppm);
    let shorter = Duration::from_nanos(u64::try_from(slow).unwrap_or(u64::MAX));
    let short = (limit.algorithm == Algorithm::SlidingLog).then(|| (over(limit.amount), shorter));
    (bound, short)
}

/// Rounded up: what can't be said in millionths is no breach.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share that isn't between 0 and 1000 is cut to that"
)]
pub(crate) fn millionths(share: f64) -> u64 {
    (share.clamp(0.0, 1_000.0) * 1e6).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample::{SECOND, allowed, limit, with_limits};
    use crate::history::{Event, Rules};

    fn pushed(version: u64, pushed: u64, in_force: Option<u64>, limits: Vec<Limit>) -> Event {
        Event::Rules(Rules { version, pushed, in_force, limits })
    }

    fn of_a(history: History) -> Vec<(u64, u64, u64)> {
        let history = history.with_checks([allowed(0, 1)]);
        let key = history.name("shop/a=x").expect("it was asked for");
        spans(&history, key).iter().map(|span| (span.from, span.to, span.bound.burst)).collect()
    }

    #[test]
    fn a_limit_that_never_changes_has_one_span() {
        let same = pushed(2, 50, Some(60), vec![limit("a", 10), limit("b", 1)]);
        assert_eq!(of_a(with_limits(vec![limit("a", 10)]).with(same)), [(0, u64::MAX, 10)]);
    }

    #[test]
    fn while_a_change_is_on_its_way_the_looser_limit_counts() {
        let lower = pushed(2, 50, Some(60), vec![limit("a", 4)]);
        let higher = pushed(3, 80, Some(90), vec![limit("a", 20)]);
        let history = with_limits(vec![limit("a", 10)]).with(lower).with(higher);
        assert_eq!(of_a(history), [(0, 60, 10), (60, 80, 4), (80, u64::MAX, 20)]);
    }

    #[test]
    fn rules_that_were_never_known_to_be_in_force_are_on_their_way_to_the_end() {
        let lost = pushed(2, 50, None, vec![limit("a", 4)]);
        let next = pushed(3, 80, Some(90), vec![limit("a", 5)]);
        let history = with_limits(vec![limit("a", 10)]).with(lost).with(next);
        assert_eq!(of_a(history), [(0, 90, 10), (90, u64::MAX, 5)]);
    }

    #[test]
    fn there_is_no_bound_while_a_node_may_have_had_no_such_limit() {
        let history = with_limits(vec![limit("a", 10)]).with(pushed(2, 50, Some(60), vec![]));
        assert_eq!(of_a(history), [(0, 50, 10)]);
    }

    #[test]
    fn each_algorithm_has_its_own_bound() {
        let of = |algorithm| {
            let limit = Limit { algorithm, burst: 3, ..limit("a", 10) };
            let (bound, short) = bound(&limit, 0);
            (bound.burst, short)
        };
        assert_eq!(of(Algorithm::TokenBucket), (3, None));
        assert_eq!(of(Algorithm::LeakyBucket), (3, None));
        assert_eq!(of(Algorithm::Shaper), (4, None));
        assert_eq!(of(Algorithm::FixedWindow), (20, None));
        assert_eq!(of(Algorithm::SlidingLog), (10, Some((10, Duration::from_nanos(SECOND)))));
        assert_eq!(of(Algorithm::SlidingCounter), (11, None));
    }
}
