//! What the ledger promises, trap by trap. Schedules at random are in `tests/bounds`.

use leasehold_limit::{Algorithm, Ask, Limit, RetryAfter, State, Window};
use leasehold_model::{Key, Nanos, Stamp};

use super::*;
use crate::{EdgeId, LIFETIME_DEFAULT, LeaseAsk, MilliRate, Usage, owner_lifetime};

const KEY: Key = Key { high: 1, low: 2 };
const SECOND: u64 = 1_000_000_000;
const ROOM: usize = 10_000;

fn limit(algorithm: Algorithm) -> Limit {
    Limit::new(algorithm, 10, Nanos::from_secs(10)).expect("valid")
}

/// 1 a second, 100 at once.
fn bucket() -> Limit {
    limit(Algorithm::TokenBucket { burst: 100 })
}

fn every_kind() -> [Limit; 4] {
    [
        limit(Algorithm::LeakyBucket { burst: 10 }),
        limit(Algorithm::FixedWindow(Window::Epoch)),
        limit(Algorithm::SlidingLog),
        limit(Algorithm::SlidingCounter),
    ]
}

/// One counter, and the leases on it.
#[derive(Clone)]
struct Owner {
    limit: Limit,
    state: State,
    ledger: Ledger,
    at: Stamp,
}

impl Owner {
    /// At 100 s, where a window of 10 s begins.
    fn of(limit: Limit) -> Self {
        let state = limit.fresh();
        Self { limit, state, ledger: Ledger::default(), at: Stamp(100 * SECOND) }
    }

    fn wait(&mut self, length: Nanos) -> &mut Self {
        self.at = self.at.after(length);
        self
    }

    fn ask(&mut self, ask: &LeaseAsk) -> Leased {
        self.ledger.ask(&self.limit, &mut self.state, self.at, ask, ROOM).leased
    }

    /// Leases `units` to edge 1; there must be as many.
    fn lend(&mut self, units: u64) -> LeaseId {
        let leased = self.ask(&wants(1, 0, units));
        assert_eq!(leased.granted, units);
        leased.lease.expect("units were lent")
    }

    fn report(&mut self, lease: LeaseId, spent: u64, returned: u64) -> Leased {
        self.ask(&told(lease, spent, returned))
    }

    fn left(&mut self) -> u64 {
        let out = self.ledger.beside(KEY, &self.limit, &mut self.state, self.at);
        let left = self.limit.decide_beside(&self.state, self.at, Ask::PEEK, out).remaining;
        self.ledger.drop_ended(KEY, self.at);
        left
    }
}

fn wants(edge: u128, need: u64, want: u64) -> LeaseAsk {
    let rate = MilliRate(1_000);
    LeaseAsk { edge: EdgeId(edge), key: KEY, need, want, rate, lifetime: LIFETIME_DEFAULT, usage: Vec::new() }
}

fn told(lease: LeaseId, spent_total: u64, returned_total: u64) -> LeaseAsk {
    LeaseAsk { usage: vec![Usage { lease, spent_total, returned_total }], ..wants(1, 0, 0) }
}

#[test]
fn an_expired_lease_credits_nothing() {
    for limit in every_kind() {
        let mut owner = Owner::of(limit);
        owner.lend(7);
        owner.wait(owner_lifetime(LIFETIME_DEFAULT));
        // A bucket has refilled the three that were left already, and none of the seven.
        let left = owner.left();
        assert_eq!(left, 3, "{:?}", owner.limit);
        assert_eq!((owner.ledger.totals().lapsed, owner.ledger.totals().live), (7, 0));
    }
}

#[test]
fn what_is_out_does_not_refill() {
    let mut owner = Owner::of(bucket());
    owner.lend(75);
    owner.wait(Nanos::from_secs(5));
    assert_eq!(owner.left(), 25);
    let lease = owner.ledger.leases().next().expect("live").id;
    owner.report(lease, 75, 0);
    owner.wait(Nanos::from_secs(5));
    assert_eq!(owner.left(), 30, "known to be spent, they refill");
}

#[test]
fn a_report_told_twice_counts_once() {
    for limit in every_kind() {
        let mut owner = Owner::of(limit);
        let lease = owner.lend(6);
        owner.report(lease, 2, 1);
        let (state, record) = (owner.state.clone(), owner.ledger.record());
        for (spent, returned) in [(2, 1), (1, 1), (0, 0), (2, 0)] {
            owner.report(lease, spent, returned);
            assert_eq!((&owner.state, owner.ledger.record()), (&state, record.clone()), "late or repeated");
        }
    }
}

