//! From a request to its answer, without a network.

use std::time::Duration;

use leasehold_limit::check::{Attribute, Descriptor, Outcome, Verdict};
use leasehold_limit::{Algorithm, KeySecret, Limit, Window};
use leasehold_model::{Nanos, RequestId};
use leasehold_shard::Bounds;

use super::*;
use crate::authority::{Holdings, LocalAuthority};
use crate::logging::kept::Log;
use crate::metrics::{Metrics, Totals};
use crate::rules::{FileRules, Keeper, RulesInForce, Source};

fn core_on<A: Authority>(authority: A, rules: &str) -> Core<A> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules).expect("written");
    let metrics = Arc::new(Metrics::new());
    let secret = KeySecret::new([7; 16]);
    let rules = FileRules::load(Source::File(path), secret, Arc::clone(&metrics), None).expect("valid rules");
    Core::new(Keeper::Files(Arc::new(rules)), authority, metrics, 256)
}

fn core(rules: &str) -> Core<LocalAuthority> {
    core_on(LocalAuthority::new(Bounds::default()), rules)
}

/// Room for this many counters and remembered ids.
fn tight_core(keys: u32, replies: u32, rules: &str) -> Core<LocalAuthority> {
    let bounds = Bounds { keys_per_tenant_max: keys, replies_per_tenant_max: replies, ..Bounds::default() };
    core_on(LocalAuthority::new(bounds), rules)
}

fn request<'a>(attributes: &[(&'a str, &'a str)], cost: u64) -> Request<'a> {
    let attributes = attributes.iter().map(|(name, value)| Attribute { name, value: value.as_bytes() });
    let descriptor = Descriptor { attributes: attributes.collect(), cost, limit_override: None };
    Request { domain: "d", descriptors: vec![descriptor], request_id: None }
}

async fn check<A: Authority>(core: &Core<A>, attributes: &[(&str, &str)]) -> Answer {
    core.check(&request(attributes, 1), None).await.expect("decided")
}

async fn peek<A: Authority>(core: &Core<A>, attributes: &[(&str, &str)]) -> Answer {
    core.check(&request(attributes, 0), None).await.expect("decided")
}

fn remaining(answer: &Answer) -> Vec<Option<u64>> {
    answer.matched().map(|matched| matched.decision().map(|decision| decision.remaining)).collect()
}

const TEN_BY_USER: &str = "
domain: d
limits:
  - { name: exact, per: [user], limit: 10/day, algorithm: sliding_log }
";

