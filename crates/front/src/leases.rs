//! What is out on leases, as operators see it. Plain values; counters are named by hashes, and values are not known.

use leasehold_model::{Key, Nanos, ShardId};

/// Leases shown when nobody says how many.
pub const LEASES_DEFAULT: u32 = 50;
/// Leases of one answer. More can't be asked for.
pub const LEASES_MAX: u32 = 1_000;

/// What is out on leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasesStatus {
    /// Those with the most units out first.
    pub leases: Vec<LeaseStatus>,
    /// Whether there are more.
    pub more: bool,
    /// All leases together, whatever their domain.
    pub totals: LeaseTotals,
    /// Shards that no leader answered for: what they lend is missing.
    pub shards_unanswered: u64,
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Of which counter.
    pub key: Key,
    /// Whose counter that is; `None`: a domain without rules on this node.
    pub domain: Option<String>,
    /// Where the counter is.
    pub shard: ShardId,
    /// Who holds it: drawn when its process started.
    pub edge: u128,
    /// What people call it, where that is known.
    pub edge_name: Option<String>,
    /// Units lent.
    pub granted: u64,
    /// Of those, units known to be spent.
    pub spent: u64,
    /// Of those, units that came back. What is neither is out.
    pub returned: u64,
    /// When what is out counts as spent.
    pub expires_in: Nanos,
}

/// What is out now, and what became of all units that were ever lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseTotals {
    /// Leases now.
    pub leases: u64,
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
    /// Times that units were not accounted for. Anything but 0 is a bug.
    pub violations: u64,
}

impl LeaseStatus {
    /// Units out.
    #[must_use]
    pub const fn out(&self) -> u64 {
        self.granted.saturating_sub(self.spent).saturating_sub(self.returned)
    }
}
