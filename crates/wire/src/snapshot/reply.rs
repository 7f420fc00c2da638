//! Remembered replies of a snapshot.

use leasehold_model::{Key, RequestId, Stamp, TenantId};
use leasehold_shard::{Remembered, Reply};

use super::SnapshotError;
use crate::proto::leasehold::storage::v1 as storage;
use crate::reply;
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
        Reply::Acquired(acquired) => Proto::Acquired(reply::acquired_to_proto(acquired)),
        Reply::Refunded(units) => Proto::Refunded(storage::Refunded { units: units.clone() }),
        Reply::Reset(held) => Proto::Reset(storage::Reset { held: *held }),
        Reply::Refused(refusal) => Proto::Refused(reply::refusal_to_proto(*refusal)),
        Reply::Leased(leased) => Proto::Leased(reply::leased_to_proto(leased)),
    }
}

fn reply_from_proto(index: usize, proto: Proto) -> Result<Reply, SnapshotError> {
    Ok(match proto {
        Proto::Acquired(acquired) => Reply::Acquired(reply::acquired_from_proto(acquired)),
        Proto::Refunded(refunded) => Reply::Refunded(refunded.units),
        Proto::Reset(reset) => Reply::Reset(reset.held),
        Proto::Leased(leased) => {
            let slot = SnapshotError::Slot { list: "replies", index };
            Reply::Leased(reply::leased_from_proto(&leased).ok_or(slot)?)
        }
        Proto::Refused(refused) => {
            let number = refused.refusal;
            Reply::Refused(
                reply::refusal_from_proto(&refused).ok_or(SnapshotError::Refusal { index, number })?,
            )
        }
    })
}
