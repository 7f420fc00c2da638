//! Copies of wallets, and when two are alike: for models that look at every way things can go on.
//!
//! Only in tests: two copies of one wallet would spend the same units.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::Wallet;
use super::leases::Leases;
use crate::cell::Cell;

impl Clone for Leases {
    fn clone(&self) -> Self {
        self.with_cell(Arc::new(self.cell().snapshot()))
    }
}

impl Hash for Leases {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.parts().hash(hasher);
        self.cell().numbers().hash(hasher);
    }
}

impl Cell {
    fn snapshot(&self) -> Self {
        Self::of(self.numbers())
    }
}

/// Alike are those that go on alike; what they counted for metrics, and what they call the next of anything, is no part of it.
impl<L: Hash> Hash for Wallet<L> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { shared, session, keys, ready, replies, .. } = self;
        (session, keys, ready, replies).hash(hasher);
        (shared.edge, shared.round_trip, shared.draining).hash(hasher);
    }
}
