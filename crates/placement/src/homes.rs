//! Where shards are at home: settled once, when a cluster is made.
//!
//! Invariant: homes follow from the first members alone. A region is a home only if it can hold a whole shard, so that what is
//! at home in it needs no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Layout, LayoutError, Member, Placement, ShardMap, assign};

/// The first map of a cluster. Shards are at home in its members' regions by turns, as far as those have as many eligible
/// members as there are replicas; they are at home nowhere when all members are in one region, or name none.
///
/// # Errors
/// [`LayoutError`].
pub fn first_map(layout: &Layout, members: &[Member]) -> Result<ShardMap, LayoutError> {
    let homes = homes(members, layout.replicas);
    let mut turns = homes.iter().cycle();
    let shards =
        layout.shards.iter().map(|_| Placement { home: turns.next().cloned(), ..Placement::default() });
    let before = ShardMap { shards: shards.collect(), ..ShardMap::default() };
    assign(layout, members, &before)
}

/// The regions that shards may be at home in, in the order of their names.
fn homes(members: &[Member], replicas: usize) -> Vec<Arc<str>> {
    let mut regions: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    for member in members.iter().filter(|member| !member.region.is_empty()) {
        *regions.entry(&member.region).or_default() += usize::from(member.eligible());
    }
    if regions.len() < 2 {
        return Vec::new();
    }
    let large = regions.into_iter().filter(|(_, nodes)| *nodes >= replicas);
    large.map(|(region, _)| Arc::clone(region)).collect()
}

#[cfg(test)]
mod tests;
