//! One wallet, one key, and an owner whose answers the tests write by hand.

mod shares;

use leasehold_limit::{Decision, RetryAfter};
use leasehold_model::{BootTime, Key, Nanos, RequestId, Stamp};

use super::*;
use crate::{EdgeId, LeaseId, Spend, Usage};

const KEY: Key = Key { high: 1, low: 2 };
const EDGE: EdgeId = EdgeId(7);
const TRIP: u64 = 10;

/// Times are milliseconds here.
fn ms(millis: u64) -> BootTime {
    BootTime(millis * 1_000_000)
}

struct Edge {
    wallet: Wallet<&'static str>,
}

fn edge() -> Edge {
    Edge { wallet: Wallet::new(EDGE, 99, Settings::default()) }
}

/// What an owner with plenty answers.
fn plenty(ask: &LeaseAsk, id: u64) -> Leased {
    let granted = ask.want.max(ask.need) - ask.need;
    Leased { lease: (granted > 0).then_some(LeaseId(id)), granted, sync: ask.need, ..nothing() }
}

fn nothing() -> Leased {
    Leased {
        lease: None,
        granted: 0,
        sync: 0,
        lifetime: Nanos::from_secs(5),
        gate: None,
        retry_after: None,
        remaining: 1_000,
        reset_after: Nanos::from_secs(1),
        slot: None,
        at: Stamp(5),
    }
}

impl Edge {
    fn check(&mut self, cost: u64, at: u64) -> Checked {
        self.wallet.handle_check(KEY, &"limit", cost, ms(at + 10_000), ms(at))
    }

    fn waits(&mut self, cost: u64, at: u64) -> Ticket {
        match self.check(cost, at) {
            Checked::Waiting(ticket) => ticket,
            Checked::Answered(answer) => panic!("answered {answer:?}"),
            Checked::NoRoom => panic!("no room"),
        }
    }

    /// A demand of so much that no unit is one too many.
    fn waits_often(&mut self, at: u64) {
        for _ in 0..10 {
            let _ticket = self.waits(1, at);
        }
    }

    fn ask(&mut self, at: u64) -> Outgoing<&'static str> {
        self.wallet.poll_ask(ms(at)).expect("something to ask")
    }

    fn asks_nothing(&mut self, at: u64) {
        let ask = self.wallet.poll_ask(ms(at));
        assert!(ask.is_none(), "{ask:?}");
    }

    fn leased(&mut self, id: RequestId, leased: &Leased, at: u64) -> Vec<(Ticket, Answer)> {
        assert!(self.wallet.handle_leased(id, leased, ms(at)), "an ask under way");
        self.answers()
    }

    fn answers(&mut self) -> Vec<(Ticket, Answer)> {
        std::iter::from_fn(|| self.wallet.poll_event())
            .filter_map(|event| match event {
                Event::Answered { ticket, answer } => Some((ticket, answer)),
                Event::Lent { .. } | Event::Slot { .. } => None,
            })
            .collect()
    }

    /// A lease of so many units, counted from `at`: the answer comes `TRIP` later.
    fn hold(&mut self, id: u64, granted: u64, at: u64) {
        self.waits_often(at);
        let ask = self.ask(at);
        let leased = Leased { lease: Some(LeaseId(id)), granted, ..plenty(&ask.ask, id) };
        assert_eq!(self.leased(ask.id, &leased, at + TRIP).len(), 10);
    }

    fn spend(&self, cost: u64, at: u64) -> Spend {
        self.wallet.cell(KEY).expect("a key that is held").spend(cost, ms(at))
    }

    fn spend_all(&self, count: u64, at: u64) {
        for _ in 0..count {
            assert!(matches!(self.spend(1, at), Spend::Taken { .. }));
        }
    }

    fn time(&mut self, at: u64) {
        self.wallet.handle_timeout(ms(at));
    }
}

fn is_taken(answer: &Answer, by: Paid) -> bool {
    matches!(answer, Answer::Taken { paid, .. } if *paid == by)
}

