//! Snapshots, taken and restored.

use leasehold_limit::{Ask, BucketState, Limit, WindowState};
use leasehold_model::{Nanos, RulesVersion, TenantId};

use super::*;
use crate::{Acquire, Batch, Command, Demand, LimitSpec, Reply};

fn spec(algorithm: Algorithm) -> LimitSpec {
    let limit = Limit::new(algorithm, 10, Nanos::from_secs(60)).expect("valid");
    LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit }
}

/// Two counters of two algorithms and two replies.
fn taken() -> Snapshot {
    let mut shard = Shard::new(Bounds::default());
    let acquire = |seq, limit| {
        let key = Key { high: seq << 60, low: seq };
        let demands = vec![Demand { key, limit, ask: Ask::exactly(3), shadow: false }];
        Command::Acquire(Acquire { id: Some(RequestId { session: 9, seq }), remember_denial: true, demands })
    };
    let limits = vec![spec(Algorithm::TokenBucket { burst: 10 }), spec(Algorithm::SlidingLog)];
    shard.apply(
        &Batch { limits, commands: vec![acquire(1, 0), acquire(2, 1)], ..Batch::default() },
        Stamp(1_000),
    );
    shard.snapshot()
}

#[track_caller]
fn check(change: impl FnOnce(&mut Snapshot), expected: RestoreError) {
    let mut snapshot = taken();
    change(&mut snapshot);
    assert_eq!(Shard::restore(snapshot, Bounds::default()).expect_err("inconsistent"), expected);
}

#[test]
fn an_untouched_snapshot_restores() {
    let shard = Shard::restore(taken(), Bounds::default()).expect("consistent");
    assert_eq!((shard.snapshot(), shard.keys()), (taken(), 2));
}

#[test]
fn limits_out_of_order_are_refused() {
    check(|s| s.limits.reverse(), RestoreError::LimitOrder { index: 1 });
}

#[test]
fn a_limit_that_is_there_twice_is_refused() {
    check(|s| s.limits[1] = s.limits[0].clone(), RestoreError::LimitOrder { index: 1 });
}

#[test]
fn a_limit_of_no_counter_is_refused() {
    check(|s| drop(s.counters.pop()), RestoreError::LimitUnused { index: 1 });
}

#[test]
fn counters_out_of_order_are_refused() {
    check(|s| s.counters.reverse(), RestoreError::CounterOrder { index: 1 });
}

#[test]
fn a_counter_of_no_limit_is_refused() {
    check(|s| s.counters[1].limit = 2, RestoreError::CounterLimit { index: 1, limit: 2 });
}

#[test]
fn a_counter_with_the_memory_of_another_algorithm_is_refused() {
    let window = State::Window(WindowState::default());
    check(|s| s.counters[0].state = window, RestoreError::CounterState { index: 0 });
    let bucket = State::Bucket(BucketState::default());
    check(|s| s.counters[1].state = bucket, RestoreError::CounterState { index: 1 });
}

#[test]
fn a_log_out_of_order_is_refused() {
    let log = State::Log([(Stamp(2), 1), (Stamp(2), 1)].into_iter().collect());
    check(|s| s.counters[1].state = log, RestoreError::LogOrder { index: 1 });
}

#[test]
fn replies_from_the_future_or_out_of_order_are_refused() {
    check(|s| s.last = Stamp(999), RestoreError::ReplyOrder { index: 0 });
    check(|s| s.replies[1].at = Stamp(1), RestoreError::ReplyOrder { index: 1 });
}

#[test]
fn two_replies_to_one_request_are_refused() {
    let id = RequestId { session: 9, seq: 1 };
    check(|s| s.replies[1].id = id, RestoreError::ReplyTwice { index: 1, id });
}

#[test]
fn a_shard_may_be_restored_beyond_its_bounds_and_then_refuses_newcomers() {
    let bounds = Bounds { keys_max: 1, ..Bounds::default() };
    let mut shard = Shard::restore(taken(), bounds).expect("consistent");
    let demands =
        vec![Demand { key: Key { high: 5, low: 5 }, limit: 0, ask: Ask::exactly(1), shadow: false }];
    let commands = vec![Command::Acquire(Acquire { id: None, demands, remember_denial: true })];
    let limits = vec![spec(Algorithm::SlidingLog)];
    let replies = shard.apply(&Batch { limits, commands, ..Batch::default() }, Stamp(1_000));
    assert_eq!((shard.keys(), replies), (2, vec![Reply::Refused(crate::Refusal::KeysFull(TenantId(1)))]));
}
