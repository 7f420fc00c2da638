//! P1, bound: for every key and every interval, what was admitted is within (1 + x)(b + r·w); of windowed limits, within what
//! their windows give; and what an edge admits by its own share while it is cut off, within that share.
//!
//! Every interval is looked at at once, see [`leasehold_tests::bound`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_tests::bound::{Bound, Excess, Operation, worst_excess, worst_span};

use super::charges::charges;
use super::spans::{Span, millionths, spans};
use super::{Finding, seconds};
use crate::history::{History, Limit, Name, OnUnavailable, Source};

/// How far a counter got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) key: Name,
    /// Units admitted.
    pub(crate) admitted: u64,
    /// The most that any interval was admitted beyond what came back in it.
    pub(crate) most_at_once: u64,
    /// What that may be: b, for a bucket that doesn't change.
    pub(crate) at_once_max: u64,
    /// Units beyond the bound in the worst interval.
    pub(crate) overshoot: u64,
}

/// How far every counter got that admitted anything.
pub(crate) fn reach(history: &History) -> Vec<Reach> {
    let of_key = |(key, operations): (Name, Vec<Operation>)| {
        let spans = spans(history, key);
        let worst = |of: &dyn Fn(&Span, &[Operation]) -> u64| {
            spans.iter().map(|span| of(span, &within(&operations, span))).max().unwrap_or(0)
        };
        Reach {
            key,
            admitted: operations.iter().map(|operation| operation.cost).sum(),
            most_at_once: worst(&|span, operations| {
                let nothing = Bound { burst: 0, ..span.bound };
                worst_excess(operations, nothing).map_or(0, |excess| excess.beyond)
            }),
            at_once_max: spans.iter().map(|span| at_once(span.bound)).max().unwrap_or(0),
            overshoot: worst(&|span, operations| excess(operations, span).map_or(0, |excess| excess.beyond)),
        }
    };
    charges(history).into_iter().map(of_key).collect()
}

fn at_once(bound: Bound) -> u64 {
    let units = u128::from(bound.burst) * u128::from(1_000_000 + bound.over_ppm) / 1_000_000;
    u64::try_from(units).unwrap_or(u64::MAX)
}

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let mut found = Vec::new();
    for (key, operations) in charges(history) {
        for span in spans(history, key) {
            if let Some(excess) = excess(&within(&operations, &span), &span) {
                found.push(finding(history.text(key), excess));
            }
        }
    }
    found.extend(shares(history));
    found
}

fn finding(whose: &str, excess: Excess) -> Finding {
    let Excess { from, to, admitted, beyond } = excess;
    let length = seconds(to - from);
    Finding::at(
        from,
        format!("{whose}: {admitted} units admitted within {length}, {beyond} beyond the bound"),
    )
}

fn excess(operations: &[Operation], span: &Span) -> Option<Excess> {
    let short = span.short.and_then(|(units, length)| worst_span(operations, units, length));
    short.or_else(|| worst_excess(operations, span.bound))
}

/// What was charged in a span for sure.
fn within(operations: &[Operation], span: &Span) -> Vec<Operation> {
    let inside = |operation: &&Operation| span.from <= operation.invoked && operation.returned <= span.to;
    operations.iter().filter(inside).copied().collect()
}

