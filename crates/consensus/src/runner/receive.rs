//! A snapshot that arrives in pieces.
//!
//! Invariant: pieces are taken in order and of one snapshot only; a snapshot is handed on when it is whole and its checksum
//! fits. A piece out of order is refused, and the sender starts anew.

use leasehold_wire::raft::{RaftMessageError, SnapshotChunk};

/// The longest snapshot that is taken, in bytes. A longer one is refused: that replica doesn't catch up until its group's
/// state has shrunk.
const SNAPSHOT_BYTES_MAX: u64 = 2 << 30;
/// Memory is reserved for what arrives, not for what is announced; this much ahead.
const RESERVE_BYTES_MAX: u64 = 16 << 20;

/// See the module.
pub(super) struct Receiving {
    id: String,
    checksum: u32,
    total: u64,
    state: Vec<u8>,
}

impl Receiving {
    /// Takes a piece; the whole state when it was the last one.
    pub(super) fn take(
        slot: &mut Option<Self>,
        chunk: &SnapshotChunk,
    ) -> Result<Option<Vec<u8>>, RaftMessageError> {
        let id = chunk.meta.as_ref().map(|meta| meta.id.as_str()).unwrap_or_default();
        if chunk.offset == 0 {
            *slot = Some(Self::start(id, chunk)?);
        }
        let fits = slot.as_mut().filter(|receiving| receiving.continues(id, chunk));
        let receiving = fits.ok_or(RaftMessageError::Missing("the piece before"))?;
        receiving.state.extend_from_slice(&chunk.data);
        if receiving.len() < receiving.total {
            return Ok(None);
        }
        let whole = slot.take().filter(|whole| crc32c::crc32c(&whole.state) == whole.checksum);
        Ok(Some(whole.ok_or(RaftMessageError::Malformed)?.state))
    }

    fn start(id: &str, chunk: &SnapshotChunk) -> Result<Self, RaftMessageError> {
        if chunk.total > SNAPSHOT_BYTES_MAX {
            tracing::error!(bytes = chunk.total, "a snapshot is too long to be taken");
            return Err(RaftMessageError::Malformed);
        }
        let reserve = usize::try_from(chunk.total.min(RESERVE_BYTES_MAX)).unwrap_or(0);
        Ok(Self {
            id: id.to_owned(),
            checksum: chunk.checksum,
            total: chunk.total,
            state: Vec::with_capacity(reserve),
        })
    }

    fn continues(&self, id: &str, chunk: &SnapshotChunk) -> bool {
        let end = u64::try_from(chunk.data.len()).ok().and_then(|len| len.checked_add(chunk.offset));
        self.id == id
            && (self.checksum, self.total) == (chunk.checksum, chunk.total)
            && self.len() == chunk.offset
            && end.is_some_and(|end| end <= self.total)
    }

    fn len(&self) -> u64 {
        u64::try_from(self.state.len()).expect("lengths fit into 64 bits")
    }
}

#[cfg(test)]
mod tests;
