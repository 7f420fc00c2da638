//! Which replica should lead each shard, so that leaders are spread by weight and change hands little.

use std::collections::BTreeSet;

use leasehold_model::ShardId;

use crate::flow::Seating;
use crate::quota::{Claim, share_out};
use crate::score::score;
use crate::{Member, ShardMap};

/// Sets every shard's preferred leader among the replicas that `members` says are eligible.
pub fn prefer_leaders(map: &mut ShardMap, members: &[Member]) {
    let eligible: Vec<&Member> = members.iter().filter(|member| member.eligible()).collect();
    prefer(map, &eligible);
}

pub(crate) fn prefer(map: &mut ShardMap, eligible: &[&Member]) {
    let order: Vec<Vec<usize>> = (0..)
        .map(ShardId)
        .zip(&map.shards)
        .map(|(shard, placement)| {
            let mut order: Vec<usize> =
                (0..eligible.len()).filter(|&node| placement.replicas.contains(&eligible[node].id)).collect();
            order.sort_by_key(|&node| std::cmp::Reverse(score(shard, eligible[node].id)));
            order
        })
        .collect();
    let held: Vec<BTreeSet<usize>> = map
        .shards
        .iter()
        .zip(&order)
        .map(|(placement, order)| {
            order.iter().copied().filter(|&node| Some(eligible[node].id) == placement.leader).collect()
        })
        .collect();
    let holds = |node: usize| order.iter().filter(|order| order.contains(&node)).count();
    let claims: Vec<Claim> = (0..eligible.len())
        .map(|node| Claim {
            weight: u64::from(eligible[node].weight),
            most: holds(node),
            held: held.iter().filter(|seats| seats.contains(&node)).count(),
            score: score(ShardId(u32::MAX), eligible[node].id),
        })
        .collect();
    let caps = share_out(order.iter().filter(|order| !order.is_empty()).count(), &claims);
    let mut seating = Seating::new(held, caps, vec![0; eligible.len()], 1);
    for node in 0..eligible.len() {
        for shard in 0..order.len() {
            if seating.load(node) > seating.cap[node] {
                seating.take(shard, node);
            }
        }
    }
    // Shares that replicas can't meet are widened by one until every shard has its leader.
    while !lead(&mut seating, &order) {
        seating.cap.iter_mut().for_each(|cap| *cap += 1);
    }
    for (placement, seats) in map.shards.iter_mut().zip(&seating.seats) {
        placement.leader = seats.first().map(|&node| eligible[node].id);
    }
}

/// Seats every shard that has a candidate; false when one is left.
fn lead(seating: &mut Seating, order: &[Vec<usize>]) -> bool {
    (0..order.len()).fold(true, |all, shard| {
        all & (order[shard].is_empty() || !seating.seats[shard].is_empty() || seating.seat(shard, order))
    })
}
