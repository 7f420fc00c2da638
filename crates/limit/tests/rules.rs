//! Rule files: what is read, and what is said of every mistake.

use leasehold_limit::check::Attribute;
use leasehold_limit::rules::rate::describe;
use leasehold_limit::rules::{self, Absent, Lease, OnUnavailable, Pattern, RuleBook, Scope};
use leasehold_limit::{KeySecret, rule_key};
use leasehold_model::{Key, RulesVersion};
use proptest::prelude::*;

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
    RuleBook::new(RulesVersion(1), vec![("api.yaml".into(), domain)]).expect("one domain")
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

fn matching(book: &RuleBook, attributes: &[(&str, &str)]) -> Vec<rules::Matched> {
    let attributes: Vec<Attribute<'_>> =
        attributes.iter().map(|(name, value)| Attribute { name, value: value.as_bytes() }).collect();
    book.matching("api", &attributes).expect("the domain exists")
}

/// The rules of `api` that apply, with their numbers.
fn names(book: &RuleBook, attributes: &[(&str, &str)]) -> String {
    let matched = matching(book, attributes);
    let shown = |matched: &rules::Matched| format!("{} {}", matched.rule.name, describe(&matched.limit));
    matched.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[test]
fn overrides_replace_the_numbers_of_their_values_only() {
    let book = book(EXAMPLE);
    let of = |key| names(&book, &[("plan", "free"), ("api_key", key)]);
    assert_eq!(of("acme"), "plan-free 100000/hour burst 200");
    assert_eq!(of("acme2"), "plan-free 6000/hour burst 200");
}

#[test]
fn an_unknown_domain_is_told_apart_from_one_without_matches() {
    let book = book(EXAMPLE);
    assert!(book.matching("other", &[]).is_none());
    assert_eq!(names(&book, &[]), "");
}

/// A file with one rule of these fields.
fn one(fields: &str) -> RuleBook {
    book(&format!("domain: api\nlimits:\n  - {{ name: a, limit: 1/s, {fields} }}\n"))
}

/// Whether the rule with this condition on `x` applies to these values of it.
fn condition(condition: &str, applies: &[&str], not: &[&str]) {
    let book = one(&format!("when: {{ x: {condition} }}"));
    for value in applies {
        assert_eq!(names(&book, &[("x", value)]), "a 1/s", "{condition} applies to {value:?}");
    }
    for value in not {
        assert_eq!(names(&book, &[("x", value)]), "", "{condition} doesn't apply to {value:?}");
    }
    assert_eq!(names(&book, &[("y", "")]), "", "an absent attribute fulfils no condition");
}

#[test]
fn a_text_is_compared_byte_for_byte() {
    condition("/login", &["/login"], &["/Login", "/login ", "/login/", "", "/logi"]);
    condition("''", &[""], &[" "]);
    condition("'null'", &["null"], &["", "~"]);
}

#[test]
fn numbers_and_truths_are_their_text() {
    condition("1", &["1"], &["1.0", "01"]);
    condition("true", &["true"], &["True", "1"]);
    condition("1.50", &["1.50"], &["1.5"]);
}

#[test]
fn a_star_at_the_end_is_a_prefix() {
    condition("/api/*", &["/api/", "/api/x"], &["/api", "/API/x"]);
    condition("'*'", &["", "anything"], &[]);
}

#[test]
fn a_list_is_any_of_its_texts() {
    condition("[a, b*, 1]", &["a", "b", "bc", "1"], &["ab", "c", ""]);
}

#[test]
fn a_map_takes_stars_literally() {
    condition("{ exact: a* }", &["a*"], &["a", "ab"]);
    condition("{ prefix: a* }", &["a*", "a*b"], &["ab"]);
    condition("{ one_of: [a*, '*'] }", &["a*", "*"], &["a", "b"]);
}

#[test]
fn a_network_condition_reads_addresses_of_every_spelling() {
    let inside = ["10.1.2.3", "::ffff:10.1.2.3", "::ffff:a01:203", "10.0.0.0/8", "10.1.0.0/16"];
    condition("{ cidr: [10.0.0.0/8] }", &inside, &["11.0.0.1", "10.1.2", "::10.1.2.3", "0.0.0.0/0", "", "x"]);
    condition(
        "{ cidr: ['2001:db8::/32'] }",
        &["2001:DB8::1", "2001:db8:0:1::/64"],
        &["2001:db9::1", "2001::/16"],
    );
    condition("{ cidr: '::ffff:10.0.0.0/104' }", &["10.1.2.3"], &["11.1.2.3"]);
    condition("{ cidr: 192.0.2.7 }", &["192.0.2.7", "192.0.2.7/32"], &["192.0.2.8"]);
}

#[test]
fn all_conditions_must_hold() {
    let book = one("when: { x: a, y: b }");
    assert_eq!(names(&book, &[("y", "b"), ("x", "a")]), "a 1/s");
    assert_eq!(names(&book, &[("x", "a")]), "");
    assert_eq!(names(&book, &[("x", "a"), ("y", "a")]), "");
}

/// The counter of the only rule, as `None` (doesn't apply), `Some(None)` (refuses) or its key.
fn counter(book: &RuleBook, attributes: &[(&str, &str)]) -> Option<Option<Key>> {
    keys(book, attributes).first().copied()
}

#[test]
fn a_counter_is_named_by_the_values_in_the_order_of_per() {
    let book = one("per: [x, y]");
    let values = || [Some(b"1".as_slice()), Some(b"2".as_slice())].into_iter();
    let key = Some(Some(rule_key(&SECRET, "api", "a", values())));
    assert_eq!(counter(&book, &[("x", "1"), ("y", "2")]), key);
    assert_eq!(counter(&book, &[("y", "2"), ("z", "3"), ("x", "1"), ("x", "9")]), key, "the first x counts");
    assert_ne!(counter(&book, &[("x", "2"), ("y", "1")]), key);
}

#[test]
fn an_absent_attribute_skips_shares_or_refuses() {
    assert_eq!(counter(&one("per: [x]"), &[]), None);
    assert_eq!(counter(&one("per: [x], absent: deny"), &[]), Some(None));
    let share = one("per: [x], absent: share");
    let shared = counter(&share, &[]);
    assert!(shared.flatten().is_some());
    assert_ne!(shared, counter(&share, &[("x", "")]), "an empty value is a value");
}

#[test]
fn a_rule_that_skips_does_not_refuse() {
    let book = one("per: [{ attribute: x, absent: deny }, y]");
    assert_eq!(counter(&book, &[]), None);
    assert_eq!(counter(&book, &[("y", "1")]), Some(None));
}

#[test]
fn all_rules_that_match_apply_in_the_order_of_the_file() {
    let book = book(
        "domain: api\nlimits:\n  - { name: z, limit: 1/s }\n  - { name: b, limit: 2/s, when: { x: '*' } }\n  - { name: a, limit: 3/s }\n",
    );
    assert_eq!(names(&book, &[("x", "1")]), "z 1/s, b 2/s, a 3/s");
    assert_eq!(names(&book, &[]), "z 1/s, a 3/s");
}

#[test]
fn attributes_that_no_rule_names_change_nothing() {
    let book = one("when: { x: a }, per: [y]");
    let key = counter(&book, &[("x", "a"), ("y", "1")]);
    assert!(key.flatten().is_some());
    assert_eq!(key, counter(&book, &[("w", "a"), ("x", "a"), ("xx", "1"), ("y", "1"), ("", "y")]));
}

/// The limit of the only rule, as a table shows it.
fn limit(fields: &str) -> String {
    let book = book(&format!("domain: api\nlimits:\n  - {{ name: a, {fields} }}\n"));
    let limit = &book.domains["api"].rules[0].limit;
    format!("{} {}", limit.algorithm().name(), describe(limit))
}

#[test]
fn a_burst_is_the_rate_unless_written() {
    assert_eq!(limit("limit: 5/s"), "token_bucket 5/s");
    assert_eq!(limit("limit: 5/s, burst: 9, algorithm: leaky_bucket"), "leaky_bucket 5/s burst 9");
    assert_eq!(limit("limit: 5/s, queue: 9, algorithm: shaper"), "shaper 5/s queue 9");
}

#[test]
fn unit_words_of_a_fixed_window_are_the_calendars_and_durations_are_not() {
    assert_eq!(limit("limit: 5/day, algorithm: fixed_window"), "fixed_window 5/day");
    assert_eq!(limit("limit: 5/24h, algorithm: fixed_window"), "fixed_window 5/1d");
    assert_eq!(limit("limit: 5/second, algorithm: fixed_window"), "fixed_window 5/1s");
    let berlin = "limit: 5/month, algorithm: fixed_window, zone: Europe/Berlin";
    assert_eq!(limit(berlin), "fixed_window 5/month in Europe/Berlin");
    assert_eq!(limit("limit: 5/month"), limit("limit: 5/30d"));
    assert_eq!(limit("limit: 5/year, algorithm: sliding_counter"), "sliding_counter 5/year");
}

#[test]
fn an_override_follows_its_rule_in_what_it_does_not_set() {
    let book = book(
        "domain: api
limits:
  - { name: a, limit: 5/s, per: [x] }
  - { name: b, limit: 5/day, per: [x], algorithm: fixed_window, zone: Europe/Berlin }
overrides:
  - { limit: a, values: [big], set: { limit: 50/s } }
  - { limit: a, values: [deep], set: { burst: 50 } }
  - { limit: b, values: [big], set: { limit: 50/month } }
",
    );
    assert_eq!(names(&book, &[("x", "big")]), "a 50/s, b 50/month in Europe/Berlin");
    assert_eq!(names(&book, &[("x", "deep")]), "a 5/s burst 50, b 5/day in Europe/Berlin");
}

#[test]
fn a_domain_in_two_files_is_refused_with_both_named() {
    let domain = |text: &str| rules::parse("", text, &SECRET).unwrap();
    let files = vec![
        ("a.yaml".to_owned(), domain("domain: api\nlimits: []\n")),
        ("b.yaml".to_owned(), domain("limits: []\ndomain: api\n")),
        ("c.yaml".to_owned(), domain("limits: []\ndomain: other\n")),
    ];
    let errors = RuleBook::new(RulesVersion(1), files).unwrap_err();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let fix = "put all rules of a domain into one file, or name this one differently";
    assert_eq!(shown, [format!("b.yaml:2:9: domain: the domain api is defined by a.yaml already; {fix}")]);
}

#[test]
fn several_mistakes_are_all_named_in_the_order_of_the_file() {
    let text = "domain: 'a b'\nlimits:\n  - { name: a, limit: 1/x }\n  - { name: a, limit: 0/s, burst: 0 }\n";
    let errors = rules::parse("f", text, &SECRET).unwrap_err();
    let places: Vec<(usize, &str)> = errors.iter().map(|error| (error.line, &*error.field)).collect();
    let expected = [
        (1, "domain"),
        (3, "limits[0].limit"),
        (4, "limits[1].name"),
        (4, "limits[1].limit"),
        (4, "limits[1].burst"),
    ];
    assert_eq!(places, expected);
}

/// Rules of every kind over the attributes x, y and z.
const MIXED: &str = "
domain: api
limits:
  - { name: all, limit: 1/s }
  - { name: per-x, limit: 1/s, per: [x] }
  - { name: per-both, limit: 1/s, when: { x: 'a*' }, per: [{ attribute: y, absent: share }, x] }
  - { name: strict, limit: 1/s, when: { y: [a, b] }, per: [z], absent: deny }
";

fn keys(book: &RuleBook, attributes: &[(&str, &str)]) -> Vec<Option<Key>> {
    let matched = matching(book, attributes);
    matched.iter().map(|matched| matched.key).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn only_attributes_that_rules_name_decide(
        named in proptest::collection::vec(("[xyz]", "[ab]{0,2}"), 0..4),
        others in proptest::collection::vec(("[a-w]{0,3}", any::<String>(), 0..4_usize), 0..6),
    ) {
        let book = book(MIXED);
        let clean: Vec<(&str, &str)> = named.iter().map(|(name, value)| (&**name, &**value)).collect();
        let mut noisy = clean.clone();
        for (name, value, at) in &others {
            noisy.insert((*at).min(noisy.len()), (name, value));
        }
        prop_assert_eq!(names(&book, &clean), names(&book, &noisy));
        prop_assert_eq!(keys(&book, &clean), keys(&book, &noisy));
    }
}
