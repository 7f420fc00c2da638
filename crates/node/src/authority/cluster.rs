//! The authority of a node in a cluster: the leader of each counter's shard, found and asked by the cluster; and for counters
//! that other nodes lead, what this node holds of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_client::{AuthoritySettings, LeaseAuthority};
use leasehold_cluster::{Cluster, Lent, Question, Told, Unanswered};
use leasehold_decide::{Authority, Proposal, ProposeError, Proposed, Terms};
use leasehold_front::AdminError;
use leasehold_lease::EdgeId;
use leasehold_limit::Decision;
use leasehold_model::{ShardId, TenantId};
use leasehold_shard::{Acquire, Batch, LeaseNumbers, LimitSpec, Reply};
use tokio::time::Instant;

use super::upstream::{NodeClock, NodeUpstream};
use super::{Holdings, NodeAuthority};

/// How long a caller who names no time waits at most: longer than it takes to elect another leader in place of one that
/// died, so that only its callers notice who can't wait.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// The leases of a node on counters that other nodes lead.
pub(crate) type NodeLeases = LeaseAuthority<NodeUpstream>;

/// Asks the cluster for what isn't held here.
#[derive(Debug)]
pub(crate) struct ClusterAuthority {
    cluster: Cluster,
    patience: Duration,
    leases: Option<Arc<NodeLeases>>,
}

impl ClusterAuthority {
    /// Of a node whose requests may take `request_timeout`.
    pub(crate) fn new(cluster: Cluster, request_timeout: Duration) -> Self {
        Self { cluster, patience: request_timeout.min(PATIENCE_MAX), leases: None }
    }

    /// One that holds leases, as `edge`: a number drawn for this life of the process.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn leasing(self, edge: EdgeId) -> Self {
        let upstream = Arc::new(NodeUpstream::new(self.cluster.clone(), edge));
        let settings = AuthoritySettings { patience: self.patience, ..AuthoritySettings::default() };
        let leases = LeaseAuthority::start(upstream, Arc::new(NodeClock), settings);
        Self { leases: Some(Arc::new(leases)), ..self }
    }

    /// What this node holds of counters that others lead; `None`: it holds none, by its configuration.
    pub(crate) const fn leases(&self) -> Option<&Arc<NodeLeases>> {
        self.leases.as_ref()
    }

    /// The cluster that is asked.
    pub(crate) const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Has a batch applied by the leaders of its counters' shards.
    pub(crate) async fn ask(&self, batch: Batch, deadline: Instant) -> Result<Vec<Reply>, ProposeError> {
        self.cluster.propose(batch, deadline).await.map_err(error)
    }

    /// What an acquire would be answered.
    pub(crate) async fn look(
        &self,
        limits: &[LimitSpec],
        acquire: &Acquire,
        deadline: Instant,
    ) -> Result<Reply, ProposeError> {
        self.cluster.preview(limits, acquire, deadline).await.map_err(error)
    }

    fn until(&self, deadline: Option<Instant>) -> Instant {
        deadline.unwrap_or_else(|| Instant::now() + self.patience)
    }
}

impl Authority for ClusterAuthority {
    fn patience(&self) -> Option<Duration> {
        Some(self.patience)
    }

    async fn propose(&self, proposal: Proposal, deadline: Option<Instant>) -> Result<Proposed, ProposeError> {
        if let Some(leases) = &self.leases {
            return leases.propose(proposal, deadline).await;
        }
        let mut replies = self.ask(proposal.batch, self.until(deadline)).await?;
        // A proposal has one command, and so one reply.
        let reply = replies.pop();
        reply.map(Proposed::by_owner).ok_or(ProposeError::Unreachable)
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        terms: &[Terms],
        acquire: &Acquire,
        deadline: Option<Instant>,
    ) -> Result<Proposed, ProposeError> {
        if let Some(leases) = &self.leases {
            return leases.preview(limits, terms, acquire, deadline).await;
        }
        self.look(limits, acquire, self.until(deadline)).await.map(Proposed::by_owner)
    }

    fn stand_in(&self, acquire: &Acquire, limits: &[LimitSpec], terms: &[Terms]) -> Vec<Option<Decision>> {
        let leases = self.leases.as_ref();
        leases.map_or_else(Vec::new, |leases| leases.stand_in(acquire, limits, terms))
    }

    fn health(&self) -> Result<(), String> {
        self.cluster.health()
    }
}

impl NodeAuthority for ClusterAuthority {
    fn holdings(&self) -> Holdings {
        let holdings = self.cluster.holdings();
        Holdings { keys: holdings.keys, evicted: holdings.evicted }
    }

    fn lease_numbers(&self) -> Vec<(ShardId, LeaseNumbers)> {
        self.cluster.lease_numbers()
    }

    async fn lent(&self, tenant: Option<TenantId>, most: u32) -> Result<Lent, AdminError> {
        self.cluster.lent(tenant, most).await.map_err(|why| AdminError::Unavailable(why.to_string()))
    }

    async fn ask_members(&self, question: Question, payload: Bytes) -> Vec<Told> {
        // Who belongs to no cluster yet knows no others.
        self.cluster.ask_members(question, payload).await.unwrap_or_default()
    }

    fn state_hash(&self) -> Option<u128> {
        // Each replica has its own: they are in the cluster's report.
        None
    }
}

pub(super) fn error(unanswered: Unanswered) -> ProposeError {
    match unanswered {
        Unanswered::Deadline | Unanswered::Unreached => ProposeError::Unreachable,
        Unanswered::Overloaded => ProposeError::Overloaded("more asks wait for the counters than may"),
        Unanswered::Forming => ProposeError::Overloaded("the cluster is forming"),
        Unanswered::Stopping => ProposeError::Overloaded("the node is stopping"),
    }
}
