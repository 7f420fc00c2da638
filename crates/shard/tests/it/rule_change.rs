//! Numbers change under running counters.

use leasehold_limit::{Algorithm, RetryAfter};
use leasehold_shard::{Reply, Snapshot};

use super::*;

fn version(version: u64, spec: LimitSpec) -> LimitSpec {
    LimitSpec { version: RulesVersion(version), ..spec }
}

/// A token bucket of 10 that refills `n` in `period`.
fn rate(n: u64, period: Nanos) -> LimitSpec {
    let limit = Limit::new(Algorithm::TokenBucket { burst: 10 }, n, period).expect("valid");
    LimitSpec { limit, ..bucket(1) }
}

/// 6 of 10 are taken under version 1; index 1 holds `other`.
fn six_of_ten(other: LimitSpec) -> Bench {
    let mut bench = Bench::new([bucket(10), other]);
    bench.acquire(secs(0), [take(1, 6)]);
    bench
}

fn remaining(bench: &mut Bench, limit: u32, cost: u64) -> u64 {
    bench.acquire(secs(0), [under(limit, take(1, cost))]).decisions[0].remaining
}

#[test]
fn used_stays_used_when_a_limit_changes() {
    let mut bench = six_of_ten(version(2, bucket(20)));
    assert_eq!(remaining(&mut bench, 1, 1), 13);
}

#[test]
fn numbers_of_an_older_rule_set_never_replace_newer_ones() {
    let mut bench = six_of_ten(version(2, bucket(20)));
    bench.acquire(secs(0), [under(1, take(1, 1))]);
    assert_eq!(remaining(&mut bench, 0, 1), 12, "decided by the 20 of version 2");
    assert_eq!(bench.shard.snapshot().limits[0].spec.version, RulesVersion(2));
}

/// Takes `used` under `old`, asks one unit under `new` (in force from `since`) at each instant, and checks after how long
/// each is told to come back; `None`: it is admitted.
#[track_caller]
fn check_waits(old: LimitSpec, used: u64, new: LimitSpec, since: Nanos, asks: &[(Nanos, Option<Nanos>)]) {
    let mut bench = Bench::new([old, LimitSpec { since: START.after(since), ..version(2, new) }]);
    assert!(bench.acquire(secs(0), [take(1, used)]).admitted);
    for &(after, wait) in asks {
        let before = bench.shard.snapshot();
        let acquired = bench.acquire(after, [under(1, take(1, 1))]);
        let told = acquired.decisions[0].retry_after;
        assert_eq!((acquired.admitted, told), (wait.is_none(), wait.map(RetryAfter::In)), "at {after:?}");
        if wait.is_some() {
            let last = bench.shard.last();
            assert_eq!(
                bench.shard.snapshot(),
                Snapshot { last, cursor: bench.shard.snapshot().cursor, ..before }
            );
        }
    }
}

#[test]
fn who_is_denied_under_a_lowered_limit_is_admitted_when_it_said() {
    let asks = [(secs(0), Some(secs(3))), (Nanos(2_999_999_999), Some(Nanos(1))), (secs(3), None)];
    check_waits(bucket(100), 40, bucket(20), secs(0), &asks);
}

#[test]
fn who_is_denied_under_a_raised_limit_is_admitted_when_it_said() {
    let slow = rate(1, secs(3_600));
    let asks = [(secs(0), Some(Nanos(100_000_000))), (Nanos(100_000_000), None)];
    check_waits(slow, 10, rate(10, secs(1)), secs(0), &asks);
}

#[test]
fn a_limit_counts_from_when_it_came_into_force_however_late_a_counter_is_asked() {
    // In second 6 there are 30 used, clipped to the new 20; one is free three seconds later.
    check_waits(
        bucket(100),
        40,
        bucket(20),
        secs(6),
        &[(Nanos(8_999_999_999), Some(Nanos(1))), (secs(9), None)],
    );
    check_waits(bucket(100), 40, bucket(20), secs(6), &[(secs(9), None), (secs(9), Some(secs(3)))]);
}

