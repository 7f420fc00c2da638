//! A broker between a child and an owner whose answers the tests write.

use leasehold_limit::RetryAfter;
use leasehold_model::{BootTime, Key, Nanos, RequestId, Stamp};

use crate::{
    Checked, EdgeId, Event, LeaseAsk, LeaseId, Leased, Lent, MilliRate, Outgoing, Settings, Usage, Wallet,
    owner_lifetime,
};

const KEY: Key = Key { high: 1, low: 2 };
const CHILD: EdgeId = EdgeId(8);

fn ms(millis: u64) -> BootTime {
    BootTime(millis * 1_000_000)
}

fn from_owner(id: u64, sync: u64, granted: u64) -> Leased {
    Leased {
        lease: (granted > 0).then_some(LeaseId(id)),
        granted,
        sync,
        lifetime: Nanos::from_secs(5),
        gate: None,
        retry_after: None,
        remaining: 100,
        reset_after: Nanos::from_secs(1),
        slot: None,
        at: Stamp(5),
    }
}

fn child_ask(need: u64, want: u64, usage: Vec<Usage>) -> LeaseAsk {
    let (rate, lifetime) = (MilliRate(40_000), Nanos::from_secs(5));
    LeaseAsk { edge: CHILD, key: KEY, need, want, rate, lifetime, usage }
}

struct Broker {
    wallet: Wallet<()>,
    seq: u64,
}

impl Broker {
    fn new(session: u128) -> Self {
        Self { wallet: Wallet::new(EdgeId(7), session, Settings::default()), seq: 0 }
    }

    /// With a lease of so many units from second 0 on, asked for at a demand that keeps them.
    fn holding(units: u64) -> Self {
        Self::of(99, units)
    }

    fn of(session: u128, units: u64) -> Self {
        let mut broker = Self::new(session);
        for _ in 0..units {
            let checked = broker.wallet.handle_check(KEY, &(), 1, ms(9_000), ms(0));
            assert!(matches!(checked, Checked::Waiting(_)));
        }
        let asked = broker.asked(0);
        broker.wallet.handle_leased(asked.id, &from_owner(1, units, units), ms(10));
        while broker.wallet.poll_event().is_some() {}
        broker
    }

    fn asked(&mut self, at: u64) -> Outgoing<()> {
        self.wallet.poll_ask(ms(at)).expect("something to ask")
    }

    fn child(&mut self, ask: &LeaseAsk, at: u64) -> Lent {
        self.seq += 1;
        let id = RequestId { session: 5, seq: self.seq };
        self.wallet.handle_child_ask(id, ask, &(), ms(at + 1_000), ms(at))
    }

    fn lends(&mut self, ask: &LeaseAsk, at: u64) -> Leased {
        match self.child(ask, at) {
            Lent::Answered(leased) => leased,
            Lent::Waiting | Lent::NoRoom => panic!("nothing lent"),
        }
    }

    fn held(&self, at: u64) -> u64 {
        self.wallet.held(KEY, ms(at))
    }

    fn lent(&mut self) -> Option<Leased> {
        self.all_lent().into_iter().next()
    }

    /// What children that waited were answered, in order.
    fn all_lent(&mut self) -> Vec<Leased> {
        let told = |event| match event {
            Event::Lent { leased, .. } => leased,
            Event::Answered { .. } | Event::Slot { .. } => None,
        };
        std::iter::from_fn(|| self.wallet.poll_event()).filter_map(told).collect()
    }

    /// Two children that spend so many units a second, each after as much as it may have; the owner has no more than 20.
    fn short(rates: [u64; 2]) -> Vec<u64> {
        let mut broker = Self::new(99);
        for (edge, rate) in (8..).zip(rates) {
            let rate = MilliRate(rate * 1_000);
            let ask = LeaseAsk { edge: EdgeId(edge), rate, ..child_ask(0, 40, vec![]) };
            assert_eq!(broker.child(&ask, 0), Lent::Waiting);
        }
        let asked = broker.asked(0);
        let scarce = Leased { remaining: 0, ..from_owner(1, 0, 20) };
        broker.wallet.handle_leased(asked.id, &scarce, ms(10));
        broker.all_lent().iter().map(|leased| leased.granted).collect()
    }

    /// What it would tell its owner of the lease that it holds.
    fn tells(&mut self, at: u64) -> Usage {
        self.wallet.return_all(ms(at));
        self.asked(at).ask.usage[0]
    }
}

#[test]
fn a_sub_lease_is_a_move() {
    let mut broker = Broker::holding(20);
    let leased = broker.lends(&child_ask(2, 10, vec![]), 20);
    assert_eq!((leased.sync, leased.granted), (2, 8));
    assert_eq!(broker.held(20), 10);
}

#[test]
fn a_child_never_outlives_its_parent() {
    let mut broker = Broker::holding(20);
    let leased = broker.lends(&child_ask(0, 5, vec![]), 1_000);
    let over = 1_000_000_000 + owner_lifetime(leased.lifetime).0;
    // The parent ends at 4.99 s, the guard is 50 ms.
    assert!(over <= ms(4_940).0, "{over}");
    assert!(over > ms(4_930).0, "{over}");
}

#[test]
fn a_childs_usage_goes_up_as_the_parents() {
    let mut broker = Broker::holding(20);
    let lease = broker.lends(&child_ask(0, 8, vec![]), 20).lease.expect("a lease");
    let usage = vec![Usage { lease, spent_total: 3, returned_total: 4 }];
    broker.lends(&child_ask(0, 0, usage), 30);
    let told = broker.tells(30);
    assert_eq!((told.lease, told.spent_total, told.returned_total), (LeaseId(1), 3, 16));
}

