//! The owners of counters: a node's own shard when it runs alone, else its cluster.

use std::future::Future;

use leasehold_cluster::Phase;
use leasehold_decide::ProposeError;
use leasehold_model::ShardId;
use leasehold_placement::Shards;
use leasehold_shard::{Acquire, Batch, LimitSpec, Reply};
use tokio::time::Instant;

use crate::authority::{ClusterAuthority, LocalAuthority};

/// Whoever may change counters, asked for many at once.
pub(crate) trait Owners: Send + Sync + 'static {
    /// How counters are spread over shards. `None`: there is one shard, or nothing is known yet.
    fn shards(&self) -> Option<Shards>;

    /// What edges are told of the shards around them.
    fn home(&self) -> Home;

    /// Has a batch applied; one reply a command, in order. It ends by `deadline`.
    ///
    /// # Errors
    /// It could not be applied, or it isn't known whether it was.
    fn apply(
        &self,
        batch: Batch,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<Reply>, ProposeError>> + Send;

    /// What an acquire would be answered. It ends by `deadline`.
    ///
    /// # Errors
    /// Nobody who knows can be asked.
    fn look(
        &self,
        limits: Vec<LimitSpec>,
        acquire: Acquire,
        deadline: Instant,
    ) -> impl Future<Output = Result<Reply, ProposeError>> + Send;
}

/// The shards around a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Home {
    /// In all; 0: there is only one.
    pub(crate) shards: u32,
    /// Those whose home is the node's region.
    pub(crate) here: Vec<ShardId>,
}

impl Owners for LocalAuthority {
    fn shards(&self) -> Option<Shards> {
        None
    }

    fn home(&self) -> Home {
        Home::default()
    }

    async fn apply(&self, batch: Batch, _: Instant) -> Result<Vec<Reply>, ProposeError> {
        Ok(Self::apply(self, &batch))
    }

    async fn look(
        &self,
        limits: Vec<LimitSpec>,
        acquire: Acquire,
        _: Instant,
    ) -> Result<Reply, ProposeError> {
        Ok(Self::look(self, &limits, &acquire))
    }
}

impl Owners for ClusterAuthority {
    fn shards(&self) -> Option<Shards> {
        match &*self.cluster().phase().borrow() {
            Phase::Member(control) => control.layout().map(|layout| layout.shards),
            Phase::Waiting(_) => None,
        }
    }

    fn home(&self) -> Home {
        let phase = self.cluster().phase();
        let Phase::Member(control) = &*phase.borrow() else { return Home::default() };
        let node = control.nodes().get(&self.cluster().node());
        let region = node.map(|node| &node.region);
        let here = (0..).map(ShardId).zip(&control.map().shards);
        let here =
            here.filter(|(_, placement)| placement.home.is_some() && placement.home.as_ref() == region);
        Home {
            shards: control.layout().map_or(0, |layout| layout.shards.count()),
            here: here.map(|(shard, _)| shard).collect(),
        }
    }

    async fn apply(&self, batch: Batch, deadline: Instant) -> Result<Vec<Reply>, ProposeError> {
        self.ask(batch, deadline).await
    }

    async fn look(
        &self,
        limits: Vec<LimitSpec>,
        acquire: Acquire,
        deadline: Instant,
    ) -> Result<Reply, ProposeError> {
        Self::look(self, &limits, &acquire, deadline).await
    }
}
