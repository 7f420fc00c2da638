//! Asks that only a leader can answer, and its answers.

use bytes::{Buf, Bytes};
use leasehold_control::Command;
use leasehold_model::NodeId;
use leasehold_shard::{Acquire, Batch, LimitSpec, Reply};
use prost::Message as _;

use super::{PeerError, hint_from_proto, hint_to_proto};
use crate::control::{self, ControlError, command_from_proto, command_to_proto};
use crate::entry::{self, acquire_from_proto, acquire_to_proto, limits_from_proto, limits_to_proto};
use crate::part::required;
use crate::proto::leasehold::peer::v1 as proto;
use crate::proto::leasehold::storage::v1 as storage;

/// A command for the control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRequest(pub Command);

/// Commands for one shard; which one stands in the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskRequest(pub Batch);

/// An acquire that is only to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewRequest {
    /// What its demands refer to.
    pub limits: Vec<LimitSpec>,
    /// What would be asked.
    pub acquire: Acquire,
}

/// What became of an ask that only a leader can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered<T> {
    /// It was carried out, or decided.
    Reply(T),
    /// Nothing was done: ask the other.
    NotLeader {
        /// Who leads, as far as the answerer knows.
        hint: Option<NodeId>,
    },
    /// Nothing was done: too much waits here.
    Overloaded,
    /// It may have been done, or may still be: ask again under the same id.
    Unknown {
        /// Who leads, as far as the answerer knows.
        hint: Option<NodeId>,
    },
}

/// A reply that an [`Answered`] carries.
pub trait Payload: Sized {
    /// Its bytes.
    fn encode(&self) -> Bytes;

    /// The reply that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    fn decode(from: Bytes) -> Result<Self, PeerError>;
}

impl Payload for Vec<Reply> {
    fn encode(&self) -> Bytes {
        entry::encode_replies(self)
    }

    fn decode(from: Bytes) -> Result<Self, PeerError> {
        Ok(entry::decode_replies(from)?)
    }
}

impl Payload for Reply {
    fn encode(&self) -> Bytes {
        entry::encode_replies(std::slice::from_ref(self))
    }

    fn decode(from: Bytes) -> Result<Self, PeerError> {
        Ok(required(entry::decode_replies(from)?.pop(), "reply")?)
    }
}

impl Payload for leasehold_control::Reply {
    fn encode(&self) -> Bytes {
        control::encode_reply(*self)
    }

    fn decode(from: Bytes) -> Result<Self, PeerError> {
        Ok(control::decode_reply(from)?)
    }
}

impl<T: Payload> Answered<T> {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        use proto::answer::Answer;
        let answer = match self {
            Self::Reply(reply) => Answer::Reply(reply.encode()),
            Self::NotLeader { hint } => Answer::NotLeader(hint_to_proto(hint)),
            Self::Overloaded => Answer::Overloaded(proto::Nothing {}),
            Self::Unknown { hint } => Answer::Unknown(hint_to_proto(hint)),
        };
        proto::Answer { answer: Some(answer) }.encode_to_vec().into()
    }

    /// The answer that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        use proto::answer::Answer;
        Ok(match required(proto::Answer::decode(from)?.answer, "answer")? {
            Answer::Reply(reply) => Self::Reply(T::decode(reply)?),
            Answer::NotLeader(hint) => Self::NotLeader { hint: hint_from_proto(hint) },
            Answer::Overloaded(_) => Self::Overloaded,
            Answer::Unknown(hint) => Self::Unknown { hint: hint_from_proto(hint) },
        })
    }
}

impl CommandRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        command_to_proto(&self.0).encode_to_vec().into()
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let command = storage::ControlCommand::decode(from)?;
        Ok(Self(command_from_proto(command).map_err(ControlError::from)?))
    }
}

impl AskRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        entry::encode_batch(&self.0)
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        Ok(Self(entry::decode_batch(from)?))
    }
}

impl PreviewRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let acquire = Some(acquire_to_proto(&self.acquire));
        proto::PreviewRequest { limits: limits_to_proto(&self.limits), acquire }.encode_to_vec().into()
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let proto = proto::PreviewRequest::decode(from)?;
        let limits = limits_from_proto(&proto.limits)?;
        Ok(Self { limits, acquire: acquire_from_proto(required(proto.acquire, "acquire")?) })
    }
}
