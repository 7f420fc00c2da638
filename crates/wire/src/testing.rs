//! Answers to convert, made by hand: what rules and counters would say.

pub(crate) mod arbitrary;
pub(crate) mod arbitrary_control;

use std::sync::Arc;

use leasehold_limit::check::{Answer, DescriptorAnswer, Outcome, RuleAnswer, Source, Verdict};
use leasehold_limit::rules::{self, Rule};
use leasehold_limit::{Algorithm, Decision, KeySecret, Limit, RetryAfter, Window};
use leasehold_model::{Nanos, RulesVersion};

/// `n` in epoch windows of `period`.
pub(crate) fn window(n: u64, period: Nanos) -> Limit {
    Limit::new(Algorithm::FixedWindow(Window::Epoch), n, period).unwrap()
}

/// A rule of this name, 10 a minute.
pub(crate) fn rule(name: &str) -> Rule {
    let text = format!("domain: api\nlimits: [{{ name: {name}, limit: 10/60s, algorithm: fixed_window }}]\n");
    let domain = rules::parse("rules", &text, &KeySecret::new([1; 16])).unwrap();
    Rule::clone(&domain.rules[0])
}

/// What a rule said.
pub(crate) fn said(rule: Rule, outcome: Outcome) -> RuleAnswer {
    RuleAnswer { limit: Arc::clone(&rule.limit), rule: Arc::new(rule), outcome, source: Source::Owner }
}

/// Admitted, so many left.
pub(crate) fn passed(remaining: u64) -> Outcome {
    Outcome::Decided(Decision {
        allowed: true,
        granted: 1,
        remaining,
        retry_after: None,
        reset_after: Nanos::from_millis(41_500),
        next_unit_after: if remaining == 0 { Nanos::from_millis(5_500) } else { Nanos::ZERO },
        wait: None,
    })
}

/// Refused until then.
pub(crate) fn refused(retry_after: RetryAfter) -> Outcome {
    Outcome::Decided(Decision {
        allowed: false,
        granted: 0,
        remaining: 0,
        retry_after: Some(retry_after),
        reset_after: Nanos::from_secs(42),
        next_unit_after: Nanos::from_secs(3),
        wait: None,
    })
}

/// An answer whose descriptors' rules said this; the verdict follows from it.
pub(crate) fn answer(descriptors: Vec<Vec<RuleAnswer>>) -> Answer {
    let descriptors: Vec<_> = descriptors.into_iter().map(|matched| DescriptorAnswer { matched }).collect();
    let all = || descriptors.iter().flat_map(|descriptor| &descriptor.matched);
    let away = |matched: &RuleAnswer| matched.outcome == Outcome::Unavailable;
    let verdict = match all().find(|matched| matched.violated()) {
        Some(matched) if away(matched) => Verdict::Unavailable,
        Some(_) => Verdict::OverLimit,
        None => Verdict::Allowed,
    };
    let degraded = all().any(away);
    Answer { verdict, descriptors, degraded, rules_version: RulesVersion(7) }
}
