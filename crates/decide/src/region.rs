//! The region that a process decides in: counters of limits with `scope: region` are its own and stay in it.
//!
//! Invariant: a region's keys follow from the secret, its name and the shards at home in it, so that its nodes and edges name
//! the same counters; two regions never name the same one. Where shards are is for others to know: the key says it.

use std::sync::Arc;

use leasehold_limit::KeySecret;
use leasehold_limit::rules::{Rule, Scope};
use leasehold_model::{Key, ShardId};
use leasehold_placement::Shards;

/// One region, as its own nodes and edges see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Xored to a key.
    salt: Salt,
    /// `None`: nothing is at home in it, and its counters lie anywhere.
    homes: Option<Homes>,
}

/// `Debug` hides it: it follows from the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Salt(u128);

impl std::fmt::Debug for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Salt(..)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Homes {
    shards: Shards,
    /// Ascending, at least one.
    here: Arc<[ShardId]>,
}

impl Region {
    /// The region of this name in a cluster of so many shards, of which these are at home in it. `None`: without a name it is
    /// no region, and what counts by region counts as one there.
    #[must_use]
    pub fn new(
        secret: &KeySecret,
        name: &str,
        shards: u32,
        homes: impl IntoIterator<Item = ShardId>,
    ) -> Option<Self> {
        if name.is_empty() {
            return None;
        }
        let mut here: Vec<_> = homes.into_iter().filter(|shard| shard.0 < shards).collect();
        here.sort_unstable();
        here.dedup();
        let shards = Shards::new(shards).ok().filter(|_| !here.is_empty());
        let homes = shards.map(|shards| Homes { shards, here: here.into() });
        Some(Self { salt: Salt(secret.region(name)), homes })
    }

    /// The region's counter for what is `key` elsewhere.
    #[must_use]
    pub fn key(&self, key: Key) -> Key {
        let own = Key::from_u128(key.to_u128() ^ self.salt.0);
        let Some(Homes { shards, here }) = &self.homes else { return own };
        // By bits that stay as they are, so that the choice follows from the key.
        let count = u64::try_from(here.len()).expect("at most 1,024 shards");
        let place = usize::try_from((own.low >> 32) % count).expect("at most 1,024 shards");
        shards.place(own, here[place])
    }
}

/// The counter that a rule's `key` stands for in this region.
pub(crate) fn counter(region: Option<&Region>, rule: &Rule, key: Key) -> Key {
    match (rule.scope, region) {
        (Scope::Region, Some(region)) => region.key(key),
        (Scope::Region, None) | (Scope::Global, _) => key,
    }
}

#[cfg(test)]
mod tests;
