//! The cluster, as a node's own wallet asks it: by the shards of its keys, each ask under the id that its owner remembers.
//!
//! Invariant: an ask that is under way isn't put a second time: the cluster asks again by itself until the ask's deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use leasehold_client::{Answers, Clock, Grant, NoGrant, Upstream, UpstreamAnswer, UpstreamAsk};
use leasehold_cluster::Cluster;
use leasehold_decide::{Proposal, ProposeError, Terms};
use leasehold_lease::EdgeId;
use leasehold_model::{BootTime, Key, Nanos, RequestId, ShardId};
use leasehold_shard::{Acquire, Batch, Command, LeaseCommand, LimitSpec, Reply, Settled};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::cluster::error;
use crate::clock;

/// Assumed until an answer was timed.
const ROUND_TRIP_FIRST: Nanos = Nanos::from_millis(5);

/// The node's clock, for its wallet: there is one in a process.
#[derive(Debug)]
pub(super) struct NodeClock;

impl Clock for NodeClock {
    fn boot(&self) -> BootTime {
        clock::boot()
    }
}

/// See the module.
pub(crate) struct NodeUpstream {
    edge: EdgeId,
    cluster: Cluster,
    runtime: Handle,
    asking: Arc<Asking>,
}

impl fmt::Debug for NodeUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeUpstream").field("edge", &self.edge).finish_non_exhaustive()
    }
}

/// What the tasks that ask have in common.
#[derive(Debug)]
struct Asking {
    under_way: Mutex<BTreeSet<RequestId>>,
    round_trip_ns: AtomicU64,
    hops: AtomicU64,
}

impl NodeUpstream {
    /// Asks as `edge`, a number drawn for this life of the process.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn new(cluster: Cluster, edge: EdgeId) -> Self {
        let round_trip_ns = AtomicU64::new(ROUND_TRIP_FIRST.0);
        let asking = Asking { under_way: Mutex::default(), round_trip_ns, hops: AtomicU64::new(0) };
        Self { edge, cluster, runtime: Handle::current(), asking: Arc::new(asking) }
    }

    /// Asks of counters that other nodes led at the time, since the start.
    pub(crate) fn hops(&self) -> u64 {
        self.asking.hops.load(Relaxed)
    }

    fn count(&self, shard: ShardId, asks: usize) {
        if !self.cluster.leads(shard) {
            self.asking.hops.fetch_add(u64::try_from(asks).unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Asks by shard, but for those that are under way.
    fn by_shard(&self, asks: Vec<UpstreamAsk>) -> BTreeMap<ShardId, Vec<UpstreamAsk>> {
        let shards = self.cluster.shards();
        let mut under_way = self.asking.under_way.lock();
        let mut by_shard: BTreeMap<ShardId, Vec<UpstreamAsk>> = BTreeMap::new();
        for ask in asks.into_iter().filter(|ask| under_way.insert(ask.id)) {
            let shard = shards.map_or(ShardId(0), |shards| shards.of(ask.ask.key));
            by_shard.entry(shard).or_default().push(ask);
        }
        by_shard
    }
}

impl Upstream for NodeUpstream {
    fn edge(&self) -> EdgeId {
        self.edge
    }

    fn lease(&self, asks: Vec<UpstreamAsk>, settled: Settled, deadline: Instant, answers: &Answers) {
        for (shard, asks) in self.by_shard(asks) {
            self.count(shard, asks.len());
            let (cluster, asking, answers) =
                (self.cluster.clone(), Arc::clone(&self.asking), answers.clone());
            self.runtime.spawn(async move {
                let ids: Vec<_> = asks.iter().map(|ask| ask.id).collect();
                let sent = clock::boot();
                let replies = cluster.propose(batch(asks, settled), deadline).await.map_err(error);
                if replies.is_ok() {
                    asking.took(clock::boot().since(sent));
                }
                asking.ended(&ids);
                for answer in told(&ids, replies) {
                    // The wallet is gone when the node ends.
                    let _ = answers.send(answer);
                }
            });
        }
    }

    async fn propose(&self, proposal: Proposal, deadline: Instant) -> Result<Reply, ProposeError> {
        if let Some(Command::Acquire(acquire)) = proposal.batch.commands.first() {
            let shards: BTreeSet<_> = acquire.demands.iter().map(|demand| self.shard(demand.key)).collect();
            shards.into_iter().for_each(|shard| self.count(shard, 1));
        }
        let mut replies = self.cluster.propose(proposal.batch, deadline).await.map_err(error)?;
        // A proposal has one command, and so one reply.
        replies.pop().ok_or(ProposeError::Unreachable)
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        _: &[Terms],
        acquire: &Acquire,
        deadline: Instant,
    ) -> Result<Reply, ProposeError> {
        self.cluster.preview(limits, acquire, deadline).await.map_err(error)
    }

    fn shard(&self, key: Key) -> ShardId {
        self.cluster.shards().map_or(ShardId(0), |shards| shards.of(key))
    }

    fn is_here(&self, key: Key) -> bool {
        self.cluster.leads(self.shard(key))
    }

    fn round_trip(&self) -> Nanos {
        Nanos(self.asking.round_trip_ns.load(Relaxed))
    }
}

impl Asking {
    fn ended(&self, ids: &[RequestId]) {
        let mut under_way = self.under_way.lock();
        for id in ids {
            under_way.remove(id);
        }
    }

    /// An eighth of the new, seven of the old. Of two at once one may be missed.
    fn took(&self, time: Nanos) {
        let old = self.round_trip_ns.load(Relaxed);
        self.round_trip_ns.store(old - old / 8 + time.0 / 8, Relaxed);
    }
}

/// Asks of one shard in one batch.
fn batch(asks: Vec<UpstreamAsk>, settled: Settled) -> Batch {
    let mut batch = Batch { settled: vec![settled], ..Batch::default() };
    for UpstreamAsk { id, spec, ask, .. } in asks {
        let limit = batch.limits.iter().position(|known| *known == *spec).unwrap_or_else(|| {
            batch.limits.push(spec.as_ref().clone());
            batch.limits.len() - 1
        });
        let limit = u32::try_from(limit).expect("a wallet puts few asks at once");
        // Usage is told in totals: it may be told twice.
        let id = (ask.need > 0 || ask.want > 0).then_some(id);
        batch.commands.push(Command::Lease(LeaseCommand { id, limit, ask }));
    }
    batch
}

/// One answer for each ask.
fn told(ids: &[RequestId], replies: Result<Vec<Reply>, ProposeError>) -> Vec<UpstreamAnswer> {
    let outcomes: Vec<_> = match replies {
        Ok(replies) if replies.len() == ids.len() => replies.into_iter().map(outcome).collect(),
        Ok(_) | Err(ProposeError::Unreachable) => vec![Err(NoGrant::Unreachable); ids.len()],
        Err(ProposeError::Overloaded(_)) => vec![Err(NoGrant::Overloaded); ids.len()],
    };
    let answers = ids.iter().zip(outcomes);
    answers.map(|(&id, outcome)| UpstreamAnswer { id, outcome }).collect()
}

fn outcome(reply: Reply) -> Result<Grant, NoGrant> {
    match reply {
        Reply::Leased(leased) => Ok(Grant { leased, slot_parts: 1 }),
        Reply::Refused(refusal) => Err(NoGrant::Refused(refusal)),
        Reply::Acquired(_) | Reply::Refunded(_) | Reply::Reset(_) => Err(NoGrant::Unreachable),
    }
}

#[cfg(test)]
mod tests;
