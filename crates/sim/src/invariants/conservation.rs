//! P2, debit first: nobody spends a unit that wasn't charged before, and every unit lent is spent, returned, lapsed or live.
//!
//! Counted from outside: of each lease no more is spent than was granted, to requests that waited no more is delivered than
//! their owner consumed for them. The ledger's own count, which runs in production too, is looked at beside it.

use std::collections::BTreeMap;

use leasehold_lease::LeaseId;
use leasehold_model::Key;
use leasehold_shard::Shard;

use super::Findings;
use crate::clocks::Time;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Conservation {
    /// Units consumed at the owner for requests that wait, and those that came to any.
    consumed: BTreeMap<Key, (u64, u64)>,
    leases: BTreeMap<(Key, LeaseId), (u64, u64)>,
}

impl Conservation {
    /// A shard consumed units for requests that wait.
    pub(crate) fn consumed(&mut self, key: Key, units: u64) {
        self.consumed.entry(key).or_default().0 += units;
    }

    /// Units that an owner consumed came to a request.
    pub(crate) fn delivered(&mut self, key: Key, units: u64) {
        self.consumed.entry(key).or_default().1 += units;
    }

    /// A lease, or a part of one, was granted.
    pub(crate) fn lent(&mut self, key: Key, lease: LeaseId, units: u64) {
        self.leases.entry((key, lease)).or_default().0 += units;
    }

    /// Units of it were spent.
    pub(crate) fn spent(&mut self, key: Key, lease: LeaseId, units: u64, now: Time, findings: &mut Findings) {
        let (granted, spent) = self.leases.entry((key, lease)).or_default();
        *spent += units;
        if *spent > *granted {
            findings.add("conservation", now, || {
                format!("{spent} units spent of {lease:?} of {key}, which has {granted}")
            });
        }
    }

    /// Looks at a replica.
    pub(crate) fn look(&self, shard: &Shard, now: Time, findings: &mut Findings) {
        if shard.lease_violations() > 0 || !shard.lease_totals().conserved() {
            findings
                .add("conservation", now, || format!("a ledger doesn't add up: {:?}", shard.lease_totals()));
        }
    }

    /// At the end.
    pub(crate) fn finish(&self, now: Time, findings: &mut Findings) {
        for (key, (consumed, delivered)) in &self.consumed {
            if delivered > consumed {
                findings.add("conservation", now, || {
                    format!(
                        "requests were given {delivered} units of {key}, of which owners charged {consumed}"
                    )
                });
            }
        }
    }
}
