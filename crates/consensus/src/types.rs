//! The types that openraft is instantiated with, and the name of a group.
//!
//! Invariant: what is proposed is opaque bytes, and what is answered an opaque value; only the machine of a group reads them.
//! Nothing here does I/O.

use std::fmt;
use std::io::Cursor;

use bytes::Bytes;
use leasehold_model::ShardId;

use crate::machine::Answer;

/// One Raft group: 0 is the control group, shard `s` is group `s + 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The group that keeps rules, nodes and the shard map.
    pub const CONTROL: Self = Self(0);

    /// The group of a shard.
    #[must_use]
    pub const fn of_shard(shard: ShardId) -> Self {
        Self(shard.0.saturating_add(1))
    }

    /// The shard of a group; none for the control group.
    #[must_use]
    pub const fn shard(self) -> Option<ShardId> {
        match self.0.checked_sub(1) {
            Some(shard) => Some(ShardId(shard)),
            None => None,
        }
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is proposed to a group: one log entry for its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal(pub Bytes);

/// What a machine answered when it applied a [`Proposal`]. Empty for entries that are no proposals.
#[derive(Debug)]
pub struct Applied(pub Answer);

impl Default for Applied {
    fn default() -> Self {
        Self(Box::new(()))
    }
}

openraft::declare_raft_types!(
    /// Leasehold's instance of openraft. A node is known by its id alone: addresses change and live in the registry.
    pub RaftTypes:
        D = Proposal,
        R = Applied,
        NodeId = u64,
        Node = openraft::EmptyNode,
        Entry = openraft::Entry<RaftTypes>,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = openraft::TokioRuntime,
);
