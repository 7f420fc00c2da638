//! The machine of one shard: what Raft replicates, what the simulator breaks, what one node runs alone.
//!
//! Invariant: `apply` is pure, deterministic and total. Equal command prefixes give equal state hashes on every replica.
//! What an answer rests on is in the snapshot, but for the bounds: on replicas they must come with every
//! batch ([`Batch::bounds`]).

mod apply;
mod clock;
mod command;
mod directory;
mod evaluate;
mod hash;
mod intern;
mod lease;
mod lent;
mod pack;
mod replies;
mod snapshot;
mod sweep;
mod table;

pub use clock::SteeredClock;
pub use command::{
    Acquire, Acquired, Batch, Bounds, Command, DECISIONS_PER_REPLY, Demand, LeaseCommand, LimitSpec, Refund,
    RefundItem, Refusal, Reply, Reset, Settled,
};
pub use hash::checksum;
pub use intern::Under;
pub use lent::{LeaseNumbers, LentLease, LentLeases};
pub use replies::Remembered;
pub use snapshot::{RestoreError, Snapshot, SnapshotCounter};

use leasehold_lease::Ledger;
use leasehold_limit::State;
use leasehold_model::{Key, Stamp, TimeLine};

use intern::Interned;
use replies::Replies;
use table::Table;

/// One shard's counters, what is out of them on leases, its reply cache and its time line.
#[derive(Debug)]
pub struct Shard {
    bounds: Bounds,
    time: TimeLine,
    table: Table,
    limits: Interned,
    replies: Replies,
    /// A counter is kept as long as units of it are out.
    ledger: Ledger,
    /// Where the sweep looks next.
    cursor: Key,
    /// For operators; influences nothing.
    evicted: u64,
}

impl Shard {
    /// An empty shard that keeps within `bounds`.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            time: TimeLine::default(),
            table: Table::new(),
            limits: Interned::default(),
            replies: Replies::default(),
            ledger: Ledger::default(),
            cursor: Key::MIN,
            evicted: 0,
        }
    }

    /// Applies every command in order at `max(at, last)`; one reply a command, in order.
    ///
    /// How commands are cut into batches changes nothing, as long as each has the same stamp. An empty batch is a tick: it
    /// moves time and drops what has become fresh. A counter keeps the newest numbers it was charged under: an ask
    /// with an older rule set's is decided by those, one with newer numbers as if it had been carried over when they
    /// [came into force](LimitSpec::since), and it is stored so when it is charged.
    pub fn apply(&mut self, batch: &Batch, at: Stamp) -> Vec<Reply> {
        let at = self.time.advance(at);
        if let Some(bounds) = batch.bounds {
            self.bounds = bounds;
        }
        for settled in &batch.settled {
            self.replies.settle(settled.session, settled.below);
        }
        if batch.commands.is_empty() {
            self.tick(at);
        }
        batch.commands.iter().map(|command| self.command(&batch.limits, command, at)).collect()
    }

    /// What `acquire` would be answered at `at`, without taking, recording or moving time.
    #[must_use]
    pub fn preview(&self, limits: &[LimitSpec], acquire: &Acquire, at: Stamp) -> Reply {
        self.consider(limits, acquire, self.time.read(at)).map_or_else(|reply| reply, apply::Open::into_reply)
    }

    /// The reply to `acquire` if applying it would change nothing, so that it needs no entry in a log: a peek, a denial
    /// that isn't to be remembered, or a reply that is.
    ///
    /// `None` for the refusal of a full tenant: applying that one makes the sweep look for room.
    #[must_use]
    pub fn settled(&self, limits: &[LimitSpec], acquire: &Acquire, at: Stamp) -> Option<Reply> {
        match self.consider(limits, acquire, self.time.read(at)) {
            Err(Reply::Refused(Refusal::KeysFull(_) | Refusal::RepliesFull(_))) => None,
            Err(reply) => Some(reply),
            Ok(open) => open.changes_nothing().then(|| open.into_reply()),
        }
    }

    /// The latest stamp applied.
    #[must_use]
    pub fn last(&self) -> Stamp {
        self.time.last()
    }

    /// Counters held now.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.table.len()
    }

    /// Replies remembered now.
    #[must_use]
    pub fn replies(&self) -> usize {
        self.replies.held()
    }

    /// A counter as it is stored, and the numbers it was last charged under. For operators and tests.
    #[must_use]
    pub fn counter(&self, key: Key) -> Option<(&Under, State)> {
        let counter = self.table.get(key)?;
        Some((self.limits.get(counter.limit), counter.state.into_owned()))
    }

    /// Counters dropped so far, by this process, because they equalled fresh ones.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// A hash of everything that can influence an answer: equal on replicas that applied the same commands, restored from
    /// a snapshot or not. Walks everything: some 40 ms at a million counters.
    #[must_use]
    pub fn state_hash(&self) -> u128 {
        hash::state_hash(self)
    }
}