#[test]
fn no_report_lifts_a_lease_above_what_was_granted() {
    let mut owner = Owner::of(bucket());
    let lease = owner.lend(10);
    owner.report(lease, 7, u64::MAX);
    let totals = owner.ledger.totals();
    assert_eq!((totals.spent, totals.returned, totals.live), (7, 3, 0));
    assert_eq!(owner.left(), 93);
}

#[test]
fn what_comes_back_is_there_at_once() {
    for limit in every_kind() {
        let mut owner = Owner::of(limit);
        let lease = owner.lend(7);
        owner.wait(Nanos::from_secs(2));
        owner.report(lease, 0, 7);
        assert_eq!(owner.left(), 10, "{:?}", owner.limit);
    }
}

#[test]
fn a_report_of_an_ended_lease_changes_nothing() {
    let mut owner = Owner::of(bucket());
    let lease = owner.lend(10);
    owner.wait(Nanos::from_secs(6)).report(lease, 3, 7);
    assert_eq!(owner.left(), 90);
}

#[test]
fn a_lease_of_another_edge_or_another_key_can_not_be_told_of() {
    let mut owner = Owner::of(bucket());
    let lease = owner.lend(10);
    owner.ask(&LeaseAsk { edge: EdgeId(2), ..told(lease, 0, 10) });
    owner.ask(&LeaseAsk { key: Key { high: 1, low: 3 }, ..told(lease, 0, 10) });
    assert_eq!(owner.ledger.totals().live, 10);
}

#[test]
fn a_new_lease_lies_beside_the_old_one() {
    let mut owner = Owner::of(bucket());
    let first = owner.lend(10);
    let second = owner.wait(Nanos::from_secs(1)).lend(10);
    assert_eq!((owner.ledger.totals().live, owner.ledger.leases().count()), (20, 2));
    owner.report(first, 10, 0);
    assert_eq!(owner.ledger.leases().map(|lease| lease.id).collect::<Vec<_>>(), [second]);
}

#[test]
fn no_order_of_expiries_changes_the_state() {
    for limit in every_kind() {
        let mut late = Owner::of(limit);
        for (edge, wait) in [(1, 300), (2, 700), (3, 0)] {
            late.ask(&wants(edge, 0, 2));
            late.wait(Nanos::from_millis(wait));
        }
        let mut early = late.clone();
        late.wait(Nanos::from_secs(7));
        for _ in 0..70 {
            early.wait(Nanos::from_millis(100)).left();
        }
        assert_eq!((late.left(), &late.state), (early.left(), &early.state));
        assert_eq!(late.ledger.record(), early.ledger.record());
    }
}

#[test]
fn units_needed_at_once_are_consumed_and_never_out() {
    let mut owner = Owner::of(bucket());
    let leased = owner.ask(&wants(1, 5, 5));
    assert_eq!((leased.sync, leased.granted, leased.lease), (5, 0, None));
    let leased = owner.ask(&wants(1, 5, 20));
    assert_eq!((leased.sync, leased.granted), (5, 15));
    assert_eq!((owner.ledger.totals().live, owner.left()), (15, 75));
}

#[test]
fn a_lease_ends_in_its_window() {
    for kind in [Algorithm::FixedWindow(Window::Epoch), Algorithm::SlidingCounter] {
        let mut owner = Owner::of(limit(kind));
        let leased = owner.wait(Nanos::from_secs(8)).ask(&wants(1, 0, 5));
        assert!(owner_lifetime(leased.lifetime) < Nanos::from_secs(2));
        assert_eq!(leased.granted, 5);
        let leased = owner.wait(Nanos::from_millis(1_950)).ask(&wants(2, 1, 3));
        assert_eq!((leased.sync, leased.granted), (1, 0), "too little is left of the window");
    }
}

#[test]
fn who_is_refused_for_what_is_out_learns_when_it_ends() {
    let mut owner = Owner::of(bucket());
    owner.lend(75);
    let refused = |owner: &mut Owner, cost| {
        let out = owner.ledger.beside(KEY, &owner.limit, &mut owner.state, owner.at);
        owner.limit.decide_beside(&owner.state, owner.at, Ask::exactly(cost), out).retry_after
    };
    // Its end is 5.01 s away; from then on one comes back each second.
    let ended = owner_lifetime(LIFETIME_DEFAULT).0;
    assert_eq!(refused(&mut owner, 26), Some(RetryAfter::In(Nanos(ended + SECOND))));
    assert_eq!(refused(&mut owner, 100), Some(RetryAfter::In(Nanos(ended + 75 * SECOND))));
    assert_eq!(refused(&mut owner, 101), Some(RetryAfter::Never));
}