#[test]
fn a_key_that_is_asked_for_once_is_checked_exactly_and_leases_nothing() {
    let mut edge = edge();
    let ticket = edge.waits(1, 0);
    let Outgoing { id, ask, again, .. } = edge.ask(0);
    assert_eq!((ask.need, ask.want, ask.usage, again), (1, 1, vec![], false));
    let answers = edge.leased(id, &Leased { sync: 1, ..nothing() }, TRIP);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].0, ticket);
    assert!(is_taken(&answers[0].1, Paid::Owner));
    edge.asks_nothing(TRIP);
}

#[test]
fn a_key_that_is_asked_for_often_leases_ahead_of_its_demand() {
    let mut edge = edge();
    for _ in 0..100 {
        let _ticket = edge.waits(1, 0);
    }
    let ask = edge.ask(0).ask;
    assert_eq!(ask.need, 100);
    // 100 at once look like 400 a second, of which half a second is held.
    assert!((290..=310).contains(&ask.want), "{}", ask.want);
}

#[test]
fn one_ask_a_key_is_under_way() {
    let mut edge = edge();
    let _first = edge.waits(1, 0);
    let asked = edge.ask(0);
    let second = edge.waits(1, 1);
    edge.asks_nothing(1);
    let answers = edge.leased(asked.id, &Leased { sync: 1, ..nothing() }, TRIP);
    assert_eq!(answers.len(), 1, "the second came after the ask left");
    let asked = edge.ask(TRIP);
    assert_eq!(asked.ask.need, 1);
    assert_eq!(edge.leased(asked.id, &plenty(&asked.ask, 1), 2 * TRIP)[0].0, second);
}

#[test]
fn units_consumed_at_the_owner_never_serve_a_request_that_came_after_the_ask() {
    let mut edge = edge();
    let gone = edge.waits(1, 0);
    let asked = edge.ask(0);
    edge.wallet.give_up(KEY, gone, ms(1));
    let _later = edge.waits(1, 2);
    assert_eq!(edge.leased(asked.id, &Leased { sync: 1, ..nothing() }, TRIP), vec![]);
    assert_eq!(edge.wallet.totals().sync_lost, 1);
}

#[test]
fn an_unanswered_ask_is_sent_again_the_same() {
    let mut edge = edge();
    let _ticket = edge.waits(1, 0);
    let first = edge.ask(0);
    let _late = edge.waits(5, 100);
    edge.time(250);
    let second = edge.ask(250);
    assert_eq!((second.id, second.ask, second.again), (first.id, first.ask, true));
    edge.time(300);
    edge.asks_nothing(300);
}

#[test]
fn a_lease_counts_from_the_first_sending_of_its_ask() {
    let mut edge = edge();
    edge.waits_often(0);
    let first = edge.ask(0);
    edge.time(250);
    let _second = edge.ask(250);
    let leased = Leased { lease: Some(LeaseId(1)), granted: 9, sync: 10, ..nothing() };
    edge.leased(first.id, &leased, 260);
    // τ(1 − 2ρ) = 4.99 s.
    assert!(matches!(edge.spend(1, 4_989), Spend::Taken { .. }));
    assert_eq!(edge.spend(1, 4_990), Spend::Over);
}

#[test]
fn an_ask_whose_lease_would_be_over_is_given_up_for_a_new_one() {
    let mut edge = edge();
    let _ticket = edge.waits(1, 0);
    let first = edge.ask(0);
    edge.time(4_995);
    let second = edge.ask(4_995);
    assert_ne!(second.id, first.id);
    assert!(!edge.wallet.handle_leased(first.id, &plenty(&first.ask, 1), ms(5_000)));
    assert_eq!(edge.wallet.held(KEY, ms(5_000)), 0);
}

#[test]
fn leases_lie_side_by_side_and_the_first_to_end_is_spent_first() {
    let mut edge = edge();
    edge.hold(1, 3, 0);
    edge.spend_all(3, TRIP);
    edge.hold(2, 4, 20);
    assert_eq!(edge.wallet.held(KEY, ms(30)), 4);
    assert_eq!(edge.wallet.held(KEY, ms(5_011)), 0);
}

