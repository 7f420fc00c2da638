//! Which keys are told, and what of them.

use std::sync::Arc;

use leasehold_limit::Ask;
use leasehold_limit::KeySecret;
use leasehold_limit::check::{DescriptorAnswer, Outcome, Source, Verdict};
use leasehold_limit::rules::{Domain, parse};
use leasehold_model::{RulesVersion, Stamp};

use super::*;

const RULES: &str = "
domain: d
limits:
  - { name: users, per: [user, zone], limit: 2/day }
  - { name: all, limit: 1000/day }
";

fn at(seconds: u64) -> BootTime {
    BootTime(Nanos::from_secs(seconds).0)
}

fn domain() -> Domain {
    parse("rules", RULES, &KeySecret::new([7; 16])).expect("valid rules")
}

/// Sees one request of a user so many times; `allowed` as every rule says.
fn see(top: &TopKeys, now: BootTime, user: &str, times: u32, allowed: bool) {
    let attributes =
        vec![Attribute { name: "user", value: user.as_bytes() }, Attribute { name: "zone", value: b"eu" }];
    let descriptors = vec![Descriptor { attributes, cost: 1, limit_override: None }];
    let request = Request { domain: "d", descriptors, request_id: None };
    let matched = domain().rules.into_iter().map(|rule| {
        let limit = Arc::clone(&rule.limit);
        let ask = Ask::exactly(if allowed { 1 } else { limit.cap() + 1 });
        let outcome = Outcome::Decided(limit.decide(&limit.fresh(), Stamp::ZERO, ask));
        RuleAnswer { rule, limit, outcome, source: Source::Owner }
    });
    let answer = Answer {
        verdict: if allowed { Verdict::Allowed } else { Verdict::OverLimit },
        descriptors: vec![DescriptorAnswer { matched: matched.collect() }],
        degraded: false,
        rules_version: RulesVersion(1),
    };
    for _ in 0..times {
        top.see(now, None, &request, &answer);
    }
}

/// Rule, requests and refusals that were seen, of every key that is told.
fn told(top: &TopKeys, now: BootTime) -> Vec<(String, u64, u64)> {
    let one_in = u64::from(SAMPLED_ONE_IN);
    let (keys, _) = top.read(now, None, 10);
    keys.iter().map(|key| (key.rule.to_string(), key.requests / one_in, key.refused / one_in)).collect()
}

fn row(rule: &str, requests: u64, refused: u64) -> (String, u64, u64) {
    (rule.to_owned(), requests, refused)
}

#[test]
fn keys_are_told_by_rule_and_the_one_asked_for_most_often_first() {
    let top = TopKeys::new(false);
    see(&top, at(1), "ann", 3, true);
    see(&top, at(2), "bob", 1, false);
    assert_eq!(told(&top, at(2)), [row("all", 4, 1), row("users", 3, 0), row("users", 1, 1)]);
    let (keys, window) = top.read(at(9), Some("d"), 1);
    assert_eq!((keys.len(), window), (1, Nanos::from_secs(8)));
    let one_in = u64::from(SAMPLED_ONE_IN);
    assert_eq!((keys[0].rule_requests, keys[0].error, keys[0].unlisted_max), (4 * one_in, 0, 0));
    assert_eq!(top.read(at(9), Some("e"), 10).0, []);
}

#[test]
fn a_key_is_the_counters_own() {
    let top = TopKeys::new(false);
    see(&top, at(1), "ann", 1, true);
    let values = [Some(&b"ann"[..]), Some(b"eu")];
    let expected = leasehold_limit::rule_key(&KeySecret::new([7; 16]), "d", "users", values.into_iter());
    assert!(top.read(at(1), None, 10).0.iter().any(|key| key.key == expected));
}

#[test]
fn what_a_key_is_the_hash_of_is_known_only_where_it_is_kept() {
    for keep in [false, true] {
        let top = TopKeys::new(keep);
        see(&top, at(1), &"a".repeat(VALUE_BYTES_MAX + 1), 1, true);
        let (keys, _) = top.read(at(1), None, 10);
        let users = keys.iter().find(|key| &*key.rule == "users").expect("seen");
        let values: Vec<_> = users.values.iter().map(|(name, value)| (&**name, value.len())).collect();
        assert_eq!(values, if keep { vec![("user", VALUE_BYTES_MAX + 3), ("zone", 2)] } else { vec![] });
    }
}

#[test]
fn what_was_asked_for_two_windows_ago_is_told_no_more() {
    let top = TopKeys::new(false);
    see(&top, at(0), "ann", 2, true);
    see(&top, at(61), "bob", 1, true);
    assert_eq!(told(&top, at(62)), [row("all", 3, 0), row("users", 2, 0), row("users", 1, 0)]);
    assert_eq!(top.read(at(62), None, 10).1, Nanos::from_secs(62));
    assert_eq!(told(&top, at(122)), [row("all", 1, 0), row("users", 1, 0)]);
    assert_eq!(told(&top, at(300)), []);
}

#[test]
fn about_one_request_in_so_many_is_drawn_whatever_the_rhythm() {
    let top = TopKeys::new(false);
    let drawn = (0..640_000).map(|_| top.draws());
    // Every 64th request is of one kind: of it as many are drawn as of any other.
    let (mut all, mut of_one_kind) = (0, 0);
    for (index, drawn) in drawn.enumerate() {
        all += u32::from(drawn);
        of_one_kind += u32::from(drawn && index.is_multiple_of(64));
    }
    assert!((9_000..11_000).contains(&all), "{all}");
    assert!((80..250).contains(&of_one_kind), "{of_one_kind}");
}
