//! An ordered log for a group of replicas: terms, elections, leader leases, snapshots. It stands in for Raft, whose part in
//! the product it plays: what is committed stays, in one order, and whoever proposed may never hear of it.
//!
//! Invariant: an entry counts as committed when a majority has it on disk, in the leader's own term. A leader answers from
//! its own state only while a majority has promised not to elect another, by their clocks and its own.

mod durable;
mod election;
mod replica;
mod replicate;

use std::rc::Rc;

use leasehold_model::{BootTime, Nanos, Stamp};

pub(crate) use durable::Durable;
pub(crate) use replica::{Out, Replica};

use crate::clocks::Time;

/// How long whoever heard a leader elects no other; a leader counts it shorter.
pub(crate) const LEASE: Nanos = Nanos::from_millis(300);
/// A leader is heard so often.
pub(crate) const BEAT: Nanos = Nanos::from_millis(100);

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its place.
    pub(crate) index: u64,
    /// In which term it was proposed.
    pub(crate) term: u64,
    /// The leader's stamp.
    pub(crate) stamp: Stamp,
    /// What is applied.
    pub(crate) body: Body,
    /// When it was proposed, in true time, by which node, in which of its lives: for meters, and nobody else.
    pub(crate) proposed: (Time, usize, u64),
}

/// What an entry carries.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A leader begins.
    Begin,
    /// For a shard.
    Shard(leasehold_shard::Batch),
    /// For the control group.
    Control(leasehold_control::Command),
}

/// A machine's state after an entry.
#[derive(Clone, Debug)]
pub(crate) struct Snap {
    /// The entry.
    pub(crate) index: u64,
    /// Its term.
    pub(crate) term: u64,
    /// The state.
    pub(crate) content: Content,
}

/// A machine's state.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Of a shard.
    Shard(leasehold_shard::Snapshot),
    /// Of the control group.
    Control(leasehold_control::Snapshot),
}

/// What replicas of a group say to each other.
#[derive(Clone, Debug)]
pub(crate) enum Speech {
    /// Asks for a vote, or whether it would be given (`pre`).
    AskVote {
        /// The term that the vote is for.
        term: u64,
        /// Place and term of the asker's last entry.
        last: (u64, u64),
        /// Only a question.
        pre: bool,
        /// The leader itself wants the asker to follow it.
        handed: bool,
    },
    /// A vote given.
    Vote {
        /// For which term.
        term: u64,
        /// Only an answer to a question.
        pre: bool,
    },
    /// Entries, or only a beat.
    Append {
        /// The leader's term.
        term: u64,
        /// Place and term of the entry before.
        before: (u64, u64),
        /// What follows.
        entries: Vec<Rc<Entry>>,
        /// What is committed.
        commit: u64,
        /// When it left, by the leader's clock.
        sent: BootTime,
    },
    /// The answer to that.
    Appended {
        /// The follower's term.
        term: u64,
        /// Whether it fitted; if not, what to go back to.
        fits: bool,
        /// Up to where the follower has the leader's entries on disk.
        matched: u64,
        /// As it came.
        sent: BootTime,
    },
    /// A snapshot, for one that lags too far behind.
    Install {
        /// The leader's term.
        term: u64,
        /// What to start from.
        snap: Rc<Snap>,
        /// When it left, by the leader's clock.
        sent: BootTime,
    },
    /// Stand for election now: the leader of this term steps down.
    HandOver {
        /// That term.
        term: u64,
    },
    /// To oneself: entries up to an index are on disk, if the one there is of that term.
    Synced {
        /// The index.
        index: u64,
        /// Its term.
        term: u64,
    },
}
