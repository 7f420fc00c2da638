//! The checker against one that is too simple to be wrong, and against servers that are.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn op(invoked: u64, returned: u64, cost: u64) -> Operation {
    Operation { invoked, returned, cost }
}

/// Units beyond the bound in the worst interval shorter than `length`: every pair of a call and an answer is looked at.
fn by_pairs(operations: &[Operation], ticks: Ticks, length: u64) -> Option<i128> {
    let pairs = operations.iter().flat_map(|s| operations.iter().map(|t| (s.invoked, t.returned)));
    let beyond = pairs.filter(|(from, to)| from <= to && to - from < length).map(|(from, to)| {
        let admitted = i128::from(charged_within(operations, from, to)) * ticks.per_unit;
        admitted - ticks.burst - i128::from(to - from) * ticks.per_ns
    });
    let beyond = beyond.max().filter(|beyond| *beyond > 0)?;
    Some((beyond + ticks.per_unit - 1) / ticks.per_unit)
}

/// What a server admits that keeps a bucket of `units` a second, except that it forgets `minted` units of what it took at
/// about the middle of the run.
fn served(rng: &mut SmallRng, units: u64, checks: u64, minted: u64) -> Vec<Operation> {
    let (mut now, mut level, mut operations) = (SECOND, 0u64, Vec::new());
    let per_unit = SECOND / units;
    for check in 0..checks {
        // Three times as many come as may pass.
        let step = rng.random_range(0..2 * per_unit / 3);
        (now, level) = (now + step, level.saturating_sub(step));
        if check == checks / 2 {
            level = level.saturating_sub(minted * per_unit);
        }
        let cost = rng.random_range(1..3);
        if level + cost * per_unit > units * per_unit {
            continue;
        }
        level += cost * per_unit;
        // The server takes it at `now`; the tester knows only when it asked and when it heard.
        operations.push(op(now - rng.random_range(0..3_000_000), now + rng.random_range(0..3_000_000), cost));
    }
    operations
}

#[track_caller]
fn check(operations: &[Operation], bound: Bound, beyond: Option<u64>) {
    assert_eq!(worst_excess(operations, bound).map(|excess| excess.beyond), beyond);
}

#[test]
fn exactly_the_bound_is_no_excess_and_one_more_is() {
    let bound = Bound::bucket(10, Duration::from_secs(1));
    check(&[], bound, None);
    check(&[op(5, 5, 10)], bound, None);
    check(&[op(5, 5, 11)], bound, Some(1));
    check(&[op(5, 5, 10), op(5 + SECOND, 5 + SECOND, 10)], bound, None);
    check(&[op(5, 5, 10), op(5 + SECOND - 1, 5 + SECOND - 1, 10)], bound, Some(1));
    let drifting = Bound { fast_ppm: 1, ..bound };
    check(&[op(5, 5, 10), op(5 + SECOND - 1, 5 + SECOND - 1, 10)], drifting, None);
}

#[test]
fn what_may_have_been_charged_outside_an_interval_is_not_counted_to_it() {
    let bound = Bound::bucket(10, Duration::from_secs(1));
    check(&[op(0, 2 * SECOND, 10), op(SECOND, SECOND, 10)], bound, None);
    check(&[op(SECOND - 1, SECOND + 1, 10), op(SECOND, SECOND, 10)], bound, Some(10));
}

#[test]
fn the_worst_interval_is_named() {
    let bound = Bound::bucket(2, Duration::from_secs(1));
    let operations =
        [op(0, 1, 2), op(10 * SECOND, 10 * SECOND + 5, 2), op(10 * SECOND + 2, 10 * SECOND + 9, 3)];
    let excess = worst_excess(&operations, bound).expect("5 units in 9 ns");
    assert_eq!((excess.from, excess.to, excess.admitted), (10 * SECOND, 10 * SECOND + 9, 5));
    assert_eq!(excess.beyond, 3);
    assert!(excess.to_string().starts_with("5 units admitted within 9ns"), "{excess}");
}