/// Edges that admitted more by themselves than their share. Whoever was killed or replaced comes back with another share
/// under the same name, and isn't looked at.
fn shares(history: &History) -> Vec<Finding> {
    let renewed: BTreeSet<&str> = history
        .faults
        .iter()
        .filter(|fault| ["kill", "replace", "restart"].iter().any(|word| fault.name.contains(word)))
        .map(|fault| fault.target.as_str())
        .collect();
    let mut by_edge: BTreeMap<(Name, Name), Vec<Operation>> = BTreeMap::new();
    for call in &history.calls {
        let (Some(Source::Fallback), Some(returned)) = (call.source, call.returned) else { continue };
        let by_itself = super::charges::is_charged(call) && call.cost > 0;
        let [key] = history.keys(call.keys) else { continue };
        if by_itself && !renewed.contains(history.text(call.door)) {
            let operation = Operation { invoked: call.invoked, returned, cost: call.cost };
            by_edge.entry((*key, call.door)).or_default().push(operation);
        }
    }
    let mut found = Vec::new();
    for ((key, door), operations) in by_edge {
        // With one limit throughout there is one share.
        let [rules] = history.rules.as_slice() else { continue };
        let Some(bound) = history.limit(key, rules).and_then(|limit| share(limit, history.run.clock_ppm))
        else {
            continue;
        };
        if let Some(excess) = worst_excess(&operations, bound) {
            let whose = format!("{} by the share of {}", history.text(key), history.text(door));
            found.push(finding(&whose, excess));
        }
    }
    found
}

/// What one edge may admit by itself. Windowed limits are shared out by window, of which an interval may touch two.
fn share(limit: &Limit, clock_ppm: u64) -> Option<Bound> {
    let local = if limit.on_unavailable == OnUnavailable::Local { millionths(limit.local_share) } else { 0 };
    let ppm = local + millionths(limit.max_overshoot);
    let edges = limit.edges.filter(|edges| *edges > 0)?;
    let at_once = spans_burst(limit);
    let part = u128::from(at_once) * u128::from(ppm) / (u128::from(edges) * 1_000_000);
    Some(Bound {
        burst: u64::try_from(part).ok()?,
        units: limit.amount.checked_mul(ppm)?,
        period: Duration::from_nanos(limit.period_ns.checked_mul(edges)?).checked_mul(1_000_000)?,
        fast_ppm: clock_ppm,
        over_ppm: 0,
    })
}

