//! The authority of a node in a cluster: the leader of each counter's shard, found and asked by the cluster.

use std::time::Duration;

use leasehold_cluster::{Cluster, Unanswered};
use leasehold_shard::{Acquire, Batch, LimitSpec, Reply};
use tokio::time::Instant;

use super::{Authority, Holdings, ProposeError};

/// How long a caller who names no time waits at most: longer than it takes to elect another leader in place of one that
/// died, so that only its callers notice who can't wait.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// Asks the cluster.
#[derive(Debug)]
pub(crate) struct ClusterAuthority {
    cluster: Cluster,
    patience: Duration,
}

impl ClusterAuthority {
    /// Of a node whose requests may take `request_timeout`.
    pub(crate) fn new(cluster: Cluster, request_timeout: Duration) -> Self {
        Self { cluster, patience: request_timeout.min(PATIENCE_MAX) }
    }

    fn until(&self, deadline: Option<Instant>) -> Instant {
        deadline.unwrap_or_else(|| Instant::now() + self.patience)
    }
}

impl Authority for ClusterAuthority {
    fn patience(&self) -> Option<Duration> {
        Some(self.patience)
    }

    async fn propose(&self, batch: Batch, deadline: Option<Instant>) -> Result<Vec<Reply>, ProposeError> {
        self.cluster.propose(batch, self.until(deadline)).await.map_err(ProposeError::from)
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        acquire: &Acquire,
        deadline: Option<Instant>,
    ) -> Result<Reply, ProposeError> {
        self.cluster.preview(limits, acquire, self.until(deadline)).await.map_err(ProposeError::from)
    }

    fn holdings(&self) -> Holdings {
        let holdings = self.cluster.holdings();
        Holdings { keys: holdings.keys, evicted: holdings.evicted }
    }

    fn state_hash(&self) -> Option<u128> {
        // Each replica has its own: they are in the cluster's report.
        None
    }

    fn health(&self) -> Result<(), String> {
        self.cluster.health()
    }
}

impl From<Unanswered> for ProposeError {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Deadline | Unanswered::Unreached => Self::Unreachable,
            Unanswered::Overloaded => Self::Overloaded("more asks wait for the counters than may"),
            Unanswered::Forming => Self::Overloaded("the cluster is forming"),
            Unanswered::Stopping => Self::Overloaded("the node is stopping"),
        }
    }
}
