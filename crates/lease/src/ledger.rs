//! The owner's side of leases: who holds how many units of which counter, until when.
//!
//! Invariant: every unit that was ever lent is spent, returned, lapsed or live, for each key and in total; and of a
//! counter, what is left and what is out never pass its capacity together. Counters themselves are the caller's: their
//! state and limit are arguments, and whoever has a key here keeps its counter.
//!
//! Leases end lazily: when their ends are looked at changes nothing, since each is settled at its own, in order, before
//! anything else is.

mod held;
mod record;
mod sizing;
mod slots;
#[cfg(test)]
mod tests;

pub use held::{HOLDERS_PER_KEY_MAX, LEASES_PER_KEY_MAX, USAGE_MAX};
pub use record::{HolderRecord, LeaseRecord, LedgerError, LedgerRecord, Totals};
pub use slots::{SLOTS_MAX, SlotRecord};

use std::collections::{BTreeMap, BTreeSet};

use leasehold_limit::{Limit, Out, State};
use leasehold_model::{Key, Stamp};

use self::held::{Counter, Held, Outcome, Terms};
use self::slots::{Slot, Slots};
use crate::{LeaseAsk, LeaseId, Leased};

/// All leases of one shard.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    keys: BTreeMap<Key, Held>,
    /// When to look at which key though nobody asks.
    wakes: BTreeSet<(Stamp, Key)>,
    slots: Slots,
    next: u64,
    totals: Totals,
    /// Entries under all keys.
    held: usize,
    /// Of those, leases.
    leases: usize,
    /// For operators; influences nothing.
    violations: u64,
}

/// The answer to an ask, and whether anything is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The answer.
    pub leased: Leased,
    /// Whether the counter changed: its state is to be kept.
    pub counter: bool,
    /// Whether the counter or the ledger changed.
    pub changed: bool,
}

