//! The machine of one shard: what Raft replicates, what the simulator breaks, what one node runs alone.
//!
//! Invariant: `apply` is pure, deterministic and total. Equal command prefixes give equal state hashes on every replica.

mod command;

pub use command::{
    Acquire, Acquired, Batch, Bounds, Command, Demand, LimitSpec, Refund, RefundItem, Refusal, Reply, Reset,
};

use leasehold_model::Stamp;

/// One shard's counters, its reply cache and its time line.
#[derive(Debug)]
pub struct Shard {}

impl Shard {
    /// An empty shard that keeps within `bounds`.
    #[must_use]
    pub fn new(_bounds: Bounds) -> Self {
        todo!()
    }

    /// Applies every command in order at `max(at, last)`; one reply a command, in order.
    pub fn apply(&mut self, _batch: &Batch, _at: Stamp) -> Vec<Reply> {
        todo!()
    }

    /// What `acquire` would be answered at `at`, without taking, recording or moving time.
    #[must_use]
    pub fn preview(&self, _limits: &[LimitSpec], _acquire: &Acquire, _at: Stamp) -> Reply {
        todo!()
    }

    /// The latest stamp applied.
    #[must_use]
    pub fn last(&self) -> Stamp {
        todo!()
    }

    /// Counters held now.
    #[must_use]
    pub fn keys(&self) -> usize {
        todo!()
    }

    /// Counters dropped so far because they equalled fresh ones.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        todo!()
    }

    /// A hash of everything that can influence an answer: equal on replicas that applied the same commands.
    #[must_use]
    pub fn state_hash(&self) -> u128 {
        todo!()
    }
}