#[test]
fn what_was_spent_goes_along_with_the_next_ask_as_totals() {
    let mut edge = edge();
    edge.hold(1, 3, 0);
    edge.spend_all(3, TRIP);
    let _ticket = edge.waits(1, 20);
    let ask = edge.ask(20).ask;
    assert_eq!(ask.usage, vec![Usage { lease: LeaseId(1), spent_total: 3, returned_total: 0 }]);
}

#[test]
fn idle_units_go_back_after_they_were_taken_out_of_the_cell() {
    let mut edge = edge();
    edge.hold(1, 5, 0);
    edge.spend_all(2, TRIP);
    // Looked at, and reported, since the owner had fewer than were wanted.
    edge.time(300);
    let report = edge.ask(300);
    edge.leased(report.id, &nothing(), 310);
    edge.time(900);
    assert_eq!(edge.spend(1, 900), Spend::Short);
    assert_eq!(edge.wallet.held(KEY, ms(900)), 0);
    let ask = edge.ask(900).ask;
    assert_eq!((ask.need, ask.want), (0, 0));
    assert_eq!(ask.usage, vec![Usage { lease: LeaseId(1), spent_total: 2, returned_total: 3 }]);
}

#[test]
fn what_a_lease_still_holds_at_its_deadline_goes_back() {
    let mut edge = edge();
    edge.hold(1, 5, 0);
    for at in (TRIP..4_990).step_by(100) {
        edge.wallet.handle_low(KEY, ms(at));
        edge.wallet.keys.get_mut(&KEY).expect("held").used_at = ms(at);
    }
    edge.time(4_990);
    let asked = edge.ask(4_990);
    assert_eq!(asked.ask.usage, vec![Usage { lease: LeaseId(1), spent_total: 0, returned_total: 5 }]);
}

#[test]
fn a_return_is_told_until_it_is_known() {
    let mut edge = edge();
    edge.hold(1, 5, 0);
    edge.time(900);
    let first = edge.ask(900);
    edge.time(1_200);
    let again = edge.ask(1_200);
    assert_eq!(again.ask, first.ask);
    edge.leased(first.id, &nothing(), 1_300);
    edge.time(1_400);
    edge.asks_nothing(1_400);
    assert!(edge.wallet.is_empty());
}

#[test]
fn units_that_were_reported_as_spent_are_never_put_back() {
    let mut edge = edge();
    edge.hold(1, 5, 0);
    let Spend::Taken { generation, .. } = edge.spend(2, TRIP) else { panic!("five are there") };
    let _ticket = edge.waits(9, 20);
    let asked = edge.ask(20);
    assert_eq!(asked.ask.usage[0].spent_total, 2);
    assert!(!edge.wallet.cell(KEY).expect("held").put_back(2, generation));
    assert!(!edge.wallet.handle_put_back(KEY, 2, generation, ms(21)));
    assert_eq!(edge.wallet.held(KEY, ms(21)), 3);
}

#[test]
fn units_that_nobody_was_told_of_are_put_back_even_after_the_wallet_looked() {
    let mut edge = edge();
    edge.hold(1, 5, 0);
    let Spend::Taken { generation, .. } = edge.spend(2, TRIP) else { panic!("five are there") };
    let Checked::Answered(answer) = edge.check(3, 20) else { panic!("three are left") };
    assert!(is_taken(&answer, Paid::Lease));
    assert!(!edge.wallet.cell(KEY).expect("held").put_back(2, generation));
    assert!(edge.wallet.handle_put_back(KEY, 2, generation, ms(21)));
    assert_eq!(edge.wallet.held(KEY, ms(21)), 2);
}

