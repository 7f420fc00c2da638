//! What a seed decides before anything happens: how large the world is, its limits, and which kinds of faults it has.
//!
//! Invariant: a world without faults is as likely as one with all of them, so that what goes wrong by itself shows too.

use std::collections::BTreeSet;

use leasehold_limit::{Algorithm, Limit, Window};
use leasehold_model::{Key, Nanos, TenantId};
use leasehold_placement::Shards;
use leasehold_shard::Bounds;

use crate::chance::Chance;
use crate::clocks::{MILLI, SECOND, Time};

/// A kind of fault that a world has or doesn't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// Messages get lost.
    Loss,
    /// Messages come twice.
    Duplication,
    /// Messages overtake each other.
    Reordering,
    /// Ways are cut, both ways or one.
    Cuts,
    /// What is sent waits, and comes all at once.
    Clogs,
    /// A node's process is killed, with what its disk hasn't synced.
    Crashes,
    /// All nodes' at once.
    Outages,
    /// Writes are torn by crashes.
    TornWrites,
    /// Disks are full for a while.
    FullDisks,
    /// Disks are slow for a while.
    SlowDisks,
    /// Edges are killed.
    EdgeDeaths,
    /// Machines are suspended: boot-time goes on, nothing else does.
    Suspends,
    /// Wall clocks are set.
    WallSteps,
    /// Clocks run up to one part in a thousand too fast or too slow.
    Drift,
    /// An edge's clocks run slower than is allowed for.
    BrokenClocks,
    /// Rules change.
    Rules,
    /// The shard map changes, and leaders hand over.
    Moves,
    /// Somebody asks for ever new keys.
    Flood,
}

impl Class {
    const ALL: [Self; 18] = [
        Self::Loss,
        Self::Duplication,
        Self::Reordering,
        Self::Cuts,
        Self::Clogs,
        Self::Crashes,
        Self::Outages,
        Self::TornWrites,
        Self::FullDisks,
        Self::SlowDisks,
        Self::EdgeDeaths,
        Self::Suspends,
        Self::WallSteps,
        Self::Drift,
        Self::BrokenClocks,
        Self::Rules,
        Self::Moves,
        Self::Flood,
    ];
}

/// A counter that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct KeyPlan {
    /// Its name.
    pub(crate) key: Key,
    /// Whose it is.
    pub(crate) tenant: TenantId,
    /// Its numbers by rule set.
    pub(crate) limits: Vec<Limit>,
    /// Requests a second for it at each edge, in thousandths.
    pub(crate) milli_rate: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// What it was made from.
    pub(crate) seed: u64,
    /// Nodes.
    pub(crate) nodes: usize,
    /// Regions; node `n` and edge `n` are in region `n % regions`.
    pub(crate) regions: usize,
    /// Way between regions, one way.
    pub(crate) far: Time,
    /// Shards.
    pub(crate) shards: Shards,
    /// Edges.
    pub(crate) edges: usize,
    /// Clients that ask nodes.
    pub(crate) clients: usize,
    /// Counters. The last one is asked for by clients only: what it admits shows whether refilling is whole.
    pub(crate) keys: Vec<KeyPlan>,
    /// Rule sets there are.
    pub(crate) rule_sets: usize,
    /// Kinds of faults.
    pub(crate) classes: BTreeSet<Class>,
    /// A snapshot is taken every so many entries.
    pub(crate) snapshot_every: u64,
    /// What a shard may hold.
    pub(crate) bounds: Bounds,
    /// From here on there are no faults.
    pub(crate) heal_at: Time,
    /// From here on everything must be served.
    pub(crate) calm_at: Time,
    /// From here on nobody asks for anything.
    pub(crate) quiet_at: Time,
    /// The end.
    pub(crate) end_at: Time,
}

/// The tenant of the keys that are asked for.
pub(crate) const TENANT: TenantId = TenantId(1);
/// The tenant whose keys a flood makes up.
pub(crate) const FLOODED: TenantId = TenantId(2);

impl Plan {
    /// The world of a seed, `seconds` long.
    #[must_use]
    pub(crate) fn new(seed: u64, seconds: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x706c_616e);
        let shards =
            Shards::new(*chance.pick(&[1, 2, 2, 4])).unwrap_or_else(|_| unreachable!("powers of two"));
        let rule_sets = 6;
        let count = chance.within(4, 8);
        let keys = (0..count).map(|place| key_plan(place, place + 1 == count, rule_sets, &mut chance));
        let keys = keys.collect();
        let end_at = seconds * SECOND;
        let calm = (seconds / 6).max(8) * SECOND;
        Self {
            seed,
            nodes: if chance.per_mille(200) { 5 } else { 3 },
            regions: chance.place(3) + 1,
            far: chance.within(5, 60) * MILLI,
            shards,
            edges: chance.place(4) + 2,
            clients: chance.place(3) + 1,
            keys,
            rule_sets,
            classes: classes(&mut chance),
            snapshot_every: *chance.pick(&[8, 30, 100, 300]),
            bounds: Bounds {
                keys_per_tenant_max: 60,
                keys_max: 100,
                replies_per_tenant_max: 2_000,
                retry_window: Nanos::from_secs(20),
                items_max: 16,
                leases_max: *chance.pick(&[40, 1_000]),
            },
            heal_at: end_at.saturating_sub(calm + 12 * SECOND),
            calm_at: end_at.saturating_sub(calm + 3 * SECOND),
            quiet_at: end_at.saturating_sub(3 * SECOND),
            end_at,
        }
    }

    /// Whether it has a kind of fault.
    #[must_use]
    pub(crate) fn has(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }

    /// A key's place in [`Plan::keys`].
    #[must_use]
    pub(crate) fn place_of(&self, key: Key) -> Option<usize> {
        self.keys.iter().position(|plan| plan.key == key)
    }
}

fn classes(chance: &mut Chance) -> BTreeSet<Class> {
    let often = match chance.below(16) {
        0 => 0,
        1 => 1_000,
        _ => chance.within(200, 700),
    };
    Class::ALL.into_iter().filter(|_| chance.per_mille(often)).collect()
}

fn key_plan(place: u64, probe: bool, rule_sets: usize, chance: &mut Chance) -> KeyPlan {
    let key = Key { high: chance.below(u64::MAX), low: chance.below(u64::MAX) & !0xff | place };
    let kind = if probe { 0 } else { chance.below(10) };
    let mut limits: Vec<Limit> = Vec::new();
    for _ in 0..rule_sets {
        let n = chance.within(8, 40);
        let limit = match kind {
            0..=6 => Limit::new(
                Algorithm::TokenBucket { burst: if probe { n } else { chance.within(n / 2, 3 * n) } },
                n,
                Nanos::from_secs(1),
            ),
            7..=8 => Limit::new(Algorithm::FixedWindow(Window::Epoch), 4 * n, Nanos::from_secs(4)),
            _ => Limit::new(Algorithm::SlidingLog, 3 * n, Nanos::from_secs(3)),
        };
        limits.push(limit.unwrap_or_else(|_| unreachable!("numbers that limits can have")));
    }
    let milli_rate = if probe { 0 } else { chance.within(1_000, 16_000) };
    KeyPlan { key, tenant: TENANT, limits, milli_rate }
}
