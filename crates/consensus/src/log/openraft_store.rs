//! One group's part of the log, as openraft wants it.
//!
//! Invariant: a call returns when its change is durable, so votes and entries of a group are never reordered. While
//! the disk is full a change waits: the group does nothing, which takes it out of service and leaves its state
//! readable; it goes on when there is space. Any other failure is openraft's to end on, and was told to the log's
//! owner already.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::time::Duration;

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    AnyError, ErrorSubject, ErrorVerb, LeaderId, LogId, OptionalSend, RaftLogReader, StorageError,
    StorageIOError,
};

use super::receipts::Receipts;
use super::{Change, Entry, GroupId, Log, ReadError, Vote, WriteError, codec};
use crate::blocking::blocking;
use crate::clock;
use crate::types::RaftTypes;

/// How often a change that a full disk refused is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(200);
/// About how many bytes of entries are read for a follower at once.
const READ_BYTES: u64 = 1 << 20;

type Failure = StorageError<u64>;

/// See the module. Clones are the same group.
#[derive(Clone, Debug)]
pub struct GroupStore {
    log: Log,
    group: GroupId,
    receipts: Receipts,
}

impl GroupStore {
    /// The part of `log` that is `group`'s.
    #[must_use]
    pub fn new(log: Log, group: GroupId) -> Self {
        Self { log, group, receipts: Receipts::default() }
    }

    /// When its newest entries came.
    pub(crate) fn receipts(&self) -> Receipts {
        self.receipts.clone()
    }

    async fn write(&self, change: Change) -> Result<(), WriteError> {
        let mut told = false;
        loop {
            match self.log.write(self.group, change.clone()).await {
                Err(WriteError::Full) if !std::mem::replace(&mut told, true) => {
                    tracing::error!(group = self.group.0, "the disk is full: the group waits for space");
                }
                Err(WriteError::Full) => {}
                result => {
                    if told {
                        tracing::info!(group = self.group.0, "there is space: the group goes on");
                    }
                    return result;
                }
            }
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }

    async fn write_or(&self, change: Change, subject: ErrorSubject<u64>) -> Result<(), Failure> {
        let verb = match &change {
            Change::Append(_) | Change::Vote(_) => ErrorVerb::Write,
            Change::Truncate(_) | Change::Purge(_) | Change::Clear => ErrorVerb::Delete,
        };
        self.write(change)
            .await
            .map_err(|error| StorageIOError::new(subject, verb, AnyError::new(&error)).into())
    }

    async fn read(
        &self,
        range: Range<u64>,
        bytes_max: u64,
    ) -> Result<Vec<openraft::Entry<RaftTypes>>, Failure> {
        let cached = self.log.read_cached(self.group, range.clone(), bytes_max);
        let entries = match cached {
            Some(entries) => entries,
            None => self.read_stored(range, bytes_max).await?,
        };
        entries.into_iter().map(codec::decode).collect::<Result<_, _>>().map_err(|error| unreadable(&error))
    }

    async fn read_stored(&self, range: Range<u64>, bytes_max: u64) -> Result<Vec<Entry>, Failure> {
        let (log, group) = (self.log.clone(), self.group);
        let read = blocking(move || log.read(group, range, bytes_max));
        let entries: Result<Vec<Entry>, ReadError> = read.await.map_err(|error| unreadable(&error))?;
        entries.map_err(|error| unreadable(&error))
    }
}

impl RaftLogReader<RaftTypes> for GroupStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<openraft::Entry<RaftTypes>>, Failure> {
        self.read(half_open(&range), u64::MAX).await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<openraft::Entry<RaftTypes>>, Failure> {
        let entries = self.read(start..end, READ_BYTES).await?;
        // A purge came between: openraft would send what is left as if it followed the entry before `start`. Nothing at
        // all is a heartbeat to it, after which it looks again.
        let gap = entries.first().is_some_and(|first| first.log_id.index != start);
        Ok(if gap { Vec::new() } else { entries })
    }
}

impl RaftLogStorage<RaftTypes> for GroupStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<RaftTypes>, Failure> {
        let state = self.log.state(self.group);
        Ok(LogState {
            last_purged_log_id: state.purged.map(codec::log_id),
            last_log_id: state.last.map(codec::log_id),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &openraft::Vote<u64>) -> Result<(), Failure> {
        let leader = vote.leader_id;
        let vote = Vote { term: leader.term, node: leader.node_id, committed: vote.committed };
        self.write_or(Change::Vote(vote), ErrorSubject::Vote).await
    }

    async fn read_vote(&mut self) -> Result<Option<openraft::Vote<u64>>, Failure> {
        let vote = self.log.state(self.group).vote;
        Ok(vote.map(|vote| openraft::Vote {
            leader_id: LeaderId::new(vote.term, vote.node),
            committed: vote.committed,
        }))
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<RaftTypes>) -> Result<(), Failure>
    where
        I: IntoIterator<Item = openraft::Entry<RaftTypes>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().map(|entry| codec::encode(&entry)).collect();
        self.receipts.note(&entries, clock::now());
        let written = self.write(Change::Append(entries)).await;
        callback.log_io_completed(written.map_err(io::Error::other));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Result<(), Failure> {
        self.write_or(Change::Truncate(log_id.index), ErrorSubject::Log(log_id)).await
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Result<(), Failure> {
        self.write_or(Change::Purge(codec::entry_id(log_id)), ErrorSubject::Log(log_id)).await
    }
}

fn half_open(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

fn unreadable<E: std::error::Error + 'static>(error: &E) -> Failure {
    StorageIOError::read_logs(AnyError::new(error)).into()
}
