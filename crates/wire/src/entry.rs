//! What a shard is told and what it answers, as bytes: entries of its log, and asks on their way to its leader.
//!
//! Invariant: decoding never panics, whatever the bytes, and allocates in proportion to them; every replica decodes the same
//! bytes to the same value or to the same error. What a command may refer to is checked by `Shard::apply`, not here.

mod command;

use bytes::{Buf, Bytes};
use leasehold_limit::Limit;
use leasehold_model::{Nanos, RulesVersion, Stamp, TenantId};
use leasehold_shard::{Batch, Bounds, LimitSpec, Reply};
use prost::{DecodeError, Message as _};

use crate::limit::LimitProtoError;
use crate::proto::leasehold::storage::v1 as storage;
use crate::proto::leasehold::v1;
use crate::reply;

pub(crate) use command::{acquire_from_proto, acquire_to_proto};

/// Bytes that are no entry, or no commands on their way to a leader. Nobody of this version wrote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Not even a message.
    #[error("not an entry: {0}")]
    Malformed(#[from] DecodeError),
    /// An entry without its leader's stamp.
    #[error("at: it is absent; an entry carries its leader's stamp")]
    NoStamp,
    /// A limit that is none.
    #[error("limits[{index}].limit: {error}")]
    Limit {
        /// Its position.
        index: usize,
        /// What is wrong.
        error: LimitProtoError,
    },
    /// A part that must be there is absent.
    #[error("{list}[{index}].{field}: it is absent")]
    Absent {
        /// Which list.
        list: &'static str,
        /// Position in the list.
        index: usize,
        /// Which part.
        field: &'static str,
    },
    /// A reset whose columns differ in length.
    #[error("commands[{index}].reset: {high} upper halves of keys for {low} lower ones")]
    KeyColumns {
        /// Its position.
        index: usize,
        /// Length of one column.
        high: usize,
        /// Length of the other.
        low: usize,
    },
}

/// Bytes that are no replies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepliesError {
    /// Not even a message.
    #[error("not replies: {0}")]
    Malformed(#[from] DecodeError),
    /// A reply of no kind that this version knows.
    #[error("replies[{index}].reply: it is absent, or of a kind that a later version added")]
    Absent {
        /// Its position.
        index: usize,
    },
    /// A refusal that is none.
    #[error("replies[{index}].refused.refusal: {number} is unknown")]
    Refusal {
        /// Its position.
        index: usize,
        /// The number.
        number: i32,
    },
    /// A slot beyond all that there are.
    #[error("replies[{index}].leased.slot: {max} is the largest", max = u16::MAX)]
    Slot {
        /// Its position.
        index: usize,
    },
}

/// The bytes of an entry: commands under their leader's stamp.
#[must_use]
pub fn encode_entry(at: Stamp, batch: &Batch) -> Bytes {
    encode(Some(at), batch)
}

/// The entry that `from` holds.
///
/// # Errors
/// [`EntryError`] names what is wrong about it.
pub fn decode_entry(from: impl Buf) -> Result<(Stamp, Batch), EntryError> {
    let proto = storage::Batch::decode(from)?;
    let at = proto.at.ok_or(EntryError::NoStamp)?;
    Ok((Stamp(at), batch_from_proto(proto)?))
}

/// The bytes of commands that have no stamp yet.
#[must_use]
pub fn encode_batch(batch: &Batch) -> Bytes {
    encode(None, batch)
}

/// The commands that `from` holds, with or without a stamp.
///
/// # Errors
/// [`EntryError`] names what is wrong about them.
pub fn decode_batch(from: impl Buf) -> Result<Batch, EntryError> {
    batch_from_proto(storage::Batch::decode(from)?)
}

/// The bytes of replies, one a command.
#[must_use]
pub fn encode_replies(replies: &[Reply]) -> Bytes {
    let replies = replies.iter().map(reply_to_proto).collect();
    storage::Replies { replies }.encode_to_vec().into()
}

/// The replies that `from` holds.
///
/// # Errors
/// [`RepliesError`] names what is wrong about them.
pub fn decode_replies(from: impl Buf) -> Result<Vec<Reply>, RepliesError> {
    let replies = storage::Replies::decode(from)?.replies.into_iter().enumerate();
    replies.map(|(index, proto)| reply_from_proto(index, proto)).collect()
}