#[test]
fn a_denied_key_is_refused_without_the_wallet_until_its_time() {
    let mut edge = edge();
    let _ticket = edge.waits(1, 0);
    let asked = edge.ask(0);
    let wait = Some(RetryAfter::In(Nanos::from_millis(500)));
    let answers = edge.leased(asked.id, &Leased { retry_after: wait, remaining: 0, ..nothing() }, TRIP);
    assert!(
        matches!(answers[0].1, Answer::Denied { retry_after, asked: true, .. } if Some(retry_after) == wait)
    );
    let cell = edge.wallet.cell(KEY).expect("held");
    // Decided half a round trip before the answer came.
    assert_eq!(cell.refuse(1, ms(504)).expect("denied").retry_after, Nanos::from_millis(1));
    assert_eq!(cell.refuse(1, ms(505)), None);
    assert!(matches!(edge.check(1, 400), Checked::Answered(Answer::Denied { asked: false, .. })));
    let _ticket = edge.waits(1, 505);
}

#[test]
fn denials_are_forgotten_when_rules_change() {
    let mut edge = edge();
    let _ticket = edge.waits(1, 0);
    let asked = edge.ask(0);
    let wait = Some(RetryAfter::In(Nanos::from_secs(50)));
    edge.leased(asked.id, &Leased { retry_after: wait, remaining: 0, ..nothing() }, TRIP);
    edge.wallet.handle_rules_changed(|_, _| Some("other"), ms(20));
    assert_eq!(edge.wallet.cell(KEY).expect("held").refuse(1, ms(20)), None);
    let _ticket = edge.waits(1, 20);
    assert_eq!(edge.ask(20).limit, "limit", "the check's own");
}

#[test]
fn leases_outlive_a_change_of_rules_and_go_back_when_the_rule_is_gone() {
    let mut edge = edge();
    edge.hold(1, 5, 0);
    edge.wallet.handle_rules_changed(|_, _| Some("other"), ms(20));
    assert_eq!(edge.wallet.held(KEY, ms(20)), 5);
    edge.wallet.handle_rules_changed(|_, _| None, ms(30));
    assert_eq!(edge.wallet.held(KEY, ms(30)), 0);
    assert_eq!(edge.ask(30).ask.usage[0].returned_total, 5);
}

#[test]
fn a_gate_refuses_locally_and_asks_by_itself_when_it_opens() {
    let mut edge = edge();
    for _ in 0..20 {
        let _ticket = edge.waits(1, 0);
    }
    let asked = edge.ask(0);
    let gate = Some(Nanos::from_millis(200));
    let answers = edge.leased(asked.id, &Leased { sync: 5, gate, remaining: 0, ..nothing() }, TRIP);
    let taken = answers.iter().filter(|(_, answer)| is_taken(answer, Paid::Owner)).count();
    assert_eq!((answers.len(), taken), (20, 5));
    edge.time(150);
    edge.asks_nothing(150);
    edge.time(206);
    let ask = edge.ask(206).ask;
    assert_eq!(ask.need, 0);
    assert!(ask.want > 0);
}

#[test]
fn running_low_asks_ahead() {
    let mut edge = edge();
    for _ in 0..100 {
        let _ticket = edge.waits(1, 0);
    }
    let asked = edge.ask(0);
    edge.leased(asked.id, &plenty(&asked.ask, 1), TRIP);
    let held = edge.wallet.held(KEY, ms(TRIP));
    let mut called = 0;
    for turn in 0..held {
        let at = TRIP + 2 + turn * 2;
        let Spend::Taken { low, .. } = edge.spend(1, at) else { panic!("held") };
        if low {
            called += 1;
            edge.wallet.handle_low(KEY, ms(at));
            if let Some(asked) = edge.wallet.poll_ask(ms(at)) {
                assert_eq!(asked.ask.need, 0);
                assert!(turn < held - 1, "before the last is gone");
                assert!(called < 12, "{called} calls");
                return;
            }
        }
    }
    panic!("never asked");
}

#[test]
fn a_request_that_waits_too_long_is_told_that_nobody_could_say() {
    let mut edge = edge();
    let Checked::Waiting(ticket) = edge.wallet.handle_check(KEY, &"limit", 1, ms(20), ms(0)) else {
        panic!("nothing is held")
    };
    let _asked = edge.ask(0);
    assert!(edge.wallet.next_deadline().expect("a deadline") <= ms(20));
    edge.time(20);
    assert_eq!(edge.answers(), vec![(ticket, Answer::Undecided)]);
}

