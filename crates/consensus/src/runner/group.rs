//! One group's replica on this node.
//!
//! Invariant: a replica serves only when it leads, has applied all that was ever acknowledged (an entry of its own term shows it;
//! after a restart its whole log does), holds a lease of a majority, and isn't handing over.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_model::{Nanos, NodeId, Stamp};
use openraft::metrics::RaftServerMetrics;
use openraft::storage::RaftLogStorageExt;
use openraft::{
    Config, EmptyNode, Entry, EntryPayload, LogId, Membership, Raft, ServerState, SnapshotPolicy, Vote,
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::contact::{CANDIDATE, Contact, ROUND_TRIP_MAX};
use super::network::Network;
use super::receive::Receiving;
use super::snapshots::SnapshotDir;
use super::state::{Resumed, StateMachine};
use super::{CreateError, Leadership, RunnerConfig};
use crate::blocking::blocking;
use crate::clock;
use crate::election::Election;
use crate::log::openraft_store::GroupStore;
use crate::log::{self, Log};
use crate::machine::Machine;
use crate::transport::Transport;
use crate::types::{GroupId, RaftTypes};

/// Proposals of a group that wait for their answers; at the bound further ones are refused as overloaded. A group commits some
/// thousands a second, so this is about 100 ms of work: who waits longer has no use for the answer.
const PROPOSALS_MAX: usize = 512;
/// An append that wasn't answered is sent again after this.
const APPEND_MAX_MS: u64 = 500;
/// Entries in one append at most; the log bounds their bytes.
const ENTRIES_MAX: u64 = 512;
/// No node has this id: stands for "nobody" where a group hands over.
const NOBODY: u64 = 0;

/// See the module.
pub(super) struct Group {
    pub(super) id: GroupId,
    pub(super) me: u64,
    pub(super) raft: Raft<RaftTypes>,
    server: watch::Receiver<RaftServerMetrics<u64, EmptyNode>>,
    pub(super) transport: Transport,
    pub(super) machine: StateMachine,
    pub(super) contact: Arc<Contact>,
    pub(super) election: Mutex<Election>,
    pub(super) proposals: Semaphore,
    pub(super) receiving: tokio::sync::Mutex<Option<Receiving>>,
    pub(super) leadership: watch::Sender<Leadership>,
    /// The node that takes over, as long as this one hands over to it.
    successor: AtomicU64,
}

impl Group {
    /// Starts the replica on what the disk has of it. With `founders`, a replica without anything starts as one of them.
    pub(super) async fn start(
        id: GroupId,
        founders: Option<&BTreeSet<u64>>,
        config: &RunnerConfig,
        log: &Log,
        machine: Box<dyn Machine>,
        transport: &Transport,
    ) -> Result<Arc<Self>, CreateError> {
        let (dir, timing) = (config.group_dir(id), config.timing_of(id));
        let stored = log.state(id);
        let led = stored.vote.filter(|vote| vote.committed && vote.node == config.node.0);
        let resumed = led.zip(stored.last).map(|(vote, last)| Resumed { term: vote.term, last: last.index });
        let mut store = GroupStore::new(log.clone(), id);
        let me = config.node.0;
        let snapshots = SnapshotDir::new(dir);
        let receipts = store.receipts();
        let opened = blocking(move || StateMachine::open(machine, snapshots, resumed, receipts));
        let machine = opened.await.map_err(io::Error::other)??;
        let applied = machine.read(|state| state.applied.map(|applied| applied.index));
        if let Some(purged) = stored.purged.filter(|purged| applied.is_none_or(|at| at < purged.index)) {
            return Err(CreateError::SnapshotGone { group: id, purged: purged.index });
        }
        let pristine = stored.last.is_none() && applied.is_none();
        if let Some(founders) = founders.filter(|_| pristine) {
            found(&mut store, founders).await?;
        }
        let now = clock::now();
        let promised = if stored.vote.is_some_and(|vote| vote != log::Vote::default()) {
            now.after(timing.lease)
        } else {
            Stamp::ZERO
        };
        let contact = Arc::new(Contact::new(timing.lease, promised));
        let network = Network { transport: transport.clone(), group: id, contact: Arc::clone(&contact) };
        let raft_config = Arc::new(raft_config(config, id));
        let raft = Raft::new(me, raft_config, network, store, machine.clone()).await;
        let raft = raft.map_err(|error| CreateError::Io(io::Error::other(error)))?;
        let seed = config.seed ^ u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ me.rotate_left(32);
        Ok(Arc::new(Self {
            id,
            me,
            server: raft.server_metrics(),
            raft,
            transport: transport.clone(),
            machine,
            contact,
            election: Mutex::new(Election::new(timing, seed, false, now)),
            proposals: Semaphore::new(PROPOSALS_MAX),
            receiving: tokio::sync::Mutex::default(),
            leadership: watch::Sender::default(),
            successor: AtomicU64::new(NOBODY),
        }))
    }

    /// Whether openraft says that this replica leads, lease or not.
    pub(super) fn leads(&self) -> bool {
        self.server.borrow().state == ServerState::Leader
    }

    /// Whether this replica may answer for the group.
    pub(super) fn serves(&self, now: Stamp) -> bool {
        let leadership = *self.leadership.borrow();
        leadership.serving && self.successor().is_none() && self.has_lease(leadership.term, now)
    }

    /// Whether a majority surely votes for nobody else now.
    pub(super) fn has_lease(&self, term: u64, now: Stamp) -> bool {
        let server = self.server.borrow();
        let voter_sets = server.membership_config.membership().get_joint_config();
        self.contact.has_lease(self.me, term, voter_sets, now)
    }

    /// The voters; two sets while they change.
    pub(super) fn voter_sets(&self) -> Vec<BTreeSet<u64>> {
        self.server.borrow().membership_config.membership().get_joint_config().clone()
    }

    /// How long a candidate gets to win: see [`CANDIDATE`].
    pub(super) fn candidate_for(&self) -> Nanos {
        let voters = self.voter_sets().into_iter().flatten().filter(|voter| *voter != self.me);
        let ways = voters.filter_map(|voter| self.transport.round_trip(NodeId(voter)));
        let farthest = ways.max().unwrap_or_default().min(ROUND_TRIP_MAX);
        let farthest = u64::try_from(farthest.as_nanos()).unwrap_or(u64::MAX);
        Nanos(CANDIDATE.0.saturating_add(farthest))
    }

    /// The newest vote that this replica knows.
    pub(super) fn vote(&self) -> Vote<u64> {
        self.server.borrow().vote
    }

    pub(super) fn last_log(&self) -> Option<LogId<u64>> {
        self.raft.data_metrics().borrow().last_log
    }

    /// How many entries of the log the machine hasn't applied.
    pub(super) fn unapplied(&self) -> u64 {
        let metrics = self.raft.data_metrics();
        let metrics = metrics.borrow();
        let index = |id: Option<LogId<u64>>| id.map_or(0, |id| id.index);
        index(metrics.last_log).saturating_sub(index(metrics.last_applied))
    }

    pub(super) async fn stop(&self) {
        // What it fails with is what `watch` tells.
        let _ = self.raft.shutdown().await;
    }

    /// The leader, as far as this replica knows.
    pub(super) fn leader(&self) -> Option<NodeId> {
        self.successor().or_else(|| self.leadership.borrow().leader)
    }

    /// Whom to ask in place of this replica, which doesn't serve.
    pub(super) fn hint(&self) -> Option<NodeId> {
        self.leader().filter(|leader| leader.0 != self.me)
    }

    pub(super) fn successor(&self) -> Option<NodeId> {
        let node = self.successor.load(Ordering::Acquire);
        (node != NOBODY).then_some(NodeId(node))
    }

    /// Stops serving in favour of `node`, or ends that. False when another handover is on.
    pub(super) fn hand_over(&self, node: Option<NodeId>) -> bool {
        match node {
            Some(node) => {
                self.successor.compare_exchange(NOBODY, node.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
            None => {
                self.successor.store(NOBODY, Ordering::Release);
                true
            }
        }
    }

    /// Keeps [`Self::leadership`] true until openraft ends; returns why it did, if that is an error.
    pub(super) async fn watch(&self, mut told: impl FnMut(Leadership)) -> Result<(), String> {
        let mut server = self.server.clone();
        let mut applied_term = self.machine.applied_term();
        let mut vote = Vote::default();
        loop {
            let applied = *applied_term.borrow_and_update();
            let now = {
                let server = server.borrow_and_update();
                let term = server.vote.leader_id.term;
                let leads = server.state == ServerState::Leader && server.current_leader == Some(self.me);
                if std::mem::replace(&mut vote, server.vote) != server.vote && vote.committed && !leads {
                    // A leader can be learnt of without hearing it, from a refusal. openraft keeps its promise then too.
                    self.contact.hear(clock::now());
                }
                Leadership {
                    term,
                    leader: server.current_leader.map(NodeId),
                    serving: leads && applied == term,
                }
            };
            if self.leadership.send_if_modified(|known| std::mem::replace(known, now) != now) {
                told(now);
            }
            let open = tokio::select! {
                changed = server.changed() => changed.is_ok(),
                changed = applied_term.changed() => changed.is_ok(),
            };
            if !open {
                return match &self.raft.metrics().borrow().running_state {
                    Ok(()) | Err(openraft::error::Fatal::Stopped) => Ok(()),
                    Err(fatal) => Err(fatal.to_string()),
                };
            }
        }
    }
}

/// The first entry, the same on every founder: who the voters are. It counts as committed since all of them start with it.
async fn found(store: &mut GroupStore, founders: &BTreeSet<u64>) -> Result<(), CreateError> {
    let membership = Membership::new(vec![founders.clone()], founders.clone());
    let entry = Entry { log_id: LogId::default(), payload: EntryPayload::Membership(membership) };
    store.blocking_append([entry]).await.map_err(|error| CreateError::Io(io::Error::other(error)))
}

fn raft_config(config: &RunnerConfig, group: GroupId) -> Config {
    let lease_ms = config.timing_of(group).lease.millis_ceil();
    // Groups take their snapshots at different times.
    let spread = config.snapshot_every / 8 * u64::from(group.0 % 8);
    Config {
        // Elections and heartbeats are the driver's. What is left of these: how long an append may take, and how long
        // a voter that heard a leader votes for nobody else.
        heartbeat_interval: APPEND_MAX_MS,
        election_timeout_min: lease_ms.saturating_sub(1),
        election_timeout_max: lease_ms,
        enable_elect: false,
        enable_heartbeat: false,
        install_snapshot_timeout: 60_000,
        max_payload_entries: ENTRIES_MAX,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(config.snapshot_every.saturating_add(spread)),
        max_in_snapshot_log_to_keep: config.keep_entries,
        replication_lag_threshold: config.snapshot_every.saturating_mul(2).max(config.keep_entries),
        ..Config::default()
    }
}
