//! What nodes say of themselves while they run, and the invariants over it.
//!
//! Invariant: a node only adds to it, the checks only read; a breach is kept with the time it was seen at, and ends nothing, so
//! that the whole run can be read.

use std::collections::BTreeMap;

use leasehold_consensus::runner::Leadership;
use leasehold_consensus::types::GroupId;

/// A promise that didn't hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The invariant's name, as in all harnesses.
    pub invariant: &'static str,
    /// Simulated nanoseconds.
    pub at: u64,
    /// What was seen.
    pub what: String,
}

/// Interesting states: a sweep that reached none of one kind proved nothing about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// A leader was killed while it was asked.
    pub killed_while_asked: u64,
    /// A retry was answered although its first try had no answer: it was committed all the same.
    pub unknown_committed: u64,
    /// A retry was decided anew: its first try had been lost.
    pub unknown_absent: u64,
    /// A former leader refused.
    pub deposed_asked: u64,
    /// A running replica took a snapshot over.
    pub snapshots_installed: u64,
    /// A disk lost or tore what wasn't synced, and the node came back.
    pub crashed_disks: u64,
    /// A full disk.
    pub full_disks: u64,
}

impl Reached {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.killed_while_asked += other.killed_while_asked;
        self.unknown_committed += other.unknown_committed;
        self.unknown_absent += other.unknown_absent;
        self.deposed_asked += other.deposed_asked;
        self.snapshots_installed += other.snapshots_installed;
        self.crashed_disks += other.crashed_disks;
        self.full_disks += other.full_disks;
    }

    /// Name and count of each.
    pub fn rows(&self) -> [(&'static str, u64); 7] {
        [
            ("a leader killed while it was asked", self.killed_while_asked),
            ("a lost answer, later found committed", self.unknown_committed),
            ("a lost answer, later found absent", self.unknown_absent),
            ("a deposed leader asked", self.deposed_asked),
            ("a snapshot installed on a running replica", self.snapshots_installed),
            ("a disk that lost what wasn't synced", self.crashed_disks),
            ("a full disk", self.full_disks),
        ]
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Observed {
    /// What didn't hold.
    pub breaches: Vec<Breach>,
    /// States that were visited.
    pub reached: Reached,
    /// Folded over everything that was seen: equal for equal seeds.
    pub hash: u64,
    serving: BTreeMap<(GroupId, u64), u64>,
    terms: BTreeMap<(GroupId, u64), u64>,
    leaders: BTreeMap<(GroupId, u64), u64>,
    hashes: BTreeMap<(GroupId, u64), u64>,
    snapshots: BTreeMap<(GroupId, u64), u64>,
}

impl Observed {
    /// Keeps what was seen in the run's hash.
    pub fn fold(&mut self, parts: &[u64]) {
        for part in parts {
            self.hash = (self.hash.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    /// Keeps a breach.
    pub fn breach(&mut self, invariant: &'static str, at: u64, what: String) {
        self.breaches.push(Breach { invariant, at, what });
    }

    /// P1, P2: at no time two replicas may grant (`one_granter`). `tick` counts the simulation's steps.
    pub fn serves(&mut self, node: u64, group: GroupId, serving: bool, tick: u64, at: u64) {
        if !serving {
            self.serving.remove(&(group, node));
            return;
        }
        self.serving.insert((group, node), tick);
        let others = self.serving.range((group, 0)..=(group, u64::MAX));
        let also = others
            .filter(|((_, other), seen)| *other != node && **seen == tick)
            .map(|((_, other), _)| *other);
        let also: Vec<u64> = also.collect();
        if !also.is_empty() {
            self.breach("one_granter", at, format!("group {group}: node {node} serves beside {also:?}"));
        }
    }

    /// P4: what a node promised survives its crashes: terms never go back (`epoch_monotonic`), and a term has one leader.
    /// A replica that has just started says term 0 until it has read its vote. Whether the term is new to the node.
    pub fn leads(&mut self, node: u64, group: GroupId, now: Leadership, at: u64) -> bool {
        if now.term == 0 {
            return false;
        }
        let known = self.terms.entry((group, node)).or_default();
        let before = std::mem::replace(known, now.term.max(*known));
        if now.term < before {
            self.breach(
                "epoch_monotonic",
                at,
                format!("group {group}: node {node} went from term {before} to {}", now.term),
            );
        }
        let risen = now.term > before;
        let Some(leader) = now.leader else { return risen };
        let named = *self.leaders.entry((group, now.term)).or_insert(leader.0);
        if named != leader.0 {
            self.breach(
                "one_granter",
                at,
                format!("group {group}: term {} has leaders {named} and {}", now.term, leader.0),
            );
        }
        self.fold(&[u64::from(group.0), node, now.term, leader.0, at]);
        risen
    }

    /// DESIGN 7: equal prefixes of the log give equal states (`equal_prefix_equal_hash`).
    pub fn applied(&mut self, node: u64, group: GroupId, index: u64, hash: u64, at: u64) {
        let known = *self.hashes.entry((group, index)).or_insert(hash);
        if known != hash {
            self.breach(
                "equal_prefix_equal_hash",
                at,
                format!("group {group}: node {node} differs after entry {index}"),
            );
        }
        self.fold(&[u64::from(group.0), node, index, hash]);
    }

    /// Counts snapshots that a running replica took over.
    pub fn restored(&mut self, node: u64, group: GroupId, count: u64) {
        let known = self.snapshots.entry((group, node)).or_default();
        self.reached.snapshots_installed += count.saturating_sub(*known);
        *known = count;
    }

    /// The node's memory is gone.
    pub fn crashed(&mut self, node: u64) {
        self.serving.retain(|(_, other), _| *other != node);
        self.snapshots.retain(|(_, other), _| *other != node);
    }
}

#[cfg(test)]
mod tests;
