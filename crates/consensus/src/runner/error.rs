//! What can go wrong with a group, by what was asked.

use std::io;

use leasehold_model::NodeId;

use crate::types::GroupId;

/// Why a replica can't be started.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A replica of the group is here already: nothing to do.
    #[error("a replica of this group is here already")]
    Exists,
    /// This node isn't among the founders.
    #[error("this node isn't one of the group's first voters: let it join instead")]
    NotFounder,
    /// The timings of the configuration can't work.
    #[error("timing: {0}")]
    Timing(&'static str),
    /// The log begins behind the newest snapshot: what stood between is gone, so that the state can't be made.
    #[error(
        "group {group}: the snapshot up to entry {purged} is gone: empty the data directory, the node then joins as a new one"
    )]
    SnapshotGone {
        /// The group.
        group: GroupId,
        /// The last entry that the log gave up.
        purged: u64,
    },
    /// The disk failed, or what is on it can't be read back: the node can't go on.
    #[error("the group can't be started: {0}")]
    Io(#[from] io::Error),
}

/// Why a proposal has no answer. Only [`Self::Unknown`] may have been, or may still be, carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This node doesn't serve the group now: ask the one in `hint`. Nothing was proposed.
    #[error("another node leads")]
    NotLeader {
        /// The leader, as far as this node knows, unless that is itself without a lease.
        hint: Option<NodeId>,
    },
    /// The group's queue is full. Nothing was proposed.
    #[error("too many proposals wait")]
    Overloaded,
    /// The proposal is longer than [`super::PROPOSAL_BYTES_MAX`]. Nothing was proposed.
    #[error("the proposal is longer than {} bytes", super::PROPOSAL_BYTES_MAX)]
    TooLarge,
    /// No replica of the group is here. Nothing was proposed.
    #[error("no replica of the group is here")]
    NoGroup,
    /// Nobody knows whether the proposal is carried out: ask again under the same request id, never undo.
    #[error("the outcome is unknown")]
    Unknown {
        /// The leader to ask again, as far as this node knows.
        hint: Option<NodeId>,
    },
}

/// Why the members of a group weren't changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// This node doesn't serve the group now. Nothing was changed.
    #[error("another node leads")]
    NotLeader {
        /// The leader, as far as this node knows, unless that is itself without a lease.
        hint: Option<NodeId>,
    },
    /// No replica of the group is here. Nothing was changed.
    #[error("no replica of the group is here")]
    NoGroup,
    /// The change can't be made as things are. Nothing was changed.
    #[error("refused: {0}")]
    Refused(String),
    /// The change may have been made, in part too: look at the status, and ask again.
    #[error("the outcome is unknown")]
    Unknown,
}

/// Why leadership didn't pass on. The group is led as before, or by whoever was elected meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// This node doesn't serve the group now, or another voter was elected before the one that was asked for.
    #[error("another node leads")]
    NotLeader {
        /// The leader, as far as this node knows, unless that is itself without a lease.
        hint: Option<NodeId>,
    },
    /// No replica of the group is here.
    #[error("no replica of the group is here")]
    NoGroup,
    /// Only another voter can take over.
    #[error("the node isn't another voter of the group")]
    NotVoter,
    /// A handover is on already.
    #[error("the group is being handed over already")]
    Busy,
    /// The other node didn't take over in time.
    #[error("the node didn't take over in time")]
    Deadline,
}
