//! Remembered replies of a snapshot.

use leasehold_limit::{Decision, RetryAfter};
use leasehold_model::{Key, Nanos, RequestId, Stamp, TenantId};
use leasehold_shard::{Acquired, Refusal, Remembered, Reply};

use super::SnapshotError;
use crate::proto::leasehold::storage::v1 as storage;
use storage::decision::Retry;
use storage::remembered::Reply as Proto;

pub(super) fn to_proto(remembered: &Remembered) -> storage::Remembered {
    let Key { high: session_high, low: session_low } = Key::from_u128(remembered.id.session);
    storage::Remembered {
        session_high,
        session_low,
        seq: remembered.id.seq,
        at: remembered.at.0,
        fingerprint: remembered.fingerprint,
        tenant: remembered.tenant.0,
        reply: Some(reply_to_proto(&remembered.reply)),
    }
}

pub(super) fn from_proto(index: usize, proto: storage::Remembered) -> Result<Remembered, SnapshotError> {
    let reply = proto.reply.ok_or(SnapshotError::Absent { list: "replies", index, field: "reply" })?;
    let session = Key { high: proto.session_high, low: proto.session_low }.to_u128();
    Ok(Remembered {
        id: RequestId { session, seq: proto.seq },
        at: Stamp(proto.at),
        fingerprint: proto.fingerprint,
        tenant: TenantId(proto.tenant),
        reply: reply_from_proto(index, reply)?,
    })
}

fn reply_to_proto(reply: &Reply) -> Proto {
    match reply {
        Reply::Acquired(acquired) => Proto::Acquired(storage::Acquired {
            admitted: acquired.admitted,
            at: acquired.at.0,
            decisions: acquired.decisions.iter().map(decision_to_proto).collect(),
        }),
        Reply::Refunded(units) => Proto::Refunded(storage::Refunded { units: units.clone() }),
        Reply::Reset(held) => Proto::Reset(storage::Reset { held: *held }),
        Reply::Refused(refusal) => {
            let (refusal, tenant) = match refusal {
                Refusal::KeysFull(tenant) => (storage::Refusal::KeysFull, tenant.0),
                Refusal::RepliesFull(tenant) => (storage::Refusal::RepliesFull, tenant.0),
                Refusal::RequestIdReused => (storage::Refusal::RequestIdReused, 0),
                Refusal::Malformed => (storage::Refusal::Malformed, 0),
            };
            Proto::Refused(storage::Refused { refusal: refusal.into(), tenant })
        }
    }
}

fn reply_from_proto(index: usize, proto: Proto) -> Result<Reply, SnapshotError> {
    Ok(match proto {
        Proto::Acquired(acquired) => Reply::Acquired(Acquired {
            admitted: acquired.admitted,
            at: Stamp(acquired.at),
            decisions: acquired.decisions.iter().map(decision_from_proto).collect(),
        }),
        Proto::Refunded(refunded) => Reply::Refunded(refunded.units),
        Proto::Reset(reset) => Reply::Reset(reset.held),
        Proto::Refused(refused) => {
            let (tenant, number) = (TenantId(refused.tenant), refused.refusal);
            Reply::Refused(match refused.refusal() {
                storage::Refusal::Unspecified => return Err(SnapshotError::Refusal { index, number }),
                storage::Refusal::KeysFull => Refusal::KeysFull(tenant),
                storage::Refusal::RepliesFull => Refusal::RepliesFull(tenant),
                storage::Refusal::RequestIdReused => Refusal::RequestIdReused,
                storage::Refusal::Malformed => Refusal::Malformed,
            })
        }
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

fn decision_from_proto(proto: &storage::Decision) -> Decision {
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
