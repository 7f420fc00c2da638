//! Short examples that explain an algorithm better than a property does.

use leasehold_model::{Nanos, Stamp};

use crate::{Algorithm, Ask, Decision, Limit, RetryAfter, State, Window};

const SECOND: u64 = 1_000_000_000;

/// 5 a minute by each algorithm.
fn five_a_minute(algorithm: Algorithm) -> Limit {
    Limit::new(algorithm, 5, Nanos::from_secs(60)).unwrap()
}

fn bucket(n: u64, period: u64, burst: u64) -> Limit {
    Limit::new(Algorithm::TokenBucket { burst }, n, Nanos(period)).unwrap()
}

fn at(seconds: u64) -> Stamp {
    Stamp(seconds * SECOND)
}

/// Takes what an exact ask gets, from the state that earlier ones left.
fn take(limit: &Limit, state: &mut State, seconds: u64, cost: u64) -> Decision {
    limit.acquire(state, at(seconds), Ask::exactly(cost))
}

#[track_caller]
fn check_two_bursts(algorithm: Algorithm, at_60_s: usize, at_90_s: usize) {
    let limit = five_a_minute(algorithm);
    for (second, expected) in [(60, at_60_s), (90, at_90_s)] {
        let mut state = limit.fresh();
        let bursts = [59; 5].into_iter().chain([second; 5]);
        let admitted = bursts.filter(|&seconds| take(&limit, &mut state, seconds, 1).allowed).count();
        assert_eq!(admitted, expected, "of five at 59 s and five at {second} s");
    }
}

#[test]
fn two_bursts_tell_the_algorithms_apart() {
    check_two_bursts(Algorithm::FixedWindow(Window::Epoch), 10, 10);
    check_two_bursts(Algorithm::SlidingLog, 5, 5);
    check_two_bursts(Algorithm::SlidingCounter, 5, 8);
    check_two_bursts(Algorithm::TokenBucket { burst: 5 }, 5, 7);
    check_two_bursts(Algorithm::LeakyBucket { burst: 5 }, 5, 7);
}

#[test]
fn a_range_gets_what_is_left_and_nothing_below_its_least() {
    let limit = bucket(5, 60 * SECOND, 5);
    let mut state = limit.fresh();
    assert_eq!(limit.acquire(&mut state, at(0), Ask { min: 2, max: 3 }).granted, 3);
    let refused = limit.acquire(&mut state, at(0), Ask { min: 3, max: 9 });
    assert_eq!((refused.allowed, refused.granted, refused.remaining), (false, 0, 2));
    assert_eq!(refused.retry_after, Some(RetryAfter::In(Nanos::from_secs(12))));
    assert_eq!(limit.acquire(&mut state, at(0), Ask { min: 1, max: 9 }).granted, 2);
}

#[test]
fn odd_asks_are_read_as_the_nearest_sensible_one() {
    let limit = bucket(5, SECOND, 5);
    let decide = |min, max| limit.decide(&limit.fresh(), at(0), Ask { min, max });
    assert_eq!(decide(4, 2), decide(4, 4));
    assert_eq!(decide(0, 2), decide(1, 2));
    assert_eq!(decide(9, 0), decide(0, 0));
}

#[test]
fn a_peek_is_decided_as_one_unit_and_takes_nothing() {
    let limit = bucket(1, SECOND, 1);
    let mut state = limit.fresh();
    let peek = limit.acquire(&mut state, at(0), Ask::PEEK);
    assert_eq!((peek.allowed, peek.granted, peek.remaining), (true, 0, 1));
    take(&limit, &mut state, 0, 1);
    assert_eq!(limit.decide(&state, at(0), Ask::PEEK).retry_after, Some(RetryAfter::In(Nanos(SECOND))));
}

#[test]
fn a_limit_of_zero_blocks_everything_for_ever() {
    for algorithm in [Algorithm::FixedWindow(Window::Epoch), Algorithm::SlidingLog, Algorithm::SlidingCounter]
    {
        let limit = Limit::new(algorithm, 0, Nanos(SECOND)).unwrap();
        let decision = limit.decide(&limit.fresh(), at(7), Ask::PEEK);
        assert_eq!((decision.allowed, decision.retry_after), (false, Some(RetryAfter::Never)));
        assert_eq!((decision.next_unit_after, decision.reset_after), (Nanos::MAX, Nanos::ZERO));
    }
}

