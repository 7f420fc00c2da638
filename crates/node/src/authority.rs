//! Who may change counters. On one node it is a shard behind a lock; in a cluster, the leader of the key's shard.
//!
//! Invariant: stamps are taken under the lock that orders the commands, so that a later command never has an earlier one.

mod cluster;
mod upstream;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_cluster::{Lent, Question, Told};
use leasehold_decide::{Authority, Proposal, ProposeError, Proposed, Terms};
use leasehold_front::AdminError;
use leasehold_model::{ShardId, Stamp, TenantId};
use leasehold_shard::{
    Acquire, Batch, Bounds, LeaseNumbers, LentLeases, LimitSpec, Reply, Shard, SteeredClock,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clock;
pub(crate) use cluster::{ClusterAuthority, NodeLeases};

/// An authority of a node, which holds counters itself.
pub(crate) trait NodeAuthority: Authority {
    /// What is held here now.
    fn holdings(&self) -> Holdings;

    /// What is out on leases of the shards that this node answers for, in numbers.
    fn lease_numbers(&self) -> Vec<(ShardId, LeaseNumbers)>;

    /// The `most` leases with the most units out, and all in numbers; the leases of one tenant's counters only, if one is
    /// named.
    ///
    /// # Errors
    /// The node can't ask anybody yet.
    fn lent(
        &self,
        tenant: Option<TenantId>,
        most: u32,
    ) -> impl Future<Output = Result<Lent, AdminError>> + Send;

    /// What all other members say to a question; nobody, where there are none.
    fn ask_members(&self, question: Question, payload: Bytes) -> impl Future<Output = Vec<Told>> + Send;

    /// Hash of the state of a node that holds all there is. Walks all of it, and nothing is decided meanwhile: for an
    /// operator's question, not for every scrape, and off the async threads.
    fn state_hash(&self) -> Option<u128>;
}

/// The shard of a node that runs alone.
const ONLY: ShardId = ShardId(0);

/// A shard in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    pub(crate) keys: u64,
    pub(crate) evicted: u64,
}

/// The authority of a node that runs alone. Its counters end with the process.
#[derive(Debug)]
pub(crate) struct LocalAuthority {
    owner: Arc<Mutex<Owner>>,
}

#[derive(Debug)]
struct Owner {
    shard: Shard,
    line: SteeredClock,
}

impl LocalAuthority {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let owner = Owner { shard: Shard::new(bounds), line: clock::start_line() };
        Self { owner: Arc::new(Mutex::new(owner)) }
    }

    /// What tells the time that commands are stamped with.
    pub(crate) fn line(&self) -> Line {
        Line(Arc::clone(&self.owner))
    }

    /// Moves the shard's time on although nothing is asked, so that what equals a fresh counter is dropped.
    pub(crate) fn sweep(&self) {
        self.apply(&Batch::default());
    }

    /// Applies a batch; one reply a command.
    pub(crate) fn apply(&self, batch: &Batch) -> Vec<Reply> {
        let mut owner = self.owner.lock();
        let at = clock::stamp(&mut owner.line);
        owner.shard.apply(batch, at)
    }

    /// What an acquire would be answered now.
    pub(crate) fn look(&self, limits: &[LimitSpec], acquire: &Acquire) -> Reply {
        let mut owner = self.owner.lock();
        let at = clock::stamp(&mut owner.line);
        owner.shard.preview(limits, acquire, at)
    }
}

/// Reads the time line of an authority's counters: what is stamped after a reading isn't earlier than it.
#[derive(Clone, Debug)]
pub(crate) struct Line(Arc<Mutex<Owner>>);

impl Line {
    pub(crate) fn now(&self) -> Stamp {
        clock::stamp(&mut self.0.lock().line)
    }
}

impl Authority for LocalAuthority {
    fn patience(&self) -> Option<Duration> {
        None
    }

    async fn propose(&self, proposal: Proposal, _: Option<Instant>) -> Result<Proposed, ProposeError> {
        // A proposal has one command, and so one reply.
        self.apply(&proposal.batch).pop().map(Proposed::by_owner).ok_or(ProposeError::Unreachable)
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        _: &[Terms],
        acquire: &Acquire,
        _: Option<Instant>,
    ) -> Result<Proposed, ProposeError> {
        Ok(Proposed::by_owner(self.look(limits, acquire)))
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

impl NodeAuthority for LocalAuthority {
    fn holdings(&self) -> Holdings {
        let owner = self.owner.lock();
        Holdings {
            keys: u64::try_from(owner.shard.keys()).unwrap_or(u64::MAX),
            evicted: owner.shard.evicted(),
        }
    }

    fn lease_numbers(&self) -> Vec<(ShardId, LeaseNumbers)> {
        vec![(ONLY, self.owner.lock().shard.lease_numbers())]
    }

    async fn lent(&self, tenant: Option<TenantId>, most: u32) -> Result<Lent, AdminError> {
        let owner = Arc::clone(&self.owner);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let look = tokio::task::spawn_blocking(move || {
            let mut owner = owner.lock();
            let now = clock::stamp(&mut owner.line);
            (owner.shard.lent(tenant, now, most), owner.shard.lease_numbers())
        });
        // It panicked, which left a line, or the runtime is going down.
        let (LentLeases { leases, more }, numbers) = look.await.unwrap_or_default();
        let leases = leases.into_iter().map(|lease| (ONLY, lease)).collect();
        Ok(Lent { leases, more, numbers, unanswered: 0 })
    }

    async fn ask_members(&self, _: Question, _: Bytes) -> Vec<Told> {
        Vec::new()
    }

    fn state_hash(&self) -> Option<u128> {
        Some(self.owner.lock().shard.state_hash())
    }
}
