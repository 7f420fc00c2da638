//! From members and the map before to the map that should be: balanced by weight, spread over zones, moving little.
//!
//! Each zone gets its share of seats, each node its share of its zone's (`quota`). A seat stays where it is unless its
//! node is over its share, no longer eligible, or shares a zone that another is free in. Open seats are filled by the
//! shards' own order of nodes (`score`) as far as the shares allow (`flow`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_model::{Epoch, NodeId, ShardId};

use crate::flow::Seating;
use crate::quota::{Claim, share_out};
use crate::score::score;
use crate::{Member, Placement, ShardMap, Shards, leaders};

/// The shape of a cluster's map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many shards.
    pub shards: Shards,
    /// Replicas of each; fewer only while there are fewer eligible nodes.
    pub replicas: usize,
}

/// Why there is no map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Nobody to hold anything.
    #[error("no member is active with a weight above 0: add a node or undrain one")]
    NoMembers,
    /// A replica count of zero.
    #[error("0 replicas: use an odd number, usually 3")]
    NoReplicas,
    /// One id twice.
    #[error("node {0} stands twice among the members")]
    Twice(NodeId),
}

/// The map that should be, given the one before. Equal to it, epoch included, when nothing needs to move.
///
/// A shard's home region is kept from `before`; its replicas are placed there when that region has as many eligible nodes
/// as there are replicas, and anywhere otherwise.
///
/// # Errors
/// [`LayoutError`].
pub fn assign(layout: &Layout, members: &[Member], before: &ShardMap) -> Result<ShardMap, LayoutError> {
    if layout.replicas == 0 {
        return Err(LayoutError::NoReplicas);
    }
    let mut sorted: Vec<&Member> = members.iter().collect();
    sorted.sort_by_key(|member| member.id);
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(LayoutError::Twice(pair[0].id));
    }
    let eligible: Vec<&Member> = sorted.into_iter().filter(|member| member.eligible()).collect();
    if eligible.is_empty() {
        return Err(LayoutError::NoMembers);
    }
    let mut after = before.clone();
    let count = usize::try_from(layout.shards.count()).expect("at most 1,024 shards");
    after.shards.resize(count, Placement::default());
    for (home, shards) in pools(&after) {
        let near: Vec<&Member> = eligible
            .iter()
            .copied()
            .filter(|member| home.as_ref().is_none_or(|home| *home == member.region))
            .collect();
        let pool = if near.len() >= layout.replicas { &near } else { &eligible };
        place(&mut after, &shards, pool, layout.replicas);
    }
    leaders::prefer(&mut after, &eligible);
    if after != *before {
        after.epoch = Epoch(before.epoch.0 + 1);
    }
    Ok(after)
}

/// Shards by home region.
fn pools(map: &ShardMap) -> BTreeMap<Option<Arc<str>>, Vec<ShardId>> {
    let mut pools: BTreeMap<_, Vec<ShardId>> = BTreeMap::new();
    for (shard, placement) in (0..).map(ShardId).zip(&map.shards) {
        pools.entry(placement.home.clone()).or_default().push(shard);
    }
    pools
}

fn index(shard: ShardId) -> usize {
    usize::try_from(shard.0).expect("at most 1,024 shards")
}

/// Seats `shards` on `pool` and writes the outcome into the map.
fn place(map: &mut ShardMap, shards: &[ShardId], pool: &[&Member], replicas: usize) {
    let replicas = replicas.min(pool.len());
    let zones: Vec<&str> =
        pool.iter().map(|member| &*member.zone).collect::<BTreeSet<_>>().into_iter().collect();
    let zone: Vec<usize> = pool
        .iter()
        .map(|member| zones.iter().position(|name| *name == &*member.zone).unwrap_or_default())
        .collect();
    let held: Vec<BTreeSet<usize>> = shards.iter().map(|shard| held(map, *shard, pool)).collect();
    let caps = shares(shards.len(), replicas, pool, &zone, zones.len(), &held);
    let order: Vec<Vec<usize>> = shards.iter().map(|shard| preference(*shard, pool)).collect();
    let mut seating = Seating::new(held, caps, zone, replicas.div_ceil(zones.len()));
    shed(&mut seating, &order);
    fill(&mut seating, &order, replicas);
    for (row, shard) in shards.iter().enumerate() {
        map.shards[index(*shard)].replicas = seating.seats[row].iter().map(|&node| pool[node].id).collect();
    }
}

