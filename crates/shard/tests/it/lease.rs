//! Units on leases: what they keep from others, when they end, and that an ask is carried out once.

use leasehold_lease::{
    EdgeId, LIFETIME_DEFAULT, LeaseAsk, LeaseId, Leased, MilliRate, Usage, owner_lifetime,
};
use leasehold_limit::{RetryAfter, Window};

use super::*;

fn wants(n: u64, need: u64, want: u64) -> LeaseAsk {
    let rate = MilliRate(1_000);
    LeaseAsk { edge: EdgeId(1), key: key(n), need, want, rate, lifetime: LIFETIME_DEFAULT, usage: Vec::new() }
}

fn told(n: u64, lease: LeaseId, spent_total: u64, returned_total: u64) -> LeaseAsk {
    LeaseAsk { usage: vec![Usage { lease, spent_total, returned_total }], ..wants(n, 0, 0) }
}

fn lease_as(id: Option<RequestId>, ask: LeaseAsk) -> Command {
    Command::Lease(LeaseCommand { id, limit: 0, ask })
}

#[track_caller]
fn leased(reply: Reply) -> Leased {
    match reply {
        Reply::Leased(leased) => leased,
        Reply::Acquired(_) | Reply::Refunded(_) | Reply::Reset(_) | Reply::Refused(_) => {
            panic!("not leased: {reply:?}")
        }
    }
}

impl Bench {
    fn lease(&mut self, after: Nanos, ask: LeaseAsk) -> Leased {
        leased(self.one(after, lease_as(None, ask)))
    }

    fn settled(&self, after: Nanos, id: Option<RequestId>, ask: LeaseAsk) -> Option<Reply> {
        self.shard.settled_lease(&self.limits, &LeaseCommand { id, limit: 0, ask }, START.after(after))
    }
}

const ENDED: Nanos = owner_lifetime(LIFETIME_DEFAULT);

#[test]
fn units_on_a_lease_are_not_anybody_elses() {
    let mut bench = Bench::new([bucket(100)]);
    assert_eq!(bench.lease(secs(0), wants(1, 0, 70)).granted, 70);
    assert_eq!(bench.left(secs(3), 1), 30, "they don't refill");
    let refused = bench.acquire(secs(3), [take(1, 31)]);
    assert!(!refused.admitted);
    assert!(matches!(refused.decisions[0].retry_after, Some(RetryAfter::In(wait)) if wait < secs(60)));
    assert!(bench.acquire(secs(3), [take(1, 30)]).admitted);
}

#[test]
fn a_wait_that_was_told_beside_leases_admits_and_a_nanosecond_less_does_not() {
    for algorithm in [
        Algorithm::TokenBucket { burst: 20 },
        Algorithm::FixedWindow(Window::Epoch),
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
    ] {
        let mut bench = Bench::new([spec(algorithm, 20)]);
        bench.lease(secs(0), wants(1, 2, 10));
        bench.lease(secs(1), wants(1, 0, 5));
        let refused = bench.acquire(secs(2), [take(1, 15)]);
        let Some(RetryAfter::In(wait)) = refused.decisions[0].retry_after else { panic!("{refused:?}") };
        let later = secs(2).0 + wait.0;
        assert!(!bench.acquire(Nanos(later - 1), [take(1, 15)]).admitted, "{:?}", bench.limits[0].limit);
        assert!(bench.acquire(Nanos(later), [take(1, 15)]).admitted, "{:?}", bench.limits[0].limit);
    }
}

#[test]
fn a_lost_reply_mints_no_tokens() {
    let mut bench = Bench::new([bucket(100)]);
    let ask = || lease_as(Some(id(1)), wants(1, 0, 50));
    let first = bench.one(secs(0), ask());
    bench.restart();
    assert_eq!(bench.settled(secs(1), Some(id(1)), wants(1, 0, 50)), Some(first.clone()));
    assert_eq!(bench.one(secs(1), ask()), first, "asked again it is the same lease");
    assert_eq!((bench.left(secs(1), 1), bench.shard.leases().count()), (50, 1));
    // Whoever never asks again strands what was lent, and no more.
    assert_eq!(bench.left(ENDED, 1), 50);
    assert_eq!(bench.shard.lease_totals().live, 50, "nobody looked yet");
    bench.batch(ENDED, []);
    assert_eq!((bench.shard.lease_totals().lapsed, bench.shard.lease_totals().live), (50, 0));
}

#[test]
fn an_id_stands_for_one_ask() {
    let mut bench = Bench::new([bucket(100)]);
    bench.one(secs(0), lease_as(Some(id(1)), wants(1, 2, 50)));
    let reused = bench.one(secs(0), lease_as(Some(id(1)), wants(1, 2, 51)));
    assert_eq!(reused, Reply::Refused(leasehold_shard::Refusal::RequestIdReused));
    let more = LeaseAsk {
        usage: vec![Usage { lease: LeaseId(0), spent_total: 1, returned_total: 0 }],
        ..wants(1, 2, 50)
    };
    let again = leased(bench.one(secs(0), lease_as(Some(id(1)), more)));
    assert_eq!(again.granted, 48, "told more, it is the same ask");
}