#[test]
fn a_bucket_credits_only_what_was_not_refilled_since_the_charge() {
    let limit = bucket(1, SECOND, 10);
    let mut state = limit.fresh();
    take(&limit, &mut state, 0, 10);
    take(&limit, &mut state, 4, 4);
    assert_eq!(limit.refund(&mut state, at(4), 10, at(0)), 6, "4 of the 10 came back by themselves");
    assert_eq!(limit.decide(&state, at(4), Ask::PEEK).remaining, 6);
}

#[test]
fn a_window_that_ended_credits_nothing() {
    let limit = five_a_minute(Algorithm::FixedWindow(Window::Epoch));
    let mut state = limit.fresh();
    take(&limit, &mut state, 59, 5);
    take(&limit, &mut state, 60, 5);
    assert_eq!(limit.refund(&mut state, at(60), 5, at(59)), 0);
    assert_eq!(limit.refund(&mut state, at(61), 2, at(60)), 2);
}

#[test]
fn a_log_keeps_one_entry_a_stamp_and_forgets_what_left() {
    let limit = Limit::new(Algorithm::SlidingLog, 10, Nanos(SECOND)).unwrap();
    let mut state = limit.fresh();
    take(&limit, &mut state, 5, 1);
    take(&limit, &mut state, 5, 2);
    let State::Log(log) = &state else { panic!("a log's state") };
    assert_eq!(*log.entries(), [(at(5), 3)]);
    take(&limit, &mut state, 6, 10);
    let State::Log(log) = &state else { panic!("a log's state") };
    assert_eq!(*log.entries(), [(at(6), 10)], "an entry exactly one period old has left");
}

#[test]
fn nginx_limit_req_is_a_shaper_and_its_nodelay_a_bucket_of_one_more() {
    // limit_req rate=1r/s burst=2: one goes ahead, two wait their turn, the fourth is refused.
    let delay = Limit::new(Algorithm::Shaper { queue: 3 }, 1, Nanos(SECOND)).unwrap();
    let mut state = delay.fresh();
    let waits: Vec<_> = (0..3).map(|_| take(&delay, &mut state, 0, 1).wait).collect();
    assert_eq!(waits, [Some(Nanos(0)), Some(Nanos(SECOND)), Some(Nanos(2 * SECOND))]);

    let nodelay = bucket(1, SECOND, 3);
    let mut state = nodelay.fresh();
    let allowed: Vec<_> = (0..4).map(|_| take(&nodelay, &mut state, 0, 1).allowed).collect();
    assert_eq!(allowed, [true, true, true, false]);
}

#[test]
fn a_raised_shaper_keeps_the_departures_it_promised() {
    let slow = Limit::new(Algorithm::Shaper { queue: 9 }, 1, Nanos(SECOND)).unwrap();
    let fast = Limit::new(Algorithm::Shaper { queue: 99 }, 10, Nanos(SECOND)).unwrap();
    let mut state = slow.fresh();
    take(&slow, &mut state, 0, 5);
    fast.carry_over(&slow, &mut state, at(0));
    assert_eq!(take(&fast, &mut state, 0, 1).wait, Some(Nanos(5 * SECOND)));
}

#[test]
fn another_algorithm_takes_over_what_is_used() {
    let minute = five_a_minute(Algorithm::FixedWindow(Window::Epoch));
    let mut state = minute.fresh();
    take(&minute, &mut state, 60, 4);
    let log = five_a_minute(Algorithm::SlidingLog);
    log.carry_over(&minute, &mut state, at(61));
    assert_eq!(log.decide(&state, at(61), Ask::PEEK).remaining, 1);
    let small = bucket(1, SECOND, 2);
    small.carry_over(&log, &mut state, at(61));
    assert_eq!(
        small.decide(&state, at(61), Ask::PEEK).remaining,
        0,
        "clipped to its burst: full, not in debt"
    );
    assert_eq!(small.decide(&state, at(62), Ask::PEEK).remaining, 1);
}

#[test]
fn numbers_that_make_no_limit_are_named() {
    let message = |algorithm, n, period| Limit::new(algorithm, n, Nanos(period)).unwrap_err().to_string();
    assert!(message(Algorithm::SlidingLog, 1, 0).starts_with("period is 0"));
    assert!(message(Algorithm::TokenBucket { burst: 1 }, 0, 1).starts_with("rate is 0"));
    assert!(message(Algorithm::LeakyBucket { burst: 0 }, 1, 1).starts_with("burst is 0"));
    assert!(message(Algorithm::Shaper { queue: 0 }, 1, 1).starts_with("queue is 0"));
    assert!(message(Algorithm::TokenBucket { burst: u64::MAX }, 1, SECOND).contains("longer than 290 years"));
}
