//! A group's machine as openraft applies entries to it.
//!
//! Invariant: the machine, the last entry applied to it and the membership change together, under one lock. The machine is
//! in memory; what survives a restart is the newest snapshot and the log after it.

use std::io::{self, Cursor};
use std::sync::Arc;
use std::time::Duration;

use leasehold_model::Nanos;
use openraft::storage::RaftStateMachine;
use openraft::{
    AnyError, EmptyNode, Entry, EntryPayload, ErrorSubject, ErrorVerb, LogId, OptionalSend,
    RaftSnapshotBuilder, Snapshot, SnapshotMeta, StorageError, StorageIOError, StoredMembership,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;

use super::snapshots::{SnapshotDir, Stored};
use crate::blocking::blocking;
use crate::clock;
use crate::log::{codec, is_full, receipts::Receipts};
use crate::machine::{Arrival, Machine, MachineError};
use crate::types::{Applied, RaftTypes};

/// Entries applied without giving way to other tasks: a replica that replays much doesn't hold up heartbeats.
const APPLIED_AT_ONCE: usize = 64;

/// How often a full disk is asked for room.
const ROOM_AGAIN: Duration = Duration::from_millis(250);

type Failure = StorageError<u64>;
type Meta = SnapshotMeta<u64, EmptyNode>;

/// The state that readers share with openraft.
pub(super) struct State {
    pub(super) machine: Box<dyn Machine>,
    pub(super) applied: Option<LogId<u64>>,
    membership: StoredMembership<u64, EmptyNode>,
}

/// See the module. Clones are the same machine.
#[derive(Clone)]
pub(super) struct StateMachine {
    state: Arc<Mutex<State>>,
    snapshots: SnapshotDir,
    /// The term of the last entry that was applied: a leader serves when this is its own. 0 until [`Resumed`] is reached.
    applied_term: Arc<watch::Sender<u64>>,
    resumed: Option<Resumed>,
    receipts: Receipts,
}

/// A leader that is restarted leads on in the same term, with a machine that lacks what it applied after its last snapshot.
/// An entry of its own term isn't enough then: it has to apply its whole log again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resumed {
    /// The term it leads in.
    pub(super) term: u64,
    /// The last entry it had.
    pub(super) last: u64,
}

/// A view of the state, to be stored.
pub(super) struct Builder {
    meta: Meta,
    state: Vec<u8>,
    snapshots: SnapshotDir,
}

impl StateMachine {
    /// The machine as the newest snapshot has it; as given when there is none. Blocks.
    pub(super) fn open(
        mut machine: Box<dyn Machine>,
        snapshots: SnapshotDir,
        resumed: Option<Resumed>,
        receipts: Receipts,
    ) -> io::Result<Self> {
        let (mut applied, mut membership) = (None, StoredMembership::default());
        if let Some(stored) = snapshots.newest()? {
            machine.restore(&stored.state).map_err(io::Error::other)?;
            applied = stored.meta.last_log_id;
            membership = stored.meta.last_membership;
        }
        let state = Arc::new(Mutex::new(State { machine, applied, membership }));
        let opened = Self { state, snapshots, applied_term: Arc::default(), resumed, receipts };
        opened.tell_term(applied);
        Ok(opened)
    }

    /// Reads the state between two entries.
    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock())
    }

    pub(super) fn applied_term(&self) -> watch::Receiver<u64> {
        self.applied_term.subscribe()
    }

    fn apply_one(&self, entry: Entry<RaftTypes>) -> Result<Applied, MachineError> {
        let age = self.receipts.take(codec::entry_id(entry.log_id), clock::now());
        let arrival = Arrival { age: age.unwrap_or(Nanos::ZERO) };
        let mut state = self.state.lock();
        let answer = match entry.payload {
            EntryPayload::Blank => Applied::default(),
            EntryPayload::Normal(proposal) => Applied(state.machine.apply(&proposal.0, arrival)?),
            EntryPayload::Membership(membership) => {
                state.membership = StoredMembership::new(Some(entry.log_id), membership);
                Applied::default()
            }
        };
        // An entry that wasn't applied must be in no snapshot either.
        state.applied = Some(entry.log_id);
        Ok(answer)
    }

    fn tell_term(&self, applied: Option<LogId<u64>>) {
        let lacks = |applied: &LogId<u64>| {
            self.resumed.is_some_and(|from| applied.leader_id.term == from.term && applied.index < from.last)
        };
        let term = applied.filter(|applied| !lacks(applied)).map_or(0, |applied| applied.leader_id.term);
        self.applied_term.send_if_modified(|told| std::mem::replace(told, term) != term);
    }
}

