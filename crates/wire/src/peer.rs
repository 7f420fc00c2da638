//! What nodes ask of each other beside Raft's own messages: checked types, each with its bytes.
//!
//! Invariant: decoding never panics, whatever the bytes, and allocates in proportion to them; what a stranger may send is
//! bounded here as well. Which call a message belongs to stands in the frame around it, which is the transport's.

mod answer;
mod change;
mod form;
mod leases;
mod names;
mod status;

use leasehold_control::ClusterId;
use leasehold_model::{Key, NodeId};
use prost::DecodeError;

use crate::control::ControlError;
use crate::entry::{EntryError, RepliesError};
use crate::part::PartError;
use crate::proto::leasehold::peer::v1 as proto;

pub use answer::{Answered, AskRequest, CommandRequest, Payload, PreviewRequest};
pub use change::{Change, ChangeReply, ChangeRequest};
pub use form::{
    FORM_NODES_MAX, FORM_TEXT_BYTES_MAX, FormReply, FormRequest, FoundReply, Founding, JoinReply, JoinRequest,
};
pub use leases::{LeasesReply, LeasesRequest};
pub use names::{EdgeNamesReply, EdgeNamesRequest};
pub use status::{ReplicaStatus, Role, StateHash, StatusReply, StatusRequest};

/// A message of a peer that can't be used: it is answered as malformed, nothing else happens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The bytes are no message of this type.
    #[error("not a message of this type: {0}")]
    Malformed(#[from] DecodeError),
    /// A part that can't be used.
    #[error("{0}")]
    Part(#[from] PartError),
    /// Commands for a shard that are none.
    #[error("{0}")]
    Entry(#[from] EntryError),
    /// A shard's replies that are none.
    #[error("{0}")]
    Replies(#[from] RepliesError),
    /// A control group's command or reply that is none.
    #[error("{0}")]
    Control(#[from] ControlError),
}

fn cluster_id_to_proto(id: ClusterId) -> proto::ClusterId {
    let Key { high, low } = Key::from_u128(id.0);
    proto::ClusterId { high, low }
}

fn cluster_id_from_proto(proto: proto::ClusterId) -> ClusterId {
    ClusterId(Key { high: proto.high, low: proto.low }.to_u128())
}

fn hint_to_proto(hint: Option<NodeId>) -> proto::Hint {
    proto::Hint { node: hint.map(|node| node.0) }
}

fn hint_from_proto(proto: proto::Hint) -> Option<NodeId> {
    proto.node.map(NodeId)
}

#[cfg(test)]
mod tests;
