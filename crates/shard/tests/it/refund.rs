//! What comes back, comes back once, and never more than was taken.

use leasehold_limit::Algorithm;
use leasehold_shard::Reply;

use super::*;

#[test]
fn units_that_come_back_can_be_taken_again() {
    for algorithm in [Algorithm::TokenBucket { burst: 10 }, Algorithm::SlidingLog, Algorithm::SlidingCounter]
    {
        let mut bench = Bench::new([spec(algorithm, 10)]);
        bench.acquire(secs(0), [take(1, 10)]);
        assert_eq!(bench.one(secs(0), refund_as(1, 1, 4, START)), Reply::Refunded(vec![4]));
        assert_eq!(bench.left(secs(0), 1), 4);
    }
}

#[test]
fn a_refund_is_credited_once_under_its_id() {
    let mut bench = Bench::new([bucket(10)]);
    bench.acquire(secs(0), [take(1, 10)]);
    let first = bench.one(secs(0), refund_as(1, 1, 4, START));
    assert_eq!(bench.one(secs(0), refund_as(1, 1, 4, START)), first);
    bench.restart();
    assert_eq!(bench.one(secs(0), refund_as(1, 1, 4, START)), first);
    assert_eq!(bench.left(secs(0), 1), 4);
}

#[test]
fn a_refund_of_everything_leaves_no_counter() {
    let mut bench = Bench::new([bucket(10)]);
    bench.acquire(secs(0), [take(1, 10)]);
    assert_eq!(bench.one(secs(0), refund_as(1, 1, 10, START)), Reply::Refunded(vec![10]));
    assert_eq!(bench.shard.keys(), 0);
}

#[test]
fn a_counter_that_is_gone_gets_nothing_back_and_nothing_is_remembered() {
    let mut bench = Bench::new([bucket(10)]);
    assert_eq!(bench.one(secs(0), refund_as(1, 1, 4, START)), Reply::Refunded(vec![0]));
    bench.acquire(secs(0), [take(2, 10)]);
    assert_eq!(bench.one(secs(60), refund_as(2, 2, 4, START)), Reply::Refunded(vec![0]));
    assert!(bench.shard.snapshot().replies.is_empty());
}

#[test]
fn a_refund_names_each_counter_in_order() {
    let mut bench = Bench::new([bucket(10)]);
    bench.acquire(secs(0), [take(1, 3), take(2, 5)]);
    let item = |n, cost| RefundItem { key: key(n), cost, charged_at: START };
    let items = vec![item(9, 1), item(2, 5), item(1, 2), item(1, 2)];
    let reply = bench.one(secs(0), Command::Refund(Refund { id: id(1), items }));
    assert_eq!(reply, Reply::Refunded(vec![0, 5, 2, 1]));
}

#[test]
fn nothing_comes_back_once_a_second_return_could_not_be_told_from_the_first() {
    let mut bench = Bench::new([spec(Algorithm::SlidingLog, 10)]);
    let window = bench.bounds.retry_window;
    bench.limits[0].limit =
        leasehold_limit::Limit::new(Algorithm::SlidingLog, 10, secs(3_600)).expect("valid");
    bench.acquire(secs(0), [take(1, 10)]);
    assert_eq!(bench.one(Nanos(window.0 - 1), refund_as(1, 1, 4, START)), Reply::Refunded(vec![4]));
    // Its reply is remembered for as long again; a copy that comes later finds neither it nor a charge to return.
    assert_eq!(bench.one(Nanos(window.0 * 2 - 2), refund_as(1, 1, 4, START)), Reply::Refunded(vec![4]));
    assert_eq!(bench.one(Nanos(window.0 * 2), refund_as(1, 1, 4, START)), Reply::Refunded(vec![0]));
    assert_eq!(bench.left(Nanos(window.0 * 2), 1), 4);
}
