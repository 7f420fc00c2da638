//! Runs the Raft groups of a node: one log, one transport, one machine a group.
//!
//! Invariant: an answer to a proposal means that it is on a majority's disks and applied here; an error says whether it may
//! have been carried out. A replica that fails ends the process: [`RunnerConfig::on_fatal`] is told, and nothing limps on.
//!
//! openraft does the replication. Ours are the elections ([`crate::election`]), the lease that a leader serves under
//! (`contact`), and what connects them to disk and network.

mod campaign;
mod contact;
mod driver;
mod error;
mod group;
mod members;
mod messages;
mod network;
mod receive;
mod serve;
mod snapshots;
mod state;
mod status;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_model::NodeId;
use parking_lot::RwLock;
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::election::Timing;
use crate::log::{Change, Log};
use crate::machine::{Answer, Machine};
use crate::transport::Transport;
use crate::types::{GroupId, Proposal};
use group::Group;
use snapshots::sync_dir;

pub use error::{CreateError, MemberError, ProposeError, TransferError};
pub use status::{GroupStatus, Role};

/// The longest proposal, in bytes. It fits into one message to a follower, with others before it.
pub const PROPOSAL_BYTES_MAX: usize = 4 << 20;
/// Entries that a leader's log is ahead of its machine by; at the bound proposals are refused as overloaded. Without a
/// majority nothing is applied, and the log would grow.
const UNAPPLIED_MAX: u64 = 8192;
/// Leadership events that a slow listener may be behind; it then misses the oldest.
const EVENTS_MAX: usize = 4096;
/// Marks the directory of a group that is being removed.
const REMOVED: &str = "removed";

/// Told once when a replica can't go on, with the reason: it has to end the process.
pub type OnFatal = Arc<dyn Fn(GroupId, &str) + Send + Sync>;
/// Makes the machine of a group, as it is before the first entry.
pub type Machines = Arc<dyn Fn(GroupId) -> Box<dyn Machine> + Send + Sync>;

/// What a runner starts with.
#[derive(Clone)]
pub struct RunnerConfig {
    /// This node.
    pub node: NodeId,
    /// A directory for the groups: a folder each, with its snapshots.
    pub dir: PathBuf,
    /// Heartbeats, leases and elections. The same on every node.
    pub timing: Timing,
    /// The same for the control group, whose voters may be far from each other; with the same heartbeat.
    pub control_timing: Timing,
    /// A snapshot is taken after about so many entries.
    pub snapshot_every: u64,
    /// Entries that are kept although a snapshot has them: a follower that misses no more than these needs no snapshot.
    pub keep_entries: u64,
    /// Where the chance in elections comes from.
    pub seed: u64,
    /// Ends the process.
    pub on_fatal: OnFatal,
}

impl RunnerConfig {
    /// The defaults for a node.
    #[must_use]
    pub fn new(node: NodeId, dir: PathBuf, seed: u64, on_fatal: OnFatal) -> Self {
        Self {
            node,
            dir,
            timing: Timing::default(),
            control_timing: Timing::default(),
            snapshot_every: 20_000,
            keep_entries: 5_000,
            seed,
            on_fatal,
        }
    }

    fn timing_of(&self, group: GroupId) -> Timing {
        if group == GroupId::CONTROL { self.control_timing } else { self.timing }
    }

    fn group_dir(&self, group: GroupId) -> PathBuf {
        self.dir.join(group.to_string())
    }
}

impl fmt::Debug for RunnerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerConfig")
            .field("node", &self.node)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// Who leads a group, as one replica knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The newest term the replica knows.
    pub term: u64,
    /// Who leads in it.
    pub leader: Option<NodeId>,
    /// This replica leads, and has applied all that was acknowledged before its term.
    pub serving: bool,
}

/// A change of [`Leadership`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadershipEvent {
    /// The group.
    pub group: GroupId,
    /// How it is now.
    pub now: Leadership,
}

/// See the module. Clones are handles to the same one.
#[derive(Clone)]
pub struct Runner(Arc<Inner>);

