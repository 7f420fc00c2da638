//! Rule files: what is read, and what is said of every mistake.

use leasehold_limit::KeySecret;
use leasehold_limit::check::Attribute;
use leasehold_limit::rules::rate::describe;
use leasehold_limit::rules::{self, Absent, Lease, OnUnavailable, Pattern, RuleBook, Scope};
use leasehold_model::RulesVersion;

const SECRET: KeySecret = KeySecret::new(*b"sixteen byte key");

const EXAMPLE: &str = r"
domain: api
limits:
  - name: login                         # [A-Za-z][A-Za-z0-9_.-]{0,63}
    when: { path: /api/v1/login }
    per: [ip]
    limit: 5/min
    algorithm: sliding_log
    lease: never
    on_unavailable: deny
  - name: plan-free
    when: { plan: free }
    per: [api_key]
    limit: 6000/hour
    burst: 200
    max_overshoot: 0
    scope: global
    on_unavailable: local
    shadow: false
overrides:
  - { limit: plan-free, values: [acme], set: { limit: 100000/hour } }
";

fn book(text: &str) -> RuleBook {
    let domain = rules::parse("api.yaml", text, &SECRET).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    });
    RuleBook::new(RulesVersion(1), vec![("api.yaml".into(), domain)]).unwrap()
}

#[test]
fn the_documented_example_reads_as_it_says() {
    let book = book(EXAMPLE);
    let [login, plan] = &book.domains["api"].rules[..] else { panic!("two rules") };
    assert_eq!((&*login.name, &*describe(&login.limit)), ("login", "5/min"));
    assert_eq!(login.limit.algorithm().name(), "sliding_log");
    assert_eq!(login.when[0].pattern, Pattern::Exact(b"/api/v1/login".as_slice().into()));
    assert_eq!((&*login.per[0].attribute, login.per[0].absent), ("ip", Absent::Skip));
    assert_eq!((login.lease, login.on_unavailable), (Lease::Never, OnUnavailable::Deny));
    assert_eq!((&*plan.name, &*describe(&plan.limit)), ("plan-free", "6000/hour burst 200"));
    assert_eq!((plan.scope, plan.on_unavailable, plan.shadow), (Scope::Global, OnUnavailable::Local, false));
    let [special] = &plan.overrides.values().collect::<Vec<_>>()[..] else { panic!("one override") };
    assert_eq!(special.values, [b"acme".as_slice().into()]);
    assert_eq!(describe(&special.limit), "100000/hour burst 200");
}

fn names(book: &RuleBook, attributes: &[(&str, &str)]) -> Option<String> {
    let attributes: Vec<Attribute<'_>> =
        attributes.iter().map(|(name, value)| Attribute { name, value: value.as_bytes() }).collect();
    let matched = book.matching("api", &attributes)?;
    let shown = |matched: &rules::Matched| format!("{} {}", matched.rule.name, describe(&matched.limit));
    Some(matched.iter().map(shown).collect::<Vec<_>>().join(", "))
}

#[test]
fn overrides_replace_the_numbers_of_their_values_only() {
    let book = book(EXAMPLE);
    let of = |key| names(&book, &[("plan", "free"), ("api_key", key)]).unwrap();
    assert_eq!(of("acme"), "plan-free 100000/hour burst 200");
    assert_eq!(of("acme2"), "plan-free 6000/hour burst 200");
}

#[test]
fn an_unknown_domain_is_told_apart_from_one_without_matches() {
    let book = book(EXAMPLE);
    assert!(book.matching("other", &[]).is_none());
    assert_eq!(names(&book, &[]).unwrap(), "");
}
