//! The only eviction: counters that equal fresh ones, of which nothing is out, are dropped, a few looks with each command.
//!
//! Invariant: it changes no answer but that of a full tenant, and looks at a bounded number of counters at a time. The
//! cursor is replicated state: replicas drop the same counters at the same command.

use leasehold_model::planted::{self, Bug};
use leasehold_model::{Key, Stamp};

use crate::{Refusal, Reply, Shard};

/// Looks for each counter that a command names. It can add one, so at two looks the sweep outruns any flood.
const LOOKS_PER_ITEM: usize = 2;
/// Looks after a refusal for want of room: whoever waits for room helps to find it.
const LOOKS_WHEN_FULL: usize = 64;
/// Looks of an empty batch, so that an idle shard frees its memory too.
const LOOKS_PER_TICK: usize = 256;

impl Shard {
    pub(crate) fn sweep_after(&mut self, items: usize, reply: &Reply, at: Stamp) {
        let items_max = usize::try_from(self.bounds.items_max).unwrap_or(usize::MAX);
        let full = matches!(reply, Reply::Refused(Refusal::KeysFull(_)));
        let looks = LOOKS_PER_ITEM * items.min(items_max) + if full { LOOKS_WHEN_FULL } else { 0 };
        self.sweep(looks, at);
    }

    pub(crate) fn tick(&mut self, at: Stamp) {
        self.replies.expire(at, self.bounds.retry_window, LOOKS_PER_TICK);
        self.end_leases(at, LOOKS_PER_TICK);
        self.sweep(LOOKS_PER_TICK, at);
    }

    /// Looks at up to `looks` counters past the cursor; stops at the end of the key space, to begin anew next time.
    fn sweep(&mut self, looks: usize, at: Stamp) {
        for _ in 0..looks {
            let Some(counter) = self.table.first_from(self.cursor) else {
                self.cursor = Key::MIN;
                return;
            };
            let (key, id) = (counter.key, counter.limit);
            let state = self.beside(key, &self.limits.get(id).spec.limit, counter.state, at);
            let fresh = self.is_fresh(key, id, state.get(), at);
            self.cursor = Key::from_u128(key.to_u128().wrapping_add(1));
            if fresh || (planted::is(Bug::NonFreshEvicted) && !self.ledger.holds(key)) {
                self.ledger.drop_ended(key, at);
                self.drop_counter(key);
            }
        }
    }
}