#[test]
fn a_refused_ask_frees_the_key_for_another() {
    let mut edge = edge();
    let ticket = edge.waits(1, 0);
    let asked = edge.ask(0);
    edge.wallet.handle_refused(asked.id, ms(5));
    assert_eq!(edge.answers(), vec![(ticket, Answer::Undecided)]);
    assert_eq!(edge.wallet.settled(), (99, 1));
    let _ticket = edge.waits(1, 6);
    assert_ne!(edge.ask(6).id, asked.id);
}

#[test]
fn bounds_turn_newcomers_away() {
    let settings = Settings { keys_max: 1, waiters_max: 1, ..Settings::default() };
    let mut wallet = Wallet::new(EDGE, 99, settings);
    let check = |wallet: &mut Wallet<()>, key| wallet.handle_check(key, &(), 1, ms(100), ms(0));
    assert!(matches!(check(&mut wallet, KEY), Checked::Waiting(_)));
    assert!(matches!(check(&mut wallet, KEY), Checked::NoRoom));
    assert!(matches!(check(&mut wallet, Key::MIN), Checked::NoRoom));
}

#[test]
fn a_key_without_anything_is_let_go() {
    let mut edge = edge();
    let _ticket = edge.waits(1, 0);
    let asked = edge.ask(0);
    edge.leased(asked.id, &Leased { sync: 1, ..nothing() }, TRIP);
    edge.time(2_000);
    assert_eq!((edge.wallet.keys(), edge.wallet.next_deadline()), (0, None));
}

#[test]
fn an_answer_that_comes_when_its_key_was_let_go_is_none_and_leaves_nothing_under_way() {
    let mut edge = edge();
    let _ticket = edge.waits(1, 0);
    let asked = edge.ask(0);
    // Nobody waits any more, and the ask is too old to bring a lease.
    edge.time(30_000);
    assert_eq!(edge.wallet.keys(), 0);
    assert!(!edge.wallet.handle_leased(asked.id, &plenty(&asked.ask, 1), ms(30_001)));
    assert!(edge.wallet.is_empty());
    assert_eq!(edge.wallet.settled(), (99, asked.id.seq + 1), "the owner may forget it");
}

#[test]
fn on_the_way_out_everything_goes_back_and_nothing_more_is_taken() {
    let mut edge = edge();
    edge.hold(1, 5, 0);
    edge.wallet.return_all(ms(20));
    assert!(matches!(edge.check(1, 20), Checked::NoRoom));
    assert!(!edge.wallet.is_empty());
    let asked = edge.ask(20);
    assert_eq!(asked.ask.usage[0].returned_total, 5);
    edge.leased(asked.id, &nothing(), 30);
    assert!(edge.wallet.is_empty());
}

#[test]
fn a_lease_that_comes_after_its_end_goes_back_whole() {
    let mut edge = edge();
    let _ticket = edge.waits(1, 0);
    let asked = edge.ask(0);
    let short =
        Leased { lease: Some(LeaseId(1)), granted: 9, lifetime: Nanos::from_millis(100), ..nothing() };
    let answers = edge.leased(asked.id, &Leased { sync: 1, ..short }, 150);
    assert!(is_taken(&answers[0].1, Paid::Owner));
    assert_eq!(edge.wallet.held(KEY, ms(150)), 0);
    assert_eq!(edge.ask(150).ask.usage[0].returned_total, 9);
}

/// An owner's answer to one unit of a request that was under other limits, too.
fn decided(allowed: bool, remaining: u64) -> Decision {
    let wait = Nanos::from_millis(300);
    Decision {
        allowed,
        granted: u64::from(allowed),
        remaining,
        retry_after: (!allowed).then_some(RetryAfter::In(wait)),
        reset_after: wait,
        next_unit_after: Nanos::ZERO,
        wait: None,
    }
}