/// One counter for everybody and one for each user, each with its own declared failure.
fn everybody_and_users(on_unavailable: &str) -> String {
    format!(
        "
domain: d
limits:
  - {{ name: everybody, limit: 10/day, on_unavailable: {on_unavailable} }}
  - {{ name: users, per: [user], limit: 10/day, on_unavailable: {on_unavailable} }}
"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_concurrent_checks_on_a_limit_of_ten_admit_exactly_ten() {
    let core = Arc::new(core(TEN_BY_USER));
    let checks: Vec<_> = (0..100)
        .map(|_| {
            let core = Arc::clone(&core);
            tokio::spawn(async move { check(&core, &[("user", "u")]).await.verdict == Verdict::Allowed })
        })
        .collect();
    let mut admitted = 0;
    for check in checks {
        admitted += u32::from(check.await.expect("no panic"));
    }
    assert_eq!(admitted, 10);
    assert_eq!(core.metrics.totals(), Totals { allowed: 10, over_limit: 90, unavailable: 0 });
}

#[tokio::test]
async fn a_retried_id_is_charged_once_and_answered_the_same() {
    let core = core(TEN_BY_USER);
    let id = core.request_id("d", "order 17");
    let request = Request { request_id: Some(id), ..request(&[("user", "u")], 4) };
    let first = core.check(&request, None).await.expect("decided");
    let again = core.check(&request, None).await.expect("decided");
    assert_eq!(first.verdict, Verdict::Allowed);
    assert_eq!(remaining(&first), [Some(6)]);
    assert_eq!(remaining(&again), [Some(6)]);
    assert_eq!(remaining(&peek(&core, &[("user", "u")]).await), [Some(6)]);
}

#[tokio::test]
async fn an_id_stands_for_one_request_only() {
    let core = core(TEN_BY_USER);
    let id = Some(RequestId { session: 1, seq: 1 });
    core.check(&Request { request_id: id, ..request(&[("user", "u")], 1) }, None).await.expect("decided");
    let other = Request { request_id: id, ..request(&[("user", "other")], 1) };
    assert_eq!(core.check(&other, None).await.expect_err("reused"), CheckError::RequestIdReused);
}

#[test]
fn ids_of_two_domains_are_two_ids() {
    let core = core(TEN_BY_USER);
    assert_ne!(core.request_id("a", "1"), core.request_id("b", "1"));
    assert_ne!(core.request_id("a", "1"), core.request_id("a", "2"));
    assert_eq!(core.request_id("a", "1"), core.request_id("a", "1"));
}

/// Fills the one place there is, then asks for a new counter.
async fn declared(on_unavailable: &str) -> (Verdict, bool) {
    let rules = format!(
        "{{domain: d, limits: [{{name: a, per: [user], limit: 10/day, on_unavailable: {on_unavailable}}}]}}"
    );
    let core = tight_core(1, 1, &rules);
    check(&core, &[("user", "first")]).await;
    let answer = check(&core, &[("user", "second")]).await;
    let page = core.metrics.page(0, 0);
    let line = format!(r#"leasehold_degraded_total{{domain="d",rule="a",mode="{on_unavailable}"}} 1"#);
    assert!(page.contains(&line), "{page}");
    assert_eq!(check(&core, &[("user", "first")]).await.verdict, Verdict::Allowed);
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
    let core = tight_core(2, 1, &everybody_and_users("allow"));
    check(&core, &[("user", "first")]).await;
    for _ in 0..9 {
        let answer = check(&core, &[("user", "new")]).await;
        assert_eq!((answer.verdict, answer.degraded), (Verdict::Allowed, true));
        assert!(answer.descriptors[0].matched[0].decision().is_some(), "everybody's counter is there");
        assert_eq!(answer.descriptors[0].matched[1].outcome, Outcome::Unavailable);
    }
    assert_eq!(check(&core, &[("user", "new")]).await.verdict, Verdict::OverLimit);
}

#[tokio::test]
async fn a_retry_of_what_was_charged_in_part_for_want_of_room_is_charged_once() {
    let core = tight_core(2, 10, &everybody_and_users("allow"));
    check(&core, &[("user", "first")]).await;
    let id = Some(RequestId { session: 1, seq: 1 });
    for _ in 0..3 {
        let retried = Request { request_id: id, ..request(&[("user", "new")], 1) };
        let answer = core.check(&retried, None).await.expect("decided");
        assert_eq!((remaining(&answer), answer.degraded), (vec![Some(8), None], true));
    }
}

#[tokio::test]
async fn a_limit_that_declares_deny_keeps_the_others_from_being_charged() {
    let core = tight_core(2, 1, &everybody_and_users("deny"));
    check(&core, &[("user", "first")]).await;
    let answer = check(&core, &[("user", "new")]).await;
    assert_eq!(answer.verdict, Verdict::Unavailable);
    assert_eq!(core.metrics.totals(), Totals { allowed: 1, over_limit: 0, unavailable: 1 });
    assert_eq!(remaining(&answer), [Some(9), None]);
    assert_eq!(remaining(&check(&core, &[("user", "first")]).await), [Some(8), Some(8)]);
}

#[tokio::test]
async fn a_retry_of_what_was_charged_in_part_is_answered_the_same_once_there_is_room() {
    let core = tight_core(2, 10, &everybody_and_users("allow"));
    check(&core, &[("user", "first")]).await;
    let id = Some(RequestId { session: 1, seq: 1 });
    let request = Request { request_id: id, ..request(&[("user", "new")], 1) };
    let first = core.check(&request, None).await.expect("decided");
    let attributes = [Attribute { name: "user", value: b"first" }];
    let target = ResetTarget { domain: "d", attributes: &attributes, rule: Some("users") };
    assert_eq!(core.reset(target).await, Ok(1));
    check(&core, &[("user", "new")]).await;
    let again = core.check(&request, None).await.expect("the same request");
    for answer in [first, again] {
        assert_eq!((remaining(&answer), answer.degraded), (vec![Some(8), None], true));
    }
    assert_eq!(remaining(&peek(&core, &[("user", "new")]).await), [Some(7), Some(9)]);
}

#[tokio::test]
async fn ids_that_cant_be_remembered_are_refused_and_switch_no_limit_off() {
    let core = tight_core(10, 1, TEN_BY_USER);
    for seq in 1..5 {
        let id = RequestId { session: 1, seq };
        let request = Request { request_id: Some(id), ..request(&[("user", "u")], 1) };
        let answered = core.check(&request, None).await;
        assert_eq!(matches!(answered, Err(CheckError::Overloaded { .. })), seq > 1, "{answered:?}");
    }
    assert_eq!(remaining(&check(&core, &[("user", "u")]).await), [Some(8)]);
}

/// Asks under one id, changes the rules, and asks again.
async fn retried(rules: [&str; 2]) -> [(Verdict, Vec<bool>, bool); 2] {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules[0]).expect("written");
    let metrics = Arc::new(Metrics::new());
    let secret = KeySecret::new([7; 16]);
    let files = FileRules::load(Source::File(path), secret, Arc::clone(&metrics), None).expect("valid rules");
    let files = Arc::new(files);
    let keeper = Keeper::Files(Arc::clone(&files));
    let core = Core::new(keeper, LocalAuthority::new(Bounds::default()), metrics, 256);
    let request = Request { request_id: Some(RequestId { session: 1, seq: 1 }), ..request(&[], 2) };
    let first = core.check(&request, None).await.expect("decided");
    files.put(rules[1], None).expect("valid rules");
    let again = core.check(&request, None).await.expect("the same request");
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
    let core = core(
        "
domain: d
limits:
  - { name: everybody, limit: 10/day }
  - { name: users, per: [{ attribute: user, absent: deny }], limit: 10/day }
",
    );
    let answer = check(&core, &[]).await;
    assert_eq!(answer.verdict, Verdict::OverLimit);
    assert_eq!(remaining(&answer), [Some(10), None]);
    assert_eq!(answer.descriptors[0].matched[1].outcome, Outcome::Unidentified);
    assert_eq!(remaining(&peek(&core, &[("user", "u")]).await), [Some(10), Some(10)]);
}

#[tokio::test]
async fn a_shadow_limit_refuses_nothing() {
    let core = core(
        "
domain: d
limits:
  - { name: one, limit: 1/day, shadow: true }
  - { name: two, limit: 2/day }
",
    );
    assert_eq!(check(&core, &[]).await.verdict, Verdict::Allowed);
    assert_eq!(check(&core, &[]).await.verdict, Verdict::Allowed);
    assert_eq!(check(&core, &[]).await.verdict, Verdict::OverLimit);
    let line =
        r#"leasehold_decisions_total{domain="d",rule="one",decision="shadow_over_limit",source="owner"} 2"#;
    let page = core.metrics.page(0, 0);
    assert!(page.contains(line), "{page}");
}

#[tokio::test]
async fn numbers_in_the_request_replace_the_rules_and_count_apart() {
    let core = core(TEN_BY_USER);
    let limit =
        Limit::new(Algorithm::FixedWindow(Window::Epoch), 2, Nanos::from_secs(86_400)).expect("valid");
    let mut overridden = request(&[("user", "u")], 1);
    overridden.descriptors[0].limit_override = Some(limit);
    let mut verdicts = Vec::new();
    for _ in 0..3 {
        verdicts.push(core.check(&overridden, None).await.expect("decided").verdict);
    }
    assert_eq!(verdicts, [Verdict::Allowed, Verdict::Allowed, Verdict::OverLimit]);
    assert_eq!(remaining(&peek(&core, &[("user", "u")]).await), [Some(10)]);
    let elsewhere = Request { domain: "no rules here", ..overridden };
    assert_eq!(core.check(&elsewhere, None).await.expect("decided").matched().count(), 0);
}

#[tokio::test]
async fn numbers_in_the_request_count_apart_by_their_period_and_not_by_their_size() {
    let core = core(TEN_BY_USER);
    let mut left = Vec::new();
    for (n, hours) in [(10, 24), (1000, 48), (20, 24)] {
        let period = Nanos::from_secs(hours * 3_600);
        let limit = Limit::new(Algorithm::FixedWindow(Window::Epoch), n, period).expect("valid");
        let mut overridden = request(&[("user", "u")], 1);
        overridden.descriptors[0].limit_override = Some(limit);
        left.extend(remaining(&core.check(&overridden, None).await.expect("decided")));
    }
    assert_eq!(left, [Some(9), Some(999), Some(18)]);
}

#[tokio::test]
async fn a_rule_named_override_is_counted_apart_from_overrides() {
    let core = core("{domain: d, limits: [{name: override, limit: 10/day}]}");
    let limit = Limit::new(Algorithm::FixedWindow(Window::Epoch), 2, Nanos::from_secs(86_400));
    let mut overridden = request(&[], 1);
    overridden.descriptors[0].limit_override = Some(limit.expect("valid"));
    let answer = core.check(&overridden, None).await.expect("decided");
    assert_eq!(&*answer.descriptors[0].matched[0].rule.name, "", "as Envoy's own service names it");
    let page = core.metrics.page(0, 0);
    for (rule, count) in [("override", 0), ("(override)", 1)] {
        let line = format!(
            r#"leasehold_decisions_total{{domain="d",rule="{rule}",decision="allowed",source="owner"}} {count}"#
        );
        assert!(page.contains(&line), "{page}");
    }
}

#[tokio::test]
async fn a_peek_takes_nothing_and_is_no_decision() {
    let core = core(TEN_BY_USER);
    for _ in 0..20 {
        assert_eq!(peek(&core, &[("user", "u")]).await.verdict, Verdict::Allowed);
    }
    assert_eq!(core.metrics.totals(), Totals { allowed: 0, over_limit: 0, unavailable: 0 });
    assert_eq!(core.authority.holdings().keys, 0);
}

#[tokio::test]
async fn a_domain_without_rules_lets_everything_pass() {
    let core = core(TEN_BY_USER);
    let answer = core.check(&Request { domain: "other", ..request(&[], 1) }, None).await.expect("decided");
    assert_eq!((answer.verdict, answer.matched().count()), (Verdict::Allowed, 0));
}

#[tokio::test]
async fn a_request_for_too_many_counters_is_invalid() {
    let core = core(TEN_BY_USER);
    let one = request(&[("user", "u")], 1);
    let many = Request { descriptors: vec![one.descriptors[0].clone(); 257], ..one };
    let error = core.check(&many, None).await.expect_err("too many").to_string();
    assert_eq!(error, "descriptors: at most 256 counters are taken, 257 were sent");
}

#[tokio::test]
async fn a_reset_makes_the_named_counters_fresh() {
    let core = core(&everybody_and_users("allow"));
    check(&core, &[("user", "u")]).await;
    let attributes = [Attribute { name: "user", value: b"u" }];
    let target = ResetTarget { domain: "d", attributes: &attributes, rule: Some("users") };
    assert_eq!(core.reset(target).await, Ok(1));
    assert_eq!(core.reset(target).await, Ok(0));
    assert_eq!(remaining(&peek(&core, &[("user", "u")]).await), [Some(9), Some(10)]);
    let error = core.reset(ResetTarget { rule: Some("nobody"), ..target }).await.expect_err("no such rule");
    assert_eq!(error.to_string(), "rule: the domain has no rule of this name");
    assert!(core.reset(ResetTarget { domain: "other", ..target }).await.is_err());
}

/// An authority that answers this, at its deadline.
struct Failing(ProposeError);

impl Failing {
    async fn fail(&self, deadline: Option<Instant>) -> ProposeError {
        tokio::time::sleep_until(deadline.expect("a caller's or its own")).await;
        self.0.clone()
    }
}

impl Authority for Failing {
    fn patience(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    async fn propose(&self, _: Batch, deadline: Option<Instant>) -> Result<Vec<Reply>, ProposeError> {
        Err(self.fail(deadline).await)
    }

    async fn preview(
        &self,
        _: &[LimitSpec],
        _: &Acquire,
        deadline: Option<Instant>,
    ) -> Result<Reply, ProposeError> {
        Err(self.fail(deadline).await)
    }

    fn holdings(&self) -> Holdings {
        Holdings { keys: 0, evicted: 0 }
    }

    fn state_hash(&self) -> Option<u128> {
        None
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn a_deadline_ends_in_the_declared_failure_and_not_in_a_queue() {
    for budget in [Some(Duration::ZERO), Some(Duration::from_millis(2)), None] {
        for (on_unavailable, verdict) in [("allow", Verdict::Allowed), ("deny", Verdict::Unavailable)] {
            let core = core_on(Failing(ProposeError::Unreachable), &everybody_and_users(on_unavailable));
            let answer = core.check(&request(&[("user", "u")], 1), budget).await.expect("an answer");
            assert_eq!((answer.verdict, answer.degraded), (verdict, true));
        }
    }
}

#[tokio::test]
async fn overload_is_told_and_lets_nobody_pass() {
    let core = core_on(Failing(ProposeError::Overloaded("too many")), &everybody_and_users("allow"));
    for cost in [0, 1] {
        let answered = core.check(&request(&[("user", "u")], cost), None).await;
        let Err(CheckError::Overloaded { reason, .. }) = answered else { panic!("{answered:?}") };
        assert_eq!(reason, "too many");
    }
}

#[tokio::test]
async fn without_rules_nothing_is_decided() {
    let mut core = core(TEN_BY_USER);
    let (secret, metrics) = (KeySecret::new([7; 16]), Arc::clone(&core.metrics));
    core.rules = Arc::new(RulesInForce::unknown("nowhere".to_owned(), secret, metrics, None));
    core.gate.set(Readiness::NotReady("waiting for b".to_owned()));
    let answered = core.check(&request(&[("user", "u")], 1), None).await;
    let Err(CheckError::Overloaded { reason, .. }) = answered else { panic!("{answered:?}") };
    assert_eq!(reason, "waiting for b");
}

#[tokio::test]
async fn nothing_is_charged_for_a_caller_whose_deadline_has_passed() {
    let core = core(TEN_BY_USER);
    let late = core.check(&request(&[("user", "u")], 1), Some(Duration::ZERO)).await.expect("an answer");
    assert_eq!((late.degraded, remaining(&late)), (true, vec![None]));
    assert_eq!(remaining(&peek(&core, &[("user", "u")]).await), [Some(10)]);
    let in_time = core.check(&request(&[("user", "u")], 1), Some(Duration::MAX)).await.expect("an answer");
    assert_eq!((in_time.degraded, remaining(&in_time)), (false, vec![Some(9)]));
}

#[tokio::test]
async fn a_request_leaves_a_trace_without_its_attributes_values() {
    let log = Log::keep();
    let core = core(TEN_BY_USER);
    check(&core, &[("user", "secret")]).await;
    let text = log.text();
    for part in ["TRACE", "decided", "domain=\"d\"", "verdict=Allowed", "matched=1"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("secret"), "{text}");
}

mod room;
