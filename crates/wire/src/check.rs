//! Checks of `leasehold.v1`: a request becomes a borrowed [`Descriptor`], an [`Answer`] becomes a response.

use leasehold_limit::RetryAfter;
use leasehold_limit::check::{Answer, Attribute, Descriptor, Outcome, RuleAnswer, Source, Verdict};
use leasehold_limit::rules::RuleError;
use leasehold_model::Nanos;

use crate::duration::to_proto;
use crate::proto::leasehold::v1;

/// Units of a check that doesn't say its cost.
const COST_DEFAULT: u64 = 1;

/// Attributes that borrow from the message.
#[must_use]
pub fn attributes(attributes: &[v1::Attribute]) -> Vec<Attribute<'_>> {
    attributes.iter().map(|one| Attribute { name: &one.name, value: &one.value }).collect()
}

/// The one descriptor of a check, borrowed from the message. An absent cost is 1; 0 is a peek.
#[must_use]
pub fn descriptor(request: &v1::CheckRequest) -> Descriptor<'_> {
    Descriptor {
        attributes: attributes(&request.attributes),
        cost: request.cost.unwrap_or(COST_DEFAULT),
        limit_override: None,
    }
}

/// The one descriptor of a peek, borrowed from the message.
#[must_use]
pub fn peek_descriptor(request: &v1::PeekRequest) -> Descriptor<'_> {
    Descriptor { attributes: attributes(&request.attributes), cost: 0, limit_override: None }
}

impl From<&Answer> for v1::CheckResponse {
    fn from(answer: &Answer) -> Self {
        let verdict = match answer.verdict {
            Verdict::Allowed => v1::Verdict::Allowed,
            Verdict::OverLimit => v1::Verdict::OverLimit,
            Verdict::Unavailable => v1::Verdict::Unavailable,
        };
        Self {
            verdict: verdict.into(),
            matched: answer.matched().map(v1::MatchedRule::from).collect(),
            degraded: answer.degraded,
            rules_version: answer.rules_version.0,
        }
    }
}

impl From<&RuleAnswer> for v1::MatchedRule {
    fn from(matched: &RuleAnswer) -> Self {
        let outcome = match matched.outcome {
            Outcome::Decided(_) => v1::Outcome::Decided,
            Outcome::Unavailable => v1::Outcome::Unavailable,
            Outcome::Unidentified => v1::Outcome::Unidentified,
        };
        let mut proto = Self {
            rule: matched.rule.name.as_ref().to_owned(),
            limit: Some(matched.limit.as_ref().into()),
            shadow: matched.rule.shadow,
            outcome: outcome.into(),
            allowed: !matched.refused(),
            ..Self::default()
        };
        if let Some(decision) = matched.decision() {
            proto.source = source(matched.source).into();
            proto.remaining = decision.remaining;
            proto.retry = decision.retry_after.map(|retry| match retry {
                RetryAfter::In(time) => v1::matched_rule::Retry::RetryAfter(to_proto(time)),
                RetryAfter::Never => v1::matched_rule::Retry::Never(true),
            });
            proto.reset_after = Some(to_proto(decision.reset_after));
            let next = decision.next_unit_after;
            proto.next_unit_after = (next != Nanos::MAX).then(|| to_proto(next));
            proto.wait = decision.wait.map(to_proto);
        }
        proto
    }
}

const fn source(source: Source) -> v1::Source {
    match source {
        Source::Owner => v1::Source::Owner,
        Source::Lease => v1::Source::Lease,
        Source::DenyCache => v1::Source::DenyCache,
        Source::Fallback => v1::Source::Fallback,
    }
}

impl From<&RuleError> for v1::RuleError {
    fn from(error: &RuleError) -> Self {
        Self {
            file: error.file.clone(),
            line: u64::try_from(error.line).unwrap_or(u64::MAX),
            column: u64::try_from(error.column).unwrap_or(u64::MAX),
            field: error.field.clone(),
            message: error.message.clone(),
            fix: error.fix.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