struct Inner {
    config: RunnerConfig,
    log: Log,
    machines: Machines,
    transport: Transport,
    groups: RwLock<BTreeMap<GroupId, Arc<Group>>>,
    /// Held while groups come and go.
    changing: tokio::sync::Mutex<()>,
    /// Wakes the driver: a group or its leadership has changed.
    changed: Notify,
    events: broadcast::Sender<LeadershipEvent>,
    stop: CancellationToken,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl Runner {
    /// Starts all groups that this node has replicas of. Runs until [`Self::shutdown`]. The log and the transport stay their
    /// owner's.
    ///
    /// # Errors
    /// When the timings can't work, or a replica can't be read back.
    pub async fn open(
        config: RunnerConfig,
        log: Log,
        transport: Transport,
        machines: Machines,
    ) -> Result<Self, CreateError> {
        config.timing.check().map_err(CreateError::Timing)?;
        config.control_timing.check().map_err(CreateError::Timing)?;
        let inner = Arc::new(Inner {
            config,
            log,
            machines,
            transport: transport.clone(),
            groups: RwLock::default(),
            changing: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            events: broadcast::Sender::new(EVENTS_MAX),
            stop: CancellationToken::new(),
        });
        inner.finish_removals().await?;
        for group in inner.stored_groups()? {
            inner.start(group, None).await?;
        }
        serve::register(&transport, &inner);
        let (driven, stop) = (Arc::clone(&inner), inner.stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(driver::drive(driven)).await });
        Ok(Self(inner))
    }

    /// Founds a group: every founder calls this with the same voters. On a founder that has anything of the group already,
    /// it only starts what is there.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub async fn create_group(&self, group: GroupId, voters: &BTreeSet<NodeId>) -> Result<(), CreateError> {
        if !voters.contains(&self.0.config.node) {
            return Err(CreateError::NotFounder);
        }
        let voters = voters.iter().map(|node| node.0).collect();
        self.0.add(group, Some(&voters)).await
    }

    /// Starts an empty replica, which waits for a leader to [make it a learner](Self::add_learner).
    ///
    /// # Errors
    /// See [`CreateError`].
    pub async fn join_group(&self, group: GroupId) -> Result<(), CreateError> {
        self.0.add(group, None).await
    }

    /// Stops a replica and removes all it stored but its vote. Only once the group's members are others: nothing here can
    /// know that for certain.
    ///
    /// # Errors
    /// When the disk fails; the removal is finished at the next start. A group that isn't here is fine.
    pub async fn remove_group(&self, group: GroupId) -> io::Result<()> {
        let _changing = self.0.changing.lock().await;
        let Some(removed) = self.0.groups.write().remove(&group) else { return Ok(()) };
        removed.stop().await;
        let config = &self.0.config;
        fs::rename(config.group_dir(group), config.dir.join(format!("{group}.{REMOVED}")))?;
        sync_dir(&config.dir)?;
        self.0.finish_removals().await
    }

    /// Proposes an entry to a group that this node leads, and returns the machine's answer.
    ///
    /// # Errors
    /// See [`ProposeError`]: after [`ProposeError::Unknown`] only the same request id may be tried again.
    pub async fn propose(
        &self,
        group: GroupId,
        entry: Bytes,
        deadline: Instant,
    ) -> Result<Answer, ProposeError> {
        let group = self.0.group(group).ok_or(ProposeError::NoGroup)?;
        if entry.len() > PROPOSAL_BYTES_MAX {
            return Err(ProposeError::TooLarge);
        }
        if !group.serves(clock::now()) {
            return Err(ProposeError::NotLeader { hint: group.hint() });
        }
        let _waits = group.proposals.try_acquire().map_err(|_| ProposeError::Overloaded)?;
        if group.unapplied() >= UNAPPLIED_MAX {
            return Err(ProposeError::Overloaded);
        }
        match timeout_at(deadline, group.raft.client_write(Proposal(entry))).await {
            Ok(Ok(written)) => Ok(written.data.0),
            // Whatever openraft says: an entry that it gave up on may be committed by the next leader.
            Ok(Err(_)) | Err(_) => Err(ProposeError::Unknown { hint: group.leader() }),
        }
    }

    /// Reads the applied state of a group's machine, between two entries. None when no replica is here or its machine is
    /// another one. The state is the group's newest only where [`Self::is_leader`] holds.
    pub fn with_machine<M: Machine, T>(&self, group: GroupId, read: impl FnOnce(&M) -> T) -> Option<T> {
        let group = self.0.group(group)?;
        group.machine.read(|state| {
            let machine: &dyn Any = state.machine.as_ref();
            machine.downcast_ref::<M>().map(read)
        })
    }

    /// Whether this node serves the group now: it leads, under a lease of a majority, and knows all that was acknowledged.
    #[must_use]
    pub fn is_leader(&self, group: GroupId) -> bool {
        self.0.group(group).is_some_and(|group| group.serves(clock::now()))
    }

    /// Who leads a group, as far as this node knows.
    #[must_use]
    pub fn leader(&self, group: GroupId) -> Option<NodeId> {
        self.0.group(group)?.leader()
    }

    /// Who leads a group, now and whenever it changes. The lease isn't part of it: see [`Self::is_leader`].
    #[must_use]
    pub fn leadership(&self, group: GroupId) -> Option<watch::Receiver<Leadership>> {
        Some(self.0.group(group)?.leadership.subscribe())
    }

    /// Changes of leadership in all groups, from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<LeadershipEvent> {
        self.0.events.subscribe()
    }

    /// Says whether this node should lead a group rather than another: it then asks first when the leader is gone.
    pub fn prefer(&self, group: GroupId, preferred: bool) {
        if let Some(group) = self.0.group(group) {
            group.election.lock().prefer(preferred, clock::now());
            self.0.changed.notify_one();
        }
    }

    /// The groups that have a replica here.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupId> {
        self.0.groups.read().keys().copied().collect()
    }

    /// Stops all replicas. Others elect among themselves; to have them do so without a pause, [transfer](Self::transfer) first.
    pub async fn shutdown(&self) {
        let _changing = self.0.changing.lock().await;
        self.0.stop.cancel();
        let groups = std::mem::take(&mut *self.0.groups.write());
        for group in groups.into_values() {
            group.stop().await;
        }
    }
}