impl RaftStateMachine<RaftTypes> for StateMachine {
    type SnapshotBuilder = Builder;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, EmptyNode>), Failure> {
        let state = self.state.lock();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, Failure>
    where
        I: IntoIterator<Item = Entry<RaftTypes>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        let mut last = None;
        for entry in entries {
            let id = entry.log_id;
            let answer = self.apply_one(entry);
            answers.push(answer.map_err(|error| StorageIOError::apply(id, AnyError::new(&error)))?);
            last = Some(id);
            if answers.len().is_multiple_of(APPLIED_AT_ONCE) {
                tokio::task::yield_now().await;
            }
        }
        if last.is_some() {
            self.tell_term(last);
        }
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let state = self.state.lock();
        let id = state.applied.map_or_else(String::new, |at| {
            format!("{}-{}-{}", at.leader_id.term, at.leader_id.node_id, at.index)
        });
        let meta =
            Meta { last_log_id: state.applied, last_membership: state.membership.clone(), snapshot_id: id };
        Builder { meta, state: state.machine.snapshot(), snapshots: self.snapshots.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, Failure> {
        Ok(Box::default())
    }

    async fn install_snapshot(&mut self, meta: &Meta, snapshot: Box<Cursor<Vec<u8>>>) -> Result<(), Failure> {
        let snapshots = self.snapshots.clone();
        let stored = store(snapshots, meta.clone(), snapshot.into_inner()).await?;
        {
            let mut state = self.state.lock();
            state.machine.restore(&stored).map_err(|error| failed(meta, ErrorVerb::Read, &error))?;
            state.applied = meta.last_log_id;
            state.membership = meta.last_membership.clone();
        }
        self.tell_term(meta.last_log_id);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<RaftTypes>>, Failure> {
        let snapshots = self.snapshots.clone();
        let read = blocking(move || snapshots.newest()).await.unwrap_or_else(panicked);
        let stored = read.map_err(|error| StorageIOError::read_snapshot(None, AnyError::new(&error)))?;
        Ok(stored.map(|Stored { meta, state }| Snapshot { meta, snapshot: Box::new(Cursor::new(state)) }))
    }
}

impl RaftSnapshotBuilder<RaftTypes> for Builder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<RaftTypes>, Failure> {
        let state = std::mem::take(&mut self.state);
        let state = store(self.snapshots.clone(), self.meta.clone(), state).await?;
        Ok(Snapshot { meta: self.meta.clone(), snapshot: Box::new(Cursor::new(state)) })
    }
}

/// Makes a snapshot durable, and gives its bytes back. Where there is no room it waits for some, as the log does: the replica
/// then falls behind, and nothing is lost.
async fn store(snapshots: SnapshotDir, meta: Meta, state: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let state = Arc::new(state);
    let mut told = false;
    loop {
        let (snapshots, stored_meta, stored) = (snapshots.clone(), meta.clone(), Arc::clone(&state));
        let written = blocking(move || snapshots.write(&stored_meta, &stored)).await;
        match written.unwrap_or_else(panicked) {
            Ok(()) => return Ok(Arc::unwrap_or_clone(state)),
            Err(error) if is_full(&error) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "no room for a snapshot: it is written when there is some");
                }
                sleep(ROOM_AGAIN).await;
            }
            Err(error) => return Err(failed(&meta, ErrorVerb::Write, &error)),
        }
    }
}

fn failed(meta: &Meta, verb: ErrorVerb, error: &(impl std::error::Error + 'static)) -> Failure {
    let subject = ErrorSubject::Snapshot(Some(meta.signature()));
    StorageIOError::new(subject, verb, AnyError::new(error)).into()
}

fn panicked<T>(error: tokio::task::JoinError) -> io::Result<T> {
    Err(io::Error::other(error))
}

#[cfg(test)]
mod tests;
