//! A node's part in a cluster, as the node sees it.
//!
//! Invariant: until the node knows its cluster's state nothing is asked of it, and after [`Cluster::shutdown`] nothing is
//! left of it but its data directory. What runs in between, and in which order it begins, is in `start` and `part`.

mod contact;
mod gauges;
mod load;
mod part;
mod place;
mod start;
mod vitals;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::log::Log;
use leasehold_consensus::transport::{Traffic, Transport};
use leasehold_control as control;
use leasehold_control::Control;
use leasehold_model::{NodeId, RulesVersion, ShardId, TenantId};
use leasehold_placement::Shards;
use leasehold_shard::{Acquire, Batch, LeaseNumbers, LimitSpec, Reply};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::data::DataDir;
use crate::form::ClusterIdentity;
use crate::machine::ShardMachine;
use crate::whereabouts::Whereabouts;
use crate::{
    Clock, ClusterConfig, Counts, Fatal, Lent, Question, Report, StartError, Told, Unanswered, questions,
};
pub use gauges::Gauges;
use part::Part;
use vitals::Vitals;

/// How long what runs in the background may take to end; what doesn't is left to the end of the process.
const END_MAX: Duration = Duration::from_secs(5);

/// How far a node is.
#[derive(Clone, Debug)]
pub enum Phase {
    /// It belongs to no cluster yet, or doesn't know its cluster's state yet; whom it waits for and why, in words.
    Waiting(String),
    /// It is a member. The control group's state, as far as this node has it; told again whenever that changes.
    Member(Arc<Control>),
}

/// What the replicas on this node hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Counters, those of followers included.
    pub keys: u64,
    /// Counters dropped so far because they equalled fresh ones.
    pub evicted: u64,
}

/// Where a node is reached, once its ports are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Where peers are served.
    pub peers: SocketAddr,
    /// What other nodes are told of that.
    pub peers_advertised: String,
    /// Where gossip is served.
    pub gossip: SocketAddr,
}

/// See the module. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: ClusterConfig,
    clock: Arc<dyn Clock>,
    fatal: Ending,
    data: Arc<DataDir>,
    identity: Arc<ClusterIdentity>,
    log: Log,
    transport: Transport,
    whereabouts: Whereabouts,
    addresses: Addresses,
    phase: watch::Sender<Phase>,
    /// The control state as applied here; told by its machine.
    control: watch::Sender<Arc<Control>>,
    part: OnceLock<Part>,
    vitals: Vitals,
    leader_changes: AtomicU64,
    /// Looks for a cluster, and begins to take part in it.
    forming: Mutex<Option<JoinHandle<()>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Tells once that the node can't go on.
#[derive(Clone, Debug)]
struct Ending {
    fatal: Fatal,
    told: Arc<AtomicBool>,
    /// A node that stops has nothing to complain of.
    stop: CancellationToken,
}

impl Ending {
    fn tell(&self, reason: &str) {
        if !self.stop.is_cancelled() && !self.told.swap(true, Ordering::SeqCst) {
            tracing::error!(reason, "the node can't go on");
            (self.fatal.0)(reason);
        }
    }
}