#[test]
fn few_units_for_many_edges_are_never_lent() {
    let mut owner = Owner::of(limit(Algorithm::TokenBucket { burst: 10 }));
    for edge in 1..=5 {
        owner.ask(&wants(edge, 0, 1));
    }
    let sixth = owner.ask(&wants(6, 1, 3));
    assert_eq!((sixth.sync, sixth.granted), (1, 0));
    let refused = owner.ask(&wants(6, 9, 10));
    assert_eq!((refused.sync, refused.granted), (4, 0));
    assert!(refused.gate.is_some_and(|gate| gate > Nanos::ZERO) && refused.retry_after.is_some());
}

#[test]
fn a_shaper_lends_nothing() {
    let mut owner = Owner::of(limit(Algorithm::Shaper { queue: 50 }));
    let leased = owner.ask(&wants(1, 1, 9));
    assert_eq!((leased.sync, leased.granted, leased.lease), (1, 0, None));
}

#[test]
fn at_the_bound_nothing_is_lent_and_needs_are_met() {
    let mut owner = Owner::of(bucket());
    let full = owner.ledger.ask(&owner.limit, &mut owner.state, owner.at, &wants(1, 2, 9), 1).leased;
    assert_eq!((full.sync, full.granted), (2, 0));
}

#[test]
fn an_ask_that_is_refused_again_changes_nothing() {
    let mut owner = Owner::of(bucket());
    owner.ask(&wants(1, 100, 100));
    assert!(owner.ledger.ask(&owner.limit, &mut owner.state, owner.at, &wants(1, 1, 9), ROOM).changed);
    owner.wait(Nanos::from_millis(500));
    let ask = wants(1, 1, 9);
    owner.left();
    let settled = owner.ledger.settled(&owner.limit, &owner.state, owner.at, &ask, ROOM);
    let record = owner.ledger.record();
    let asked = owner.ledger.ask(&owner.limit, &mut owner.state, owner.at, &ask, ROOM);
    assert_eq!((settled, asked.changed), (Some(asked.leased), false));
    assert_eq!(owner.ledger.record(), record);
    owner.wait(Nanos::from_secs(1));
    assert_eq!(
        owner.ledger.settled(&owner.limit, &owner.state, owner.at, &ask, ROOM),
        None,
        "a unit is there"
    );
}

#[test]
fn edges_that_are_gone_count_no_more() {
    let mut owner = Owner::of(bucket());
    owner.lend(5);
    assert!(owner.ledger.held() == 2 && owner.ledger.next_ended(owner.at).is_none());
    owner.wait(Nanos::from_secs(60));
    assert_eq!(owner.ledger.next_ended(owner.at), Some(KEY));
    owner.left();
    assert_eq!((owner.ledger.held(), owner.ledger.next_ended(owner.at)), (0, None));
}

#[test]
fn a_restored_ledger_is_the_same_and_uses_no_name_twice() {
    let mut owner = Owner::of(bucket());
    let first = owner.lend(10);
    owner.wait(Nanos::from_secs(1)).lend(5);
    owner.report(first, 3, 2);
    let record = owner.ledger.record();
    owner.ledger = Ledger::restore(&record).expect("consistent");
    assert_eq!(owner.ledger.record(), record);
    assert_eq!(owner.lend(1), LeaseId(2));
}

#[track_caller]
fn check_record(change: impl FnOnce(&mut LedgerRecord), expected: LedgerError) {
    let mut owner = Owner::of(bucket());
    owner.lend(10);
    owner.wait(Nanos::from_secs(1)).lend(5);
    let mut record = owner.ledger.record();
    change(&mut record);
    assert_eq!(Ledger::restore(&record).expect_err("inconsistent"), expected);
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    check_record(|record| record.leases.reverse(), LedgerError::Lease { index: 1 });
    check_record(|record| record.leases[1].id = record.leases[0].id, LedgerError::Lease { index: 1 });
    check_record(|record| record.leases[1].id = LeaseId(2), LedgerError::Lease { index: 1 });
    check_record(|record| record.leases[0].spent = 10, LedgerError::Lease { index: 0 });
    check_record(|record| record.leases[0].spent = 9, LedgerError::Totals);
    check_record(|record| record.totals.granted += 1, LedgerError::Totals);
    check_record(|record| record.holders.push(record.holders[0]), LedgerError::Holder { index: 1 });
    check_record(|record| record.slots.push(record.slots[0]), LedgerError::Slot { index: 1 });
}
