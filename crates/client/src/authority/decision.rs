//! What is known of a counter, as its decision. Exact as to what is granted; estimates as to what is left.

use leasehold_lease::Denial;
use leasehold_limit::{Algorithm, Decision, Limit, RetryAfter};
use leasehold_model::Nanos;

/// Units were taken. `left` are those held here and at the owner when it was last heard of.
pub(super) fn taken(limit: &Limit, granted: u64, left: u64, reset_after: Nanos) -> Decision {
    let remaining = left.min(limit.cap().saturating_sub(granted));
    Decision {
        allowed: true,
        granted,
        remaining,
        retry_after: None,
        reset_after,
        next_unit_after: if remaining > 0 { Nanos::ZERO } else { unit_after(limit, reset_after) },
        wait: None,
    }
}

/// A refusal that is known from before.
pub(super) fn denied(denial: Denial) -> Decision {
    let Denial { retry_after, reset_after } = denial;
    Decision {
        allowed: false,
        granted: 0,
        remaining: 0,
        retry_after: Some(RetryAfter::In(retry_after)),
        reset_after,
        next_unit_after: retry_after,
        wait: None,
    }
}

/// A refusal by the wallet; `left` as in [`taken`].
pub(super) fn denied_by(
    limit: &Limit,
    cost: u64,
    left: u64,
    retry_after: RetryAfter,
    reset_after: Nanos,
) -> Decision {
    let remaining = left.min(cost.saturating_sub(1));
    let next = match retry_after {
        RetryAfter::In(wait) => wait,
        RetryAfter::Never => unit_after(limit, reset_after),
    };
    Decision {
        allowed: false,
        granted: 0,
        remaining,
        retry_after: Some(retry_after),
        reset_after,
        next_unit_after: if remaining > 0 { Nanos::ZERO } else { next },
        wait: None,
    }
}

/// The same, of a request that another limit refused: nothing was taken.
pub(super) fn untaken(decision: Decision) -> Decision {
    if !decision.allowed {
        return decision;
    }
    let remaining = decision.remaining.saturating_add(decision.granted);
    Decision { granted: 0, remaining, next_unit_after: Nanos::ZERO, ..decision }
}

/// At most how long until a counter without units has one.
fn unit_after(limit: &Limit, reset_after: Nanos) -> Nanos {
    match limit.algorithm() {
        Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } | Algorithm::Shaper { .. } => {
            reset_after.min(Nanos(limit.period().0.div_ceil(limit.n().max(1))))
        }
        Algorithm::FixedWindow(_) | Algorithm::SlidingLog | Algorithm::SlidingCounter => reset_after,
    }
}
