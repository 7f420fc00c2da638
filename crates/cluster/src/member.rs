//! A node's part in a cluster, as the node sees it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_control as control;
use leasehold_model::{NodeId, RulesVersion, ShardId};
use leasehold_shard::{Acquire, Batch, LimitSpec, Reply};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::{Clock, ClusterConfig, Fatal, StartError, Unanswered};

/// How far a node is.
#[derive(Clone, Debug)]
pub enum Phase {
    /// It belongs to no cluster yet, or doesn't know its cluster's state yet; whom it waits for and why, in words.
    Waiting(String),
    /// It is a member. The control group's state, as far as this node has it; told again whenever that changes.
    Member(Arc<control::Control>),
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
pub struct Cluster(Arc<()>);

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
        todo!("{config:?} {clock:?} {fatal:?} {:?}", tokio::task::yield_now().await)
    }

    /// How far this node is, now and whenever that changes.
    #[must_use]
    pub fn phase(&self) -> watch::Receiver<Phase> {
        todo!("{self:?}")
    }

    /// This node's id: drawn when its data directory was made.
    #[must_use]
    pub fn node(&self) -> NodeId {
        todo!("{self:?}")
    }

    /// Where this node is reached.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        todo!("{self:?}")
    }

    /// Has commands applied by the leaders of their counters' shards; one reply each, in order.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn propose(&self, batch: Batch, deadline: Instant) -> Result<Vec<Reply>, Unanswered> {
        todo!("{self:?} {batch:?} {deadline:?} {:?}", tokio::task::yield_now().await)
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
        todo!("{self:?} {limits:?} {acquire:?} {deadline:?} {:?}", tokio::task::yield_now().await)
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
        todo!("{self:?} {command:?} {deadline:?} {:?}", tokio::task::yield_now().await)
    }

    /// What the replicas here hold.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        todo!("{self:?}")
    }

    /// Why clients should rather ask another node.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn health(&self) -> Result<(), String> {
        todo!("{self:?}")
    }

    /// Tells the others by which rules this node decides.
    pub fn set_rules(&self, version: RulesVersion) {
        todo!("{self:?} {version:?}")
    }

    /// Has a shard led by this replica of it.
    ///
    /// # Errors
    /// Why it isn't, in words.
    pub async fn move_leader(&self, shard: ShardId, to: NodeId) -> Result<(), String> {
        todo!("{self:?} {shard:?} {to:?} {:?}", tokio::task::yield_now().await)
    }

    /// Hands all shards that this node leads to others, before a stop.
    pub async fn hand_over(&self, within: Duration) {
        todo!("{self:?} {within:?} {:?}", tokio::task::yield_now().await)
    }

    /// Leaves the network and closes the log. The node comes back as itself when it is started with the same directory.
    pub async fn shutdown(&self) {
        todo!("{self:?} {:?}", tokio::task::yield_now().await)
    }
}