#[test]
fn it_agrees_with_looking_at_every_pair() {
    for seed in 0..400 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let bound = Bound {
            burst: rng.random_range(0..20),
            units: rng.random_range(0..20),
            period: Duration::from_nanos(rng.random_range(1..100)),
            fast_ppm: rng.random_range(0..3) * 1_000,
            over_ppm: rng.random_range(0..3) * 250_000,
        };
        let length = rng.random_range(1..200);
        let operations: Vec<Operation> = (0..rng.random_range(0..60))
            .map(|_| {
                let invoked = rng.random_range(0..200);
                op(invoked, invoked + rng.random_range(0..40), rng.random_range(0..5))
            })
            .collect();
        let spanned = Ticks { per_unit: 1, burst: i128::from(bound.burst), per_ns: 0 };
        let found = [
            (worst_excess(&operations, bound), by_pairs(&operations, bound.ticks(), u64::MAX)),
            (
                worst_span(&operations, bound.burst, Duration::from_nanos(length)),
                by_pairs(&operations, spanned, length),
            ),
        ];
        for (found, expected) in found {
            assert_eq!(found.map(|found| i128::from(found.beyond)), expected, "seed {seed}");
            if let Some(found) = found {
                assert_eq!(found.admitted, charged_within(&operations, found.from, found.to), "seed {seed}");
            }
        }
    }
}

#[test]
fn what_a_rule_lets_itself_be_exceeded_by_is_no_excess() {
    let bound = Bound { over_ppm: 250_000, ..Bound::bucket(10, Duration::from_secs(1)) };
    check(&[op(5, 5, 12), op(5 + SECOND / 25, 5 + SECOND / 25, 1)], bound, None);
    check(&[op(5, 5, 12), op(5 + SECOND / 25 - 1, 5 + SECOND / 25 - 1, 1)], bound, Some(1));
}

#[test]
fn a_span_ends_before_its_length_is_over() {
    let twice = |apart| [op(0, 0, 10), op(apart, apart, 1)];
    assert_eq!(worst_span(&twice(SECOND), 10, Duration::from_secs(1)), None);
    let excess =
        worst_span(&twice(SECOND - 1), 10, Duration::from_secs(1)).expect("11 in less than a second");
    assert_eq!((excess.beyond, excess.admitted, excess.from, excess.to), (1, 11, 0, SECOND - 1));
}

#[test]
fn how_full_a_counter_was_is_told_for_each_answer() {
    let bound = Bound::bucket(10, Duration::from_secs(1));
    let operations = [op(0, 0, 7), op(SECOND / 2, SECOND / 2, 5), op(9 * SECOND, 9 * SECOND, 1)];
    assert_eq!(at_once(&operations, bound), [(0, 7), (SECOND / 2, 7), (9 * SECOND, 1)]);
}

#[test]
fn the_loosest_of_two_bounds_has_the_burst_of_one_and_the_rate_of_the_other() {
    let slow = Bound { burst: 100, ..Bound::bucket(10, Duration::from_secs(10)) };
    let fast = Bound::bucket(5, Duration::from_secs(1));
    let loosest = Bound { burst: 100, ..fast };
    assert_eq!((slow.loosest(fast), fast.loosest(slow)), (loosest, loosest));
}

#[test]
fn a_server_that_keeps_the_bound_is_never_accused() {
    for seed in 0..50 {
        let operations = served(&mut SmallRng::seed_from_u64(seed), 100, 2_000, 0);
        let found = worst_excess(&operations, Bound::bucket(100, Duration::from_secs(1)));
        assert_eq!(found, None, "seed {seed}");
    }
}

/// As when a failover loses what the former leader had taken.
#[test]
fn a_server_that_forgets_a_few_charges_is_found_out() {
    for seed in 0..50 {
        let operations = served(&mut SmallRng::seed_from_u64(seed), 100, 2_000, 5);
        let found = worst_excess(&operations, Bound::bucket(100, Duration::from_secs(1)));
        // What the tester can't place by its clock may hide a unit or two.
        assert!(found.is_some_and(|excess| excess.beyond >= 2), "seed {seed}: {found:?}");
    }
}

#[test]
fn a_long_recording_is_checked_in_seconds() {
    let operations = served(&mut SmallRng::seed_from_u64(1), 10_000, 600_000, 0);
    assert!(operations.len() > 100_000, "{}", operations.len());
    check(&operations, Bound::bucket(10_000, Duration::from_secs(1)), None);
}