fn spans_burst(limit: &Limit) -> u64 {
    use crate::history::Algorithm::{
        FixedWindow, LeakyBucket, Shaper, SlidingCounter, SlidingLog, TokenBucket,
    };
    match limit.algorithm {
        TokenBucket | LeakyBucket | Shaper => limit.burst,
        FixedWindow | SlidingCounter | SlidingLog => limit.amount.saturating_mul(2),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;
    use crate::history::sample::{SECOND, allowed, fault, history, limit, over_limit, unknown, with_limits};
    use crate::history::{Algorithm, Check, Event, FaultPhase, Resolved, Rules};

    /// Ten at once and one each tenth of a second, for two seconds: exactly the bound.
    fn exact() -> Vec<Check> {
        let refill = (1..20).map(|tenth| allowed(tenth * SECOND / 10, 1));
        (0..10).map(|_| allowed(0, 1)).chain(refill).collect()
    }

    fn of(checks: Vec<Check>) -> Vec<Finding> {
        findings(&history().with_checks(checks))
    }

    #[test]
    fn the_bound_may_be_reached_and_not_exceeded() {
        expect(&of(exact()), 0, "");
        let mut one_more = exact();
        one_more.push(allowed(19 * SECOND / 10, 1));
        expect(&of(one_more), 1, "shop/a=x: 30 units admitted within 1.900 s, 1 beyond the bound");
    }

    #[test]
    fn each_key_has_its_own_bound() {
        let other = exact().into_iter().map(|check| Check { keys: vec!["shop/a=y".to_owned()], ..check });
        expect(&of(exact().into_iter().chain(other).collect()), 0, "");
    }

    #[test]
    fn refused_and_unresolved_requests_and_retries_accuse_nobody() {
        let mut checks = exact();
        checks.extend([over_limit(SECOND, 5), unknown(SECOND, 5, "lost")]);
        checks[3].id = Some("r".to_owned());
        checks.push(Check { id: Some("r".to_owned()), ..allowed(SECOND, 1) });
        expect(&of(checks), 0, "");
    }

    #[test]
    fn what_the_log_finds_charged_counts() {
        let mut checks = exact();
        checks.push(unknown(0, 1, "lost"));
        let charged = vec!["shop/a=x".to_owned()];
        let resolved = Event::Log(Resolved { at: 19 * SECOND / 10, id: "lost".to_owned(), charged });
        expect(&findings(&history().with_checks(checks).with(resolved)), 1, "1 beyond");
    }

    #[test]
    fn operations_that_overlap_the_ends_of_an_interval_are_not_counted_to_it() {
        let mut checks = exact();
        checks.push(Check { invoked: SECOND, returned: Some(9 * SECOND), ..allowed(0, 10) });
        expect(&of(checks), 0, "");
    }

    #[test]
    fn a_lower_limit_binds_once_it_is_in_force_and_not_before() {
        let lowered = |in_force| {
            let limits = vec![limit("a", 5)];
            let rules = Rules { version: 2, pushed: 100, in_force: Some(in_force), limits };
            let burst = |at| (0..8).map(move |_| allowed(at, 1));
            history().with(Event::Rules(rules)).with_checks(burst(SECOND))
        };
        expect(&findings(&lowered(2 * SECOND)), 0, "");
        expect(&findings(&lowered(200)), 1, "3 beyond");
    }

    #[test]
    fn max_overshoot_widens_the_bound() {
        let wide = || with_limits(vec![Limit { max_overshoot: 0.2, ..limit("a", 10) }]);
        expect(&findings(&wide().with_checks([allowed(0, 12)])), 0, "");
        expect(&findings(&wide().with_checks([allowed(0, 13)])), 1, "1 beyond");
    }

    #[test]
    fn two_full_windows_may_touch_and_three_may_not() {
        let windowed = || with_limits(vec![Limit { algorithm: Algorithm::FixedWindow, ..limit("a", 10) }]);
        let full = |at| allowed(at, 10);
        expect(&findings(&windowed().with_checks([full(999), full(1_001)])), 0, "");
        expect(&findings(&windowed().with_checks([full(999), full(1_001), full(1_002)])), 1, "10 beyond");
    }

    #[test]
    fn what_entered_a_sliding_log_less_than_a_period_ago_is_still_in_it() {
        let log = || with_limits(vec![Limit { algorithm: Algorithm::SlidingLog, ..limit("a", 10) }]);
        let pair = |apart| [allowed(0, 10), allowed(apart, 10)];
        expect(&findings(&log().with_checks(pair(SECOND))), 0, "");
        expect(&findings(&log().with_checks(pair(SECOND - 1))), 1, "10 beyond");
    }

    #[test]
    fn an_edge_that_is_cut_off_admits_its_share_and_no_more() {
        let shared = || {
            let on_unavailable = OnUnavailable::Local;
            let limit = limit("a", 10);
            with_limits(vec![Limit { on_unavailable, local_share: 0.4, edges: Some(2), ..limit }])
        };
        let alone = |cost| Check {
            degraded: true,
            source: Some(Source::Fallback),
            door: "edge-1".to_owned(),
            ..allowed(5, cost)
        };
        expect(&findings(&shared().with_checks([alone(2)])), 0, "");
        expect(&findings(&shared().with_checks([alone(3)])), 1, "shop/a=x by the share of edge-1: 3 units");
        let renewed = shared().with(fault(3, "kill", "edge-1", FaultPhase::Once));
        expect(&findings(&renewed.with_checks([alone(3)])), 0, "");
    }

    #[test]
    fn how_far_a_counter_got_is_told_though_it_kept_the_bound() {
        let history = history().with_checks([allowed(0, 7), allowed(SECOND / 2, 5)]);
        let key = history.name("shop/a=x").expect("it was asked for");
        let expected = Reach { key, admitted: 12, most_at_once: 7, at_once_max: 10, overshoot: 0 };
        assert_eq!(reach(&history), [expected]);
    }
}