impl Cluster {
    /// Opens the data directory and the ports, and takes part from then on. Forming or joining goes on in the background:
    /// see [`Self::phase`].
    ///
    /// `fatal` is told once when the node can't go on; it has to end the process.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub async fn start(
        config: ClusterConfig,
        clock: Arc<dyn Clock>,
        fatal: Fatal,
    ) -> Result<Self, StartError> {
        start::start(config, None, clock, fatal).await.map(Self)
    }

    /// The same with the port for peers open already, in place of the configured one: for nodes that have to be told of
    /// each other's before any of them is started.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub async fn start_on(
        listener: std::net::TcpListener,
        config: ClusterConfig,
        clock: Arc<dyn Clock>,
        fatal: Fatal,
    ) -> Result<Self, StartError> {
        start::start(config, Some(listener), clock, fatal).await.map(Self)
    }

    /// How far this node is, now and whenever that changes.
    #[must_use]
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.0.phase.subscribe()
    }

    /// This node's id: drawn when its data directory was made.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.0.data.node()
    }

    /// Where this node is reached.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.0.addresses.clone()
    }

    /// Has commands applied by the leaders of their counters' shards; one reply each, in order.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn propose(&self, batch: Batch, deadline: Instant) -> Result<Vec<Reply>, Unanswered> {
        self.0.part()?.router.propose(batch, deadline).await
    }

    /// What an acquire would be answered. Takes and records nothing.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn preview(
        &self,
        limits: &[LimitSpec],
        acquire: &Acquire,
        deadline: Instant,
    ) -> Result<Reply, Unanswered> {
        self.0.part()?.router.preview(limits, acquire, deadline).await
    }

    /// How counters are spread over shards; `None` while that isn't known here.
    #[must_use]
    pub fn shards(&self) -> Option<Shards> {
        self.0.part.get()?.router.shards()
    }

    /// Whether this node answers for a shard itself now.
    #[must_use]
    pub fn leads(&self, shard: ShardId) -> bool {
        self.0.part.get().is_some_and(|part| part.router.leads(shard))
    }

    /// The node that leads a shard, as far as is known here: a hint.
    #[must_use]
    pub fn leader(&self, shard: ShardId) -> Option<NodeId> {
        self.0.part.get()?.router.leader(shard)
    }

    /// Has the control group carry out a command.
    ///
    /// # Errors
    /// [`Unanswered`]. What the group refuses is a reply.
    pub async fn command(
        &self,
        command: control::Command,
        deadline: Instant,
    ) -> Result<control::Reply, Unanswered> {
        self.0.part()?.router.command(command, deadline).await
    }

    /// What the replicas here hold.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        self.0.part.get().map(Part::holdings).unwrap_or_default()
    }

    /// What was counted on the way of asks since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.part.get().map(|part| part.router.counts()).unwrap_or_default()
    }

    /// What was written to peers since the start.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.0.transport.traffic()
    }

    /// How long a message to each node that is connected takes there and back, smoothed.
    #[must_use]
    pub fn round_trips(&self) -> Vec<(NodeId, Duration)> {
        self.0.transport.round_trips()
    }

    /// What gossip sent, heard and dropped since the start.
    #[must_use]
    pub fn gossip_counts(&self) -> leasehold_gossip::Counts {
        self.0.whereabouts.counts()
    }

    /// Why clients should rather ask another node.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn health(&self) -> Result<(), String> {
        self.0.health()
    }

    /// Tells the others by which rules this node decides.
    pub fn set_rules(&self, version: RulesVersion) {
        self.0.whereabouts.set_rules(version);
    }

    /// How the cluster stands, as all nodes that can be reached say; with the hashes of all states if they are wanted.
    ///
    /// # Errors
    /// [`Unanswered`] while the node belongs to none.
    pub async fn report(&self, hashes: bool) -> Result<Report, Unanswered> {
        Ok(self.0.part()?.coordinator.report(hashes).await)
    }

    /// The `most` leases with the most units out, and all leases in numbers, as the leaders that can be reached say; the
    /// leases of one tenant's counters only, if one is named. More than 1,000 are not told.
    ///
    /// # Errors
    /// [`Unanswered`] while the node belongs to no cluster.
    pub async fn lent(&self, tenant: Option<TenantId>, most: u32) -> Result<Lent, Unanswered> {
        Ok(self.0.part()?.coordinator.lent(tenant, most).await)
    }

    /// Has a question of other nodes answered, from what bytes ask to what bytes say; `None`: it isn't understood.
    pub fn answer_members(
        &self,
        question: Question,
        answer: impl Fn(Bytes) -> Option<Bytes> + Send + Sync + 'static,
    ) {
        questions::answer(&self.0.transport, question, answer);
    }

    /// What all other members say to a question, by their names; those that don't answer in time are told as silent.
    ///
    /// # Errors
    /// [`Unanswered`] while the node belongs to no cluster.
    pub async fn ask_members(&self, question: Question, payload: Bytes) -> Result<Vec<Told>, Unanswered> {
        Ok(self.0.part()?.coordinator.ask_members(question, payload).await)
    }

    /// The leases of the shards that this node leads in numbers, a shard each.
    #[must_use]
    pub fn lease_numbers(&self) -> Vec<(ShardId, LeaseNumbers)> {
        self.0.part.get().map(Part::lease_numbers).unwrap_or_default()
    }

    /// Has a shard led by this replica of it.
    ///
    /// # Errors
    /// Why it isn't, in words.
    pub async fn move_leader(&self, shard: ShardId, to: NodeId) -> Result<(), String> {
        self.0.part().map_err(|error| error.to_string())?.coordinator.move_leader(shard, to).await
    }

    /// Hands all shards that this node leads to others, before a stop.
    pub async fn hand_over(&self, within: Duration) {
        if let Ok(part) = self.0.part() {
            part.coordinator.hand_over(within).await;
        }
    }

    /// Leaves the network and closes the log. The node comes back as itself when it is started with the same directory.
    pub async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}

