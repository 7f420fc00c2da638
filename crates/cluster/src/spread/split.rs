//! A request over several shards becomes one part a shard, and what the shards said becomes one answer. Pure.
//!
//! Invariant: every demand stands in exactly one part, in its order; the merged answer has one decision a demand, in the
//! order of the demands, and says "admitted" only when every part was.

use std::collections::BTreeMap;

use leasehold_limit::Decision;
use leasehold_model::{Key, Nanos, ShardId, Stamp};
use leasehold_placement::Shards;
use leasehold_shard::{Acquire, Acquired, Batch, Command, Demand, LimitSpec, Refund, RefundItem, Reset};

/// What one shard is asked for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) shard: ShardId,
    pub(crate) limits: Vec<LimitSpec>,
    pub(crate) acquire: Acquire,
    /// Where each of its demands stands in the request.
    places: Vec<usize>,
}

/// How far a part got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The shard decided.
    Decided(Acquired),
    /// The shard took, and it was given back since another refused.
    Returned(Acquired),
    /// Another refused before; this is what the shard would have said.
    Looked(Acquired),
    /// Another refused before, and this one couldn't be asked what it would have said.
    Unseen,
}

/// The one shard that a batch concerns; none when there are several. A batch that names no counter is for the first.
pub(crate) fn only_shard(batch: &Batch, shards: Shards) -> Option<ShardId> {
    let mut keys = batch.commands.iter().flat_map(keys);
    let first = keys.next().map_or(ShardId(0), |key| shards.of(key));
    keys.all(|key| shards.of(key) == first).then_some(first)
}

fn keys(command: &Command) -> Box<dyn Iterator<Item = Key> + '_> {
    match command {
        Command::Acquire(acquire) => Box::new(acquire.demands.iter().map(|demand| demand.key)),
        Command::Refund(refund) => Box::new(refund.items.iter().map(|item| item.key)),
        Command::Reset(reset) => Box::new(reset.keys.iter().copied()),
        Command::Lease(lease) => Box::new(std::iter::once(lease.ask.key)),
    }
}

/// The parts of an acquire in the order in which they are asked: first those that only look, which cost nothing when
/// they refuse; then those that take, by ascending shard, so that two requests meet in the same order; last those of
/// shadows alone, which never refuse.
pub(crate) fn split_acquire(limits: &[LimitSpec], acquire: &Acquire, shards: Shards) -> Vec<Part> {
    let mut by_shard: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
    for (place, demand) in acquire.demands.iter().enumerate() {
        by_shard.entry(shards.of(demand.key)).or_default().push(place);
    }
    let mut parts: Vec<Part> =
        by_shard.into_iter().map(|(shard, places)| part(shard, limits, acquire, places)).collect();
    // Stable: shards stay ascending.
    parts.sort_by_key(|part| order(&part.acquire.demands));
    parts
}

fn order(demands: &[Demand]) -> u8 {
    let enforced = |demand: &Demand| !demand.shadow;
    let takes = |demand: &Demand| !demand.ask.is_peek();
    if demands.iter().any(|demand| enforced(demand) && takes(demand)) {
        1
    } else if demands.iter().any(takes) && !demands.iter().any(enforced) {
        2
    } else if demands.iter().any(takes) {
        // Shadows that take beside peeks that may refuse: after what takes, as shadows are, since they would have to be
        // given back.
        1
    } else {
        0
    }
}

fn part(shard: ShardId, limits: &[LimitSpec], acquire: &Acquire, places: Vec<usize>) -> Part {
    let mut part = Part {
        shard,
        limits: Vec::new(),
        acquire: Acquire { demands: Vec::with_capacity(places.len()), ..*acquire },
        places,
    };
    let mut moved: BTreeMap<u32, u32> = BTreeMap::new();
    for &place in &part.places {
        let demand = acquire.demands[place];
        let limit = *moved.entry(demand.limit).or_insert_with(|| {
            let spec = usize::try_from(demand.limit).ok().and_then(|at| limits.get(at));
            // What points nowhere goes on pointing nowhere.
            let Some(spec) = spec else { return u32::MAX };
            part.limits.push(spec.clone());
            u32::try_from(part.limits.len() - 1).unwrap_or(u32::MAX)
        });
        part.acquire.demands.push(Demand { limit, ..demand });
    }
    part
}

/// One answer of what came of each part, in the parts' order. `at` is the last stamp that anything was decided at.
pub(crate) fn merge_acquired(parts: &[Part], outcomes: &[Outcome]) -> Acquired {
    let demands = parts.iter().map(|part| part.places.len()).sum();
    let mut merged = Acquired { admitted: true, at: Stamp::ZERO, decisions: vec![UNSEEN; demands] };
    for (part, outcome) in parts.iter().zip(outcomes) {
        let acquired = match outcome {
            Outcome::Decided(acquired) => {
                merged.admitted &= acquired.admitted;
                merged.at = acquired.at;
                acquired
            }
            Outcome::Returned(acquired) | Outcome::Looked(acquired) => {
                merged.admitted = false;
                acquired
            }
            Outcome::Unseen => {
                merged.admitted = false;
                continue;
            }
        };
        for (&place, &decision) in part.places.iter().zip(&acquired.decisions) {
            merged.decisions[place] = decision;
        }
    }
    if !merged.admitted {
        merged.decisions.iter_mut().for_each(|decision| *decision = nothing_granted(*decision));
    }
    merged
}

/// What is said of a counter that nobody could see when the request was refused anyway: nothing that stands in the way.
const UNSEEN: Decision = Decision {
    allowed: true,
    granted: 0,
    remaining: 0,
    retry_after: None,
    reset_after: Nanos::ZERO,
    next_unit_after: Nanos::ZERO,
    wait: None,
};

/// `decision` with its grant back in the counter.
const fn nothing_granted(decision: Decision) -> Decision {
    if decision.granted == 0 {
        return decision;
    }
    Decision {
        granted: 0,
        remaining: decision.remaining.saturating_add(decision.granted),
        retry_after: None,
        next_unit_after: Nanos::ZERO,
        wait: None,
        ..decision
    }
}

/// What an admitted part took, to be given back.
pub(crate) fn taken(part: &Part, acquired: &Acquired) -> Vec<RefundItem> {
    let granted = part.acquire.demands.iter().zip(&acquired.decisions);
    granted
        .filter(|(_, decision)| decision.granted > 0)
        .map(|(demand, decision)| RefundItem {
            key: demand.key,
            cost: decision.granted,
            charged_at: acquired.at,
        })
        .collect()
}

/// The parts of a reset, by ascending shard.
pub(crate) fn split_reset(reset: &Reset, shards: Shards) -> BTreeMap<ShardId, Reset> {
    let mut parts: BTreeMap<ShardId, Reset> = BTreeMap::new();
    for &key in &reset.keys {
        parts.entry(shards.of(key)).or_insert_with(|| Reset { keys: Vec::new() }).keys.push(key);
    }
    parts
}

/// The parts of a refund, by ascending shard, and where each item stands in it.
pub(crate) fn split_refund(refund: &Refund, shards: Shards) -> BTreeMap<ShardId, (Refund, Vec<usize>)> {
    let mut parts: BTreeMap<ShardId, (Refund, Vec<usize>)> = BTreeMap::new();
    for (place, &item) in refund.items.iter().enumerate() {
        let part = parts
            .entry(shards.of(item.key))
            .or_insert_with(|| (Refund { id: refund.id, items: Vec::new() }, Vec::new()));
        part.0.items.push(item);
        part.1.push(place);
    }
    parts
}

#[cfg(test)]
mod tests;
