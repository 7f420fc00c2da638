//! The envelope around every snapshot: what any version can read, to tell whether it may read the rest.

use bytes::Bytes;
use leasehold_shard::checksum;
use prost::{DecodeError, Message as _};

use crate::proto::leasehold::storage::v1 as storage;

/// The format that is written, and the newest that is read. 2 added leases; a shard of format 1 has none.
pub const SNAPSHOT_FORMAT: u32 = 2;
/// The oldest format that is read.
const SNAPSHOT_FORMAT_MIN: u32 = 1;

/// Bytes that are no snapshot this version can read. Fetch another copy; for [`EnvelopeError::Format`] upgrade first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not even an envelope.
    #[error("not a snapshot: {0}")]
    Malformed(#[from] DecodeError),
    /// Written by a newer version, or not by this program.
    #[error(
        "snapshot format {found} is unknown, this version reads up to {SNAPSHOT_FORMAT}: use the version that wrote it, or a later one"
    )]
    Format {
        /// The format it says it has.
        found: u32,
    },
    /// The body isn't what was written.
    #[error("the snapshot is damaged: its checksum is {found:016x}, it was written with {expected:016x}")]
    Checksum {
        /// Of the body that is there.
        found: u64,
        /// Of the body that was written.
        expected: u64,
    },
}

/// The bytes of an envelope around `body`.
pub(crate) fn seal(body: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(&body);
    storage::SnapshotEnvelope { format: SNAPSHOT_FORMAT, checksum, body: body.into() }.encode_to_vec()
}

/// The body that was sealed.
pub(crate) fn open(bytes: &[u8]) -> Result<Bytes, EnvelopeError> {
    let envelope = storage::SnapshotEnvelope::decode(bytes)?;
    if !(SNAPSHOT_FORMAT_MIN..=SNAPSHOT_FORMAT).contains(&envelope.format) {
        return Err(EnvelopeError::Format { found: envelope.format });
    }
    let (found, expected) = (checksum(&envelope.body), envelope.checksum);
    if found != expected {
        return Err(EnvelopeError::Checksum { found, expected });
    }
    Ok(envelope.body)
}
