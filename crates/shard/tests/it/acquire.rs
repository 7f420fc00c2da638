//! All or none, in order, and nothing for a look.

use leasehold_limit::{Algorithm, Ask, RetryAfter};
use leasehold_shard::{Acquire, Refusal, Reply};

use super::*;

fn granted(acquired: &Acquired) -> Vec<u64> {
    acquired.decisions.iter().map(|decision| decision.granted).collect()
}

fn allowed(acquired: &Acquired) -> Vec<bool> {
    acquired.decisions.iter().map(|decision| decision.allowed).collect()
}

#[test]
fn a_request_under_several_limits_is_charged_to_all() {
    let mut bench = Bench::new([bucket(10), bucket(5)]);
    let answer = bench.acquire(secs(0), [take(1, 3), under(1, take(2, 3))]);
    assert_eq!((answer.admitted, granted(&answer), answer.at), (true, vec![3, 3], START));
    assert_eq!([0, 1].map(|i| answer.decisions[i].remaining), [7, 2]);
    assert!(!bench.acquire(secs(0), [under(1, take(2, 3))]).admitted);
}

#[test]
fn a_request_that_one_limit_refuses_is_charged_to_none() {
    let mut bench = Bench::new([bucket(10), bucket(5)]);
    let before = bench.shard.snapshot().counters;
    let answer = bench.acquire(secs(0), [take(1, 3), under(1, take(2, 6)), take(3, 1)]);
    assert_eq!((answer.admitted, allowed(&answer)), (false, vec![true, false, true]));
    assert_eq!(granted(&answer), [0, 0, 0]);
    assert_eq!(answer.decisions[0].remaining, 10, "nothing was taken, and it says so");
    assert_eq!(answer.decisions[1].retry_after, Some(RetryAfter::Never));
    assert_eq!(bench.shard.snapshot().counters, before);
}

#[test]
fn a_counter_that_stands_twice_pays_for_each() {
    for algorithm in [Algorithm::TokenBucket { burst: 10 }, Algorithm::SlidingLog, Algorithm::SlidingCounter]
    {
        let mut bench = Bench::new([spec(algorithm, 10)]);
        let refused = bench.acquire(secs(0), [take(1, 6), take(1, 6)]);
        assert_eq!((refused.admitted, allowed(&refused)), (false, vec![true, false]));
        assert_eq!(bench.left(secs(0), 1), 10);
        let admitted = bench.acquire(secs(0), [take(1, 6), take(1, 4)]);
        assert_eq!((admitted.admitted, granted(&admitted)), (true, vec![6, 4]));
        assert_eq!(bench.left(secs(0), 1), 0);
    }
}

#[test]
fn a_long_log_that_stands_twice_is_charged_for_both_or_neither() {
    let mut bench = Bench::new([spec(Algorithm::SlidingLog, 10)]);
    for second in 0..4 {
        bench.acquire(secs(second), [take(1, 1)]);
    }
    assert!(!bench.acquire(secs(4), [take(1, 3), take(1, 4)]).admitted);
    assert_eq!(bench.left(secs(4), 1), 6);
    assert!(bench.acquire(secs(4), [take(1, 3), take(1, 3)]).admitted);
    assert_eq!(bench.left(secs(4), 1), 0);
}

#[test]
fn concurrent_asks_of_one_batch_admit_exactly_the_limit() {
    let mut bench = Bench::new([bucket(10)]);
    let replies = bench.batch(secs(0), vec![acquire([take(1, 1)]); 100]);
    let admitted: Vec<bool> = replies.into_iter().map(|reply| acquired(reply).admitted).collect();
    assert_eq!(admitted.iter().filter(|&&admitted| admitted).count(), 10);
    assert!(admitted[..10].iter().all(|&admitted| admitted), "in order");
}

#[test]
fn a_range_is_granted_as_far_as_it_fits() {
    let mut bench = Bench::new([bucket(10)]);
    let range = |min, max| Demand { ask: Ask { min, max }, ..take(1, 0) };
    assert_eq!(granted(&bench.acquire(secs(0), [range(1, 7)])), [7]);
    assert_eq!(granted(&bench.acquire(secs(0), [range(1, 7)])), [3]);
    assert!(!bench.acquire(secs(0), [range(1, 7)]).admitted);
}

#[test]
fn a_shadow_demand_refuses_nothing_and_pays_when_it_fits() {
    let mut bench = Bench::new([bucket(10), bucket(2)]);
    for (round, paid) in [(0, 1), (1, 1), (2, 0)] {
        let answer = bench.acquire(secs(0), [take(1, 1), shadow(under(1, take(2, 1)))]);
        assert_eq!((answer.admitted, granted(&answer)), (true, vec![1, paid]), "round {round}");
    }
    assert!(!bench.acquire(secs(0), [take(1, 99), shadow(under(1, take(3, 1)))]).admitted);
    assert_eq!(bench.left(secs(0), 3), 10, "a shadow is charged only with the rest");
}

