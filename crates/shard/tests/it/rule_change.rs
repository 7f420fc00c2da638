//! Numbers change under running counters.

use leasehold_limit::Algorithm;
use leasehold_shard::Reply;

use super::*;

fn version(version: u64, spec: LimitSpec) -> LimitSpec {
    LimitSpec { version: RulesVersion(version), ..spec }
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

#[test]
fn a_denied_request_does_not_even_change_the_numbers() {
    let mut bench = six_of_ten(version(2, bucket(20)));
    let before = bench.shard.snapshot().limits;
    assert!(!bench.acquire(secs(0), [under(1, take(1, 15))]).admitted);
    assert_eq!(bench.shard.snapshot().limits, before);
    assert_eq!(remaining(&mut bench, 0, 1), 3);
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