#[test]
fn a_childs_totals_count_once_and_only_for_its_own_leases() {
    let mut broker = Broker::holding(20);
    let lease = broker.lends(&child_ask(0, 8, vec![]), 20).lease.expect("a lease");
    let usage = vec![Usage { lease, spent_total: 3, returned_total: 2 }];
    for _ in 0..3 {
        broker.lends(&child_ask(0, 0, usage.clone()), 30);
    }
    assert_eq!(broker.held(30), 14);
    let others = LeaseAsk {
        edge: EdgeId(9),
        ..child_ask(0, 0, vec![Usage { lease, spent_total: 0, returned_total: 8 }])
    };
    broker.lends(&others, 30);
    assert_eq!(broker.held(30), 14);
    let beyond = vec![Usage { lease, spent_total: 3, returned_total: 99 }];
    broker.lends(&child_ask(0, 0, beyond), 30);
    assert_eq!(broker.held(30), 17);
}

#[test]
fn what_a_child_never_tells_of_counts_as_spent() {
    let mut broker = Broker::holding(20);
    let leased = broker.lends(&child_ask(0, 8, vec![]), 20);
    let over = 20 + owner_lifetime(leased.lifetime).millis_ceil();
    broker.wallet.handle_timeout(ms(over));
    let usage = vec![Usage { lease: leased.lease.expect("a lease"), spent_total: 0, returned_total: 8 }];
    broker.lends(&child_ask(0, 0, usage), over);
    assert_eq!(broker.wallet.totals().stranded, 8);
    // All that wasn't lent went back when nobody used it.
    let told = broker.tells(over);
    assert_eq!((told.spent_total, told.returned_total), (8, 12));
}

#[test]
fn an_ask_that_comes_again_gets_the_same_answer() {
    let mut broker = Broker::holding(20);
    let id = RequestId { session: 5, seq: 1 };
    let ask = child_ask(1, 6, vec![]);
    let first = broker.wallet.handle_child_ask(id, &ask, &(), ms(1_000), ms(20));
    assert_eq!(broker.wallet.handle_child_ask(id, &ask, &(), ms(1_000), ms(30)), first);
    assert_eq!(broker.held(30), 14);
    broker.wallet.handle_child_settled(5, 2);
    assert_ne!(broker.wallet.handle_child_ask(id, &ask, &(), ms(1_000), ms(30)), first);
}

#[test]
fn what_a_child_needs_and_isnt_here_is_asked_of_the_owner() {
    let mut broker = Broker::new(99);
    assert_eq!(broker.child(&child_ask(3, 10, vec![]), 0), Lent::Waiting);
    let asked = broker.asked(0);
    // The child's demand, 40 a second, is the broker's, which holds for twice as long: a second of it and more.
    assert_eq!(asked.ask.need, 3);
    assert!((40..=46).contains(&asked.ask.want), "{}", asked.ask.want);
    broker.wallet.handle_leased(asked.id, &from_owner(1, 3, 20), ms(10));
    let leased = broker.lent().expect("an answer");
    assert_eq!((leased.sync, leased.granted), (3, 7));
    assert_eq!(broker.held(10), 13);
}

#[test]
fn a_child_is_told_what_the_owner_refused() {
    let mut broker = Broker::new(99);
    assert_eq!(broker.child(&child_ask(3, 10, vec![]), 0), Lent::Waiting);
    let asked = broker.asked(0);
    let (gate, wait) = (Some(Nanos::from_millis(200)), Some(RetryAfter::In(Nanos::from_millis(90))));
    let refusal = Leased { gate, retry_after: wait, remaining: 0, ..from_owner(1, 1, 0) };
    broker.wallet.handle_leased(asked.id, &refusal, ms(10));
    let leased = broker.lent().expect("an answer");
    assert_eq!((leased.sync, leased.lease, leased.gate, leased.retry_after), (1, None, gate, wait));
    // From here on the broker refuses by itself, until the gate opens.
    let leased = broker.lends(&child_ask(1, 9, vec![]), 105);
    assert_eq!((leased.sync, leased.gate), (0, Some(Nanos::from_millis(100))));
}

#[test]
fn two_lives_of_a_broker_share_no_sub_lease() {
    let lease = |session| Broker::of(session, 20).lends(&child_ask(0, 8, vec![]), 20).lease;
    assert_ne!(lease(1 << 40), lease(1 << 41));
}

#[test]
fn units_that_are_short_are_shared_by_what_children_spend_and_nobody_gets_more_than_it_wants() {
    assert_eq!(Broker::short([400, 400]), [10, 10], "evenly");
    assert_eq!(Broker::short([8, 400]), [4, 16], "who wants little gets it");
    assert_eq!(Broker::short([400, 8]), [16, 4], "whoever came first");
}

#[test]
fn while_there_is_enough_a_child_gets_all_that_it_wants() {
    let mut broker = Broker::new(99);
    assert_eq!(broker.child(&child_ask(0, 20, vec![]), 0), Lent::Waiting);
    let asked = broker.asked(0);
    broker.wallet.handle_leased(asked.id, &from_owner(1, 0, asked.ask.want), ms(10));
    // Twice a second is a share of one.
    let calm = LeaseAsk { edge: EdgeId(9), rate: MilliRate(2_000), ..child_ask(0, 15, vec![]) };
    assert_eq!(broker.lends(&calm, 20).granted, 15);
}