#[test]
fn peeks_change_nothing() {
    let mut bench = Bench::new([bucket(10)]);
    bench.acquire(secs(0), [take(1, 10)]);
    let before = bench.shard.snapshot();
    for command in [acquire([take(1, 0)]), acquire([take(2, 0), take(3, 0)]), acquire([])] {
        bench.one(secs(0), command);
    }
    let answer = acquired(bench.one(secs(0), acquire_as(1, [take(1, 0)])));
    assert!(!answer.admitted && answer.decisions[0].retry_after.is_some());
    let after = bench.shard.snapshot();
    assert_eq!((after.counters, after.replies), (before.counters, before.replies));
}

#[test]
fn a_preview_is_what_applying_answers_and_changes_nothing() {
    let mut bench = Bench::new([bucket(10)]);
    for demands in
        [vec![take(1, 4)], vec![take(1, 4), take(1, 4)], vec![take(1, 7), take(2, 1)], vec![take(1, 0)]]
    {
        for id in [None, Some(id(demands.len() as u64))] {
            let ask = Acquire { id, demands: demands.clone(), remember_denial: true };
            let hash = bench.shard.state_hash();
            let preview = bench.shard.preview(&bench.limits, &ask, START);
            assert_eq!(bench.shard.state_hash(), hash);
            assert_eq!(bench.one(secs(0), Command::Acquire(ask.clone())), preview);
            if id.is_some() && !ask.demands[0].ask.is_peek() {
                assert_eq!(bench.shard.preview(&bench.limits, &ask, START), preview, "it is remembered");
            }
        }
    }
}

#[test]
fn only_what_changes_nothing_is_settled_without_the_log() {
    let mut bench = Bench::new([bucket(10)]);
    let ask = |id, demand| Acquire { id, demands: vec![demand], remember_denial: true };
    bench.one(secs(0), acquire_as(1, [take(1, 4)]));
    for (acquire, settled) in [
        (ask(None, take(1, 6)), false),
        (ask(None, take(1, 7)), true),
        (ask(None, take(1, 0)), true),
        (ask(Some(id(1)), take(1, 4)), true),
        (ask(Some(id(1)), take(1, 5)), true),
        (ask(Some(id(2)), take(1, 7)), false),
        (ask(None, under(9, take(1, 1))), true),
    ] {
        let reply = bench.shard.settled(&bench.limits, &acquire, START);
        assert_eq!(reply.is_some(), settled, "{acquire:?}");
        if settled {
            assert_eq!(reply, Some(bench.one(secs(0), Command::Acquire(acquire))));
        }
    }
}

#[test]
fn time_in_a_shard_never_runs_backwards() {
    let mut bench = Bench::new([bucket(60)]);
    bench.acquire(secs(100), [take(1, 60)]);
    assert_eq!(bench.acquire(secs(50), [take(1, 1)]).at, START.after(secs(100)));
    assert!(bench.acquire(secs(101), [take(1, 1)]).admitted);
    assert_eq!(bench.shard.last(), START.after(secs(101)));
}

#[test]
fn a_reset_makes_counters_fresh_and_counts_those_that_held_anything() {
    let mut bench = Bench::new([bucket(10)]);
    bench.acquire(secs(0), [take(1, 10), take(2, 1)]);
    assert_eq!(bench.one(secs(0), reset([1, 3, 1])), Reply::Reset(1));
    assert_eq!((bench.left(secs(0), 1), bench.left(secs(0), 2)), (10, 9));
    assert_eq!(bench.one(secs(60), reset([2])), Reply::Reset(0), "it had refilled");
}

#[test]
fn a_command_that_no_honest_peer_sends_is_refused_and_changes_nothing() {
    let bounds = Bounds { items_max: 2, ..Bounds::default() };
    let mut bench = Bench::within(bounds, [bucket(10)]);
    let backwards = Demand { ask: Ask { min: 2, max: 1 }, ..take(1, 0) };
    for command in [
        acquire([take(1, 1), under(1, take(2, 1))]),
        acquire_as(1, [under(u32::MAX, take(2, 1))]),
        acquire([take(1, 1), take(2, 1), take(3, 1)]),
        acquire([backwards]),
        reset([1, 2, 3]),
        Command::Refund(Refund {
            id: id(1),
            items: vec![RefundItem { key: key(1), cost: 1, charged_at: START }; 3],
        }),
    ] {
        assert_eq!(bench.one(secs(0), command), Reply::Refused(Refusal::Malformed));
        let snapshot = bench.shard.snapshot();
        assert!(snapshot.counters.is_empty() && snapshot.replies.is_empty());
    }
}
