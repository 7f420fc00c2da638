//! Units of one counter that are out on leases, as its algorithm sees them.
//!
//! Invariant: `units` is the sum of what is due. Whose leases they are is the ledger's business.

use leasehold_model::Stamp;

/// Units of one lease that are out still, and when they count as spent if nothing is heard of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Due {
    /// The lease's end.
    pub at: Stamp,
    /// What is out on it.
    pub units: u64,
}

/// What is out of one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Out<'a> {
    units: u64,
    due: &'a [Due],
}

impl<'a> Out<'a> {
    /// Nothing.
    pub const NONE: Self = Self { units: 0, due: &[] };

    /// What is due, soonest first.
    #[must_use]
    pub fn new(due: &'a [Due]) -> Self {
        debug_assert!(due.is_sorted_by_key(|due| due.at), "soonest first");
        Self { units: due.iter().fold(0, |sum, due| sum.saturating_add(due.units)), due }
    }

    /// All units that are out.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.units
    }

    /// Lease by lease, the one that ends soonest first.
    #[must_use]
    pub const fn due(self) -> &'a [Due] {
        self.due
    }

    /// What is out still when nothing is heard until just before `at`.
    pub(crate) fn units_at(self, at: Stamp) -> u64 {
        self.due.iter().filter(|due| due.at >= at).fold(0, |sum, due| sum.saturating_add(due.units))
    }

    /// The last end of a lease.
    pub(crate) fn last(self) -> Option<Stamp> {
        self.due.last().map(|due| due.at)
    }
}