#[test]
fn a_counter_with_units_out_is_never_dropped() {
    for algorithm in [Algorithm::TokenBucket { burst: 100 }, Algorithm::SlidingLog] {
        let mut bench = Bench::new([spec(algorithm, 6_000)]);
        bench.lease(secs(0), wants(1, 0, 10));
        for second in 1..5 {
            bench.batch(secs(second), []);
            assert_eq!(bench.shard.keys(), 1);
        }
        assert_eq!(bench.shard.leases().map(|lease| lease.granted).sum::<u64>(), 10);
        for second in 5..80 {
            bench.batch(secs(second), []);
        }
        assert_eq!((bench.shard.keys(), bench.shard.leases_held()), (0, 0));
    }
}

#[test]
fn a_reset_leaves_used_what_may_be_spent_still() {
    let mut bench = Bench::new([bucket(100)]);
    bench.lease(secs(0), wants(1, 10, 40));
    assert_eq!(bench.one(secs(0), reset([1, 2])), Reply::Reset(1));
    assert_eq!(bench.left(secs(0), 1), 70);
    let lease = bench.shard.leases().next().expect("live").id;
    bench.lease(secs(0), told(1, lease, 0, 30));
    assert_eq!(bench.left(secs(0), 1), 100);
}

#[test]
fn a_refund_never_frees_what_is_out() {
    let mut bench = Bench::new([bucket(100)]);
    bench.acquire(secs(0), [take(1, 10)]);
    bench.lease(secs(0), wants(1, 0, 40));
    assert_eq!(bench.one(secs(0), refund_as(1, 1, 90, START)), Reply::Refunded(vec![10]));
    assert_eq!(bench.left(secs(0), 1), 60);
}

#[test]
fn leases_outlive_a_change_of_rules_and_stay_counted() {
    let new = LimitSpec { version: RulesVersion(2), ..spec(Algorithm::SlidingLog, 80) };
    let mut bench = Bench::new([bucket(100)]);
    let lease = bench.lease(secs(0), wants(1, 5, 45)).lease.expect("lent");
    bench.limits = vec![new];
    assert_eq!(bench.left(secs(1), 1), 35, "of 80, 40 are out and 5 were used when the rules changed");
    bench.acquire(secs(1), [take(1, 1)]);
    bench.lease(secs(2), told(1, lease, 10, 30));
    assert_eq!(bench.left(secs(2), 1), 64, "what came back is there, what was spent isn't");
}

#[test]
fn a_shaper_that_takes_over_keeps_what_is_out_queued() {
    let new = LimitSpec { version: RulesVersion(2), ..spec(Algorithm::Shaper { queue: 4 }, 60) };
    let mut bench = Bench::new([bucket(100)]);
    let lease = bench.lease(secs(0), wants(1, 0, 5)).lease.expect("lent");
    bench.limits = vec![new];
    assert_eq!(bench.left(secs(4), 1), 0, "one departs, four wait");
    let told = bench.lease(secs(4), told(1, lease, 3, 2));
    assert_eq!((told.remaining, bench.shard.lease_totals().live), (0, 0));
    assert_eq!((bench.left(secs(9), 1), bench.shard.lease_violations()), (4, 0));
}

#[test]
fn a_denial_that_tells_nothing_new_needs_no_entry() {
    let mut bench = Bench::new([bucket(10)]);
    bench.lease(secs(0), wants(1, 10, 10));
    let denied = bench.lease(secs(0), wants(1, 1, 5));
    assert_eq!((denied.sync, denied.granted, denied.slot), (0, 0, Some(0)));
    let hash = bench.shard.state_hash();
    let settled = bench.settled(secs(0), None, wants(1, 1, 5)).expect("nothing changes");
    assert_eq!(bench.shard.state_hash(), hash);
    assert_eq!(bench.one(secs(0), lease_as(None, wants(1, 1, 5))), settled);
    assert_eq!(bench.settled(secs(30), None, wants(1, 1, 5)), None, "units are there again");
}

#[test]
fn a_full_tenant_gets_no_new_counter_by_a_lease() {
    let bounds = Bounds { keys_per_tenant_max: 1, ..Bounds::default() };
    let mut bench = Bench::within(bounds, [bucket(100)]);
    bench.lease(secs(0), wants(1, 0, 5));
    let refused = bench.one(secs(0), lease_as(None, wants(2, 0, 5)));
    assert_eq!(refused, Reply::Refused(leasehold_shard::Refusal::KeysFull(TenantId(1))));
}

#[test]
fn at_the_bound_of_leases_needs_are_met_and_nothing_is_lent() {
    let mut bench = Bench::within(Bounds { leases_max: 2, ..Bounds::default() }, [bucket(100)]);
    assert_eq!(bench.lease(secs(0), wants(1, 1, 5)).granted, 4);
    let full = bench.lease(secs(0), wants(2, 1, 5));
    assert_eq!((full.sync, full.granted), (1, 0));
}

#[test]
fn an_ask_under_a_limit_that_is_not_there_is_malformed() {
    let mut bench = Bench::new([bucket(100)]);
    let command = Command::Lease(LeaseCommand { id: None, limit: 1, ask: wants(1, 1, 5) });
    assert_eq!(bench.one(secs(0), command), Reply::Refused(leasehold_shard::Refusal::Malformed));
}
