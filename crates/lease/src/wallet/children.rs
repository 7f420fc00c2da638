//! What a broker lent on: sub-leases of one key, each a part of one of its own leases.
//!
//! Invariant: a sub-lease is a move. Its units leave what the parent lease holds, and come out of it once: as spent, as
//! handed back, or, when its time is over, as spent. It ends before its parent does, so they come out in time.

use std::collections::BTreeMap;

use leasehold_model::{BootTime, Nanos};

use super::demand;
use super::leases::Leases;
use crate::fair::max_min;
use crate::{EdgeId, LeaseId, MilliRate, Usage, owner_lifetime};

/// A child's demand counts until it was silent for so long.
const RATE_FRESH: Nanos = Nanos::from_secs(2);
/// Children whose demand is known, a key. At the bound another's demand isn't counted until one falls silent.
const RATES_MAX: usize = 256;

#[cfg_attr(test, derive(Hash))]
#[derive(Clone, Copy, Debug)]
struct SubLease {
    edge: EdgeId,
    parent: LeaseId,
    granted: u64,
    spent: u64,
    returned: u64,
    /// From here on its rest counts as spent.
    void_at: BootTime,
}

/// The sub-leases of one key.
#[cfg_attr(test, derive(Clone, Hash))]
#[derive(Debug, Default)]
pub(super) struct Children {
    all: BTreeMap<LeaseId, SubLease>,
    rates: BTreeMap<EdgeId, (MilliRate, BootTime)>,
}

/// What a child's word changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) spent: u64,
    pub(super) returned: u64,
}

impl Children {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn parent(&self, sub_lease: LeaseId) -> Option<LeaseId> {
        self.all.get(&sub_lease).map(|sub| sub.parent)
    }

    /// Whose they are.
    pub(super) fn holders(&self) -> impl Iterator<Item = EdgeId> {
        self.all.values().map(|sub| sub.edge)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.rates.is_empty()
    }

    /// Demand of all children that were heard of lately.
    pub(super) fn rate(&self, now: BootTime) -> MilliRate {
        let fresh = self.rates.values().filter(|(_, heard)| now.since(*heard) < RATE_FRESH);
        MilliRate(fresh.fold(0, |sum, (rate, _)| sum.saturating_add(rate.0)))
    }

    /// How many units a child may get, of which `held` are here and too few: its max-min share of those and of what all
    /// children hold, less what it holds. Each wants what it spends in `span`; one at least, or who tells of no demand would
    /// never begin.
    pub(super) fn share(&self, edge: EdgeId, held: u64, span: Nanos, now: BootTime) -> u64 {
        let fresh = self.rates.iter().filter(|(_, (_, heard))| now.since(*heard) < RATE_FRESH);
        let (mut own, mut others) = (1, Vec::new());
        for (child, (rate, _)) in fresh {
            let wanted = demand::units(*rate, span);
            if *child == edge { own = wanted.max(1) } else { others.push(wanted) }
        }
        let (mut all, mut has) = (u128::from(held), 0);
        for sub in self.all.values() {
            let out = sub.granted - sub.spent - sub.returned;
            all += u128::from(out);
            has += if sub.edge == edge { out } else { 0 };
        }
        max_min(all, own, others.into_iter()).saturating_sub(has).max(1)
    }

    /// A child tells its demand.
    pub(super) fn hear(&mut self, edge: EdgeId, rate: MilliRate, now: BootTime) {
        if rate == MilliRate(0) {
            self.rates.remove(&edge);
        } else if self.rates.len() < RATES_MAX || self.rates.contains_key(&edge) {
            self.rates.insert(edge, (rate, now));
        }
    }

    /// Notes units moved out of a parent lease, for a child that may spend them for `lifetime` from now.
    pub(super) fn add(
        &mut self,
        id: LeaseId,
        edge: EdgeId,
        parent: LeaseId,
        granted: u64,
        lifetime: Nanos,
        now: BootTime,
    ) {
        let void_at = BootTime(now.0.saturating_add(owner_lifetime(lifetime).0));
        self.all.insert(id, SubLease { edge, parent, granted, spent: 0, returned: 0, void_at });
    }

    /// What a child says became of its leases. Totals: what is known already, unknown or another's changes nothing.
    pub(super) fn report(&mut self, edge: EdgeId, usage: &[Usage], leases: &mut Leases) -> Moved {
        let mut moved = Moved::default();
        for told in usage {
            let Some(sub) = self.all.get_mut(&told.lease).filter(|sub| sub.edge == edge) else { continue };
            let spent = told.spent_total.min(sub.granted - sub.returned).saturating_sub(sub.spent);
            sub.spent += spent;
            leases.lent_spent(sub.parent, spent);
            let returned = told.returned_total.min(sub.granted - sub.spent).saturating_sub(sub.returned);
            sub.returned += returned;
            leases.lent_returned(sub.parent, returned);
            moved = Moved { spent: moved.spent + spent, returned: moved.returned + returned };
            if sub.spent + sub.returned == sub.granted {
                self.all.remove(&told.lease);
            }
        }
        moved
    }

    /// Counts as spent what is left of sub-leases whose time is over. Returns how many units.
    pub(super) fn expire(&mut self, leases: &mut Leases, now: BootTime) -> u64 {
        let mut stranded = 0;
        self.all.retain(|_, sub| {
            if now < sub.void_at {
                return true;
            }
            let rest = sub.granted - sub.spent - sub.returned;
            leases.lent_spent(sub.parent, rest);
            stranded += rest;
            false
        });
        self.rates.retain(|_, (_, heard)| now.since(*heard) < RATE_FRESH);
        stranded
    }

    /// When the next sub-lease is over, or a child's demand forgotten.
    pub(super) fn next_deadline(&self) -> Option<BootTime> {
        let voids = self.all.values().map(|sub| sub.void_at);
        let silences = self.rates.values().map(|(_, heard)| BootTime(heard.0.saturating_add(RATE_FRESH.0)));
        voids.chain(silences).min()
    }
}

/// How long a sub-lease may last, of a lease with `left` to go: its rest is settled here `guard` before the lease ends.
/// `None` when that leaves too little to be worth it.
pub(super) fn sub_lifetime(asked: Nanos, left: Nanos, guard: Nanos) -> Option<Nanos> {
    /// Shorter than this, a sub-lease is mostly round trip.
    const WORTH_IT: Nanos = Nanos::from_millis(20);
    let whole = left.0.saturating_sub(guard.0);
    // Room for the owner's margin, with a nanosecond or two to spare for rounding.
    let lifetime = Nanos(whole.saturating_sub(owner_lifetime(Nanos(whole)).0 - whole));
    let lifetime = lifetime.min(asked);
    (lifetime >= WORTH_IT).then_some(lifetime)
}
