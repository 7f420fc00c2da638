//! From a request to its answer, without a network.

mod failing;
mod room;
mod standing_in;
mod support;

use leasehold_limit::check::{Attribute, Outcome, Verdict};
use leasehold_limit::{Algorithm, Limit, Window};
use leasehold_model::ShardId;

use super::*;
use support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_concurrent_checks_on_a_limit_of_ten_admit_exactly_ten() {
    let engine = Arc::new(engine(TEN_BY_USER));
    let checks: Vec<_> = (0..100)
        .map(|_| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move { check(&engine, &[("user", "u")]).await.verdict == Verdict::Allowed })
        })
        .collect();
    let mut admitted = 0;
    for check in checks {
        admitted += u32::from(check.await.expect("no panic"));
    }
    assert_eq!(admitted, 10);
    assert_eq!(engine.host().totals(), [10, 90, 0]);
}

#[tokio::test]
async fn a_retried_id_is_charged_once_and_answered_the_same() {
    let engine = engine(TEN_BY_USER);
    let id = engine.request_id("d", "order 17");
    let request = Request { request_id: Some(id), ..request(&[("user", "u")], 4) };
    let first = engine.check(&request, None).await.expect("decided");
    let again = engine.check(&request, None).await.expect("decided");
    assert_eq!(first.verdict, Verdict::Allowed);
    assert_eq!(remaining(&first), [Some(6)]);
    assert_eq!(remaining(&again), [Some(6)]);
    assert_eq!(remaining(&peek(&engine, &[("user", "u")]).await), [Some(6)]);
}

#[tokio::test]
async fn an_id_stands_for_one_request_only() {
    let engine = engine(TEN_BY_USER);
    let id = Some(RequestId { session: 1, seq: 1 });
    engine.check(&Request { request_id: id, ..request(&[("user", "u")], 1) }, None).await.expect("decided");
    let other = Request { request_id: id, ..request(&[("user", "other")], 1) };
    assert_eq!(engine.check(&other, None).await.expect_err("reused"), CheckError::RequestIdReused);
}

#[tokio::test]
async fn regions_count_apart_what_is_scoped_to_them_and_together_what_is_not() {
    const RULES: &str = "domain: d\nlimits:\n  - { name: near, per: [user], limit: 10/min, scope: region }\n  - { name: all, \
                         per: [user], limit: 100/min }\n";
    let engine = engine(RULES);
    let enter = |name: &str| {
        *engine.host().region.lock() = Region::new(&engine.host().secret(), name, 4, [ShardId(2)]);
        engine.host().put(RULES);
    };
    for (region, expected) in [("eu", [9, 99]), ("us", [9, 98]), ("eu", [8, 97]), ("", [9, 96])] {
        enter(region);
        let answer = check(&engine, &[("user", "u")]).await;
        assert_eq!(remaining(&answer), expected.map(Some), "{region}");
    }
    enter("eu");
    let target = ResetTarget {
        domain: "d",
        rule: Some("near"),
        attributes: &[Attribute { name: "user", value: b"u" }],
    };
    assert_eq!(engine.reset(target).await, Ok(1));
    assert_eq!(remaining(&peek(&engine, &[("user", "u")]).await), [Some(10), Some(96)]);
    enter("us");
    assert_eq!(remaining(&peek(&engine, &[("user", "u")]).await), [Some(9), Some(96)]);
}

#[test]
fn ids_of_two_domains_are_two_ids() {
    let engine = engine(TEN_BY_USER);
    assert_ne!(engine.request_id("a", "1"), engine.request_id("b", "1"));
    assert_ne!(engine.request_id("a", "1"), engine.request_id("a", "2"));
    assert_eq!(engine.request_id("a", "1"), engine.request_id("a", "1"));
}

#[tokio::test]
async fn ids_that_cant_be_remembered_are_refused_and_switch_no_limit_off() {
    let engine = tight_engine(10, 1, TEN_BY_USER);
    for seq in 1..5 {
        let id = RequestId { session: 1, seq };
        let request = Request { request_id: Some(id), ..request(&[("user", "u")], 1) };
        let answered = engine.check(&request, None).await;
        assert_eq!(matches!(answered, Err(CheckError::Overloaded { .. })), seq > 1, "{answered:?}");
    }
    assert_eq!(remaining(&check(&engine, &[("user", "u")]).await), [Some(8)]);
}

/// Asks under one id, changes the rules, and asks again.
async fn retried(rules: [&str; 2]) -> [(Verdict, Vec<bool>, bool); 2] {
    let engine = engine(rules[0]);
    let request = Request { request_id: Some(RequestId { session: 1, seq: 1 }), ..request(&[], 2) };
    let first = engine.check(&request, None).await.expect("decided");
    engine.host().put(rules[1]);
    let again = engine.check(&request, None).await.expect("the same request");
    [first, again].map(|answer| {
        let violated = answer.matched().map(leasehold_limit::check::RuleAnswer::violated).collect();
        (answer.verdict, violated, answer.degraded)
    })
}

#[tokio::test]
async fn a_retry_is_answered_as_it_was_charged_whatever_has_become_of_shadow() {
    let rules = |shadow| {
        format!(
            "domain: d\nlimits:\n  - {{ name: a, limit: 1/day, shadow: {shadow} }}\n  - {{ name: b, limit: 9/day }}\n"
        )
    };
    let (shadow, enforced) = (rules(true), rules(false));
    let [first, again] = retried([&shadow, &enforced]).await;
    assert_eq!((&first, &again), (&(Verdict::Allowed, vec![false, false], false), &first));
    let [first, again] = retried([&enforced, &shadow]).await;
    assert_eq!((&first, &again), (&(Verdict::OverLimit, vec![true, false], false), &first));
}

