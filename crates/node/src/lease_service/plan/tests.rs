//! Which asks go together, and what goes with them.

use leasehold_lease::{LeaseId, MilliRate, Usage};
use leasehold_limit::{Algorithm, Ask as Units, Limit};
use leasehold_model::{RulesVersion, Stamp, TenantId};

use super::*;

const PATIENCE: Duration = Duration::from_secs(2);
const EDGE: EdgeId = EdgeId(5);

fn terms(lends: &dyn Fn(Key, Scope) -> bool) -> Terms<'_> {
    Terms { edge: EDGE, shards: Some(Shards::new(4).unwrap()), reset: true, patience: PATIENCE, lends }
}

fn limits() -> Vec<AskedLimit> {
    let limit = |burst| Limit::new(Algorithm::TokenBucket { burst }, 1, Nanos::from_secs(1)).unwrap();
    let spec = |burst| LimitSpec {
        tenant: TenantId(1),
        version: RulesVersion(1),
        since: Stamp::ZERO,
        limit: limit(burst),
    };
    let scope = Scope::Global;
    [5, 6, 7].map(|burst| AskedLimit { spec: spec(burst), scope }).into()
}

fn key(low: u64) -> Key {
    Key { high: 9, low }
}

fn lease(seq: u64, low: u64, limit: u32, want: u64) -> Ask {
    let lease = AskedLease {
        key: key(low),
        limit,
        need: 0,
        want,
        rate: MilliRate(0),
        lifetime: Nanos::from_secs(5),
        usage: Vec::<Usage>::new(),
    };
    ask(seq, What::Lease(lease))
}

fn ask(seq: u64, what: What) -> Ask {
    Ask { tag: 100 + seq, id: RequestId { session: 1, seq }, budget: None, what }
}

fn demand(low: u64, limit: u32) -> Demand {
    Demand { key: key(low), limit, ask: Units::exactly(1), shadow: false }
}

fn planned(asks: Vec<Ask>, sessions: &Sessions) -> (Vec<Work>, Vec<Answer>) {
    let asks = Asks { limits: limits(), asks, settled: Vec::new() };
    plan(asks, sessions, &terms(&|_, _| false))
}

#[test]
fn asks_for_tokens_of_one_shard_go_together_each_under_its_limit() {
    let asks = vec![lease(1, 0, 2, 5), lease(2, 1, 0, 5), lease(3, 4, 2, 5), lease(4, 8, 1, 5)];
    let (work, answers) = planned(asks, &Sessions::default());
    assert!(answers.is_empty());
    let [Work::Apply { tags: first, batch, within }, Work::Apply { tags: second, .. }] = &*work else {
        panic!("{work:?}");
    };
    assert_eq!((&**first, &**second, *within), (&[101, 103, 104][..], &[102][..], PATIENCE));
    assert_eq!(batch.limits, [limits()[2].spec.clone(), limits()[1].spec.clone()]);
    let place = |command: &Command| {
        let Command::Lease(lease) = command else { panic!("{command:?}") };
        (lease.limit, lease.ask.edge, lease.id.map(|id| id.seq))
    };
    let places: Vec<_> = batch.commands.iter().map(place).collect();
    assert_eq!(places, [(0, EDGE, Some(1)), (0, EDGE, Some(3)), (1, EDGE, Some(4))]);
}

#[test]
fn usage_alone_needs_no_id() {
    let (work, _) = planned(vec![lease(1, 0, 0, 0)], &Sessions::default());
    let [Work::Apply { batch, .. }] = &*work else { panic!("{work:?}") };
    assert!(matches!(&*batch.commands, [Command::Lease(lease)] if lease.id.is_none()));
}

#[test]
fn what_a_session_has_settled_goes_with_its_asks_once_a_batch() {
    let mut sessions = Sessions::default();
    let settled = Settled { session: 1, below: 7 };
    sessions.note(settled);
    sessions.note(Settled { session: 1, below: 6 });
    sessions.note(Settled { session: 2, below: 9 });
    let asks = vec![lease(8, 0, 0, 5), lease(9, 4, 0, 5), ask(10, What::Acquire(vec![demand(1, 0)]))];
    let (work, _) = planned(asks, &sessions);
    for piece in &work {
        let Work::Apply { batch, .. } = piece else { panic!("{piece:?}") };
        assert_eq!(batch.settled, [settled]);
    }
    assert_eq!(work.len(), 2);
}

