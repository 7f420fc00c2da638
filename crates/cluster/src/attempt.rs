//! Why one attempt to ask a group's leader brought no answer.

use leasehold_consensus::runner::ProposeError;
use leasehold_model::NodeId;
use leasehold_wire::peer::Answered;

/// Why an attempt brought no answer. Only after [`Self::Unknown`] may it have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptError {
    /// Whoever was asked doesn't lead, or there was nobody to ask. Nothing was done.
    NotLeader,
    /// The leader, or the way to it, has too much to do. Nothing was done.
    Overloaded,
    /// It may be carried out, now or later.
    Unknown,
}

impl AttemptError {
    /// As a peer is told.
    pub(crate) fn told<T>(outcome: Result<T, Self>, hint: Option<NodeId>) -> Answered<T> {
        match outcome {
            Ok(reply) => Answered::Reply(reply),
            Err(Self::NotLeader) => Answered::NotLeader { hint },
            Err(Self::Overloaded) => Answered::Overloaded,
            Err(Self::Unknown) => Answered::Unknown { hint },
        }
    }
}

impl From<ProposeError> for AttemptError {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { .. } | ProposeError::NoGroup => Self::NotLeader,
            ProposeError::Overloaded | ProposeError::TooLarge => Self::Overloaded,
            ProposeError::Unknown { .. } => Self::Unknown,
        }
    }
}
