//! Requests, demands and answers.

use super::*;
use crate::{KeySecret, rules};

const LIMITS: &str = "
domain: api
limits:
  - { name: first, limit: 10/min }
  - { name: second, limit: 10/min }
  - { name: shadow, limit: 10/min, shadow: true }
  - { name: strict, limit: 10/min, on_unavailable: deny }
";

fn allowed(remaining: u64) -> Outcome {
    decided(true, remaining, None)
}

fn refused(remaining: u64, retry_after: RetryAfter) -> Outcome {
    decided(false, remaining, Some(retry_after))
}

fn decided(allowed: bool, remaining: u64, retry_after: Option<RetryAfter>) -> Outcome {
    let next_unit_after = match retry_after {
        Some(RetryAfter::In(wait)) => wait,
        Some(RetryAfter::Never) | None => Nanos::ZERO,
    };
    let (granted, reset_after, wait) = (u64::from(allowed), Nanos(60), None);
    Outcome::Decided(Decision {
        allowed,
        granted,
        remaining,
        retry_after,
        reset_after,
        next_unit_after,
        wait,
    })
}

/// An answer of these rules with these outcomes, all for one descriptor.
fn answer(outcomes: &[(&str, Outcome)]) -> Answer {
    let domain = rules::parse("api.yaml", LIMITS, &KeySecret::new([7; 16])).expect("a good file");
    let matched = outcomes.iter().map(|(name, outcome)| {
        let rule = domain.rules.iter().find(|rule| &*rule.name == *name).expect("a rule of the file").clone();
        RuleAnswer { limit: rule.limit.clone(), rule, outcome: *outcome, source: Source::Owner }
    });
    let matched: Vec<_> = matched.collect();
    let violated = matched.iter().any(RuleAnswer::violated);
    let verdict = if violated { Verdict::OverLimit } else { Verdict::Allowed };
    let descriptors = vec![DescriptorAnswer { matched }];
    Answer { verdict, descriptors, degraded: false, rules_version: RulesVersion(1) }
}

fn check(outcomes: &[(&str, Outcome)], retry_after: Option<RetryAfter>, binding: Option<&str>) {
    let answer = answer(outcomes);
    assert_eq!(answer.retry_after(), retry_after);
    assert_eq!(answer.binding().map(|answer| &*answer.rule.name), binding);
    assert_eq!(answer.descriptors[0].binding().map(|answer| &*answer.rule.name), binding);
}

const SOON: RetryAfter = RetryAfter::In(Nanos(5));
const LATER: RetryAfter = RetryAfter::In(Nanos(9));

#[test]
fn the_longest_wait_of_the_violated_counts_and_its_limit_binds() {
    check(&[("first", refused(0, LATER)), ("second", refused(0, SOON))], Some(LATER), Some("first"));
    check(&[("first", refused(0, SOON)), ("second", refused(4, LATER))], Some(LATER), Some("second"));
}

#[test]
fn never_is_longer_than_any_wait() {
    let forever = RetryAfter::In(Nanos::MAX);
    check(
        &[("first", refused(9, RetryAfter::Never)), ("second", refused(0, forever))],
        Some(RetryAfter::Never),
        Some("first"),
    );
}

#[test]
fn nothing_violated_means_no_wait() {
    check(&[("first", allowed(3)), ("second", allowed(2))], None, Some("second"));
    check(&[], None, None);
}

#[test]
fn a_violated_limit_binds_before_one_with_less_left() {
    check(&[("first", allowed(1)), ("second", refused(4, SOON))], Some(SOON), Some("second"));
}

#[test]
fn of_equals_the_first_binds() {
    check(&[("first", allowed(2)), ("second", allowed(2))], None, Some("first"));
}

#[test]
fn shadow_rules_neither_bind_nor_delay() {
    let outcomes = [("shadow", refused(0, LATER)), ("first", allowed(2))];
    check(&outcomes, None, Some("first"));
    assert_eq!(answer(&outcomes).violated().count(), 0);
}

#[test]
fn a_request_that_lacks_its_identity_is_never_admitted() {
    check(&[("first", Outcome::Unidentified)], Some(RetryAfter::Never), Some("first"));
}

#[test]
fn a_limit_that_could_not_be_asked_stands_in_the_way_only_if_its_rule_says_so() {
    let undecided = RetryAfter::In(RETRY_UNDECIDED);
    check(&[("strict", Outcome::Unavailable), ("first", refused(0, SOON))], Some(undecided), Some("strict"));
    check(&[("first", Outcome::Unavailable)], None, None);
}

#[test]
fn what_was_admitted_needs_no_wait_whatever_its_limits_say_now() {
    let admitted = Answer { verdict: Verdict::Allowed, ..answer(&[("first", refused(0, SOON))]) };
    assert_eq!(admitted.retry_after(), None);
}