#[test]
fn an_ask_for_owners_goes_alone_with_its_own_limits_and_time() {
    let short = Ask {
        budget: Some(Nanos::from_millis(20)),
        ..ask(1, What::Acquire(vec![demand(0, 2), demand(1, 1), demand(2, 2)]))
    };
    let long = Ask { budget: Some(Nanos::MAX), ..ask(2, What::Preview(vec![demand(0, 1)])) };
    let (work, _) = planned(vec![short, long], &Sessions::default());
    let [Work::Apply { tags, batch, within }, Work::Look { tag, limits: looked, within: most, .. }] = &*work
    else {
        panic!("{work:?}");
    };
    assert_eq!((&**tags, *within), (&[101][..], Duration::from_millis(20)));
    assert_eq!(batch.limits, [limits()[2].spec.clone(), limits()[1].spec.clone()]);
    let [Command::Acquire(acquire)] = &*batch.commands else { panic!("{batch:?}") };
    assert_eq!(acquire.demands.iter().map(|demand| demand.limit).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(acquire.id, Some(RequestId { session: 1, seq: 1 }));
    assert!(acquire.remember_denial);
    assert_eq!((*tag, &**looked, *most), (102, &[limits()[1].spec.clone()][..], PATIENCE));
}

#[test]
fn what_may_not_be_asked_or_is_not_known_is_refused_by_itself() {
    let asks = vec![ask(1, What::Reset(vec![key(1)])), ask(2, What::Later), lease(3, 0, 0, 5)];
    let asks = Asks { limits: limits(), asks, settled: Vec::new() };
    let no = |_, _| false;
    let (work, answers) = plan(asks, &Sessions::default(), &Terms { reset: false, ..terms(&no) });
    let refused = |tag| Answer { tag, outcome: Outcome::Refused(Refusal::Malformed) };
    assert_eq!(answers, [refused(101), refused(102)]);
    assert_eq!(work.len(), 1);
}

#[test]
fn what_the_node_lends_itself_goes_to_no_owner() {
    let asks = vec![lease(1, 0, 0, 5), lease(2, 1, 0, 5)];
    let asks = Asks { limits: limits(), asks, settled: Vec::new() };
    let (work, _) = plan(asks, &Sessions::default(), &terms(&|key, _| key.low == 0));
    let [Work::Lend { tag, ask, .. }, Work::Apply { tags, .. }] = &*work else { panic!("{work:?}") };
    assert_eq!((*tag, ask.id.seq, ask.ask.edge), (101, 1, EDGE));
    assert_eq!(**tags, [102]);
}

#[test]
fn an_ask_for_a_number_alone_goes_to_its_owner_past_whoever_lends() {
    let usage = vec![Usage { lease: LeaseId(1), spent_total: 1, returned_total: 0 }];
    let mut tells = lease(2, 0, 0, 0);
    if let What::Lease(lease) = &mut tells.what {
        lease.usage = usage;
    }
    let asks = Asks { limits: limits(), asks: vec![lease(1, 0, 0, 0), tells], settled: Vec::new() };
    let (work, _) = plan(asks, &Sessions::default(), &terms(&|_, _| true));
    let [Work::Lend { tag: lent, .. }, Work::Apply { tags, .. }] = &*work else { panic!("{work:?}") };
    assert_eq!((*lent, &**tags), (102, &[101][..]));
}

#[test]
fn a_node_alone_has_one_shard() {
    let asks = Asks { limits: limits(), asks: vec![lease(1, 0, 0, 5), lease(2, 1, 1, 5)], settled: vec![] };
    let no = |_, _| false;
    let (work, _) = plan(asks, &Sessions::default(), &Terms { shards: None, ..terms(&no) });
    assert_eq!(work.len(), 1);
}
