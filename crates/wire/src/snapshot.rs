//! A shard's snapshot as bytes: an envelope that every version can read, and a body of a numbered format.
//!
//! Invariant: decoding never panics, whatever the bytes, and allocates in proportion to them. What a decoded snapshot says
//! is checked by `Shard::restore`; here only that it says something.

mod counter;
mod ledger;
mod reply;

use leasehold_lease::ledger::LedgerRecord;
use leasehold_limit::Limit;
use leasehold_model::{Key, RulesVersion, Stamp, TenantId};
use leasehold_shard::{LimitSpec, Snapshot, Under};
use prost::{DecodeError, Message as _};

use crate::envelope;
use crate::limit::LimitProtoError;
use crate::proto::leasehold::storage::v1 as storage;
use crate::proto::leasehold::v1;

pub use crate::envelope::{EnvelopeError, SNAPSHOT_FORMAT};

/// Counters and replies that are turned into messages at a time: the whole of them is never there twice.
const CHUNK: usize = 1_024;

/// Bytes that are no snapshot this version can read. Fetch another copy; for [`EnvelopeError::Format`] upgrade first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Not even an envelope that this version can open.
    #[error("{0}")]
    Envelope(#[from] EnvelopeError),
    /// The body is no message of its format.
    #[error("the snapshot's body can't be decoded: {0}")]
    Body(DecodeError),
    /// A limit that is none.
    #[error("limits[{index}]: {error}")]
    Limit {
        /// Its position.
        index: usize,
        /// What is wrong.
        error: LimitProtoError,
    },
    /// A part that must be there is absent.
    #[error("{list}[{index}]: {field} is absent")]
    Absent {
        /// Which list.
        list: &'static str,
        /// Position in the list.
        index: usize,
        /// Which part.
        field: &'static str,
    },
    /// A log whose columns differ in length.
    #[error("counters[{index}]: the log has {stamps} stamps for {units} units")]
    LogColumns {
        /// Its position.
        index: usize,
        /// Length of one column.
        stamps: usize,
        /// Length of the other.
        units: usize,
    },
    /// A refusal that is none.
    #[error("replies[{index}]: refusal {number} is unknown")]
    Refusal {
        /// Its position.
        index: usize,
        /// The number.
        number: i32,
    },
    /// A slot beyond all that there are.
    #[error("{list}[{index}]: {max} is the largest slot", max = u16::MAX)]
    Slot {
        /// Which list.
        list: &'static str,
        /// Position in the list.
        index: usize,
    },
}

/// The bytes of a snapshot.
#[must_use]
pub fn encode_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    let head = storage::Snapshot {
        last: snapshot.last.0,
        cursor_high: snapshot.cursor.high,
        cursor_low: snapshot.cursor.low,
        limits: snapshot.limits.iter().map(under_to_proto).collect(),
        slots: snapshot.ledger.slots.iter().map(ledger::slot_to_proto).collect(),
        lease_totals: Some(ledger::totals_to_proto(&snapshot.ledger.totals)),
        next_lease: snapshot.ledger.next,
        ..storage::Snapshot::default()
    };
    // Encoded messages laid end to end are the message that has all their elements.
    let mut body = head.encode_to_vec();
    for chunk in snapshot.counters.chunks(CHUNK) {
        let counters = chunk.iter().map(counter::to_proto).collect();
        append(&mut body, &storage::Snapshot { counters, ..storage::Snapshot::default() });
    }
    for chunk in snapshot.replies.chunks(CHUNK) {
        let replies = chunk.iter().map(reply::to_proto).collect();
        append(&mut body, &storage::Snapshot { replies, ..storage::Snapshot::default() });
    }
    for chunk in snapshot.ledger.leases.chunks(CHUNK) {
        let leases = chunk.iter().map(ledger::lease_to_proto).collect();
        append(&mut body, &storage::Snapshot { leases, ..storage::Snapshot::default() });
    }
    for chunk in snapshot.ledger.holders.chunks(CHUNK) {
        let holders = chunk.iter().map(ledger::holder_to_proto).collect();
        append(&mut body, &storage::Snapshot { holders, ..storage::Snapshot::default() });
    }
    envelope::seal(body)
}

/// The snapshot that `bytes` hold.
///
/// # Errors
/// [`SnapshotError`] says what about them is wrong.
pub fn decode_snapshot(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    decode_body(storage::Snapshot::decode(envelope::open(bytes)?).map_err(SnapshotError::Body)?)
}

fn decode_body(body: storage::Snapshot) -> Result<Snapshot, SnapshotError> {
    let limits = body.limits.iter().enumerate().map(|(index, under)| under_from_proto(index, under));
    let counters = body.counters.into_iter().enumerate();
    let replies = body.replies.into_iter().enumerate();
    let slots = body.slots.iter().enumerate().map(|(index, slot)| ledger::slot_from_proto(index, slot));
    let ledger = LedgerRecord {
        next: body.next_lease,
        totals: body.lease_totals.as_ref().map(ledger::totals_from_proto).unwrap_or_default(),
        leases: body.leases.iter().map(ledger::lease_from_proto).collect(),
        holders: body.holders.iter().map(ledger::holder_from_proto).collect(),
        slots: slots.collect::<Result<_, _>>()?,
    };
    Ok(Snapshot {
        last: Stamp(body.last),
        cursor: Key { high: body.cursor_high, low: body.cursor_low },
        limits: limits.collect::<Result<_, _>>()?,
        counters: counters
            .map(|(index, proto)| counter::from_proto(index, proto))
            .collect::<Result<_, _>>()?,
        replies: replies.map(|(index, proto)| reply::from_proto(index, proto)).collect::<Result<_, _>>()?,
        ledger,
    })
}

fn append(body: &mut Vec<u8>, part: &storage::Snapshot) {
    body.reserve(part.encoded_len());
    part.encode(body).expect("a vector has room for everything");
}

fn under_to_proto(under: &Under) -> storage::Under {
    storage::Under {
        tenant: under.spec.tenant.0,
        version: under.spec.version.0,
        limit: Some(v1::Limit::from(&under.spec.limit)),
        carried: under.carried.0,
        since: under.spec.since.0,
    }
}

fn under_from_proto(index: usize, proto: &storage::Under) -> Result<Under, SnapshotError> {
    let absent = SnapshotError::Absent { list: "limits", index, field: "limit" };
    let limit = proto.limit.as_ref().ok_or(absent)?;
    let limit = Limit::try_from(limit).map_err(|error| SnapshotError::Limit { index, error })?;
    let (tenant, version) = (TenantId(proto.tenant), RulesVersion(proto.version));
    let spec = LimitSpec { tenant, version, since: Stamp(proto.since), limit };
    Ok(Under { spec, carried: Stamp(proto.carried) })
}

#[cfg(test)]
mod tests;
