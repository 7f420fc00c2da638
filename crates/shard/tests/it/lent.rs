//! What operators are told of leases.

use leasehold_lease::{EdgeId, LIFETIME_DEFAULT, LeaseAsk, MilliRate, Usage, owner_lifetime};
use leasehold_shard::{LeaseNumbers, LentLease};

use super::*;

fn lend(bench: &mut Bench, after: Nanos, n: u64, want: u64, usage: Vec<Usage>) {
    let (edge, rate) = (EdgeId(7), MilliRate(1_000));
    let ask = LeaseAsk { edge, key: key(n), need: 0, want, rate, lifetime: LIFETIME_DEFAULT, usage };
    bench.one(after, Command::Lease(LeaseCommand { id: None, limit: 0, ask }));
}

fn out(lent: &[LentLease]) -> Vec<u64> {
    lent.iter().map(LentLease::out).collect()
}

/// Counters 1, 2 and 3 with 10, 30 and 20 units out.
fn three() -> Bench {
    let mut bench = Bench::new([bucket(100)]);
    for (n, want) in [(1, 10), (2, 30), (3, 20)] {
        lend(&mut bench, secs(0), n, want, Vec::new());
    }
    bench
}

#[test]
fn leases_are_told_with_whose_counter_they_are_of_and_those_with_the_most_out_first() {
    let bench = three();
    let lent = bench.shard.lent(None, START, 10);
    assert_eq!((out(&lent.leases), lent.more), (vec![30, 20, 10], false));
    let lease = lent.leases[0];
    assert_eq!((lease.key, lease.tenant, lease.edge), (key(2), TenantId(1), EdgeId(7)));
    assert_eq!(lease.expires_in, owner_lifetime(LIFETIME_DEFAULT));
    let lent = bench.shard.lent(None, START, 2);
    assert_eq!((out(&lent.leases), lent.more), (vec![30, 20], true));
    assert_eq!(bench.shard.lent(Some(TenantId(2)), START, 10).leases, []);
    assert_eq!(bench.shard.lent(Some(TenantId(1)), START, 10).leases.len(), 3);
}

#[test]
fn a_lease_that_has_ended_is_told_no_more_though_nothing_has_looked_at_it() {
    let ended = START.after(owner_lifetime(LIFETIME_DEFAULT));
    assert_eq!(three().shard.lent(None, ended, 10).leases, []);
}

#[test]
fn numbers_tell_what_is_out_and_what_became_of_the_rest_also_after_a_restart() {
    let mut bench = three();
    let lease = bench.shard.leases().find(|lease| lease.key == key(2)).expect("it is there").id;
    lend(&mut bench, secs(1), 2, 0, vec![Usage { lease, spent_total: 12, returned_total: 8 }]);
    bench.restart();
    let numbers = bench.shard.lease_numbers();
    let LeaseNumbers { leases, out, grants, granted, spent, returned, lapsed, violations, .. } = numbers;
    assert_eq!((leases, out, grants, granted), (3, 40, 3, 60));
    assert_eq!((spent, returned, lapsed, violations), (12, 8, 0, 0));
    bench.batch(owner_lifetime(LIFETIME_DEFAULT), []);
    let LeaseNumbers { leases, out, lapsed, grants, .. } = bench.shard.lease_numbers();
    assert_eq!((leases, out, lapsed, grants), (0, 0, 40, 3));
    assert_eq!(numbers.plus(numbers).spent, 24);
}
