//! What is out on leases, for operators: each lease with whose counter it is of, and the shard in numbers.
//!
//! Nothing here influences an answer. Counters are named by their keys, which are hashes; values are not known here.

use std::cmp::Reverse;

use leasehold_lease::EdgeId;
use leasehold_lease::ledger::{LeaseRecord, Totals};
use leasehold_model::{Key, Nanos, Stamp, TenantId};

use crate::Shard;

/// Leases that one look walks over: some milliseconds. Those beyond are not looked at, and the answer says that there are
/// more.
const LOOKED_AT_MAX: usize = 65_536;

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentLease {
    /// Of which counter.
    pub key: Key,
    /// Whose counter that is.
    pub tenant: TenantId,
    /// Who holds it.
    pub edge: EdgeId,
    /// Units lent.
    pub granted: u64,
    /// Of those, units known to be spent.
    pub spent: u64,
    /// Of those, units that came back.
    pub returned: u64,
    /// When it ends, from the look on.
    pub expires_in: Nanos,
}

/// Some leases of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LentLeases {
    /// Those with the most units out, first.
    pub leases: Vec<LentLease>,
    /// Whether there are more.
    pub more: bool,
}

/// Leases in numbers: what is out now, and what became of all that was ever lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseNumbers {
    /// Leases now.
    pub leases: u64,
    /// Leases now, and edges whose demand on a key is known: what [`crate::Bounds::leases_max`] bounds.
    pub entries: u64,
    /// Units out now.
    pub out: u64,
    /// Leases ever granted.
    pub grants: u64,
    /// Units ever lent.
    pub granted: u64,
    /// Of those, units known to be spent.
    pub spent: u64,
    /// Of those, units that came back.
    pub returned: u64,
    /// Of those, units not heard of until their lease ended: spent or stranded, nobody knows.
    pub lapsed: u64,
    /// Times an edge was told to refuse by itself.
    pub gates: u64,
    /// Times that units were not accounted for, as this process saw it. Anything but 0 is a bug.
    pub violations: u64,
}

impl LentLease {
    /// Units out.
    #[must_use]
    pub const fn out(&self) -> u64 {
        self.granted.saturating_sub(self.spent).saturating_sub(self.returned)
    }
}

impl LentLeases {
    /// Keeps the `most` leases with the most units out.
    pub fn keep(&mut self, most: usize) {
        self.leases.sort_by_key(|lease| (Reverse(lease.out()), lease.key, lease.edge));
        self.more |= self.leases.len() > most;
        self.leases.truncate(most);
    }
}

impl LeaseNumbers {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            leases: self.leases.saturating_add(other.leases),
            entries: self.entries.saturating_add(other.entries),
            out: self.out.saturating_add(other.out),
            grants: self.grants.saturating_add(other.grants),
            granted: self.granted.saturating_add(other.granted),
            spent: self.spent.saturating_add(other.spent),
            returned: self.returned.saturating_add(other.returned),
            lapsed: self.lapsed.saturating_add(other.lapsed),
            gates: self.gates.saturating_add(other.gates),
            violations: self.violations.saturating_add(other.violations),
        }
    }
}

impl Shard {
    /// The `most` leases with the most units out that last beyond `at`; of one tenant's counters, if one is named.
    #[must_use]
    pub fn lent(&self, tenant: Option<TenantId>, at: Stamp, most: usize) -> LentLeases {
        let at = self.time.read(at);
        let mut records = self.ledger.leases();
        let looked_at = records.by_ref().take(LOOKED_AT_MAX).filter(|record| record.expires > at);
        let leases = looked_at.filter_map(|record| self.lent_lease(&record, at));
        let wanted = leases.filter(|lease| tenant.is_none_or(|tenant| tenant == lease.tenant));
        let mut lent = LentLeases { leases: wanted.collect(), more: false };
        lent.more = records.next().is_some();
        lent.keep(most);
        lent
    }

    /// Its leases in numbers.
    #[must_use]
    pub fn lease_numbers(&self) -> LeaseNumbers {
        let Totals { granted, spent, returned, lapsed, live, gates } = self.ledger.totals();
        let units = |units| u64::try_from(units).unwrap_or(u64::MAX);
        let count = |count| u64::try_from(count).unwrap_or(u64::MAX);
        LeaseNumbers {
            leases: count(self.ledger.lease_count()),
            entries: count(self.ledger.held()),
            out: units(live),
            grants: self.ledger.grants(),
            granted: units(granted),
            spent: units(spent),
            returned: units(returned),
            lapsed: units(lapsed),
            gates,
            violations: self.ledger.violations(),
        }
    }

    /// `None`: its counter is gone, and so it is about to be.
    fn lent_lease(&self, record: &LeaseRecord, at: Stamp) -> Option<LentLease> {
        let &LeaseRecord { key, edge, granted, spent, returned, expires, .. } = record;
        let tenant = self.limits.get(self.table.get(key)?.limit).spec.tenant;
        Some(LentLease { key, tenant, edge, granted, spent, returned, expires_in: expires.since(at) })
    }
}
