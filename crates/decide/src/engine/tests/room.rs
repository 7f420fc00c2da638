//! At the bound of counters: what is there is asked and charged, what isn't goes as its rule declares.

use std::collections::BTreeMap;

use proptest::prelude::*;

use leasehold_limit::check::{Outcome, Verdict};
use leasehold_model::RequestId;

use super::support::*;
use super::*;

/// What each of the rules below admits. No window ends during a test.
const N: u64 = 3;

/// One counter: a rule and the value that tells it from others of the rule.
type Counter = (usize, u8);

#[derive(Clone, Debug)]
struct Case {
    keys_max: u32,
    /// Of each rule: whether it is a shadow, and what it declares.
    rules: Vec<(bool, &'static str)>,
    /// Of each request: the value of each rule's attribute, and what it costs.
    requests: Vec<(Vec<u8>, u64)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let rule = (prop::bool::weighted(0.2), prop_oneof![4 => Just("allow"), 1 => Just("deny")]);
    let rules = prop::collection::vec(rule, 1..5);
    rules.prop_flat_map(|rules| {
        let request = (prop::collection::vec(0..3_u8, rules.len()), 0..=N + 1);
        let requests = prop::collection::vec(request, 1..25);
        (1..6_u32, Just(rules), requests).prop_map(|(keys_max, rules, requests)| Case {
            keys_max,
            rules,
            requests,
        })
    })
}

fn rules_text(rules: &[(bool, &str)]) -> String {
    let mut text = "domain: d\nlimits:\n".to_owned();
    for (index, (shadow, on_unavailable)) in rules.iter().enumerate() {
        text += &format!(
            "  - {{ name: r{index}, per: [a{index}], limit: {N}/8760h, algorithm: sliding_log, \
             shadow: {shadow}, on_unavailable: {on_unavailable} }}\n"
        );
    }
    text
}

/// Checks one answer against the counters charged so far, and charges them.
fn agree(case: &Case, used: &mut BTreeMap<Counter, u64>, values: &[u8], cost: u64, answer: &Answer) {
    let mut refused = false;
    for (index, answered) in answer.matched().enumerate() {
        let held = used.get(&(index, values[index])).copied();
        let enforced = !case.rules[index].0;
        match answered.outcome {
            Outcome::Decided(decision) => {
                assert_eq!(decision.allowed, held.unwrap_or(0) + cost.max(1) <= N, "{answered:?}");
                refused |= enforced && !decision.allowed;
            }
            Outcome::Unavailable => assert_eq!(held, None, "held, yet not asked"),
            Outcome::Unidentified => panic!("every value is there"),
        }
    }
    assert_eq!(answer.verdict == Verdict::OverLimit, refused);
    for (index, answered) in answer.matched().enumerate() {
        let Some(decision) = answered.decision() else { continue };
        assert!(decision.granted == 0 || answer.verdict == Verdict::Allowed, "charged, yet refused");
        if answer.verdict == Verdict::Allowed && !case.rules[index].0 {
            assert_eq!(decision.granted, cost, "admitted, yet not charged");
        }
        if decision.granted > 0 {
            *used.entry((index, values[index])).or_default() += decision.granted;
        }
    }
    assert!(used.len() <= usize::try_from(case.keys_max).expect("small"));
}

/// What an answer says of its verdict, and of each limit whether it was asked and whether it allows.
fn told(answer: &Answer) -> (Verdict, bool, Vec<Option<bool>>) {
    let allowed = answer.matched().map(|matched| matched.decision().map(|decision| decision.allowed));
    (answer.verdict, answer.degraded, allowed.collect())
}

async fn run(case: &Case) {
    let engine = tight_engine(case.keys_max, 10, &rules_text(&case.rules));
    let names: Vec<_> = (0..case.rules.len()).map(|index| format!("a{index}")).collect();
    let texts = ["0", "1", "2"];
    let attributes = |values: &[u8]| -> Vec<_> {
        names.iter().zip(values).map(|(name, value)| (name.as_str(), texts[usize::from(*value)])).collect()
    };
    let mut used = BTreeMap::new();
    for (values, cost) in &case.requests {
        let foretold = peek(&engine, &attributes(values)).await;
        agree(case, &mut used, values, 0, &foretold);
        let answer = engine.check(&request(&attributes(values), *cost), None).await.expect("decided");
        if *cost == 1 {
            assert_eq!(told(&foretold), told(&answer), "a peek answers as the check would");
        }
        agree(case, &mut used, values, *cost, &answer);
    }
    assert_eq!(engine.authority().keys(), used.len());
    for value in 0..3 {
        let answer = peek(&engine, &attributes(&vec![value; case.rules.len()])).await;
        let expected: Vec<_> = (0..case.rules.len())
            .zip(answer.matched())
            .filter(|(_, answered)| answered.outcome != Outcome::Unavailable)
            .map(|(index, _)| N - used.get(&(index, value)).copied().unwrap_or(0))
            .collect();
        let remaining: Vec<_> = remaining(&answer).into_iter().flatten().collect();
        assert_eq!(remaining, expected, "what is charged is what was answered");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn at_any_bound_every_counter_that_is_there_is_asked_and_charged_what_was_answered(case in cases()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(run(&case));
    }
}

#[tokio::test]
async fn one_free_place_and_two_new_counters_dont_switch_off_the_one_that_is_there() {
    let rules = "
domain: d
limits:
  - { name: everybody, limit: 10/day }
  - { name: users, per: [user], limit: 10/day }
  - { name: keys, per: [key], limit: 10/day }
";
    let engine = tight_engine(2, 1, rules);
    check(&engine, &[]).await;
    let answer = check(&engine, &[("user", "new"), ("key", "new")]).await;
    assert_eq!((answer.verdict, answer.degraded), (Verdict::Allowed, true));
    assert_eq!(remaining(&answer), [Some(8), Some(9), None], "the first of the new takes the free place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_concurrent_flood_of_new_counters_gets_no_more_past_the_limit_that_is_there() {
    let engine = Arc::new(tight_engine(3, 1, &everybody_and_users("allow")));
    let checks: Vec<_> = (0..100)
        .map(|user| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move {
                let user = format!("{user}");
                check(&engine, &[("user", &user)]).await.verdict == Verdict::Allowed
            })
        })
        .collect();
    let mut admitted = 0;
    for check in checks {
        admitted += u32::from(check.await.expect("no panic"));
    }
    assert_eq!((admitted, engine.authority().keys()), (10, 3));
}

#[tokio::test]
async fn a_peek_at_a_counter_that_has_no_room_is_answered_as_its_rule_declares() {
    for (on_unavailable, verdict) in [("allow", Verdict::Allowed), ("deny", Verdict::Unavailable)] {
        let engine = tight_engine(2, 1, &everybody_and_users(on_unavailable));
        check(&engine, &[("user", "first")]).await;
        let peeked = peek(&engine, &[("user", "new")]).await;
        assert_eq!((peeked.verdict, peeked.degraded), (verdict, true));
        assert_eq!(told(&peeked), told(&check(&engine, &[("user", "new")]).await));
        assert!(!peek(&engine, &[("user", "first")]).await.degraded);
    }
}

/// Fills the one place there is, then asks for a new counter.
async fn declared(on_unavailable: &str) -> (Verdict, bool) {
    let rules = format!(
        "{{domain: d, limits: [{{name: a, per: [user], limit: 10/day, on_unavailable: {on_unavailable}}}]}}"
    );
    let engine = tight_engine(1, 1, &rules);
    check(&engine, &[("user", "first")]).await;
    let answer = check(&engine, &[("user", "second")]).await;
    assert_eq!(check(&engine, &[("user", "first")]).await.verdict, Verdict::Allowed);
    (answer.verdict, answer.degraded)
}

#[tokio::test]
async fn at_the_bound_of_counters_each_limit_does_what_it_declares() {
    assert_eq!(declared("allow").await, (Verdict::Allowed, true));
    assert_eq!(declared("deny").await, (Verdict::Unavailable, true));
    assert_eq!(declared("local").await, (Verdict::Unavailable, true));
}

#[tokio::test]
async fn a_flood_of_new_counters_doesnt_switch_off_those_that_are_there() {
    let engine = tight_engine(2, 1, &everybody_and_users("allow"));
    check(&engine, &[("user", "first")]).await;
    for _ in 0..9 {
        let answer = check(&engine, &[("user", "new")]).await;
        assert_eq!((answer.verdict, answer.degraded), (Verdict::Allowed, true));
        assert!(answer.descriptors[0].matched[0].decision().is_some(), "everybody's counter is there");
        assert_eq!(answer.descriptors[0].matched[1].outcome, Outcome::Unavailable);
    }
    assert_eq!(check(&engine, &[("user", "new")]).await.verdict, Verdict::OverLimit);
}

#[tokio::test]
async fn a_retry_of_what_was_charged_in_part_for_want_of_room_is_charged_once() {
    let engine = tight_engine(2, 10, &everybody_and_users("allow"));
    check(&engine, &[("user", "first")]).await;
    let id = Some(RequestId { session: 1, seq: 1 });
    for _ in 0..3 {
        let retried = Request { request_id: id, ..request(&[("user", "new")], 1) };
        let answer = engine.check(&retried, None).await.expect("decided");
        assert_eq!((remaining(&answer), answer.degraded), (vec![Some(8), None], true));
    }
}

#[tokio::test]
async fn a_limit_that_declares_deny_keeps_the_others_from_being_charged() {
    let engine = tight_engine(2, 1, &everybody_and_users("deny"));
    check(&engine, &[("user", "first")]).await;
    let answer = check(&engine, &[("user", "new")]).await;
    assert_eq!(answer.verdict, Verdict::Unavailable);
    assert_eq!(engine.host().totals(), [1, 0, 1]);
    assert_eq!(remaining(&answer), [Some(9), None]);
    assert_eq!(remaining(&check(&engine, &[("user", "first")]).await), [Some(8), Some(8)]);
}

#[tokio::test]
async fn a_retry_of_what_was_charged_in_part_is_answered_the_same_once_there_is_room() {
    let engine = tight_engine(2, 10, &everybody_and_users("allow"));
    check(&engine, &[("user", "first")]).await;
    let id = Some(RequestId { session: 1, seq: 1 });
    let request = Request { request_id: id, ..request(&[("user", "new")], 1) };
    let first = engine.check(&request, None).await.expect("decided");
    let attributes = [Attribute { name: "user", value: b"first" }];
    let target = ResetTarget { domain: "d", attributes: &attributes, rule: Some("users") };
    assert_eq!(engine.reset(target).await, Ok(1));
    check(&engine, &[("user", "new")]).await;
    let again = engine.check(&request, None).await.expect("the same request");
    for answer in [first, again] {
        assert_eq!((remaining(&answer), answer.degraded), (vec![Some(8), None], true));
    }
    assert_eq!(remaining(&peek(&engine, &[("user", "new")]).await), [Some(7), Some(9)]);
}
