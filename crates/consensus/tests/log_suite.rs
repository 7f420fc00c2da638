//! openraft's own suite for storage, on the real log in real directories.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use std::fmt::Debug;
use std::io::Cursor;
use std::ops::RangeBounds;
use std::sync::Arc;

use common::no_fatal;
use leasehold_consensus::log::openraft_store::GroupStore;
use leasehold_consensus::log::{GroupId, Log, LogConfig};
use leasehold_consensus::types::{Applied, RaftTypes};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{
    CommittedLeaderId, EmptyNode, Entry, EntryPayload, LogId, OptionalSend, RaftLogReader,
    RaftSnapshotBuilder, Snapshot, SnapshotMeta, StorageError, StoredMembership, Vote,
};
use parking_lot::Mutex;

type Failure = StorageError<u64>;

/// The suite appends at places where no running Raft does: behind a gap, first at 1 or 2, over entries that are there,
/// and what was purged. Raft purges up to a snapshot or truncates before, or doesn't append, so that is done here; the
/// log itself refuses all of them.
struct Bridged(GroupStore);

impl RaftLogReader<RaftTypes> for Bridged {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry<RaftTypes>>, Failure> {
        self.0.try_get_log_entries(range).await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry<RaftTypes>>, Failure> {
        self.0.limited_get_log_entries(start, end).await
    }
}

impl RaftLogStorage<RaftTypes> for Bridged {
    type LogReader = GroupStore;

    async fn get_log_state(&mut self) -> Result<LogState<RaftTypes>, Failure> {
        self.0.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> GroupStore {
        self.0.get_log_reader().await
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), Failure> {
        self.0.save_vote(vote).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, Failure> {
        self.0.read_vote().await
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<RaftTypes>) -> Result<(), Failure>
    where
        I: IntoIterator<Item = Entry<RaftTypes>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let LogState { last_purged_log_id, last_log_id } = self.0.get_log_state().await?;
        let (purged, last) = (last_purged_log_id.map(|id| id.index), last_log_id.map(|id| id.index));
        let entries: Vec<_> = entries.into_iter().filter(|entry| Some(entry.log_id.index) > purged).collect();
        if let Some(first) = entries.first().map(|entry| entry.log_id) {
            if Some(first.index) <= last {
                self.0.truncate(first).await?;
            } else if first.index != last.map_or(0, |last| last + 1) {
                self.0.purge(LogId::new(CommittedLeaderId::new(0, 0), first.index - 1)).await?;
            }
        }
        self.0.append(entries, callback).await
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Result<(), Failure> {
        self.0.truncate(log_id).await
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Result<(), Failure> {
        self.0.purge(log_id).await
    }
}

/// A machine that only remembers how far it got.
#[derive(Clone, Default)]
struct Machine(Arc<Mutex<MachineState>>);

#[derive(Default)]
struct MachineState {
    last: Option<LogId<u64>>,
    membership: StoredMembership<u64, EmptyNode>,
    snapshot: Option<SnapshotMeta<u64, EmptyNode>>,
}

impl RaftSnapshotBuilder<RaftTypes> for Machine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<RaftTypes>, Failure> {
        let mut state = self.0.lock();
        let meta = SnapshotMeta {
            last_log_id: state.last,
            last_membership: state.membership.clone(),
            snapshot_id: format!("{:?}", state.last),
        };
        state.snapshot = Some(meta.clone());
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(Vec::new())) })
    }
}

impl RaftStateMachine<RaftTypes> for Machine {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, EmptyNode>), Failure> {
        let state = self.0.lock();
        Ok((state.last, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, Failure>
    where
        I: IntoIterator<Item = Entry<RaftTypes>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.0.lock();
        let apply = |entry: Entry<RaftTypes>| {
            state.last = Some(entry.log_id);
            if let EntryPayload::Membership(membership) = entry.payload {
                state.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
            Applied::default()
        };
        Ok(entries.into_iter().map(apply).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, Failure> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, EmptyNode>,
        _: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), Failure> {
        let mut state = self.0.lock();
        state.last = meta.last_log_id;
        state.membership = meta.last_membership.clone();
        state.snapshot = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<RaftTypes>>, Failure> {
        let meta = self.0.lock().snapshot.clone();
        Ok(meta.map(|meta| Snapshot { meta, snapshot: Box::default() }))
    }
}

struct Builder;

impl StoreBuilder<RaftTypes, Bridged, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, Bridged, Machine), Failure> {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig { segment_bytes: 64 << 10, reserve_bytes: 4096, tail_bytes_max: 4096 };
        let log = Log::open(dir.path(), config, no_fatal()).unwrap();
        Ok((dir, Bridged(GroupStore::new(log, GroupId(7))), Machine::default()))
    }
}

#[test]
fn openraft_accepts_the_log() {
    Suite::test_all(Builder).unwrap();
}
