//! What moves shards and leaders, and tells how they stand: the loops that a member runs beside serving.
//!
//! Invariant: nothing here is on the path of a request. Whatever stops or fails here, shards go on where they are.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::runner::Runner;
use leasehold_consensus::transport::{Access, Transport};
use leasehold_control::{Command, Control, Reply};
use leasehold_gossip::Members;
use leasehold_model::{NodeId, ShardId, TenantId};
use leasehold_wire::peer::Founding;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::report::Report;
use crate::{
    Lent, Question, Told, Unanswered, balance, calls, change, lent, plan, questions, report, status,
};

/// Has the control group carry out a command, by a deadline.
pub(crate) type Commands = Arc<
    dyn Fn(Command, Instant) -> Pin<Box<dyn Future<Output = Result<Reply, Unanswered>> + Send>> + Send + Sync,
>;

/// What the coordinator needs of the node.
pub(crate) struct Parts {
    pub(crate) node: NodeId,
    /// The cluster's name.
    pub(crate) name: String,
    pub(crate) runner: Runner,
    pub(crate) transport: Transport,
    pub(crate) control: watch::Receiver<Arc<Control>>,
    /// Who is heard by gossip.
    pub(crate) members: Arc<dyn Fn() -> Arc<Members> + Send + Sync>,
    pub(crate) commands: Commands,
    /// What the cluster is made from, on a founder.
    pub(crate) founding: Option<Founding>,
    /// Rules that a new cluster starts with: domain and text.
    pub(crate) rules: Vec<(Arc<str>, Arc<str>)>,
    /// A node that is silent for so long is replaced.
    pub(crate) replace_after: Duration,
    /// Whether the log has no room.
    pub(crate) full: watch::Receiver<bool>,
    /// Whether everything is being handed over.
    pub(crate) leaving: AtomicBool,
}

/// See the module. Clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Coordinator(Arc<Parts>);

impl Coordinator {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Answers other nodes' questions about replicas, and their requests for changes.
    pub(crate) fn serve(&self) {
        let parts = Arc::clone(&self.0);
        self.0
            .transport
            .register(calls::STATUS, Access::Members, move |call| status::answer(Arc::clone(&parts), call));
        let parts = Arc::clone(&self.0);
        self.0
            .transport
            .register(calls::CHANGE, Access::Members, move |call| change::answer(Arc::clone(&parts), call));
        let parts = Arc::clone(&self.0);
        self.0
            .transport
            .register(calls::LEASES, Access::Members, move |call| lent::answer(Arc::clone(&parts), call));
    }

    /// Starts the planner, which acts while this node leads the control group, and the balance of leaders.
    pub(crate) fn run(&self, stop: &CancellationToken) {
        let (parts, ended) = (Arc::clone(&self.0), stop.clone());
        tokio::spawn(async move { ended.run_until_cancelled(plan::run(parts)).await });
        let (parts, ended) = (Arc::clone(&self.0), stop.clone());
        tokio::spawn(async move { ended.run_until_cancelled(balance::run(parts)).await });
    }

    /// How the cluster stands, as all nodes that can be reached say; with the hashes of all states if they are wanted.
    pub(crate) async fn report(&self, hashes: bool) -> Report {
        report::gather(&self.0, hashes).await
    }

    /// What is out on leases, as the leaders that can be reached say.
    pub(crate) async fn lent(&self, tenant: Option<TenantId>, most: u32) -> Lent {
        lent::gather(&self.0, tenant, most).await
    }

    /// What all other members say to a question.
    pub(crate) async fn ask_members(&self, question: Question, payload: Bytes) -> Vec<Told> {
        questions::ask_all(&self.0, question, payload).await
    }

    /// Has a shard led by this replica of it, now and whenever it can.
    ///
    /// # Errors
    /// Why it isn't, in words.
    pub(crate) async fn move_leader(&self, shard: ShardId, to: NodeId) -> Result<(), String> {
        balance::move_leader(&self.0, shard, to).await
    }

    /// Hands everything that this node leads to others, for good: the node is about to stop. Those that nobody takes over in time are left to an election.
    pub(crate) async fn hand_over(&self, within: Duration) {
        self.0.leaving.store(true, Ordering::SeqCst);
        for group in self.0.runner.groups() {
            self.0.runner.prefer(group, false);
        }
        balance::hand_over(&self.0, within).await;
    }

    /// Hands over what this node leads, for now: it leads again when it can.
    pub(crate) async fn step_back(&self, within: Duration) {
        balance::hand_over(&self.0, within).await;
    }
}

impl Parts {
    /// The control group's state, as far as this node has it.
    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control.borrow())
    }

    /// Why this node should lead nothing more.
    pub(crate) fn unfit(&self) -> Option<&'static str> {
        if self.leaving.load(Ordering::SeqCst) {
            return Some("the node is stopping");
        }
        self.full.borrow().then_some("the node's disk is full")
    }

    /// Whether a connection to the node stands; always to oneself.
    pub(crate) fn connected(&self, node: NodeId) -> bool {
        node == self.node || self.transport.peers().contains(&(node, true))
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator").field("node", &self.0.node).finish_non_exhaustive()
    }
}
