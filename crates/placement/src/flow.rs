//! Seats shards on nodes under caps by augmenting paths: a greedy choice that can take a seat back when it leads nowhere.

use std::collections::BTreeSet;

/// Shards (rows) seated on nodes (columns), by index.
#[derive(Debug)]
pub(crate) struct Seating {
    /// Nodes of each shard.
    pub seats: Vec<BTreeSet<usize>>,
    /// Most seats of each node.
    pub cap: Vec<usize>,
    /// The zone of each node.
    pub zone: Vec<usize>,
    /// Most seats of one shard in one zone.
    pub zone_cap: usize,
    /// Seats that stay when others are rearranged.
    pub pinned: BTreeSet<(usize, usize)>,
    load: Vec<usize>,
}

impl Seating {
    pub(crate) fn new(
        seats: Vec<BTreeSet<usize>>,
        cap: Vec<usize>,
        zone: Vec<usize>,
        zone_cap: usize,
    ) -> Self {
        let mut load = vec![0; cap.len()];
        for &node in seats.iter().flatten() {
            load[node] += 1;
        }
        Self { seats, cap, zone, zone_cap, pinned: BTreeSet::new(), load }
    }

    /// Gives `shard` one more seat among its `candidates` (best first), moving unpinned seats of other shards if it must.
    /// False, and nothing changed, when there is no way.
    pub(crate) fn seat(&mut self, shard: usize, candidates: &[Vec<usize>]) -> bool {
        let mut tried = vec![false; self.cap.len()];
        self.augment(shard, candidates, &mut tried)
    }

    fn augment(&mut self, shard: usize, candidates: &[Vec<usize>], tried: &mut [bool]) -> bool {
        let fits: Vec<usize> = candidates[shard]
            .iter()
            .copied()
            .filter(|&node| !tried[node] && self.admits(shard, node))
            .collect();
        if let Some(&node) = fits.iter().find(|&&node| self.load[node] < self.cap[node]) {
            self.put(shard, node);
            return true;
        }
        for node in fits {
            tried[node] = true;
            for other in self.movable(node) {
                // Seated before the other looks on: should it come upon this shard again, the zone is seen to be taken.
                self.take(other, node);
                self.put(shard, node);
                if self.augment(other, candidates, tried) {
                    return true;
                }
                self.take(shard, node);
                self.put(other, node);
            }
        }
        false
    }

    /// Whether the shard may sit there as far as it is itself concerned.
    fn admits(&self, shard: usize, node: usize) -> bool {
        let same_zone = self.seats[shard].iter().filter(|&&seat| self.zone[seat] == self.zone[node]).count();
        !self.seats[shard].contains(&node) && same_zone < self.zone_cap
    }

    fn movable(&self, node: usize) -> Vec<usize> {
        (0..self.seats.len())
            .filter(|&shard| self.seats[shard].contains(&node) && !self.pinned.contains(&(shard, node)))
            .collect()
    }

    pub(crate) fn load(&self, node: usize) -> usize {
        self.load[node]
    }

    pub(crate) fn put(&mut self, shard: usize, node: usize) {
        if self.seats[shard].insert(node) {
            self.load[node] += 1;
        }
    }

    pub(crate) fn take(&mut self, shard: usize, node: usize) {
        if self.seats[shard].remove(&node) {
            self.load[node] -= 1;
        }
    }
}