fn encode(at: Option<Stamp>, batch: &Batch) -> Bytes {
    let proto = storage::Batch {
        at: at.map(|at| at.0),
        limits: limits_to_proto(&batch.limits),
        commands: batch.commands.iter().map(command::to_proto).collect(),
        settled: batch.settled.iter().map(command::settled_to_proto).collect(),
        bounds: batch.bounds.as_ref().map(bounds_to_proto),
    };
    proto.encode_to_vec().into()
}

fn batch_from_proto(proto: storage::Batch) -> Result<Batch, EntryError> {
    let commands = proto.commands.into_iter().enumerate();
    Ok(Batch {
        limits: limits_from_proto(&proto.limits)?,
        commands: commands
            .map(|(index, proto)| command::from_proto(index, proto))
            .collect::<Result<_, _>>()?,
        settled: proto.settled.iter().map(command::settled_from_proto).collect(),
        bounds: proto.bounds.as_ref().map(bounds_from_proto),
    })
}

fn bounds_to_proto(bounds: &Bounds) -> storage::Bounds {
    storage::Bounds {
        keys_per_tenant_max: bounds.keys_per_tenant_max,
        keys_max: bounds.keys_max,
        replies_per_tenant_max: bounds.replies_per_tenant_max,
        retry_window: bounds.retry_window.0,
        items_max: bounds.items_max,
        leases_max: bounds.leases_max,
    }
}

fn bounds_from_proto(proto: &storage::Bounds) -> Bounds {
    Bounds {
        keys_per_tenant_max: proto.keys_per_tenant_max,
        keys_max: proto.keys_max,
        replies_per_tenant_max: proto.replies_per_tenant_max,
        retry_window: Nanos(proto.retry_window),
        items_max: proto.items_max,
        leases_max: proto.leases_max,
    }
}

pub(crate) fn limits_to_proto(limits: &[LimitSpec]) -> Vec<storage::LimitSpec> {
    let spec = |spec: &LimitSpec| storage::LimitSpec {
        tenant: spec.tenant.0,
        version: spec.version.0,
        since: spec.since.0,
        limit: Some(v1::Limit::from(&spec.limit)),
    };
    limits.iter().map(spec).collect()
}

pub(crate) fn limits_from_proto(limits: &[storage::LimitSpec]) -> Result<Vec<LimitSpec>, EntryError> {
    let spec = |(index, proto): (usize, &storage::LimitSpec)| {
        let absent = EntryError::Absent { list: "limits", index, field: "limit" };
        let limit = proto.limit.as_ref().ok_or(absent)?;
        let limit = Limit::try_from(limit).map_err(|error| EntryError::Limit { index, error })?;
        let (tenant, version) = (TenantId(proto.tenant), RulesVersion(proto.version));
        Ok(LimitSpec { tenant, version, since: Stamp(proto.since), limit })
    };
    limits.iter().enumerate().map(spec).collect()
}

fn reply_to_proto(reply: &Reply) -> storage::Reply {
    use storage::reply::Reply as Proto;
    let reply = match reply {
        Reply::Acquired(acquired) => Proto::Acquired(reply::acquired_to_proto(acquired)),
        Reply::Refunded(units) => Proto::Refunded(storage::Refunded { units: units.clone() }),
        Reply::Reset(held) => Proto::Reset(storage::Reset { held: *held }),
        Reply::Refused(refusal) => Proto::Refused(reply::refusal_to_proto(*refusal)),
        Reply::Leased(leased) => Proto::Leased(reply::leased_to_proto(leased)),
    };
    storage::Reply { reply: Some(reply) }
}

fn reply_from_proto(index: usize, proto: storage::Reply) -> Result<Reply, RepliesError> {
    use storage::reply::Reply as Proto;
    Ok(match proto.reply.ok_or(RepliesError::Absent { index })? {
        Proto::Acquired(acquired) => Reply::Acquired(reply::acquired_from_proto(acquired)),
        Proto::Refunded(refunded) => Reply::Refunded(refunded.units),
        Proto::Reset(reset) => Reply::Reset(reset.held),
        Proto::Leased(leased) => {
            Reply::Leased(reply::leased_from_proto(&leased).ok_or(RepliesError::Slot { index })?)
        }
        Proto::Refused(refused) => {
            let number = refused.refusal;
            Reply::Refused(
                reply::refusal_from_proto(&refused).ok_or(RepliesError::Refusal { index, number })?,
            )
        }
    })
}

#[cfg(test)]
mod tests;
