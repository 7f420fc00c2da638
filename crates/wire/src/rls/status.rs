//! One descriptor's status: the limit that binds, what is left of it and when it has something to give again.

use leasehold_limit::RetryAfter;
use leasehold_limit::check::{DescriptorAnswer, RuleAnswer};
use leasehold_model::Nanos;

use super::unit::unit_of;
use crate::duration::to_proto_secs;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};

/// The status of one descriptor. Shadow rules are not shown: nothing of them may reach a client.
///
/// A descriptor that no enforced rule matches is OK without a limit, as is one whose limits could not be asked and say
/// `allow` for that.
pub(super) fn of(answer: &DescriptorAnswer) -> DescriptorStatus {
    let Some(binding) = answer.binding() else {
        return DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() };
    };
    let code = if binding.violated() { Code::OverLimit } else { Code::Ok };
    DescriptorStatus {
        code: code.into(),
        current_limit: Some(rate_limit(binding)),
        limit_remaining: u32::try_from(binding.remaining()).unwrap_or(u32::MAX),
        duration_until_reset: until_reset(binding).map(to_proto_secs),
        quota: None,
    }
}

/// Refused: when it would be admitted. Nothing left: when there is one unit again. Otherwise: when it is as fresh.
fn until_reset(matched: &RuleAnswer) -> Option<Nanos> {
    let decision = matched.decision()?;
    let time = match decision.retry_after {
        Some(RetryAfter::In(time)) => time,
        Some(RetryAfter::Never) | None if decision.remaining > 0 => decision.reset_after,
        Some(RetryAfter::Never) | None => decision.next_unit_after,
    };
    (time != Nanos::MAX).then_some(time)
}

fn rate_limit(matched: &RuleAnswer) -> RateLimit {
    let period = unit_of(matched.limit.period());
    RateLimit {
        requests_per_unit: u32::try_from(matched.limit.n()).unwrap_or(u32::MAX),
        unit: period.unit.into(),
        name: matched.rule.name.as_ref().to_owned(),
        unit_multiplier: (period.count != 1).then_some(period.count),
    }
}
