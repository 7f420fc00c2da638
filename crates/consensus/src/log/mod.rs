//! The Raft log of all groups of a node: entries, votes and bounds in one directory of segments.
//!
//! Invariant: what was acknowledged was synced before, and is read back as it was written or reported as damage, never
//! as something else. One thread writes; all appends that wait, of all groups, share one write and one sync.
//! Entries are opaque here. What openraft needs on top is in [`openraft_store`].
//!
//! On disk: segments `<sequence>.seg`, each a run of records. A segment opens with its head (the end of the
//! segment before it, the newest vote and the bounds of every group), so that the oldest segments can go as soon as
//! none of their entries lives. Every write after the head opens with a marker: all that stands before the marker was
//! synced, so what can't be read *behind* one is damage, and only what follows the last one may be a torn write.

pub mod codec;
mod engine;
mod index;
pub mod openraft_store;
mod read;
pub(crate) mod receipts;
mod record;
mod recover;
mod segment;
mod tail;
#[cfg(feature = "simulated")]
mod task;
#[cfg(not(feature = "simulated"))]
mod thread;
mod writer;

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

pub use crate::types::GroupId;
pub(crate) use engine::is_full;
pub use engine::{Done, Engine, Request};
pub use read::{ReadError, Reader, Usage};
pub use writer::Log;

/// The longest record, in bytes: an append that doesn't fit is refused before a byte is written.
/// 64 MiB is several times what one append of a busy group carries.
pub const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Where an entry stands in its group's log, and which leader put it there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryId {
    /// The term of the leader that proposed it.
    pub term: u64,
    /// That leader.
    pub node: u64,
    /// Its place in the group's log.
    pub index: u64,
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (term {} of node {})", self.index, self.term, self.node)
    }
}

/// One entry of a group's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub id: EntryId,
    /// What it carries; the log never looks inside.
    pub data: Bytes,
}

/// What a node promised: the newest term it knows, and the node it votes for in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The term.
    pub term: u64,
    /// The candidate or leader.
    pub node: u64,
    /// Whether a majority voted so.
    pub committed: bool,
}

/// One change of one group.
#[derive(Clone, Debug)]
pub enum Change {
    /// Entries, in order, without a gap, after the last one there is.
    Append(Vec<Entry>),
    /// The newest vote.
    Vote(Vote),
    /// Entries from this index on go.
    Truncate(u64),
    /// Entries up to and including this one go. A place past the last entry is taken over (a snapshot was installed).
    Purge(EntryId),
    /// All entries and bounds go: this node is no longer a replica. The vote stays, for a node that comes back may not
    /// vote twice in a term.
    Clear,
}

/// What a group has: what a restart knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// The newest vote.
    pub vote: Option<Vote>,
    /// The last entry that was purged.
    pub purged: Option<EntryId>,
    /// The last entry; the same as `purged` when there is none after it.
    pub last: Option<EntryId>,
}

/// Sizes of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogConfig {
    /// Length of a segment: what is reserved on the disk at once. Longer ones are made for appends that need it.
    pub segment_bytes: u64,
    /// Room at the end of a segment that entries can't use: votes and purges are written there when the disk is full.
    pub reserve_bytes: u64,
    /// Memory for the newest entries of all groups, shared out evenly.
    pub tail_bytes_max: usize,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, reserve_bytes: 256 << 10, tail_bytes_max: 16 << 20 }
    }
}

/// Why a change was not made. After [`Self::Stopped`] nobody knows whether it was.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum WriteError {
    /// The disk is full. Nothing was written; the same change can be made when there is space.
    #[error("the disk is full: free space for the log, nothing else is needed")]
    Full,
    /// The entries don't follow the last one. Nothing was written: a mistake of the caller.
    #[error("group {group}: entry {index} can't follow {last:?}")]
    Gap {
        /// The group.
        group: GroupId,
        /// The entry that doesn't fit.
        index: u64,
        /// The last entry there is.
        last: Option<EntryId>,
    },
    /// The change is longer than [`RECORD_BYTES_MAX`]. Nothing was written.
    #[error("{bytes} bytes in one append, more than {RECORD_BYTES_MAX}: append fewer entries at once")]
    TooLarge {
        /// Its length.
        bytes: u64,
    },
    /// The log failed or was closed; the process is about to end.
    #[error("the log has stopped")]
    Stopped,
}

/// Why a log can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What was acknowledged can't be read back. This node may have forgotten entries and votes: it must not vote.
    /// Remove its data and let it join as a new node.
    #[error(
        "log segment {segment} is damaged at byte {offset}: {what}. This node must not vote any more: \
         move its data directory away and start it again, it will join as a new node"
    )]
    Damaged {
        /// Sequence of the segment.
        segment: u64,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A file can't be opened, read or made.
    #[error("the log can't be opened: {0}")]
    Io(#[from] io::Error),
}

/// Told once when a write or a sync failed: the process has to end, since what is on the disk is unknown and what the
/// system says about it from now on proves nothing.
pub type OnFatal = Arc<dyn Fn(&io::Error) + Send + Sync>;

#[cfg(test)]
mod tests;
