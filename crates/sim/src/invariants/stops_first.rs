//! P6, stops first: an edge has stopped spending a lease when its owner first counts it as over, whatever either's clocks show.
//!
//! An owner counts a lease as over from the first committed entry with a stamp at or past its end. Sub-leases end with the
//! lease that they are of.

use std::collections::BTreeMap;

use leasehold_lease::LeaseId;
use leasehold_model::{Key, Stamp};

use super::Findings;
use crate::clocks::Time;

#[derive(Clone, Copy, Debug)]
struct Life {
    group: usize,
    expires: Stamp,
    last_spend: Option<Time>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct StopsFirst {
    leases: BTreeMap<(Key, LeaseId), Life>,
    /// Sub-leases, and what they are of.
    parents: BTreeMap<(Key, LeaseId), LeaseId>,
    /// Of each group: stamps of its entries, and when they were taken.
    lines: BTreeMap<usize, Vec<(Stamp, Time)>>,
}

impl StopsFirst {
    /// An entry moved a group's line.
    pub(crate) fn line(&mut self, group: usize, last: Stamp, proposed: Time) {
        self.lines.entry(group).or_default().push((last, proposed));
    }

    /// A lease was granted.
    pub(crate) fn granted(&mut self, group: usize, key: Key, lease: LeaseId, expires: Stamp) {
        self.leases.insert((key, lease), Life { group, expires, last_spend: None });
    }

    /// A part of one was lent on.
    pub(crate) fn sub_lent(&mut self, key: Key, sub_lease: LeaseId, parent: LeaseId) {
        self.parents.insert((key, sub_lease), parent);
    }

    /// Units of it were spent. Of which lease they are in the end.
    pub(crate) fn spent(&mut self, key: Key, lease: LeaseId, now: Time) -> Option<LeaseId> {
        let root = self.parents.get(&(key, lease)).copied().unwrap_or(lease);
        self.leases.get_mut(&(key, root))?.last_spend = Some(now);
        Some(root)
    }

    /// At the end.
    pub(crate) fn finish(&mut self, findings: &mut Findings) {
        for line in self.lines.values_mut() {
            // An entry of a deposed leader may have been proposed after a later one.
            let mut first = Time::MAX;
            for (_, proposed) in line.iter_mut().rev() {
                first = first.min(*proposed);
                *proposed = first;
            }
        }
        for ((key, lease), life) in &self.leases {
            let Some(spent) = life.last_spend else { continue };
            let Some(line) = self.lines.get(&life.group) else { continue };
            let over = line.partition_point(|(stamp, _)| *stamp < life.expires);
            let Some(&(_, over)) = line.get(over) else { continue };
            if spent >= over {
                findings.add("stops_first", spent, || {
                    format!(
                        "{lease:?} of {key} was spent {} ms after its owner counted it as over",
                        (spent - over) / 1_000_000
                    )
                });
            }
        }
    }
}
