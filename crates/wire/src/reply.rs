//! A shard's replies as messages, for snapshots and for answers alike.

use leasehold_lease::{LeaseId, Leased};
use leasehold_limit::{Decision, RetryAfter};
use leasehold_model::{Nanos, Stamp, TenantId};
use leasehold_shard::{Acquired, Refusal};

use crate::proto::leasehold::storage::v1 as storage;
use storage::decision::Retry;

pub(crate) fn acquired_to_proto(acquired: &Acquired) -> storage::Acquired {
    storage::Acquired {
        admitted: acquired.admitted,
        at: acquired.at.0,
        decisions: acquired.decisions.iter().map(decision_to_proto).collect(),
    }
}

pub(crate) fn acquired_from_proto(proto: storage::Acquired) -> Acquired {
    Acquired {
        admitted: proto.admitted,
        at: Stamp(proto.at),
        decisions: proto.decisions.into_iter().map(decision_from_proto).collect(),
    }
}

pub(crate) fn leased_to_proto(leased: &Leased) -> storage::Leased {
    use storage::leased::Retry;
    storage::Leased {
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
        at: leased.at.0,
    }
}

/// `None` for a slot that is no slot's number.
pub(crate) fn leased_from_proto(proto: &storage::Leased) -> Option<Leased> {
    use storage::leased::Retry;
    Some(Leased {
        lease: proto.lease.map(LeaseId),
        granted: proto.granted,
        sync: proto.sync,
        lifetime: Nanos(proto.lifetime),
        gate: proto.gate.map(Nanos),
        retry_after: proto.retry.as_ref().map(|retry| match retry {
            Retry::RetryAfter(wait) => RetryAfter::In(Nanos(*wait)),
            Retry::Never(_) => RetryAfter::Never,
        }),
        remaining: proto.remaining,
        reset_after: Nanos(proto.reset_after),
        slot: proto.slot.map(u16::try_from).transpose().ok()?,
        at: Stamp(proto.at),
    })
}

pub(crate) fn refusal_to_proto(refusal: Refusal) -> storage::Refused {
    let (refusal, tenant) = match refusal {
        Refusal::KeysFull(tenant) => (storage::Refusal::KeysFull, tenant.0),
        Refusal::RepliesFull(tenant) => (storage::Refusal::RepliesFull, tenant.0),
        Refusal::RequestIdReused => (storage::Refusal::RequestIdReused, 0),
        Refusal::Malformed => (storage::Refusal::Malformed, 0),
    };
    storage::Refused { refusal: refusal.into(), tenant }
}

/// `None` for a number that this version doesn't know.
pub(crate) fn refusal_from_proto(proto: &storage::Refused) -> Option<Refusal> {
    let tenant = TenantId(proto.tenant);
    Some(match proto.refusal() {
        storage::Refusal::Unspecified => return None,
        storage::Refusal::KeysFull => Refusal::KeysFull(tenant),
        storage::Refusal::RepliesFull => Refusal::RepliesFull(tenant),
        storage::Refusal::RequestIdReused => Refusal::RequestIdReused,
        storage::Refusal::Malformed => Refusal::Malformed,
    })
}

fn decision_to_proto(decision: &Decision) -> storage::Decision {
    storage::Decision {
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

fn decision_from_proto(proto: storage::Decision) -> Decision {
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
