//! What a shard may hold, and who pays at the bound.

use leasehold_shard::{Refusal, Reply};

use super::*;

fn full(tenant: u64) -> Reply {
    Reply::Refused(Refusal::KeysFull(TenantId(tenant)))
}

/// Two tenants with a bucket each; tenant 1 is the first limit.
fn two_tenants(keys_per_tenant_max: u32, keys_max: u32) -> Bench {
    let bounds = Bounds { keys_per_tenant_max, keys_max, ..Bounds::default() };
    Bench::within(bounds, [bucket(10), LimitSpec { tenant: TenantId(2), ..bucket(10) }])
}

#[test]
fn a_flood_of_keys_is_refused_at_its_tenants_bound_and_another_is_answered() {
    let mut bench = two_tenants(1_000, 10_000);
    for n in 0..3_000 {
        let reply = bench.one(secs(0), acquire([take(n, 1)]));
        if n < 1_000 {
            assert!(acquired(reply).admitted);
        } else {
            assert_eq!(reply, full(1));
        }
    }
    assert_eq!(bench.shard.keys(), 1_000);
    assert!(bench.acquire(secs(0), [take(5, 1)]).admitted, "a key that is held");
    assert!(bench.acquire(secs(0), [under(1, take(9_999, 1))]).admitted, "another tenant");
}

#[test]
fn the_bound_of_all_tenants_holds_too() {
    let mut bench = two_tenants(10, 3);
    bench.acquire(secs(0), [take(1, 1), take(2, 1)]);
    assert_eq!(bench.one(secs(0), acquire([take(3, 1), take(4, 1)])), full(1));
    assert!(bench.acquire(secs(0), [take(3, 1)]).admitted);
    assert_eq!(bench.one(secs(0), acquire([under(1, take(4, 1))])), full(2));
    assert_eq!(bench.shard.keys(), 3);
}

#[test]
fn at_the_bound_a_look_and_a_denial_are_still_answered() {
    let mut bench = two_tenants(1, 10);
    bench.acquire(secs(0), [take(1, 1)]);
    assert!(bench.acquire(secs(0), [take(2, 0)]).admitted);
    assert!(!bench.acquire(secs(0), [take(2, 11)]).admitted);
    assert!(!bench.acquire(secs(0), [take(1, 10), take(2, 1)]).admitted);
}

#[test]
fn a_shadow_demand_without_room_refuses_nothing() {
    let mut bench = two_tenants(1, 10);
    let answer = bench.acquire(secs(0), [shadow(take(2, 1)), take(1, 1)]);
    assert!(answer.admitted);
    assert_eq!(
        answer.decisions.iter().map(|d| (d.allowed, d.granted)).collect::<Vec<_>>(),
        [(true, 0), (true, 1)]
    );
    assert_eq!((bench.shard.keys(), bench.left(secs(0), 2)), (1, 10));
}

#[test]
fn a_full_tenant_finds_room_as_its_counters_refill() {
    let mut bench = two_tenants(1_000, 10_000);
    for n in 0..1_000 {
        bench.acquire(secs(0), [take(n, 1)]);
    }
    assert_eq!(bench.one(secs(1), acquire([take(5_000, 1)])), full(1));
    let mut refused = 0;
    while bench.one(secs(6), acquire([take(5_000, 1)])) == full(1) {
        refused += 1;
        assert!(refused < 100, "who waits for room helps to find it");
    }
    for _ in 0..10 {
        bench.batch(secs(6), []);
    }
    assert_eq!(bench.shard.keys(), 1, "ticks drop all that equals fresh");
    assert_eq!(bench.shard.evicted(), 1_000);
}

#[test]
fn a_million_keys_are_held_and_dropped_when_fresh() {
    let mut bench = Bench::new([bucket(10)]);
    for chunk in 0..1_000 {
        let commands: Vec<Command> = (0..1_000).map(|n| acquire([take(chunk * 1_000 + n, 1)])).collect();
        let replies = bench.batch(secs(0), commands);
        assert!(replies.into_iter().all(|reply| acquired(reply).admitted));
    }
    assert_eq!(bench.shard.keys(), 1_000_000);
    assert_eq!(bench.one(secs(0), acquire([take(1_000_001, 1)])), full(1));
    assert_eq!((bench.left(secs(0), 0), bench.left(secs(0), 999_999)), (9, 9));
    let mut commands = 0;
    while bench.shard.keys() > 1 {
        bench.batch(secs(6), vec![acquire([take(1_000_001, 1)]); 1_000]);
        commands += 1_000;
        assert!(commands <= 1_000_000, "two looks a command pass over all of them");
    }
}

#[test]
fn replicas_with_other_bounds_of_their_own_come_to_the_same_when_batches_carry_them() {
    let (small, large) = (two_tenants(1, 10).bounds, two_tenants(100, 100).bounds);
    let batch = |n, bounds| Batch {
        limits: two_tenants(1, 1).limits,
        commands: vec![acquire_as(n, [take(n, 1)])],
        bounds: Some(bounds),
        ..Batch::default()
    };
    let mut replicas = [two_tenants(1, 10), two_tenants(100, 100)];
    // One leads, then the other: each puts its own bounds into what it proposes.
    for (n, bounds) in (0..).zip([small, small, large, large, large, small, small]) {
        let replies = replicas.each_mut().map(|bench| bench.shard.apply(&batch(n, bounds), START));
        assert_eq!(replies[0], replies[1], "entry {n}");
    }
    assert_eq!(replicas[0].shard.keys(), 4);
    assert_eq!(replicas[0].shard.state_hash(), replicas[1].shard.state_hash());
}

#[test]
fn made_up_ids_stop_nobody_who_keeps_count_of_his_own() {
    let bounds = Bounds { replies_per_tenant_max: 3, ..Bounds::default() };
    let mut bench = Bench::within(bounds, [bucket(100)]);
    for seq in 0..3 {
        assert!(acquired(bench.one(secs(0), acquire_as(seq, [take(1, 1)]))).admitted);
    }
    let refused = Reply::Refused(Refusal::RepliesFull(TenantId(1)));
    assert_eq!(bench.one(secs(0), acquire_as(3, [take(1, 1)])), refused);
    let counted = Acquire { id: Some(id(4)), demands: vec![take(1, 1)], remember_denial: false };
    let first = bench.one(secs(0), Command::Acquire(counted.clone()));
    assert!(acquired(first.clone()).admitted);
    assert_eq!(bench.one(secs(0), Command::Acquire(counted)), first, "it is remembered all the same");
}
