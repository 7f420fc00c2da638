//! The messages of Raft between peers. Their bytes travel as payloads of the peer transport.
//!
//! Invariant: an absent part is an error here, never a default that means something. What the parts mean to Raft is known
//! to the consensus crate alone.

use bytes::Bytes;
use prost::Message;

pub use crate::proto::leasehold::peer::v1::{
    AppendReply, AppendRequest, Entry, LogId, PreVoteReply, PreVoteRequest, SnapshotChunk, SnapshotMeta,
    SnapshotReply, Vote, VoteReply, VoteRequest, append_reply,
};

/// A message of a peer that can't be used: it is answered as malformed, nothing else happens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RaftMessageError {
    /// The bytes are no protobuf message of this type.
    #[error("not a message of this type")]
    Malformed,
    /// A part that the message can't do without.
    #[error("`{0}` is missing")]
    Missing(&'static str),
}

/// The message's bytes.
#[must_use]
pub fn encode(message: &impl Message) -> Bytes {
    Bytes::from(message.encode_to_vec())
}

/// The message that [`encode`] was given. Byte fields share the memory of `from`.
///
/// # Errors
/// When the bytes aren't one.
pub fn decode<M: Message + Default>(from: Bytes) -> Result<M, RaftMessageError> {
    M::decode(from).map_err(|_| RaftMessageError::Malformed)
}

/// A part that has to be there.
///
/// # Errors
/// When it isn't, by its name.
pub fn required<T>(part: Option<T>, name: &'static str) -> Result<T, RaftMessageError> {
    part.ok_or(RaftMessageError::Missing(name))
}
