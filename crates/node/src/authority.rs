//! Who may change counters. On one node it is a shard behind a lock; in a cluster, the leader of the key's shard.
//!
//! Invariant: stamps are taken under the lock that orders the commands, so that a later command never has an earlier one.

mod cluster;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_model::Stamp;
use leasehold_shard::{Acquire, Batch, Bounds, LimitSpec, Reply, Shard, SteeredClock};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clock;
pub(crate) use cluster::ClusterAuthority;

/// Stamps commands, applies them in one order, and answers.
pub(crate) trait Authority: Send + Sync + 'static {
    /// How long a caller who names no time is kept waiting at most. `None`: nothing here makes anybody wait.
    fn patience(&self) -> Option<Duration>;

    /// Applies a batch; one reply a command, in order. Nothing happens before the future is polled, and it ends by
    /// `deadline`.
    ///
    /// # Errors
    /// It could not be applied, or it isn't known whether it was. A retry under the same request ids is safe.
    fn propose(
        &self,
        batch: Batch,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Vec<Reply>, ProposeError>> + Send;

    /// What an acquire would be answered now. Takes and records nothing, and ends by `deadline`.
    ///
    /// # Errors
    /// Nobody who knows can be asked.
    fn preview(
        &self,
        limits: &[LimitSpec],
        acquire: &Acquire,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Reply, ProposeError>> + Send;

    /// What is held here now.
    fn holdings(&self) -> Holdings;

    /// Hash of the state of a node that holds all there is. Walks all of it, and nothing is decided meanwhile: for an
    /// operator's question, not for every scrape, and off the async threads.
    fn state_hash(&self) -> Option<u128>;

    /// Why traffic should not come here although the doors are open and the rules are known.
    ///
    /// # Errors
    /// The reason.
    fn health(&self) -> Result<(), String>;
}

/// Why the counters have not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProposeError {
    /// Nobody answered in time: the declared failure behaviour of each limit stands in.
    #[error("the counters cannot be reached")]
    Unreachable,
    /// Nothing was done, and the caller should come back: the declared behaviour would let everybody pass who sends
    /// enough.
    #[error("{0}")]
    Overloaded(&'static str),
}

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

    fn apply(&self, batch: &Batch) -> Vec<Reply> {
        let mut owner = self.owner.lock();
        let at = clock::stamp(&mut owner.line);
        owner.shard.apply(batch, at)
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

    async fn propose(&self, batch: Batch, _: Option<Instant>) -> Result<Vec<Reply>, ProposeError> {
        Ok(self.apply(&batch))
    }

    async fn preview(
        &self,
        limits: &[LimitSpec],
        acquire: &Acquire,
        _: Option<Instant>,
    ) -> Result<Reply, ProposeError> {
        let mut owner = self.owner.lock();
        let at = clock::stamp(&mut owner.line);
        Ok(owner.shard.preview(limits, acquire, at))
    }

    fn holdings(&self) -> Holdings {
        let owner = self.owner.lock();
        Holdings {
            keys: u64::try_from(owner.shard.keys()).unwrap_or(u64::MAX),
            evicted: owner.shard.evicted(),
        }
    }

    fn state_hash(&self) -> Option<u128> {
        Some(self.owner.lock().shard.state_hash())
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}