impl Inner {
    fn group(&self, group: GroupId) -> Option<Arc<Group>> {
        self.groups.read().get(&group).map(Arc::clone)
    }

    fn groups(&self) -> Vec<Arc<Group>> {
        self.groups.read().values().map(Arc::clone).collect()
    }

    async fn add(
        self: &Arc<Self>,
        group: GroupId,
        founders: Option<&BTreeSet<u64>>,
    ) -> Result<(), CreateError> {
        let _changing = self.changing.lock().await;
        if self.groups.read().contains_key(&group) {
            return Err(CreateError::Exists);
        }
        fs::create_dir_all(self.config.group_dir(group))?;
        sync_dir(&self.config.dir)?;
        self.start(group, founders).await
    }

    async fn start(
        self: &Arc<Self>,
        id: GroupId,
        founders: Option<&BTreeSet<u64>>,
    ) -> Result<(), CreateError> {
        let machine = (self.machines)(id);
        let group = Group::start(id, founders, &self.config, &self.log, machine, &self.transport).await?;
        self.groups.write().insert(id, Arc::clone(&group));
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let told = |now| {
                tracing::debug!(group = id.0, ?now, "leadership");
                // Nobody has to listen.
                let _ = inner.events.send(LeadershipEvent { group: id, now });
                inner.changed.notify_one();
            };
            if let Err(reason) = group.watch(told).await {
                tracing::error!(group = id.0, reason, "the replica can't go on");
                (inner.config.on_fatal)(id, &reason);
            }
        });
        self.changed.notify_one();
        Ok(())
    }

    fn stored_groups(&self) -> io::Result<Vec<GroupId>> {
        fs::create_dir_all(&self.config.dir)?;
        let mut groups = Vec::new();
        for entry in fs::read_dir(&self.config.dir)? {
            groups.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()).map(GroupId));
        }
        groups.sort_unstable();
        Ok(groups)
    }

    /// Removes what is left of groups whose removal has begun.
    async fn finish_removals(&self) -> io::Result<()> {
        fs::create_dir_all(&self.config.dir)?;
        for entry in fs::read_dir(&self.config.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let group =
                name.to_str().and_then(|name| name.strip_suffix(REMOVED)?.strip_suffix('.')?.parse().ok());
            if let Some(group) = group.map(GroupId) {
                self.log.write(group, Change::Clear).await.map_err(io::Error::other)?;
                fs::remove_dir_all(entry.path())?;
            }
        }
        sync_dir(&self.config.dir)
    }
}

#[cfg(test)]
mod tests;
