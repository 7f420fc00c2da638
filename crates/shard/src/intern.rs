//! The limits that counters were written under, each once; and how many counters each tenant holds.
//!
//! Invariant: a limit is here exactly as long as a counter refers to it. Ids are this process's own: what is replicated is
//! a limit's rank among the live ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_model::{Stamp, TenantId};

use crate::LimitSpec;

/// What a counter was written under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Under {
    /// The numbers, and where they come from.
    pub spec: LimitSpec,
    /// Charges up to here may have been made under other numbers and can't be refunded. [`Stamp::ZERO`]: there were none.
    pub carried: Stamp,
}

/// Limits by small number.
#[derive(Debug, Default)]
pub(crate) struct Interned {
    slots: Vec<Option<Slot>>,
    ids: BTreeMap<Arc<Under>, u32>,
    free: Vec<u32>,
    keys: BTreeMap<TenantId, u32>,
}

#[derive(Debug)]
struct Slot {
    under: Arc<Under>,
    counters: u32,
}

impl Interned {
    /// The limit of a counter that is stored.
    pub(crate) fn get(&self, id: u32) -> &Under {
        let slot = self.slot(id).expect("a stored counter refers to an interned limit");
        &slot.under
    }

    /// How many counters the tenant holds.
    pub(crate) fn keys_of(&self, tenant: TenantId) -> u32 {
        self.keys.get(&tenant).copied().unwrap_or(0)
    }

    /// One more counter refers to `under`; returns its id.
    pub(crate) fn take(&mut self, under: &Under) -> u32 {
        let id = match self.ids.get(under) {
            Some(&id) => id,
            None => self.add(under),
        };
        let slot = self.slots.get_mut(at(id)).and_then(Option::as_mut).expect("an id in `ids` has its slot");
        slot.counters = slot.counters.saturating_add(1);
        let keys = self.keys.entry(under.spec.tenant).or_default();
        *keys = keys.saturating_add(1);
        id
    }

    /// One counter less refers to `id`.
    pub(crate) fn release(&mut self, id: u32) {
        let place = self.slots.get_mut(at(id)).expect("a stored counter refers to an interned limit");
        let slot = place.as_mut().expect("a stored counter refers to an interned limit");
        let tenant = slot.under.spec.tenant;
        slot.counters = slot.counters.saturating_sub(1);
        if slot.counters == 0 {
            let under = Arc::clone(&slot.under);
            *place = None;
            self.ids.remove(&under);
            self.free.push(id);
        }
        if let Some(keys) = self.keys.get_mut(&tenant) {
            *keys = keys.saturating_sub(1);
            if *keys == 0 {
                self.keys.remove(&tenant);
            }
        }
    }

    /// How many limits are live.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Every live limit, ascending.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = &Under> {
        self.ids.keys().map(|under| &**under)
    }

    /// Where each live limit stands in that order, which is the same on every replica; ids needn't be.
    pub(crate) fn ranks(&self) -> Ranks {
        let mut ranks = vec![0; self.slots.len()];
        for (rank, &id) in (0u32..).zip(self.ids.values()) {
            ranks[at(id)] = rank;
        }
        Ranks(ranks)
    }

    fn slot(&self, id: u32) -> Option<&Slot> {
        self.slots.get(at(id))?.as_ref()
    }

    fn add(&mut self, under: &Under) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1)
                .expect("no more limits than counters, which are fewer than 2^32")
        });
        let under = Arc::new(under.clone());
        self.slots[at(id)] = Some(Slot { under: Arc::clone(&under), counters: 0 });
        self.ids.insert(under, id);
        id
    }
}

/// Positions of the live limits in their order, by id.
pub(crate) struct Ranks(Vec<u32>);

impl Ranks {
    pub(crate) fn of(&self, id: u32) -> u32 {
        self.0[at(id)]
    }
}

fn at(id: u32) -> usize {
    usize::try_from(id).expect("a slot with that id was allocated")
}

#[cfg(test)]
mod tests {
    use leasehold_limit::{Algorithm, Limit};
    use leasehold_model::{Nanos, RulesVersion};

    use super::*;

    fn under(tenant: u64, n: u64) -> Under {
        let limit = Limit::new(Algorithm::SlidingLog, n, Nanos(1)).expect("valid");
        let spec =
            LimitSpec { tenant: TenantId(tenant), version: RulesVersion(1), since: Stamp::ZERO, limit };
        Under { spec, carried: Stamp::ZERO }
    }

    #[test]
    fn a_limit_lives_as_long_as_a_counter_refers_to_it() {
        let mut interned = Interned::default();
        let (a, b) = (under(1, 1), under(2, 2));
        assert_eq!((interned.take(&a), interned.take(&b), interned.take(&a)), (0, 1, 0));
        assert_eq!((interned.keys_of(TenantId(1)), interned.keys_of(TenantId(2))), (2, 1));
        interned.release(0);
        assert_eq!(interned.get(0), &a);
        interned.release(0);
        assert!(interned.sorted().eq([&b]));
        assert_eq!(interned.keys_of(TenantId(1)), 0);
    }

    #[test]
    fn ids_of_limits_that_are_gone_are_used_again() {
        let mut interned = Interned::default();
        for n in 0..4 {
            interned.take(&under(1, n));
        }
        interned.release(2);
        interned.release(1);
        for n in 9..11 {
            interned.take(&under(1, n));
        }
        assert_eq!(interned.slots.len(), 4);
        assert_eq!(interned.take(&under(1, 11)), 4);
    }

    #[test]
    fn ranks_do_not_depend_on_the_order_of_arrival() {
        let (mut up, mut down) = (Interned::default(), Interned::default());
        for n in 0..5 {
            up.take(&under(1, n));
            down.take(&under(1, 4 - n));
        }
        assert!(up.sorted().eq(down.sorted()));
        assert!((0..5).all(|id| up.ranks().of(id) == down.ranks().of(4 - id)));
    }
}
