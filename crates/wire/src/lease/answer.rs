//! What a node answers an edge.

use leasehold_lease::{LeaseId, Leased};
use leasehold_limit::{Decision, RetryAfter};
use leasehold_model::{Nanos, Stamp, TenantId};
use leasehold_shard::{Acquired, Refusal};

use crate::part::{PartError, Problem};
use crate::proto::leasehold::v1 as proto;
use proto::lease_answer::Answer as Proto;

/// The answer to one ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The ask's.
    pub tag: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of one for tokens.
    Leased {
        /// What is lent, or why nothing is.
        leased: Leased,
        /// Into how many parts the share of [`Leased::slot`] is divided, the edge having one; at least 1.
        slot_parts: u32,
    },
    /// Of an acquire, or a look at one.
    Acquired(Acquired),
    /// Of a refund: units that came back, an item each.
    Refunded(Vec<u64>),
    /// Of a reset: how many counters held anything.
    Reset(u32),
    /// The owner refuses it.
    Refused(Refusal),
    /// Nobody could answer.
    Unanswered(Unanswered),
}

/// Why nobody could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Nobody could be reached, or nobody knows what became of it.
    #[error("nobody could be reached, or nobody knows what became of it")]
    Unreachable,
    /// Nothing was done.
    #[error("too much is going on")]
    Overloaded,
}

impl From<Answer> for proto::LeaseAnswer {
    fn from(Answer { tag, outcome }: Answer) -> Self {
        let answer = match outcome {
            Outcome::Leased { leased, slot_parts } => Proto::Granted(leased_to_proto(&leased, slot_parts)),
            Outcome::Acquired(acquired) => Proto::Decided(acquired_to_proto(&acquired)),
            Outcome::Refunded(units) => Proto::Refunded(proto::RefundedUnits { units }),
            Outcome::Reset(held) => Proto::Reset(held),
            Outcome::Refused(refusal) => Proto::Refused(refusal_to_proto(refusal)),
            Outcome::Unanswered(unanswered) => Proto::Unanswered(match unanswered {
                Unanswered::Unreachable => proto::Unanswered::Unreachable.into(),
                Unanswered::Overloaded => proto::Unanswered::Overloaded.into(),
            }),
        };
        Self { tag, answer: Some(answer) }
    }
}

impl TryFrom<proto::LeaseAnswer> for Answer {
    type Error = PartError;

    fn try_from(proto: proto::LeaseAnswer) -> Result<Self, PartError> {
        let outcome = match proto.answer {
            // Of a kind that a later version added: what became of the ask isn't understood here.
            None => Outcome::Unanswered(Unanswered::Unreachable),
            Some(Proto::Granted(granted)) => granted_from_proto(&granted)?,
            Some(Proto::Decided(decided)) => Outcome::Acquired(acquired_from_proto(&decided)),
            Some(Proto::Refunded(refunded)) => Outcome::Refunded(refunded.units),
            Some(Proto::Reset(held)) => Outcome::Reset(held),
            Some(Proto::Refused(refused)) => refused_from_proto(&refused),
            Some(Proto::Unanswered(number)) => Outcome::Unanswered(match number.try_into() {
                Ok(proto::Unanswered::Overloaded) => Unanswered::Overloaded,
                // A later version may know better why.
                Ok(proto::Unanswered::Unspecified | proto::Unanswered::Unreachable) | Err(_) => {
                    Unanswered::Unreachable
                }
            }),
        };
        Ok(Self { tag: proto.tag, outcome })
    }
}

fn leased_to_proto(leased: &Leased, slot_parts: u32) -> proto::Granted {
    use proto::granted::Retry;
    proto::Granted {
        lease: leased.lease.map(|lease| lease.0),
        granted: leased.granted,
        sync: leased.sync,
        lifetime: leased.lifetime.0,
        gate: leased.gate.map(|gate| gate.0),
        retry: leased.retry_after.map(|retry| match retry {
            RetryAfter::In(wait) => Retry::RetryAfter(wait.0),
            RetryAfter::Never => Retry::Never(true),
        }),
        remaining: leased.remaining,
        reset_after: leased.reset_after.0,
        slot: leased.slot.map(u32::from),
        slot_parts,
        at: leased.at.0,
    }
}

