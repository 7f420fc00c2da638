//! Who may change counters. On one node it is a shard behind a lock; in a cluster, the leader of the key's shard.
//!
//! Invariant: stamps are taken under the lock that orders the commands, so that a later command never has an earlier one.

use std::future::Future;
use std::sync::Arc;

use leasehold_model::Stamp;
use leasehold_shard::{Acquire, Batch, Bounds, LimitSpec, Reply, Shard, SteeredClock};
use parking_lot::Mutex;

use crate::clock;

/// Stamps commands, applies them in one order, and answers.
pub(crate) trait Authority: Send + Sync + 'static {
    /// Applies a batch; one reply a command, in order. Nothing happens before the future is polled.
    ///
    /// # Errors
    /// It could not be applied, or it isn't known whether it was. A retry under the same request ids is safe.
    fn propose(&self, batch: Batch) -> impl Future<Output = Result<Vec<Reply>, ProposeError>> + Send;

    /// What an acquire would be answered now. Takes and records nothing.
    ///
    /// # Errors
    /// Nobody who knows can be asked.
    fn preview(
        &self,
        limits: &[LimitSpec],
        acquire: &Acquire,
    ) -> impl Future<Output = Result<Reply, ProposeError>> + Send;

    /// What is held now.
    fn holdings(&self) -> Holdings;

    /// Hash of the state, for comparing replicas. Walks all of it, and nothing is decided meanwhile: for an
    /// operator's question, not for every scrape, and off the async threads.
    fn state_hash(&self) -> u128;
}

/// Nobody answered: the declared failure behaviour of each limit stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the counters cannot be reached")]
pub(crate) struct ProposeError;

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
    async fn propose(&self, batch: Batch) -> Result<Vec<Reply>, ProposeError> {
        Ok(self.apply(&batch))
    }

    async fn preview(&self, limits: &[LimitSpec], acquire: &Acquire) -> Result<Reply, ProposeError> {
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

    fn state_hash(&self) -> u128 {
        self.owner.lock().shard.state_hash()
    }
}
