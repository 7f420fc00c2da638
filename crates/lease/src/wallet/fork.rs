//! Copies of wallets, and when two are alike: for models that look at every way things can go on.
//!
//! Only in tests: two copies of one wallet would spend the same units.

use std::hash::{Hash, Hasher};

use leasehold_model::Key;

use super::Wallet;
use super::entry::Entry;
use super::leases::Leases;

impl<L: Clone> Clone for Wallet<L> {
    fn clone(&self) -> Self {
        let Self { shared, session, next_seq, next_ticket, keys, timers, ready, flights, replies, slab } =
            self;
        let slab = slab.clone();
        let copied = |(&key, entry): (&Key, &Entry<L>)| {
            let mut entry = entry.clone();
            entry.leases.rebind(slab.cells().hold(key).expect("every key has a cell"));
            (key, entry)
        };
        Self {
            keys: keys.iter().map(copied).collect(),
            shared: shared.clone(),
            session: *session,
            next_seq: *next_seq,
            next_ticket: *next_ticket,
            timers: timers.clone(),
            ready: ready.clone(),
            flights: flights.clone(),
            replies: replies.clone(),
            slab,
        }
    }
}

impl Hash for Leases {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.parts().hash(hasher);
        self.cell().hash(hasher);
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
