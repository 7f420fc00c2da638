//! What is sent, sent again, and told, without a connection.

use leasehold_lease::{EdgeId, LeaseAsk, MilliRate};
use leasehold_limit::rules::Scope;
use leasehold_limit::{Algorithm, Limit};
use leasehold_model::{Key, RulesVersion, Stamp, TenantId};
use leasehold_shard::{Command, LimitSpec, Reset};
use leasehold_wire::lease::{ITEMS_MAX, LeaseRequest, REQUEST_BYTES_MAX, USAGE_MAX, What};
use leasehold_wire::{Message as _, proto::leasehold::v1 as proto};
use std::sync::Arc;
use tokio::sync::mpsc;

use super::*;

const OWN: u128 = 1;
const WALLET: u128 = 2;

fn desk() -> (Desk, Instant) {
    (Desk::new(OWN), Instant::now())
}

fn spec(burst: u64) -> LimitSpec {
    let limit = Limit::new(Algorithm::TokenBucket { burst }, 1, Nanos::from_secs(1)).unwrap();
    LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit }
}

fn lease(usage: usize) -> Option<Question> {
    let usage = vec![
        leasehold_lease::Usage {
            lease: leasehold_lease::LeaseId(u64::MAX),
            spent_total: u64::MAX,
            returned_total: u64::MAX
        };
        usage
    ];
    let ask = LeaseAsk {
        edge: EdgeId(9),
        key: Key::from_u128(u128::MAX),
        need: u64::MAX,
        want: u64::MAX,
        rate: MilliRate(u64::MAX),
        lifetime: Nanos::MAX,
        usage,
    };
    Question::lease(Arc::new(spec(5)), Scope::Global, ask)
}

fn reset(keys: usize) -> Option<Question> {
    Question::exact(Vec::new(), Command::Reset(Reset { keys: vec![Key::MIN; keys] }))
}

fn id(seq: u64) -> RequestId {
    RequestId { session: WALLET, seq }
}

fn pool(id: RequestId) -> (Asker, mpsc::UnboundedReceiver<UpstreamAnswer>) {
    let (answers, received) = mpsc::unbounded_channel();
    (Asker::Pool { id, answers }, received)
}

fn put_lease(desk: &mut Desk, seq: u64, deadline: Instant) {
    desk.put_lease(id(seq), lease(1).unwrap(), deadline, pool(id(seq)).0).unwrap();
}

fn put_exact(desk: &mut Desk, deadline: Instant) {
    desk.put_exact(None, reset(1).unwrap(), deadline, Asker::Caller(oneshot::channel().0)).unwrap();
}

fn later(from: Instant, seconds: u64) -> Instant {
    from + Duration::from_secs(seconds)
}

fn ids(asks: &Asks) -> Vec<u64> {
    asks.asks.iter().map(|ask| ask.id.seq).collect()
}

fn answer(tag: u64) -> Answer {
    Answer { tag, outcome: Outcome::Reset(1) }
}

#[test]
fn what_has_no_answer_is_sent_again_under_its_id_and_what_has_one_is_not() {
    let (mut desk, now) = desk();
    for seq in 10..13 {
        put_lease(&mut desk, seq, later(now, 5));
    }
    let first = desk.fill(8, now).unwrap();
    assert_eq!(ids(&first), [10, 11, 12]);
    assert!(desk.fill(8, now).is_none(), "each is sent once a connection");
    assert!(desk.answered(answer(first.asks[1].tag), now).is_some());
    desk.lost();
    let again = desk.fill(8, later(now, 1)).unwrap();
    assert_eq!(ids(&again), [10, 12]);
    assert_eq!(again.asks[0].what, first.asks[0].what);
    assert!(desk.answered(answer(first.asks[1].tag), now).is_none(), "an answer comes once");
}

#[test]
fn no_more_is_under_way_than_the_node_takes() {
    let (mut desk, now) = desk();
    for seq in 0..5 {
        put_lease(&mut desk, seq, later(now, 5));
    }
    let first = desk.fill(2, now).unwrap();
    assert_eq!(ids(&first), [0, 1]);
    assert!(!desk.has_unsent(2));
    assert!(desk.fill(2, now).is_none());
    desk.answered(answer(first.asks[1].tag), now);
    assert_eq!(ids(&desk.fill(2, now).unwrap()), [2]);
}

#[test]
fn an_ask_whose_deadline_passed_is_never_sent_again_but_keeps_its_place_at_the_node() {
    let (mut desk, now) = desk();
    put_lease(&mut desk, 1, later(now, 1));
    let sent = desk.fill(1, now).unwrap();
    assert_eq!(desk.next_deadline(), Some(later(now, 1)));
    assert_eq!(desk.expired(later(now, 1)).len(), 1);
    put_lease(&mut desk, 2, later(now, 9));
    assert!(desk.fill(1, now).is_none(), "the node may still be at it");
    assert!(desk.answered(answer(sent.asks[0].tag), now).is_none(), "nobody waits for it");
    assert_eq!(ids(&desk.fill(1, now).unwrap()), [2]);
    desk.lost();
    assert_eq!(ids(&desk.fill(1, now).unwrap()), [2]);
}