fn granted_from_proto(proto: &proto::Granted) -> Result<Outcome, PartError> {
    use proto::granted::Retry;
    let lease = proto.lease.map(LeaseId);
    if lease.is_none() && proto.granted > 0 {
        return Err(PartError::absent("granted.lease"));
    }
    let slot = proto.slot.map(u16::try_from).transpose().map_err(|_| PartError {
        path: "granted.slot".to_owned(),
        problem: Problem::TooLarge { max: u64::from(u16::MAX) },
    })?;
    let leased = Leased {
        lease,
        granted: proto.granted,
        sync: proto.sync,
        lifetime: Nanos(proto.lifetime),
        gate: proto.gate.map(Nanos),
        retry_after: proto.retry.map(|retry| match retry {
            Retry::RetryAfter(wait) => RetryAfter::In(Nanos(wait)),
            Retry::Never(_) => RetryAfter::Never,
        }),
        remaining: proto.remaining,
        reset_after: Nanos(proto.reset_after),
        slot,
        at: Stamp(proto.at),
    };
    Ok(Outcome::Leased { leased, slot_parts: proto.slot_parts.max(1) })
}

fn acquired_to_proto(acquired: &Acquired) -> proto::ExactDecisions {
    let decisions = acquired.decisions.iter().map(decision_to_proto).collect();
    proto::ExactDecisions { admitted: acquired.admitted, at: acquired.at.0, decisions }
}

fn acquired_from_proto(proto: &proto::ExactDecisions) -> Acquired {
    let decisions = proto.decisions.iter().map(decision_from_proto).collect();
    Acquired { admitted: proto.admitted, at: Stamp(proto.at), decisions }
}

fn decision_to_proto(decision: &Decision) -> proto::ExactDecision {
    use proto::exact_decision::Retry;
    proto::ExactDecision {
        allowed: decision.allowed,
        granted: decision.granted,
        remaining: decision.remaining,
        retry: decision.retry_after.map(|retry| match retry {
            RetryAfter::In(wait) => Retry::RetryAfter(wait.0),
            RetryAfter::Never => Retry::Never(true),
        }),
        reset_after: decision.reset_after.0,
        next_unit_after: decision.next_unit_after.0,
        wait: decision.wait.map(|wait| wait.0),
    }
}

fn decision_from_proto(proto: &proto::ExactDecision) -> Decision {
    use proto::exact_decision::Retry;
    Decision {
        allowed: proto.allowed,
        granted: proto.granted,
        remaining: proto.remaining,
        retry_after: proto.retry.map(|retry| match retry {
            Retry::RetryAfter(wait) => RetryAfter::In(Nanos(wait)),
            Retry::Never(_) => RetryAfter::Never,
        }),
        reset_after: Nanos(proto.reset_after),
        next_unit_after: Nanos(proto.next_unit_after),
        wait: proto.wait.map(Nanos),
    }
}

fn refusal_to_proto(refusal: Refusal) -> proto::AskRefused {
    let (refusal, tenant) = match refusal {
        Refusal::KeysFull(tenant) => (proto::AskRefusal::KeysFull, tenant.0),
        Refusal::RepliesFull(tenant) => (proto::AskRefusal::RepliesFull, tenant.0),
        Refusal::RequestIdReused => (proto::AskRefusal::IdReused, 0),
        Refusal::Malformed => (proto::AskRefusal::Malformed, 0),
    };
    proto::AskRefused { refusal: refusal.into(), tenant }
}

fn refused_from_proto(proto: &proto::AskRefused) -> Outcome {
    let tenant = TenantId(proto.tenant);
    Outcome::Refused(match proto.refusal() {
        proto::AskRefusal::KeysFull => Refusal::KeysFull(tenant),
        proto::AskRefusal::RepliesFull => Refusal::RepliesFull(tenant),
        proto::AskRefusal::IdReused => Refusal::RequestIdReused,
        proto::AskRefusal::Malformed => Refusal::Malformed,
        // Of a kind that a later version added: it is certain only that the same isn't worth asking again.
        proto::AskRefusal::Unspecified => return Outcome::Unanswered(Unanswered::Unreachable),
    })
}
