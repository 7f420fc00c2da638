//! A request under one id is charged once and answered the same.

use leasehold_model::Nanos;
use leasehold_shard::{DECISIONS_PER_REPLY, Refusal, Reply};

use super::*;

#[test]
fn a_retry_is_charged_once_and_answered_the_same() {
    let mut bench = Bench::new([bucket(10)]);
    let first = bench.one(secs(0), acquire_as(1, [take(1, 4)]));
    bench.acquire(secs(1), [take(1, 2)]);
    assert_eq!(bench.one(secs(2), acquire_as(1, [take(1, 4)])), first);
    assert_eq!(bench.left(secs(2), 1), 4);
}

#[test]
fn a_retry_in_the_same_batch_is_charged_once() {
    let mut bench = Bench::new([bucket(10)]);
    let replies = bench.batch(secs(0), vec![acquire_as(1, [take(1, 4)]); 3]);
    assert!(replies.iter().all(|reply| *reply == replies[0]));
    assert_eq!(bench.left(secs(0), 1), 6);
}

#[test]
fn a_retry_after_a_restore_is_charged_once_and_answered_the_same() {
    let mut bench = Bench::new([bucket(10)]);
    let first = bench.one(secs(0), acquire_as(1, [take(1, 4)]));
    bench.restart();
    assert_eq!(bench.one(secs(2), acquire_as(1, [take(1, 4)])), first);
    assert_eq!(bench.left(secs(2), 1), 6);
}

#[test]
fn a_denial_under_an_id_is_answered_the_same_too() {
    let mut bench = Bench::new([bucket(10)]);
    bench.acquire(secs(0), [take(1, 10)]);
    let denied = bench.one(secs(0), acquire_as(1, [take(1, 1)]));
    assert!(!acquired(denied.clone()).admitted);
    assert_eq!(bench.one(secs(30), acquire_as(1, [take(1, 1)])), denied);
    assert!(acquired(bench.one(secs(30), acquire_as(2, [take(1, 1)]))).admitted);
}

#[test]
fn an_id_that_was_used_for_something_else_is_refused() {
    let mut bench = Bench::new([bucket(10)]);
    bench.one(secs(0), acquire_as(1, [take(1, 4)]));
    for other in [
        acquire_as(1, [take(1, 5)]),
        acquire_as(1, [take(2, 4)]),
        acquire_as(1, [take(1, 4), take(1, 4)]),
        acquire_as(1, [take(1, 0)]),
        refund_as(1, 1, 4, START),
    ] {
        assert_eq!(bench.one(secs(0), other), Reply::Refused(Refusal::RequestIdReused));
    }
    assert_eq!(bench.left(secs(0), 1), 6);
}

#[test]
fn a_retry_after_new_rules_is_still_the_same_request() {
    let mut bench = Bench::new([bucket(10)]);
    let first = bench.one(secs(0), acquire_as(1, [take(1, 4)]));
    bench.limits = vec![LimitSpec { version: RulesVersion(2), ..bucket(20) }];
    assert_eq!(bench.one(secs(0), acquire_as(1, [take(1, 4)])), first);
    assert_eq!(bench.one(secs(0), acquire_as(1, [shadow(take(1, 4))])), first);
}

#[test]
fn after_the_retry_window_an_id_is_new() {
    let mut bench = Bench::new([bucket(1_000)]);
    let window = bench.bounds.retry_window;
    bench.one(secs(0), acquire_as(1, [take(1, 400)]));
    let last_ns = Nanos(window.0 - 1);
    assert_eq!(acquired(bench.one(last_ns, acquire_as(1, [take(1, 400)]))).at, START);
    let again = acquired(bench.one(window, acquire_as(1, [take(1, 400)])));
    assert_eq!((again.admitted, again.at), (true, START.after(window)));
    assert_eq!(bench.shard.snapshot().replies.len(), 1);
}

#[test]
fn expired_replies_go_as_commands_come_and_on_ticks() {
    let mut bench = Bench::new([bucket(1_000)]);
    for seq in 0..100 {
        bench.one(secs(0), acquire_as(seq, [take(1, 1)]));
    }
    bench.acquire(secs(61), [take(1, 0)]);
    let left = bench.shard.snapshot().replies.len();
    assert!((1..100).contains(&left), "{left}: some, not all at once");
    bench.batch(secs(61), []);
    assert_eq!(bench.shard.snapshot().replies.len(), 0);
}

#[test]
fn a_tenant_with_too_many_ids_is_refused_new_ones_and_nobody_else_is() {
    let bounds = Bounds { replies_per_tenant_max: 3, ..Bounds::default() };
    let other = LimitSpec { tenant: TenantId(2), ..bucket(10) };
    let mut bench = Bench::within(bounds, [bucket(10), other]);
    for seq in 0..3 {
        assert!(acquired(bench.one(secs(0), acquire_as(seq, [take(1, 1)]))).admitted);
    }
    let full = Reply::Refused(Refusal::RepliesFull(TenantId(1)));
    assert_eq!(bench.one(secs(0), acquire_as(3, [take(1, 1)])), full);
    assert_eq!(bench.one(secs(0), refund_as(4, 1, 1, START)), full);
    assert!(acquired(bench.one(secs(0), acquire_as(0, [take(1, 1)]))).admitted, "a retry is answered");
    assert!(bench.acquire(secs(0), [take(1, 1)]).admitted, "without an id there is nothing to remember");
    assert!(acquired(bench.one(secs(0), acquire_as(5, [under(1, take(2, 1))]))).admitted);
    assert_eq!(bench.left(secs(0), 1), 6);
    assert!(acquired(bench.one(secs(60), acquire_as(3, [take(1, 1)]))).admitted, "room again");
}

#[test]
fn a_long_reply_counts_as_several_so_that_the_bound_is_one_of_bytes() {
    let bounds = Bounds { replies_per_tenant_max: 5, ..Bounds::default() };
    let mut bench = Bench::within(bounds, [bucket(10)]);
    let under_limits = |count: usize| (0..).take(count).map(|n| take(n, 1)).collect::<Vec<_>>();
    let held = |bench: &Bench| bench.shard.snapshot().replies.len();
    bench.one(secs(0), acquire_as(1, under_limits(4 * DECISIONS_PER_REPLY)));
    let full = Reply::Refused(Refusal::RepliesFull(TenantId(1)));
    assert_eq!(bench.one(secs(0), acquire_as(2, under_limits(DECISIONS_PER_REPLY + 1))), full);
    bench.one(secs(0), acquire_as(3, under_limits(DECISIONS_PER_REPLY)));
    assert_eq!(bench.one(secs(0), acquire_as(4, [take(1, 1)])), full);
    bench.restart();
    assert_eq!((bench.one(secs(0), acquire_as(4, [take(1, 1)])), held(&bench)), (full, 2));
    bench.batch(secs(60), []);
    bench.one(secs(60), acquire_as(2, under_limits(5 * DECISIONS_PER_REPLY)));
    assert_eq!(held(&bench), 1, "all of the room is there again");
}