#[test]
fn an_ask_for_tokens_that_is_put_twice_is_sent_once_and_waited_for_longer() {
    let (mut desk, now) = desk();
    put_lease(&mut desk, 1, later(now, 1));
    assert_eq!(ids(&desk.fill(8, now).unwrap()), [1]);
    put_lease(&mut desk, 1, later(now, 3));
    assert!(desk.fill(8, now).is_none());
    assert!(desk.expired(later(now, 2)).is_empty());
    assert_eq!(desk.open(), 1);
}

#[test]
fn two_requests_under_one_callers_id_are_both_asked() {
    let (mut desk, now) = desk();
    for _ in 0..2 {
        let asker = Asker::Caller(oneshot::channel().0);
        desk.put_exact(Some(id(7)), reset(1).unwrap(), later(now, 1), asker).unwrap();
    }
    assert_eq!(ids(&desk.fill(8, now).unwrap()), [7, 7]);
}

#[test]
fn nothing_that_may_be_asked_again_is_told_as_settled() {
    let (mut desk, now) = desk();
    put_exact(&mut desk, later(now, 5));
    put_exact(&mut desk, later(now, 5));
    let first = desk.fill(8, now).unwrap();
    assert_eq!(first.settled, []);
    desk.answered(answer(first.asks[1].tag), now);
    put_exact(&mut desk, later(now, 5));
    assert_eq!(desk.fill(8, now).unwrap().settled, [], "the first is open");
    desk.answered(answer(first.asks[0].tag), now);
    put_exact(&mut desk, later(now, 5));
    assert_eq!(desk.fill(8, now).unwrap().settled, [Settled { session: OWN, below: 3 }]);
    put_exact(&mut desk, later(now, 5));
    assert_eq!(desk.fill(8, now).unwrap().settled, [], "told once");
}

#[test]
fn what_wallets_have_settled_goes_with_the_next_asks() {
    let (mut desk, now) = desk();
    desk.settle(Settled { session: WALLET, below: 4 });
    desk.settle(Settled { session: WALLET, below: 3 });
    desk.settle(Settled { session: 8, below: 0 });
    put_lease(&mut desk, 5, later(now, 5));
    assert_eq!(desk.fill(8, now).unwrap().settled, [Settled { session: WALLET, below: 4 }]);
}

#[test]
fn at_its_bound_the_desk_takes_nothing_more() {
    let (mut desk, now) = desk();
    for seq in 0..OPEN_MAX {
        put_lease(&mut desk, u64::try_from(seq).unwrap(), later(now, 5));
    }
    let asker = Asker::Caller(oneshot::channel().0);
    assert!(desk.put_exact(None, reset(1).unwrap(), later(now, 5), asker).is_err());
    assert_eq!(desk.clear().len(), OPEN_MAX);
}

#[test]
fn a_message_keeps_within_what_a_node_reads() {
    let (mut desk, now) = desk();
    for seq in 0..2_000 {
        let asker = pool(id(seq)).0;
        desk.put_lease(id(seq), lease(USAGE_MAX).unwrap(), later(now, 5), asker).unwrap();
    }
    let mut sent = 0;
    while let Some(asks) = desk.fill(usize::MAX, now) {
        sent += asks.asks.len();
        let bytes = proto::LeaseRequest::from(LeaseRequest::Asks(asks)).encoded_len();
        assert!(bytes < REQUEST_BYTES_MAX, "{bytes}");
    }
    assert_eq!(sent, 2_000);
}

#[test]
fn a_question_that_no_node_would_read_is_none() {
    assert!(lease(USAGE_MAX).is_some());
    assert!(lease(USAGE_MAX + 1).is_none());
    assert!(reset(ITEMS_MAX).is_some());
    assert!(reset(ITEMS_MAX + 1).is_none());
    assert!(reset(0).is_none());
    let demand = leasehold_shard::Demand {
        key: Key::MIN,
        limit: 1,
        ask: leasehold_limit::Ask::exactly(1),
        shadow: false,
    };
    assert!(Question::preview(vec![(spec(1), Scope::Global)], vec![demand]).is_none());
}

#[test]
fn each_limit_is_sent_once_a_message() {
    let (mut desk, now) = desk();
    for burst in [5, 6, 5] {
        let limits = vec![(spec(7), Scope::Global), (spec(burst), Scope::Global)];
        let demands = vec![leasehold_shard::Demand {
            key: Key::MIN,
            limit: 1,
            ask: leasehold_limit::Ask::exactly(1),
            shadow: false,
        }];
        let asker = Asker::Caller(oneshot::channel().0);
        let question = Question::preview(limits, demands).unwrap();
        desk.put_exact(None, question, later(now, 5), asker).unwrap();
    }
    let asks = desk.fill(8, now).unwrap();
    assert_eq!(asks.limits.len(), 3);
    for (ask, burst) in asks.asks.iter().zip([5, 6, 5]) {
        let What::Preview(demands) = &ask.what else { panic!("{ask:?}") };
        let place = usize::try_from(demands[0].limit).unwrap();
        assert_eq!(asks.limits[place].spec, spec(burst));
    }
}

#[test]
fn an_answer_to_another_question_is_no_grant() {
    let (asker, mut received) = pool(id(3));
    asker.tell(Outcome::Reset(1));
    let told = received.try_recv().unwrap();
    assert_eq!(told, UpstreamAnswer { id: id(3), outcome: Err(NoGrant::Unreachable) });
}
