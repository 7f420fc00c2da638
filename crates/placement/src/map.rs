//! The shard map: which nodes hold which shard, under an epoch.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_model::{Epoch, Key, NodeId, ShardId};

/// How many shards a cluster has: a power of two, fixed at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(u32);

/// Why a number of shards can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} shards: use a power of two from 1 to {max}", max = Shards::MAX)]
pub struct ShardsError(u32);

impl Shards {
    /// Beyond this a node of a small cluster would run more Raft groups than its disk can commit for.
    pub const MAX: u32 = 1_024;

    /// `count` shards.
    ///
    /// # Errors
    /// [`ShardsError`] when `count` is no power of two or beyond [`Shards::MAX`].
    pub const fn new(count: u32) -> Result<Self, ShardsError> {
        if count.is_power_of_two() && count <= Self::MAX { Ok(Self(count)) } else { Err(ShardsError(count)) }
    }

    /// How many.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// The shard that owns `key`.
    ///
    /// By the key's low bits: a shard's own table orders keys by their high bits, which so stay uniform within it.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "masked to at most ten bits")]
    pub const fn of(self, key: Key) -> ShardId {
        ShardId((key.low & (self.0 as u64 - 1)) as u32)
    }

    /// The key on `shard` that is `key` in all but the bits that say where it lies.
    #[must_use]
    pub const fn place(self, key: Key, shard: ShardId) -> Key {
        let mask = self.0 as u64 - 1;
        Key { high: key.high, low: (key.low & !mask) | (shard.0 as u64 & mask) }
    }

    /// All of them, ascending.
    pub fn iter(self) -> impl Iterator<Item = ShardId> {
        (0..self.0).map(ShardId)
    }
}

/// Where one shard lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The region that its replicas should be in; `None` = anywhere.
    pub home: Option<Arc<str>>,
    /// Distinct nodes, ascending.
    pub replicas: Vec<NodeId>,
    /// The replica that should lead while it can, so that leaders are spread evenly. A wish, never an authority.
    pub leader: Option<NodeId>,
}

/// Which nodes hold which shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardMap {
    /// Counted up at each change.
    pub epoch: Epoch,
    /// By shard.
    pub shards: Vec<Placement>,
}

impl ShardMap {
    /// Replicas that each node holds; nodes that hold none are absent.
    #[must_use]
    pub fn loads(&self) -> BTreeMap<NodeId, usize> {
        let mut loads = BTreeMap::new();
        for node in self.shards.iter().flat_map(|placement| &placement.replicas) {
            *loads.entry(*node).or_default() += 1;
        }
        loads
    }

    /// Replicas that stand in this map and not in `before`: what a change has to move.
    #[must_use]
    pub fn moved_since(&self, before: &Self) -> usize {
        let none = Placement::default();
        self.shards
            .iter()
            .enumerate()
            .map(|(shard, placement)| {
                let old = before.shards.get(shard).unwrap_or(&none);
                placement.replicas.iter().filter(|node| !old.replicas.contains(node)).count()
            })
            .sum()
    }
}