#[test]
fn units_asked_for_past_the_wallet_are_held_from_the_second_request_on() {
    let mut edge = edge();
    edge.wallet.handle_decided_elsewhere(KEY, &"limit", 1, &decided(true, 50), ms(0));
    edge.asks_nothing(0);
    edge.wallet.handle_decided_elsewhere(KEY, &"limit", 1, &decided(true, 49), ms(5));
    let ask = edge.ask(5).ask;
    assert_eq!(ask.need, 0);
    assert!(ask.want > 0, "{ask:?}");
}

#[test]
fn a_refusal_that_came_past_the_wallet_is_kept_until_its_time() {
    let mut edge = edge();
    edge.wallet.handle_decided_elsewhere(KEY, &"limit", 1, &decided(false, 0), ms(0));
    let cell = edge.wallet.cell(KEY).expect("the key is held");
    assert!(cell.refuse(1, ms(299)).is_some());
    assert!(cell.refuse(1, ms(300)).is_none());
    edge.asks_nothing(0);
}

#[test]
fn a_request_for_more_than_there_is_consumes_nothing() {
    let mut edge = edge();
    let _ticket = edge.waits(100, 0);
    let asked = edge.ask(0);
    assert_eq!((asked.ask.need, asked.ask.want), (0, 100));
    let part = Leased { lease: Some(LeaseId(1)), granted: 60, remaining: 0, ..nothing() };
    let answers = edge.leased(asked.id, &part, TRIP);
    assert!(matches!(answers[0].1, Answer::Denied { .. }));
    assert_eq!(edge.wallet.held(KEY, ms(TRIP)), 60);
    let Checked::Answered(answer) = edge.check(50, 20) else { panic!("they are there") };
    assert!(is_taken(&answer, Paid::Lease));
}

#[test]
fn what_a_large_request_lacks_of_a_lease_is_consumed_at_the_owner() {
    let mut edge = edge();
    let ticket = edge.waits(100, 0);
    let asked = edge.ask(0);
    let part = Leased { lease: Some(LeaseId(1)), granted: 75, remaining: 25, ..nothing() };
    assert_eq!(edge.leased(asked.id, &part, TRIP), vec![]);
    let asked = edge.ask(TRIP);
    assert_eq!(asked.ask.need, 25);
    let answers = edge.leased(asked.id, &Leased { sync: 25, ..nothing() }, 2 * TRIP);
    assert_eq!(answers[0].0, ticket);
    assert!(is_taken(&answers[0].1, Paid::Owner));
    assert_eq!(edge.wallet.held(KEY, ms(2 * TRIP)), 0);
}

#[test]
fn several_units_of_a_limit_that_is_not_lent_are_asked_for_exactly() {
    let mut edge = edge();
    edge.waits_often(0);
    let asked = edge.ask(0);
    edge.leased(asked.id, &Leased { sync: 10, ..nothing() }, TRIP);
    assert!(matches!(edge.check(2, 20), Checked::NoRoom));
    let _ticket = edge.waits(1, 20);
}

#[test]
fn an_answer_to_an_ask_whose_key_has_gone_changes_nothing() {
    let ways: [fn(&mut Wallet<&'static str>, RequestId); 4] = [
        |wallet, id| assert!(!wallet.handle_leased(id, &nothing(), ms(20_001))),
        |wallet, id| wallet.handle_refused(id, ms(20_001)),
        |wallet, id| wallet.handle_lost(id, ms(20_001)),
        |wallet, _| wallet.handle_all_lost(ms(20_001)),
    ];
    for way in ways {
        let mut edge = edge();
        let ticket = edge.waits(1, 0);
        let asked = edge.ask(0);
        edge.wallet.give_up(KEY, ticket, ms(1));
        // Suspended meanwhile: the ask is given up and the key goes in one look.
        edge.wallet.handle_timeout(ms(20_000));
        assert!(edge.wallet.cell(KEY).is_none(), "the key is held");
        way(&mut edge.wallet, asked.id);
        assert!(edge.wallet.is_empty());
        assert_eq!(edge.wallet.settled(), (99, 1));
    }
}