#[test]
fn a_limit_from_before_a_counters_last_change_counts_from_that_change() {
    let late = LimitSpec { since: START.before(secs(50)), ..version(2, bucket(20)) };
    assert_eq!(remaining(&mut six_of_ten(late), 1, 1), 13);
}

#[test]
fn a_version_that_a_counter_never_saw_changes_nothing_about_it() {
    let mut bench = six_of_ten(version(2, bucket(1)));
    bench.limits.push(LimitSpec { since: START.after(secs(6)), ..version(3, bucket(20)) });
    assert!(!bench.acquire(secs(3), [under(1, take(1, 1))]).admitted);
    // 5 of the 10 are used in second 6 under version 1; of 20 a minute two more are free again in second 12.
    assert_eq!(bench.acquire(secs(12), [under(2, take(1, 1))]).decisions[0].remaining, 16);
}

#[test]
fn nodes_may_differ_about_when_a_version_came_into_force() {
    let mut bench = six_of_ten(LimitSpec { since: START, ..bucket(10) });
    assert_eq!(remaining(&mut bench, 1, 1), 3);
    assert_eq!(bench.shard.snapshot().limits.len(), 1);
}

#[test]
fn other_numbers_of_the_same_version_replace_each_other() {
    let mut bench = six_of_ten(bucket(20));
    assert_eq!(remaining(&mut bench, 1, 1), 13);
    assert_eq!(remaining(&mut bench, 0, 1), 2);
}

#[test]
fn the_same_numbers_of_a_newer_version_are_taken_over_as_they_are() {
    let mut bench = six_of_ten(version(2, bucket(10)));
    assert_eq!(remaining(&mut bench, 1, 1), 3);
    let limits = bench.shard.snapshot().limits;
    assert_eq!((limits.len(), limits[0].spec.version, limits[0].carried), (1, RulesVersion(2), Stamp::ZERO));
    assert_eq!(bench.one(secs(0), refund_as(1, 1, 6, START)), Reply::Refunded(vec![6]));
}

#[test]
fn a_counter_that_has_become_fresh_knows_no_version() {
    let mut bench = six_of_ten(version(2, bucket(20)));
    bench.acquire(secs(0), [under(1, take(1, 1))]);
    assert_eq!(bench.acquire(secs(60), [take(1, 1)]).decisions[0].remaining, 9, "decided by the 10 it asks");
}

#[test]
fn a_charge_under_other_numbers_is_not_refunded() {
    let mut bench = six_of_ten(version(2, bucket(20)));
    bench.acquire(secs(1), [under(1, take(1, 1))]);
    assert_eq!(bench.one(secs(1), refund_as(1, 1, 6, START)), Reply::Refunded(vec![0]));
    bench.restart();
    assert_eq!(bench.one(secs(1), refund_as(2, 1, 6, START)), Reply::Refunded(vec![0]));
    bench.acquire(secs(3), [under(1, take(1, 4))]);
    let charged_at = START.after(secs(3));
    assert_eq!(bench.one(secs(3), refund_as(3, 1, 4, charged_at)), Reply::Refunded(vec![4]));
}

#[test]
fn a_counter_may_move_to_another_algorithm_and_within_one_request() {
    let log = version(2, spec(Algorithm::SlidingLog, 10));
    let mut bench = six_of_ten(log);
    assert!(!bench.acquire(secs(0), [take(1, 2), under(1, take(1, 3))]).admitted);
    assert!(bench.acquire(secs(0), [take(1, 2), under(1, take(1, 2))]).admitted);
    let snapshot = bench.shard.snapshot();
    assert_eq!((snapshot.limits.len(), snapshot.limits[0].spec.version), (1, RulesVersion(2)));
    bench.restart();
    assert!(!bench.acquire(secs(0), [take(1, 1)]).admitted);
}