/// The nodes of the pool that hold the shard now.
fn held(map: &ShardMap, shard: ShardId, pool: &[&Member]) -> BTreeSet<usize> {
    let replicas = &map.shards[index(shard)].replicas;
    (0..pool.len()).filter(|&node| replicas.contains(&pool[node].id)).collect()
}

/// The pool in the shard's own order, best first.
fn preference(shard: ShardId, pool: &[&Member]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pool.len()).collect();
    order.sort_by_key(|&node| std::cmp::Reverse(score(shard, pool[node].id)));
    order
}

/// How many seats each node should have: zones first (so that spread never has to give way), then nodes within a zone.
fn shares(
    shards: usize,
    replicas: usize,
    pool: &[&Member],
    zone: &[usize],
    zones: usize,
    held: &[BTreeSet<usize>],
) -> Vec<usize> {
    let load = |node: usize| held.iter().filter(|seats| seats.contains(&node)).count();
    let claim = |nodes: &[usize], most: usize| Claim {
        weight: nodes.iter().map(|&node| u64::from(pool[node].weight)).sum(),
        most,
        held: nodes.iter().map(|&node| load(node)).sum(),
        score: nodes.iter().map(|&node| score(ShardId(u32::MAX), pool[node].id)).fold(0, u64::wrapping_add),
    };
    let within = |z: usize| (0..pool.len()).filter(|&node| zone[node] == z).collect::<Vec<_>>();
    let by_zone: Vec<Vec<usize>> = (0..zones).map(within).collect();
    let a_shard_most = |nodes: &[usize]| replicas.div_ceil(zones).min(nodes.len());
    let claims: Vec<Claim> = by_zone.iter().map(|nodes| claim(nodes, shards * a_shard_most(nodes))).collect();
    let mut caps = vec![0; pool.len()];
    for (nodes, seats) in by_zone.iter().zip(share_out(shards * replicas, &claims)) {
        let claims: Vec<Claim> = nodes.iter().map(|&node| claim(&[node], shards)).collect();
        for (&node, cap) in nodes.iter().zip(share_out(seats, &claims)) {
            caps[node] = cap;
        }
    }
    caps
}

/// Takes back seats that crowd a zone, then those above a node's share, the least preferred first.
fn shed(seating: &mut Seating, order: &[Vec<usize>]) {
    for (shard, preferred) in order.iter().enumerate() {
        for &node in preferred.iter().rev() {
            let zone = seating.zone[node];
            let crowd = seating.seats[shard].iter().filter(|&&seat| seating.zone[seat] == zone).count();
            if crowd > seating.zone_cap {
                seating.take(shard, node);
            }
        }
    }
    for node in 0..seating.cap.len() {
        let mut shards: Vec<usize> =
            (0..order.len()).filter(|&shard| seating.seats[shard].contains(&node)).collect();
        let rank = |shard: usize| order[shard].iter().position(|&other| other == node);
        // Full shards first: one that lacks a replica already should not lose another in the same step.
        shards.sort_by_key(|&shard| std::cmp::Reverse((seating.seats[shard].len(), rank(shard))));
        for shard in shards {
            if seating.load(node) <= seating.cap[node] {
                break;
            }
            seating.take(shard, node);
        }
    }
}

/// Fills open seats: first without moving what stays, then moving it, then without regard to zones, then to shares.
fn fill(seating: &mut Seating, order: &[Vec<usize>], replicas: usize) {
    seating.pinned = seating
        .seats
        .iter()
        .enumerate()
        .flat_map(|(shard, seats)| seats.iter().map(move |&node| (shard, node)))
        .collect();
    for relax in 0..4 {
        match relax {
            0 => {}
            1 => seating.pinned.clear(),
            2 => seating.zone_cap = replicas,
            _ => seating.cap.fill(order.len()),
        }
        for shard in 0..order.len() {
            while seating.seats[shard].len() < replicas && seating.seat(shard, order) {}
        }
    }
}

#[cfg(test)]
mod tests;
