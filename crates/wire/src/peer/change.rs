//! Changes of a group's members or leader, asked of its leader.

use std::collections::BTreeSet;

use bytes::{Buf, Bytes};
use leasehold_model::NodeId;
use prost::Message as _;

use super::status::{set_from_proto, set_to_proto};
use super::{PeerError, hint_from_proto, hint_to_proto};
use crate::part::required;
use crate::proto::leasehold::peer::v1 as proto;

/// Asks a group's leader for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRequest {
    /// Of which group.
    pub group: u32,
    /// Which.
    pub change: Change,
}

/// A change of a group. Each may be asked for again: what is so already is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The node gets the log.
    AddLearner(NodeId),
    /// A learner doesn't get it any more.
    RemoveLearner(NodeId),
    /// These vote from now on, and no others.
    Voters(BTreeSet<NodeId>),
    /// The node shall lead.
    Transfer(NodeId),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeReply {
    /// It is so now.
    Done,
    /// Nothing was done: ask the other.
    NotLeader {
        /// Who leads, as far as the answerer knows.
        hint: Option<NodeId>,
    },
    /// Nothing was done: the reason.
    Refused(String),
    /// It may have been done, or may still be.
    Unknown,
}

impl ChangeRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        use proto::change_request::Change as Proto;
        let change = match &self.change {
            Change::AddLearner(node) => Proto::AddLearner(node.0),
            Change::RemoveLearner(node) => Proto::RemoveLearner(node.0),
            Change::Voters(nodes) => Proto::Voters(set_to_proto(nodes)),
            Change::Transfer(node) => Proto::Transfer(node.0),
        };
        proto::ChangeRequest { group: self.group, change: Some(change) }.encode_to_vec().into()
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        use proto::change_request::Change as Proto;
        let proto = proto::ChangeRequest::decode(from)?;
        let change = match required(proto.change, "change")? {
            Proto::AddLearner(node) => Change::AddLearner(NodeId(node)),
            Proto::RemoveLearner(node) => Change::RemoveLearner(NodeId(node)),
            Proto::Voters(nodes) => Change::Voters(set_from_proto(nodes)),
            Proto::Transfer(node) => Change::Transfer(NodeId(node)),
        };
        Ok(Self { group: proto.group, change })
    }
}

impl ChangeReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        use proto::change_reply::Answer;
        let answer = match self {
            Self::Done => Answer::Done(proto::Nothing {}),
            Self::NotLeader { hint } => Answer::NotLeader(hint_to_proto(hint)),
            Self::Refused(reason) => Answer::Refused(reason),
            Self::Unknown => Answer::Unknown(proto::Nothing {}),
        };
        proto::ChangeReply { answer: Some(answer) }.encode_to_vec().into()
    }

    /// The reply that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        use proto::change_reply::Answer;
        Ok(match required(proto::ChangeReply::decode(from)?.answer, "answer")? {
            Answer::Done(_) => Self::Done,
            Answer::NotLeader(hint) => Self::NotLeader { hint: hint_from_proto(hint) },
            Answer::Refused(reason) => Self::Refused(reason),
            Answer::Unknown(_) => Self::Unknown,
        })
    }
}
