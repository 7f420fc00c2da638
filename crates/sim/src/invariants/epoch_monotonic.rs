//! P5 rests on it: the shard map's epoch only counts up, on every node, and one epoch is one map.

use std::collections::BTreeMap;

use leasehold_control::Control;
use leasehold_model::Epoch;
use leasehold_placement::ShardMap;

use super::Findings;
use crate::clocks::Time;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct EpochMonotonic {
    maps: BTreeMap<u64, ShardMap>,
    seen: BTreeMap<(usize, u64), Epoch>,
}

impl EpochMonotonic {
    /// A node's replica, in one of its lives, has applied something.
    pub(crate) fn seen(
        &mut self,
        (node, life): (usize, u64),
        control: &Control,
        now: Time,
        findings: &mut Findings,
    ) {
        let map = control.map();
        let known = self.maps.entry(map.epoch.0).or_insert_with(|| map.clone());
        if known != map {
            findings.add("epoch_monotonic", now, || format!("two maps of epoch {}", map.epoch));
        }
        let before = self.seen.insert((node, life), map.epoch).unwrap_or_default();
        if before > map.epoch {
            findings.add("epoch_monotonic", now, || {
                format!("node {node} went from epoch {before} to {}", map.epoch)
            });
        }
    }
}
