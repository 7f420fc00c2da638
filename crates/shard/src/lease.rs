//! Leases: an edge's ask of one counter, what is settled without a log, and leases that end.
//!
//! Invariant: when ended leases are looked at changes no answer. Everything that reads a counter lets them end first, in
//! a copy or in place; here they end though nobody reads it, so that memory and totals don't wait for that.

use leasehold_lease::Leased;
use leasehold_lease::ledger::{LeaseRecord, Totals};
use leasehold_model::{Key, Stamp};

use crate::evaluate::{Numbers, Touched};
use crate::hash::fingerprint_lease;
use crate::replies::Remembered;
use crate::table::Held;
use crate::{LeaseCommand, LimitSpec, Refusal, Reply, Shard};

impl Shard {
    pub(crate) fn lease(&mut self, limits: &[LimitSpec], command: &LeaseCommand, at: Stamp) -> Reply {
        let LeaseCommand { id, ask, .. } = command;
        if let Some(reply) = self.recall_lease(command, at) {
            return reply;
        }
        self.end_leases_of(ask.key, at);
        let Some((mut touched, asked)) = self.load_lease(limits, command, at) else {
            return Reply::Refused(Refusal::Malformed);
        };
        let spec = &limits[asked];
        if !touched.stored && ask.want.max(ask.need) > 0 && !self.has_room(spec.tenant, &[]) {
            return Reply::Refused(Refusal::KeysFull(spec.tenant));
        }
        let Some(state) = &mut touched.state else { return Reply::Refused(Refusal::Malformed) };
        let limit = match touched.numbers {
            Numbers::Stored(id) => &self.limits.get(id).spec.limit,
            Numbers::Asked(asked) => &limits[asked].limit,
        };
        let asked = self.ledger.ask(limit, state, at, ask, self.leases_max());
        if asked.counter {
            self.commit(limits, touched, at);
        }
        let reply = Reply::Leased(asked.leased);
        if let Some(id) = id.filter(|_| took(&asked.leased)) {
            let (fingerprint, tenant) = (fingerprint_lease(command), spec.tenant);
            self.replies.remember(Remembered { id, at, fingerprint, tenant, reply: reply.clone() });
        }
        reply
    }

    /// The reply to a lease's ask if applying it would change nothing, so that it needs no entry in a log: a denial that
    /// tells nothing new, or a reply that is remembered.
    #[must_use]
    pub fn settled_lease(&self, limits: &[LimitSpec], command: &LeaseCommand, at: Stamp) -> Option<Reply> {
        let at = self.time.read(at);
        if let Some(reply) = self.recall_lease(command, at) {
            return Some(reply);
        }
        let Some((touched, _)) = self.load_lease(limits, command, at) else {
            return Some(Reply::Refused(Refusal::Malformed));
        };
        let limit = match touched.numbers {
            Numbers::Stored(id) => &self.limits.get(id).spec.limit,
            Numbers::Asked(asked) => &limits[asked].limit,
        };
        let leased = self.ledger.settled(limit, touched.state.as_ref()?, at, &command.ask, self.leases_max());
        leased.map(Reply::Leased)
    }

    /// Every lease, by key and then soonest end first, and some that have ended just now.
    pub fn leases(&self) -> impl Iterator<Item = LeaseRecord> {
        self.ledger.leases()
    }

    /// What became of all units that this shard ever lent.
    #[must_use]
    pub fn lease_totals(&self) -> Totals {
        self.ledger.totals()
    }

    /// Leases held now, and edges whose demand on a key is known: what [`crate::Bounds::leases_max`] bounds.
    #[must_use]
    pub fn leases_held(&self) -> usize {
        self.ledger.held()
    }

    /// How often, in this process, units that were lent were not accounted for. Anything but 0 is a bug.
    #[must_use]
    pub fn lease_violations(&self) -> u64 {
        self.ledger.violations()
    }

    /// Lets leases end that have ended by `at`, of up to `keys_max` keys.
    pub(crate) fn end_leases(&mut self, at: Stamp, keys_max: usize) {
        for _ in 0..keys_max {
            let Some(key) = self.ledger.next_ended(at) else { return };
            self.end_leases_of(key, at);
        }
    }

    fn end_leases_of(&mut self, key: Key, at: Stamp) {
        match self.table.get(key).filter(|_| self.ledger.holds(key)) {
            Some(counter) => {
                let id = counter.limit;
                let state = self.beside(key, &self.limits.get(id).spec.limit, counter.state, at);
                self.keep(key, id, state.into_owned(), at);
            }
            None => self.ledger.drop_ended(key, at),
        }
    }

    fn recall_lease(&self, command: &LeaseCommand, at: Stamp) -> Option<Reply> {
        self.replies.recall(command.id?, fingerprint_lease(command), at, self.bounds.retry_window)
    }

    /// The counter with a state of its own, and which of the batch's limits is asked under; `None` when there is no such.
    fn load_lease(
        &self,
        limits: &[LimitSpec],
        command: &LeaseCommand,
        at: Stamp,
    ) -> Option<(Touched, usize)> {
        let asked = usize::try_from(command.limit).ok()?;
        let key = command.ask.key;
        let mut touched = self.load(key, asked, limits.get(asked)?, at);
        if touched.state.is_none() {
            touched.state = self.table.get(key).map(|counter| Held::into_owned(counter.state));
        }
        Some((touched, asked))
    }

    fn leases_max(&self) -> usize {
        usize::try_from(self.bounds.leases_max).unwrap_or(usize::MAX)
    }
}

const fn took(leased: &Leased) -> bool {
    leased.granted > 0 || leased.sync > 0
}
