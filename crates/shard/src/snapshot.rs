//! Everything a shard's answers rest on, as plain values, and the way back with every reference checked.
//!
//! Invariant: a restored shard answers, sweeps and hashes as the one it was taken from. How it becomes bytes is `wire`'s
//! business. Bounds are not in it: they belong to the configuration, and a shard may be restored beyond them.

use leasehold_lease::Ledger;
use leasehold_lease::ledger::{LedgerError, LedgerRecord};
use leasehold_limit::{Algorithm, State};
use leasehold_model::planted::{self, Bug};
use leasehold_model::{Key, RequestId, Stamp, TimeLine};

use crate::directory::Directory;
use crate::intern::{Interned, Under};
use crate::replies::{Remembered, Replies};
use crate::table::Table;
use crate::{Bounds, Shard};

/// A shard as plain values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The latest stamp applied.
    pub last: Stamp,
    /// Where the sweep looks next.
    pub cursor: Key,
    /// The limits that counters were written under, ascending: their order is the same on every replica.
    pub limits: Vec<Under>,
    /// Every counter held, keys ascending.
    pub counters: Vec<SnapshotCounter>,
    /// Every reply remembered, oldest first.
    pub replies: Vec<Remembered>,
    /// What is out on leases, and edges' slots.
    pub ledger: LedgerRecord,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotCounter {
    /// Its name.
    pub key: Key,
    /// Which of the snapshot's limits it was written under.
    pub limit: u32,
    /// What it remembers.
    pub state: State,
}

/// A snapshot that no shard can have made. Fetch another, or restore from the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Limits must be in strict order, which they aren't if one is there twice.
    #[error("limit {index} isn't in order")]
    LimitOrder {
        /// Its position.
        index: usize,
    },
    /// No counter refers to it.
    #[error("limit {index} is of no counter")]
    LimitUnused {
        /// Its position.
        index: usize,
    },
    /// Counters must be in strict order of their keys.
    #[error("counter {index} isn't in key order")]
    CounterOrder {
        /// Its position.
        index: usize,
    },
    /// A counter of a limit that isn't there.
    #[error("counter {index} refers to limit {limit}, which isn't there")]
    CounterLimit {
        /// Its position.
        index: usize,
        /// The position it refers to.
        limit: u32,
    },
    /// A counter whose memory isn't its limit's kind.
    #[error("counter {index} holds the state of another algorithm than its limit's")]
    CounterState {
        /// Its position.
        index: usize,
    },
    /// A log's entries must be in strict order of their stamps.
    #[error("counter {index} has log entries out of order")]
    LogOrder {
        /// Its position.
        index: usize,
    },
    /// Replies must be in order of their stamps, up to the last one.
    #[error("reply {index} isn't in order of time")]
    ReplyOrder {
        /// Its position.
        index: usize,
    },
    /// One id with two replies.
    #[error("reply {index} is the second to request {id:?}")]
    ReplyTwice {
        /// Its position.
        index: usize,
        /// The id.
        id: RequestId,
    },
    /// What is out contradicts itself.
    #[error("leases: {0}")]
    Leases(#[from] LedgerError),
    /// A lease of a counter that isn't there.
    #[error("lease {index} is of no counter")]
    LeaseCounter {
        /// Its position.
        index: usize,
    },
}

impl Shard {
    /// Everything the shard's answers rest on.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let ranks = self.limits.ranks();
        let counters = self.table.iter().map(|counter| SnapshotCounter {
            key: counter.key,
            limit: ranks.of(counter.limit),
            state: counter.state.into_owned(),
        });
        Snapshot {
            last: self.last(),
            cursor: self.cursor,
            limits: self.limits.sorted().cloned().collect(),
            counters: counters.collect(),
            replies: self
                .replies
                .iter()
                .filter(|_| !planted::is(Bug::ReplyCacheNotInSnapshot))
                .cloned()
                .collect(),
            ledger: self.ledger.record(),
        }
    }

    /// The shard that `snapshot` was taken of, within `bounds` from now on. What is held beyond them stays; newcomers are
    /// refused.
    ///
    /// # Errors
    /// [`RestoreError`] names the first thing in the snapshot that contradicts another.
    pub fn restore(snapshot: Snapshot, bounds: Bounds) -> Result<Self, RestoreError> {
        let mut limits = Interned::default();
        let table = restore_counters(snapshot.counters, &snapshot.limits, &mut limits)?;
        let replies = restore_replies(snapshot.replies, snapshot.last)?;
        let ledger = Ledger::restore(&snapshot.ledger)?;
        if let Some(index) = snapshot.ledger.leases.iter().position(|lease| table.get(lease.key).is_none()) {
            return Err(RestoreError::LeaseCounter { index });
        }
        let time = TimeLine::from(snapshot.last);
        Ok(Self { bounds, time, table, limits, replies, ledger, cursor: snapshot.cursor, evicted: 0 })
    }
}

fn restore_counters(
    counters: Vec<SnapshotCounter>,
    unders: &[Under],
    limits: &mut Interned,
) -> Result<Table, RestoreError> {
    if let Some(index) = unders.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(RestoreError::LimitOrder { index: index + 1 });
    }
    let mut used = vec![false; unders.len()];
    let mut table = Table::within(Directory::for_entries(counters.len()));
    let mut before = None;
    for (index, SnapshotCounter { key, limit, state }) in counters.into_iter().enumerate() {
        if before.is_some_and(|before| before >= key) {
            return Err(RestoreError::CounterOrder { index });
        }
        before = Some(key);
        let at = usize::try_from(limit).ok().filter(|&at| at < unders.len());
        let at = at.ok_or(RestoreError::CounterLimit { index, limit })?;
        check_state(&state, unders[at].spec.limit.algorithm(), index)?;
        used[at] = true;
        table.put(key, limits.take(&unders[at]), state);
    }
    match used.iter().position(|&used| !used) {
        Some(index) => Err(RestoreError::LimitUnused { index }),
        None => Ok(table),
    }
}

fn check_state(state: &State, algorithm: &Algorithm, index: usize) -> Result<(), RestoreError> {
    if !belongs(state, algorithm) {
        return Err(RestoreError::CounterState { index });
    }
    match state {
        State::Log(log) if !log.entries().iter().is_sorted_by(|(before, _), (after, _)| before < after) => {
            Err(RestoreError::LogOrder { index })
        }
        State::Log(_) | State::Bucket(_) | State::Queue(_) | State::Window(_) | State::Counter(_) => Ok(()),
    }
}

fn restore_replies(from: Vec<Remembered>, last: Stamp) -> Result<Replies, RestoreError> {
    let mut replies = Replies::default();
    let mut before = Stamp::ZERO;
    for (index, remembered) in from.into_iter().enumerate() {
        if remembered.at < before || remembered.at > last {
            return Err(RestoreError::ReplyOrder { index });
        }
        before = remembered.at;
        if replies.holds(remembered.id) {
            return Err(RestoreError::ReplyTwice { index, id: remembered.id });
        }
        replies.remember(remembered);
    }
    Ok(replies)
}

const fn belongs(state: &State, algorithm: &Algorithm) -> bool {
    match algorithm {
        Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => matches!(state, State::Bucket(_)),
        Algorithm::Shaper { .. } => matches!(state, State::Queue(_)),
        Algorithm::FixedWindow(_) => matches!(state, State::Window(_)),
        Algorithm::SlidingLog => matches!(state, State::Log(_)),
        Algorithm::SlidingCounter => matches!(state, State::Counter(_)),
    }
}

#[cfg(test)]
mod tests;