impl Ledger {
    /// What is out of a counter at `at`. Leases that have ended by then become spent in `state`, each at its end.
    ///
    /// The ledger itself stays: whoever keeps `state` calls [`Ledger::drop_ended`] with the same stamp, before anything else.
    pub fn beside(&self, key: Key, limit: &Limit, state: &mut State, at: Stamp) -> Out<'_> {
        match self.keys.get(&key) {
            Some(held) => held.beside(&mut Counter { limit, state, at }),
            None => Out::NONE,
        }
    }

    /// What is out of a counter at `at`, for a state that [`Ledger::beside`] has seen at `at` already.
    #[must_use]
    pub fn out(&self, key: Key, at: Stamp) -> Out<'_> {
        self.keys.get(&key).map_or(Out::NONE, |held| held.out_at(at))
    }

    /// Drops the leases of a key that have ended by `at`, which are spent in its state.
    pub fn drop_ended(&mut self, key: Key, at: Stamp) {
        if self.keys.contains_key(&key) {
            self.change(key, |held, totals| held.drop_ended(at, totals));
        }
    }

    /// Lets the leases of a counter end that have ended by `at`.
    pub fn settle(&mut self, key: Key, limit: &Limit, state: &mut State, at: Stamp) {
        self.beside(key, limit, state, at);
        self.drop_ended(key, at);
    }

    /// Takes in what became of the edge's leases, then gives what there is of the counter: all of `need` that is left, and
    /// of `want` what may be lent. `held_max` bounds the entries of the whole ledger.
    ///
    /// `state` is the counter's, under `limit`; keep it if anything changed.
    pub fn ask(
        &mut self,
        limit: &Limit,
        state: &mut State,
        at: Stamp,
        ask: &LeaseAsk,
        held_max: usize,
    ) -> Asked {
        self.settle(ask.key, limit, state, at);
        let slot_due = self.slots.look(ask.edge, at) == Slot::Due;
        let terms = Terms {
            id: LeaseId(self.next),
            slot: self.slots.take(ask.edge, at),
            room: held_max.saturating_sub(self.held),
        };
        let mut counter = Counter { limit, state, at };
        let Outcome { leased, counter, changed } =
            self.change(ask.key, |held, totals| held.ask(&mut counter, ask, terms, totals));
        self.next += u64::from(leased.lease.is_some());
        self.inspect(ask.key, limit, &leased);
        Asked { leased, counter, changed: changed || slot_due }
    }

    /// The answer to `ask` if it would change nothing: none of the units wanted are there, and nothing told is news.
    /// For a state that [`Ledger::beside`] has seen at `at`.
    #[must_use]
    pub fn settled(
        &self,
        limit: &Limit,
        state: &State,
        at: Stamp,
        ask: &LeaseAsk,
        held_max: usize,
    ) -> Option<Leased> {
        let slot = match self.slots.look(ask.edge, at) {
            Slot::Kept(slot) => Some(slot),
            Slot::None => None,
            Slot::Due => return None,
        };
        let left = limit.decide_beside(state, at, leasehold_limit::Ask::PEEK, self.out(ask.key, at)).allowed;
        if left && ask.need > 0 {
            return None;
        }
        let mut held = self.keys.get(&ask.key).cloned().unwrap_or_default();
        if held.is_news(ask.edge, &ask.usage) {
            return None;
        }
        let mut totals = self.totals;
        held.drop_ended(at, &mut totals);
        let dropped = self.keys.get(&ask.key).map_or(0, Held::len) - held.len();
        let room = held_max.saturating_sub(self.held - dropped);
        let terms = Terms { id: LeaseId(self.next), slot, room };
        let mut state = state.clone();
        let outcome = held.ask(&mut Counter { limit, state: &mut state, at }, ask, terms, &mut totals);
        (!outcome.changed).then_some(outcome.leased)
    }

    /// A key with something that has ended by `at`; the caller settles its counter, and asks again.
    #[must_use]
    pub fn next_ended(&self, at: Stamp) -> Option<Key> {
        self.wakes.first().filter(|(wake, _)| *wake <= at).map(|&(_, key)| key)
    }

    /// Whether units of the key are out, for all that was settled: its counter must be kept.
    #[must_use]
    pub fn holds(&self, key: Key) -> bool {
        self.keys.get(&key).is_some_and(Held::has_leases)
    }

    /// Leases and edges' demands held under all keys.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Leases held under all keys.
    #[must_use]
    pub fn lease_count(&self) -> usize {
        self.leases
    }

    /// Leases that were ever granted.
    #[must_use]
    pub fn grants(&self) -> u64 {
        self.next
    }

    /// What became of all units that were ever lent.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// How often, in this process, units were not accounted for or capacity was passed. Anything but 0 is a bug.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// Every lease, by key and then soonest end first. Some may have ended since.
    pub fn leases(&self) -> impl Iterator<Item = LeaseRecord> {
        self.keys.iter().flat_map(|(&key, held)| held.leases(key))
    }

    /// Changes one key, and keeps count.
    fn change<R>(&mut self, key: Key, change: impl FnOnce(&mut Held, &mut Totals) -> R) -> R {
        let held = self.keys.entry(key).or_default();
        let (wake, len, leases) = (held.wake(), held.len(), held.lease_count());
        let result = change(held, &mut self.totals);
        let woken = held.wake();
        self.held = self.held - len + held.len();
        self.leases = self.leases - leases + held.lease_count();
        if held.is_empty() {
            self.keys.remove(&key);
        }
        if wake != woken {
            wake.map(|wake| self.wakes.remove(&(wake, key)));
            woken.map(|wake| self.wakes.insert((wake, key)));
        }
        result
    }

    /// Looks, in release builds too, whether conservation and coupling hold.
    fn inspect(&mut self, key: Key, limit: &Limit, leased: &Leased) {
        let held = self.keys.get(&key);
        let out = held.map_or(0, |held| held.out().units());
        // A limit that lends nothing has units out only since it replaced one that did.
        let fits = leased.remaining == 0 || leased.remaining.saturating_add(out) <= limit.cap();
        let coupled = fits || !limit.lends();
        let conserved = self.totals.conserved() && held.is_none_or(Held::conserves);
        debug_assert!(conserved, "granted = spent + returned + lapsed + live: {:?}", self.totals);
        debug_assert!(coupled, "{} left and {out} out of {}", leased.remaining, limit.cap());
        self.violations += u64::from(!(coupled && conserved));
    }
}
