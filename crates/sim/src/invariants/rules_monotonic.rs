//! P1 rests on it: who knows rules never goes back to older ones, and neither does a counter that is held.

use std::collections::BTreeMap;

use leasehold_model::{Key, RulesVersion, Stamp};

use super::Findings;
use crate::clocks::Time;
use crate::net::Place;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RulesMonotonic {
    known: BTreeMap<(Place, u64), RulesVersion>,
    /// Versions of counters, and until when they surely hold something, on their shard's line.
    counters: BTreeMap<Key, (RulesVersion, Stamp)>,
}

impl RulesMonotonic {
    /// Somebody, in one of its lives, goes by a version from now on.
    pub(crate) fn adopted(
        &mut self,
        place: Place,
        life: u64,
        version: RulesVersion,
        now: Time,
        findings: &mut Findings,
    ) {
        let before = self.known.insert((place, life), version).unwrap_or_default();
        if before > version {
            findings.add("rules_monotonic", now, || format!("{place} went from rules {before} to {version}"));
        }
    }

    /// At a stamp a counter is held under a version, and not fresh before `fresh_at`; `None`: it isn't held.
    pub(crate) fn counter(
        &mut self,
        key: Key,
        at: Stamp,
        held: Option<(RulesVersion, Stamp)>,
        now: Time,
        findings: &mut Findings,
    ) {
        let Some((version, fresh_at)) = held else {
            self.counters.remove(&key);
            return;
        };
        let (before, fresh) = self.counters.insert(key, (version, fresh_at)).unwrap_or_default();
        // One that is fresh is forgotten, and with it what it was counted under.
        if before > version && at < fresh {
            findings.add("rules_monotonic", now, || format!("{key} went from rules {before} to {version}"));
        }
    }
}