/// When what a member does all the time is done; a beat that is late isn't made up for.
fn each_second() -> Interval {
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick
}

impl Inner {
    /// Has work done beside serving until the node stops, which waits for its end.
    fn spawn_until_stopped(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(work).await;
        });
    }

    fn part(&self) -> Result<&Part, Unanswered> {
        if self.stop.is_cancelled() {
            return Err(Unanswered::Stopping);
        }
        self.part.get().ok_or(Unanswered::Forming)
    }

    fn health(&self) -> Result<(), String> {
        if self.stop.is_cancelled() {
            return Err("the node is stopping".to_owned());
        }
        if self.fatal.told.load(Ordering::SeqCst) {
            return Err("the node can't go on".to_owned());
        }
        if let Phase::Waiting(why) = &*self.phase.borrow() {
            return Err(why.clone());
        }
        if *self.log.full().borrow() {
            return Err("the disk is full: free space for the log, nothing else is needed".to_owned());
        }
        self.vitals.check(self.clock.boot())
    }

    async fn shutdown(&self) {
        self.stop.cancel();
        self.phase.send_replace(Phase::Waiting("the node is stopping".to_owned()));
        let forming = self.forming.lock().take();
        if let Some(forming) = forming {
            // It ends between two steps, so that nothing is half begun.
            let _ = timeout(END_MAX, forming).await;
        }
        if let Some(part) = self.part.get() {
            part.router.stop();
            if *self.log.full().borrow() {
                // Replicas would wait for room that nobody makes.
                self.close_log().await;
            }
            if timeout(END_MAX, part.runner.shutdown()).await.is_err() {
                tracing::warn!("some replicas didn't stop in time");
            }
        }
        self.whereabouts.shutdown().await;
        self.transport.shutdown();
        self.tasks.close();
        if timeout(END_MAX, self.tasks.wait()).await.is_err() {
            tracing::warn!("some of the node's work didn't end in time");
        }
        self.close_log().await;
        self.data.close();
    }

    /// Ends as a killed process does: nobody is told, nothing is finished.
    #[cfg(test)]
    async fn kill(&self) {
        let forming = self.forming.lock().take();
        if let Some(forming) = forming {
            forming.abort();
        }
        self.transport.shutdown();
        self.whereabouts.fall_silent();
        self.shutdown().await;
    }

    async fn close_log(&self) {
        let log = self.log.clone();
        // It fails only when the runtime ends, and the log with it.
        let _ = tokio::task::spawn_blocking(move || log.close()).await;
    }
}

impl Part {
    fn holdings(&self) -> Holdings {
        let held = |machine: &ShardMachine| (machine.shard.keys(), machine.shard.evicted());
        let held = self.runner.groups().into_iter().filter_map(|group| self.runner.with_machine(group, held));
        held.fold(Holdings::default(), |sum, (keys, evicted)| Holdings {
            keys: sum.keys.saturating_add(u64::try_from(keys).unwrap_or(u64::MAX)),
            evicted: sum.evicted.saturating_add(evicted),
        })
    }

    fn lease_numbers(&self) -> Vec<(ShardId, LeaseNumbers)> {
        let led = self.runner.groups().into_iter().filter(|group| self.runner.is_leader(*group));
        let numbers = led.filter_map(|group| {
            let numbers = |machine: &ShardMachine| machine.shard.lease_numbers();
            Some((group.shard()?, self.runner.with_machine(group, numbers)?))
        });
        numbers.collect()
    }
}

#[cfg(test)]
mod tests;
