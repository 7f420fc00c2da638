//! At the bound of counters: what is there is asked and charged, what isn't goes as its rule declares.

use std::collections::BTreeMap;

use proptest::prelude::*;

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
    let core = tight_core(case.keys_max, 10, &rules_text(&case.rules));
    let names: Vec<_> = (0..case.rules.len()).map(|index| format!("a{index}")).collect();
    let texts = ["0", "1", "2"];
    let attributes = |values: &[u8]| -> Vec<_> {
        names.iter().zip(values).map(|(name, value)| (name.as_str(), texts[usize::from(*value)])).collect()
    };
    let mut used = BTreeMap::new();
    for (values, cost) in &case.requests {
        let foretold = peek(&core, &attributes(values)).await;
        agree(case, &mut used, values, 0, &foretold);
        let answer = core.check(&request(&attributes(values), *cost), None).await.expect("decided");
        if *cost == 1 {
            assert_eq!(told(&foretold), told(&answer), "a peek answers as the check would");
        }
        agree(case, &mut used, values, *cost, &answer);
    }
    assert_eq!(core.authority.holdings().keys, u64::try_from(used.len()).expect("small"));
    for value in 0..3 {
        let answer = peek(&core, &attributes(&vec![value; case.rules.len()])).await;
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
    let core = tight_core(2, 1, rules);
    check(&core, &[]).await;
    let answer = check(&core, &[("user", "new"), ("key", "new")]).await;
    assert_eq!((answer.verdict, answer.degraded), (Verdict::Allowed, true));
    assert_eq!(remaining(&answer), [Some(8), Some(9), None], "the first of the new takes the free place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_concurrent_flood_of_new_counters_gets_no_more_past_the_limit_that_is_there() {
    let core = Arc::new(tight_core(3, 1, &everybody_and_users("allow")));
    let checks: Vec<_> = (0..100)
        .map(|user| {
            let core = Arc::clone(&core);
            tokio::spawn(async move {
                let user = format!("{user}");
                check(&core, &[("user", &user)]).await.verdict == Verdict::Allowed
            })
        })
        .collect();
    let mut admitted = 0;
    for check in checks {
        admitted += u32::from(check.await.expect("no panic"));
    }
    assert_eq!((admitted, core.authority.holdings().keys), (10, 3));
}

#[tokio::test]
async fn a_peek_at_a_counter_that_has_no_room_is_answered_as_its_rule_declares() {
    for (on_unavailable, verdict) in [("allow", Verdict::Allowed), ("deny", Verdict::Unavailable)] {
        let core = tight_core(2, 1, &everybody_and_users(on_unavailable));
        check(&core, &[("user", "first")]).await;
        let peeked = peek(&core, &[("user", "new")]).await;
        assert_eq!((peeked.verdict, peeked.degraded), (verdict, true));
        assert_eq!(told(&peeked), told(&check(&core, &[("user", "new")]).await));
        assert!(!peek(&core, &[("user", "first")]).await.degraded);
    }
}
