//! The ledger as plain values, for snapshots and for operators, and the way back with every reference checked.

use std::collections::BTreeSet;

use leasehold_model::{Key, Stamp};

use super::{Ledger, SlotRecord};
use crate::{EdgeId, LeaseId, MilliRate};

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Of which counter.
    pub key: Key,
    /// Its name.
    pub id: LeaseId,
    /// Whose.
    pub edge: EdgeId,
    /// Units lent.
    pub granted: u64,
    /// Of those, units known to be spent.
    pub spent: u64,
    /// Of those, units that came back. What is neither is out.
    pub returned: u64,
    /// When it was granted.
    pub granted_at: Stamp,
    /// When all that is out counts as spent.
    pub expires: Stamp,
}

/// An edge's demand on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderRecord {
    /// Which counter.
    pub key: Key,
    /// Whose demand.
    pub edge: EdgeId,
    /// How much.
    pub rate: MilliRate,
    /// When it counts no more.
    pub until: Stamp,
}

/// What became of all units that were ever lent. Units consumed at once were never lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Units lent.
    pub granted: u128,
    /// Reported as spent.
    pub spent: u128,
    /// Came back.
    pub returned: u128,
    /// Not heard of until their lease ended: spent or stranded, nobody knows.
    pub lapsed: u128,
    /// Out now.
    pub live: u128,
    /// Times an edge was told to refuse by itself.
    pub gates: u64,
}

impl Totals {
    /// Whether every unit is accounted for.
    #[must_use]
    pub const fn conserved(&self) -> bool {
        self.granted == self.spent + self.returned + self.lapsed + self.live
    }
}

/// A ledger as plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerRecord {
    /// The next lease's name.
    pub next: u64,
    /// What became of all units.
    pub totals: Totals,
    /// By key, then soonest end first.
    pub leases: Vec<LeaseRecord>,
    /// By key, in the order in which they came.
    pub holders: Vec<HolderRecord>,
    /// By edge.
    pub slots: Vec<SlotRecord>,
}

/// A record that no ledger can have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// A lease is out of order, has nothing out, or has a name that is still to come or there twice.
    #[error("lease {index} contradicts the others")]
    Lease {
        /// Its position.
        index: usize,
    },
    /// A holder is out of order or there twice.
    #[error("holder {index} contradicts the others")]
    Holder {
        /// Its position.
        index: usize,
    },
    /// A slot is there twice, or an edge with two.
    #[error("slot {index} contradicts the others")]
    Slot {
        /// Its position.
        index: usize,
    },
    /// Units are missing or there are too many.
    #[error("the totals don't account for every unit that was lent")]
    Totals,
}

impl Ledger {
    /// All of it.
    #[must_use]
    pub fn record(&self) -> LedgerRecord {
        LedgerRecord {
            next: self.next,
            totals: self.totals,
            leases: self.leases().collect(),
            holders: self.keys.iter().flat_map(|(&key, held)| held.holders(key)).collect(),
            slots: self.slots.iter().collect(),
        }
    }

    /// The ledger that `record` was made of.
    ///
    /// # Errors
    /// [`LedgerError`] names the first thing that contradicts another.
    pub fn restore(record: &LedgerRecord) -> Result<Self, LedgerError> {
        let mut ledger = Self { next: record.next, totals: record.totals, ..Self::default() };
        let mut names = BTreeSet::new();
        let mut before = Key::MIN;
        let mut live: u128 = 0;
        for (index, lease) in record.leases.iter().enumerate() {
            let named = lease.id.0 < record.next && names.insert(lease.id);
            let restored = ledger.change(lease.key, |held, _| held.restore_lease(lease));
            if lease.key < before || !named || !restored {
                return Err(LedgerError::Lease { index });
            }
            before = lease.key;
            live += u128::from(lease.granted - lease.spent - lease.returned);
        }
        let mut before = Key::MIN;
        for (index, holder) in record.holders.iter().enumerate() {
            if holder.key < before || !ledger.change(holder.key, |held, _| held.restore_holder(*holder)) {
                return Err(LedgerError::Holder { index });
            }
            before = holder.key;
        }
        for (index, slot) in record.slots.iter().enumerate() {
            if !ledger.slots.restore(*slot) {
                return Err(LedgerError::Slot { index });
            }
        }
        if record.totals.live != live || !record.totals.conserved() {
            return Err(LedgerError::Totals);
        }
        Ok(ledger)
    }
}