#[tokio::test]
async fn who_cant_be_told_apart_is_refused_and_nothing_is_charged() {
    let engine = engine(
        "
domain: d
limits:
  - { name: everybody, limit: 10/day }
  - { name: users, per: [{ attribute: user, absent: deny }], limit: 10/day }
",
    );
    let answer = check(&engine, &[]).await;
    assert_eq!(answer.verdict, Verdict::OverLimit);
    assert_eq!(remaining(&answer), [Some(10), None]);
    assert_eq!(answer.descriptors[0].matched[1].outcome, Outcome::Unidentified);
    assert_eq!(remaining(&peek(&engine, &[("user", "u")]).await), [Some(10), Some(10)]);
}

#[tokio::test]
async fn a_shadow_limit_refuses_nothing() {
    let engine = engine(
        "
domain: d
limits:
  - { name: one, limit: 1/day, shadow: true }
  - { name: two, limit: 2/day }
",
    );
    assert_eq!(check(&engine, &[]).await.verdict, Verdict::Allowed);
    assert_eq!(check(&engine, &[]).await.verdict, Verdict::Allowed);
    assert_eq!(check(&engine, &[]).await.verdict, Verdict::OverLimit);
    let answer = peek(&engine, &[]).await;
    assert!(answer.descriptors[0].matched[0].refused() && !answer.descriptors[0].matched[0].violated());
}

#[tokio::test]
async fn numbers_in_the_request_replace_the_rules_and_count_apart() {
    let engine = engine(TEN_BY_USER);
    let limit =
        Limit::new(Algorithm::FixedWindow(Window::Epoch), 2, Nanos::from_secs(86_400)).expect("valid");
    let mut overridden = request(&[("user", "u")], 1);
    overridden.descriptors[0].limit_override = Some(limit);
    let mut verdicts = Vec::new();
    for _ in 0..3 {
        verdicts.push(engine.check(&overridden, None).await.expect("decided").verdict);
    }
    assert_eq!(verdicts, [Verdict::Allowed, Verdict::Allowed, Verdict::OverLimit]);
    assert_eq!(remaining(&peek(&engine, &[("user", "u")]).await), [Some(10)]);
    let elsewhere = Request { domain: "no rules here", ..overridden };
    assert_eq!(engine.check(&elsewhere, None).await.expect("decided").matched().count(), 0);
}

#[tokio::test]
async fn numbers_in_the_request_count_apart_by_their_period_and_not_by_their_size() {
    let engine = engine(TEN_BY_USER);
    let mut left = Vec::new();
    for (n, hours) in [(10, 24), (1000, 48), (20, 24)] {
        let period = Nanos::from_secs(hours * 3_600);
        let limit = Limit::new(Algorithm::FixedWindow(Window::Epoch), n, period).expect("valid");
        let mut overridden = request(&[("user", "u")], 1);
        overridden.descriptors[0].limit_override = Some(limit);
        left.extend(remaining(&engine.check(&overridden, None).await.expect("decided")));
    }
    assert_eq!(left, [Some(9), Some(999), Some(18)]);
}

#[tokio::test]
async fn a_peek_takes_nothing_and_is_no_decision() {
    let engine = engine(TEN_BY_USER);
    for _ in 0..20 {
        assert_eq!(peek(&engine, &[("user", "u")]).await.verdict, Verdict::Allowed);
    }
    assert_eq!(engine.host().totals(), [0, 0, 0]);
    assert_eq!(engine.authority().keys(), 0);
}

#[tokio::test]
async fn a_domain_without_rules_lets_everything_pass() {
    let engine = engine(TEN_BY_USER);
    let answer = engine.check(&Request { domain: "other", ..request(&[], 1) }, None).await.expect("decided");
    assert_eq!((answer.verdict, answer.matched().count()), (Verdict::Allowed, 0));
}

#[tokio::test]
async fn a_request_for_too_many_counters_is_invalid() {
    let engine = engine(TEN_BY_USER);
    let one = request(&[("user", "u")], 1);
    let many = Request { descriptors: vec![one.descriptors[0].clone(); 257], ..one };
    let error = engine.check(&many, None).await.expect_err("too many").to_string();
    assert_eq!(error, "descriptors: at most 256 counters are taken, 257 were sent");
}

#[tokio::test]
async fn a_reset_makes_the_named_counters_fresh() {
    let engine = engine(&everybody_and_users("allow"));
    check(&engine, &[("user", "u")]).await;
    let attributes = [Attribute { name: "user", value: b"u" }];
    let target = ResetTarget { domain: "d", attributes: &attributes, rule: Some("users") };
    assert_eq!(engine.reset(target).await, Ok(1));
    assert_eq!(engine.reset(target).await, Ok(0));
    assert_eq!(remaining(&peek(&engine, &[("user", "u")]).await), [Some(9), Some(10)]);
    let error = engine.reset(ResetTarget { rule: Some("nobody"), ..target }).await.expect_err("no such rule");
    assert_eq!(error.to_string(), "rule: the domain has no rule of this name");
    assert!(engine.reset(ResetTarget { domain: "other", ..target }).await.is_err());
}
