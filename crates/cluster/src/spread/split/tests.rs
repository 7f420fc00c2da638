//! Requests come apart and answers together.

use leasehold_limit::{Algorithm, Ask, Limit, RetryAfter};
use leasehold_model::{RequestId, RulesVersion, TenantId};
use proptest::prelude::*;

use super::*;

const ID: RequestId = RequestId { session: 5, seq: 6 };

fn shards() -> Shards {
    Shards::new(4).unwrap()
}

fn spec(n: u64) -> LimitSpec {
    let limit = Limit::new(Algorithm::SlidingLog, n + 1, Nanos::from_secs(1)).unwrap();
    LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit }
}

/// A demand on a counter of that shard.
fn demand(shard: u64, cost: u64, shadow: bool) -> Demand {
    Demand { key: Key { high: shard, low: shard }, limit: 0, ask: Ask::exactly(cost), shadow }
}

fn acquire(demands: Vec<Demand>) -> Acquire {
    Acquire { id: Some(ID), remember_denial: true, demands }
}

fn granted(remaining: u64) -> Decision {
    Decision { granted: 1, remaining, ..UNSEEN }
}

fn denied() -> Decision {
    let retry_after = Some(RetryAfter::In(Nanos(9)));
    Decision { allowed: false, retry_after, next_unit_after: Nanos(9), ..UNSEEN }
}

fn said(at: u64, decisions: Vec<Decision>) -> Acquired {
    Acquired { admitted: decisions.iter().all(|decision| decision.allowed), at: Stamp(at), decisions }
}

/// The shards in the order in which they are asked.
fn check_order(demands: Vec<Demand>, expected: &[u32]) {
    let parts = split_acquire(&[spec(1)], &acquire(demands), shards());
    assert_eq!(parts.iter().map(|part| part.shard.0).collect::<Vec<_>>(), expected);
}

#[test]
fn shards_are_asked_in_ascending_order() {
    check_order(vec![demand(3, 1, false), demand(0, 1, false), demand(2, 1, false)], &[0, 2, 3]);
}

#[test]
fn who_only_looks_is_asked_first_and_who_has_only_shadows_last() {
    check_order(vec![demand(0, 1, true), demand(3, 0, false), demand(2, 1, false)], &[3, 2, 0]);
    check_order(vec![demand(0, 1, true), demand(0, 1, false), demand(1, 1, false)], &[0, 1]);
    check_order(vec![demand(0, 0, true), demand(1, 1, false)], &[0, 1]);
}

#[test]
fn a_batch_of_one_shard_is_known_as_such() {
    let batch = |demands| Batch { commands: vec![Command::Acquire(acquire(demands))], ..Batch::default() };
    assert_eq!(only_shard(&batch(vec![demand(2, 1, false), demand(2, 1, true)]), shards()), Some(ShardId(2)));
    assert_eq!(only_shard(&batch(vec![demand(2, 1, false), demand(1, 1, true)]), shards()), None);
    assert_eq!(only_shard(&batch(Vec::new()), shards()), Some(ShardId(0)));
}

#[test]
fn an_admitted_request_has_every_decision_in_the_order_of_the_demands() {
    let demands = vec![demand(1, 1, false), demand(0, 1, false), demand(1, 1, false)];
    let parts = split_acquire(&[spec(1)], &acquire(demands), shards());
    let outcomes = [
        Outcome::Decided(said(10, vec![granted(3)])),
        Outcome::Decided(said(20, vec![granted(2), granted(1)])),
    ];
    let decisions = vec![granted(2), granted(3), granted(1)];
    let expected = Acquired { admitted: true, at: Stamp(20), decisions };
    assert_eq!(merge_acquired(&parts, &outcomes), expected);
}

#[test]
fn what_a_refused_request_had_taken_reads_as_given_back() {
    let parts =
        split_acquire(&[spec(1)], &acquire((0..4).map(|shard| demand(shard, 1, false)).collect()), shards());
    let outcomes = [
        Outcome::Returned(said(10, vec![granted(3)])),
        Outcome::Decided(said(20, vec![denied()])),
        Outcome::Looked(said(30, vec![granted(7)])),
        Outcome::Unseen,
    ];
    let free = |remaining| Decision { granted: 0, remaining, ..UNSEEN };
    let decisions = vec![free(4), denied(), free(8), UNSEEN];
    let expected = Acquired { admitted: false, at: Stamp(20), decisions };
    assert_eq!(merge_acquired(&parts, &outcomes), expected);
}

#[test]
fn what_is_given_back_is_what_was_granted_as_of_when_it_was() {
    let demands = vec![demand(1, 1, false), demand(1, 0, false), demand(1, 1, true)];
    let parts = split_acquire(&[spec(1)], &acquire(demands), shards());
    let let_go = Decision { granted: 0, ..granted(3) };
    let items = taken(&parts[0], &said(10, vec![granted(3), let_go, granted(2)]));
    let item = RefundItem { key: Key { high: 1, low: 1 }, cost: 1, charged_at: Stamp(10) };
    assert_eq!(items, [item, item]);
}

#[test]
fn resets_and_refunds_come_apart_by_shard() {
    let key = |n| Key { high: n, low: n };
    let parts = split_reset(&Reset { keys: vec![key(5), key(2), key(1)] }, shards());
    let keys: Vec<_> = parts.into_iter().map(|(shard, part)| (shard.0, part.keys)).collect();
    assert_eq!(keys, [(1, vec![key(5), key(1)]), (2, vec![key(2)])]);
    let item = |n| RefundItem { key: key(n), cost: n, charged_at: Stamp(n) };
    let parts = split_refund(&Refund { id: ID, items: vec![item(5), item(2), item(1)] }, shards());
    assert_eq!(parts[&ShardId(1)], (Refund { id: ID, items: vec![item(5), item(1)] }, vec![0, 2]));
    assert_eq!(parts[&ShardId(2)], (Refund { id: ID, items: vec![item(2)] }, vec![1]));
}

fn any_demand() -> impl Strategy<Value = Demand> {
    (0..8_u64, 0..4_u32, 0..3_u64, any::<bool>())
        .prop_map(|(shard, limit, cost, shadow)| Demand { limit, ..demand(shard, cost, shadow) })
}

proptest! {
    #[test]
    fn every_demand_is_asked_once_of_its_own_shard_under_its_own_limit(
        demands in prop::collection::vec(any_demand(), 0..9),
    ) {
        let limits = [spec(0), spec(1), spec(2)];
        let whole = acquire(demands);
        let parts = split_acquire(&limits, &whole, shards());
        let mut seen = vec![0; whole.demands.len()];
        for part in &parts {
            prop_assert_eq!((part.acquire.id, part.acquire.remember_denial), (Some(ID), true));
            prop_assert!(part.places.is_sorted());
            for (asked, &place) in part.acquire.demands.iter().zip(&part.places) {
                seen[place] += 1;
                let meant = whole.demands[place];
                prop_assert_eq!(shards().of(asked.key), part.shard);
                prop_assert_eq!(Demand { limit: 0, ..*asked }, Demand { limit: 0, ..meant });
                let limit = |limits: &[LimitSpec], at: u32| limits.get(usize::try_from(at).unwrap()).cloned();
                prop_assert_eq!(limit(&part.limits, asked.limit), limit(&limits, meant.limit));
            }
        }
        prop_assert!(seen.iter().all(|&times| times == 1));
    }
}
