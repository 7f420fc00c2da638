//! A key's leases, laid side by side: each with its own deadline and its own totals, and one of them in the cell.
//!
//! Invariant: granted = spent + returned + lent + held, for each lease and always; what is in the cell is part of what is
//! held, and counts as spent or held as soon as it is withdrawn. Totals only rise, but for units that are put back before
//! anybody was told that they were spent.

use leasehold_model::BootTime;

use super::answer::Holding;
use crate::cell::{Generation, KeyCell, TOKENS_MAX};
use crate::cells::Held;
use crate::{LeaseId, Usage};

/// Fillings of the cell that a lease remembers since its last report, to put units back by. Older ones stay spent.
const FILLINGS_MAX: usize = 8;

/// One lease as its edge keeps it.
#[cfg_attr(test, derive(Hash))]
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    pub(super) deadline: BootTime,
    granted: u64,
    spent: u64,
    returned: u64,
    lent: u64,
    /// What went into messages so far. The owner may know it, so it isn't taken back.
    told: (u64, u64),
    /// What the owner said it has.
    known: (u64, u64),
    fillings: Vec<Generation>,
}

impl Lease {
    fn held(&self) -> u64 {
        self.granted - self.spent - self.returned - self.lent
    }

    fn lives(&self, now: BootTime) -> bool {
        now < self.deadline
    }

    fn usage(&self) -> Usage {
        Usage { lease: self.id, spent_total: self.spent, returned_total: self.returned }
    }

    /// Nothing more will happen to it, and its owner knows all that did.
    fn is_done(&self) -> bool {
        self.spent + self.returned == self.granted && self.known == (self.spent, self.returned)
    }
}

/// All leases of one key, and the cell that one of them is in.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(super) struct Leases {
    held: Held,
    /// By deadline, the first to end first; few.
    all: Vec<Lease>,
    /// The lease in the cell and how many of its units went in.
    placed: Option<(LeaseId, u64)>,
    /// Of those that went in, how many were counted as demand already.
    counted: u64,
}

impl Leases {
    /// None yet. Nobody else fills the cell, or withdraws from it.
    pub(super) const fn new(held: Held) -> Self {
        Self { held, all: Vec::new(), placed: None, counted: 0 }
    }

    pub(super) fn cell(&self) -> KeyCell<'_> {
        self.held.cell()
    }

    pub(super) const fn held_cell(&self) -> &Held {
        &self.held
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A new lease, beside those that are there.
    pub(super) fn add(&mut self, id: LeaseId, granted: u64, deadline: BootTime) {
        if self.find(id).is_some() {
            return;
        }
        let lease = Lease {
            id,
            deadline,
            granted,
            spent: 0,
            returned: 0,
            lent: 0,
            told: (0, 0),
            known: (0, 0),
            fillings: Vec::new(),
        };
        let place = self.all.partition_point(|other| other.deadline <= deadline);
        self.all.insert(place, lease);
    }

    /// Units spent since this was last asked, without touching the cell.
    pub(super) fn look(&mut self) -> u64 {
        let Some((_, units)) = self.placed else { return 0 };
        let spent = units.saturating_sub(self.cell().tokens());
        let news = spent.saturating_sub(self.counted);
        self.counted = spent.max(self.counted);
        news
    }

    /// Takes everything out of the cell: from here on the totals are exact. Returns what [`Leases::look`] would.
    pub(super) fn withdraw(&mut self) -> u64 {
        let Some((id, units)) = self.placed.take() else { return 0 };
        let spent = units.saturating_sub(self.cell().withdraw());
        let news = spent.saturating_sub(std::mem::take(&mut self.counted));
        if let Some(lease) = self.find_mut(id) {
            lease.spent += spent;
        }
        news
    }

    /// Puts the live lease that ends first into the cell. `low` is told how many units lie beside it, and how many are in.
    pub(super) fn place(&mut self, now: BootTime, low: impl FnOnce(u64, u64) -> u64) {
        if self.placed.is_some() {
            return;
        }
        let held = self.held(now);
        let Some(lease) = self.all.iter_mut().find(|lease| lease.lives(now) && lease.held() > 0) else {
            return;
        };
        let units = lease.held().min(TOKENS_MAX);
        if lease.fillings.len() == FILLINGS_MAX {
            lease.fillings.remove(0);
        }
        lease.fillings.push(self.held.cell().fill(units, lease.deadline, low(held - units, units)));
        self.placed = Some((lease.id, units));
    }

    /// Units that could be spent now. What was spent from the cell since it was filled counts until it is withdrawn from.
    pub(super) fn held(&self, now: BootTime) -> u64 {
        let live = self.all.iter().filter(|lease| lease.lives(now));
        live.fold(0_u64, |sum, lease| sum.saturating_add(lease.held())) - self.spent_in_cell(now)
    }

    fn spent_in_cell(&self, now: BootTime) -> u64 {
        match self.placed {
            Some((id, units)) if self.find(id).is_some_and(|lease| lease.lives(now)) => {
                units.saturating_sub(self.cell().tokens())
            }
            Some(_) | None => 0,
        }
    }

    /// Units that could still be spent at `then`, if none is spent until then.
    pub(super) fn held_at(&self, now: BootTime, then: BootTime) -> u64 {
        self.held(BootTime(now.0.max(then.0)))
    }

    /// Spends from what is not in the cell, the lease that ends first first. All or nothing.
    pub(super) fn spend(&mut self, units: u64, now: BootTime) -> bool {
        if self.held(now) < units {
            return false;
        }
        let mut rest = units;
        for lease in self.all.iter_mut().filter(|lease| lease.lives(now)) {
            let part = rest.min(lease.held());
            lease.spent += part;
            rest -= part;
        }
        true
    }

    /// Hands back up to `units`, the lease that ends first first.
    pub(super) fn give_back(&mut self, units: u64, now: BootTime) -> u64 {
        let mut rest = units;
        for lease in self.all.iter_mut().filter(|lease| lease.lives(now)) {
            let part = rest.min(lease.held());
            lease.returned += part;
            rest -= part;
        }
        units - rest
    }

    /// Hands back whatever the leases that ended still hold: this side has stopped spending them, and their owner hasn't
    /// counted them as spent yet.
    pub(super) fn expire(&mut self, now: BootTime) -> u64 {
        let mut units = 0;
        for lease in self.all.iter_mut().filter(|lease| !lease.lives(now)) {
            let part = lease.held();
            lease.returned += part;
            units += part;
        }
        units
    }

    /// Takes back units of a filling that is over, unless its lease's owner may know them as spent.
    pub(super) fn put_back(&mut self, units: u64, from: Generation) -> bool {
        let Some(lease) = self.all.iter_mut().find(|lease| lease.fillings.contains(&from)) else {
            return false;
        };
        if lease.spent - lease.told.0 < units {
            return false;
        }
        lease.spent -= units;
        true
    }

    /// Moves units to a child: the live lease that lasts longest and has any. Returns which, and how many.
    pub(super) fn lend(&mut self, units: u64, not_before: BootTime) -> Option<(LeaseId, u64, BootTime)> {
        let lease = self.all.iter_mut().rev().find(|lease| lease.lives(not_before) && lease.held() > 0)?;
        let units = units.min(lease.held());
        lease.lent += units;
        Some((lease.id, units, lease.deadline))
    }

    /// What a child spent of units lent from a lease.
    pub(super) fn lent_spent(&mut self, parent: LeaseId, units: u64) {
        if let Some(lease) = self.find_mut(parent) {
            lease.lent -= units;
            lease.spent += units;
        }
    }

    /// What a child handed back of units lent from a lease: held again; the next expiry takes it if the lease is over.
    pub(super) fn lent_returned(&mut self, parent: LeaseId, units: u64) {
        if let Some(lease) = self.find_mut(parent) {
            lease.lent -= units;
        }
    }

    /// Whether units were handed back of which the owner hasn't been told.
    pub(super) fn has_untold_return(&self) -> bool {
        self.all.iter().any(|lease| lease.returned > lease.known.1)
    }

    /// Whether anything happened that the owner doesn't know, as of the last withdrawal.
    pub(super) fn has_news(&self) -> bool {
        self.spent_in_cell(BootTime(0)) > 0
            || self.all.iter().any(|lease| lease.known != (lease.spent, lease.returned))
    }

    /// What became of each lease, for a message to its owner; counts as told. Withdraw first.
    pub(super) fn tell(&mut self) -> Vec<Usage> {
        debug_assert!(self.placed.is_none(), "what is told is withdrawn first");
        let news = self.all.iter_mut().filter(|lease| lease.known != (lease.spent, lease.returned));
        news.map(|lease| {
            lease.told = (lease.spent, lease.returned);
            lease.fillings.clear();
            lease.usage()
        })
        .collect()
    }

    /// The owner has this. Leases with nothing left and nothing to tell go.
    pub(super) fn known(&mut self, usage: &[Usage]) {
        for told in usage {
            if let Some(lease) = self.find_mut(told.lease) {
                lease.known = (lease.known.0.max(told.spent_total), lease.known.1.max(told.returned_total));
            }
        }
        self.drop_done();
    }

    /// Forgets leases that ended before `then`: their owner has settled them, told or not.
    pub(super) fn forget(&mut self, then: BootTime) {
        let placed = self.placed.map(|(id, _)| id);
        self.all.retain(|lease| lease.deadline > then || Some(lease.id) == placed || lease.lent > 0);
    }

    fn drop_done(&mut self) {
        let placed = self.placed.map(|(id, _)| id);
        self.all.retain(|lease| !lease.is_done() || Some(lease.id) == placed);
    }

    /// When the next lease ends.
    pub(super) fn next_end(&self, now: BootTime) -> Option<BootTime> {
        self.all.iter().find(|lease| lease.lives(now)).map(|lease| lease.deadline)
    }

    /// When the last of those that ended did.
    pub(super) fn first_deadline(&self) -> Option<BootTime> {
        self.all.first().map(|lease| lease.deadline)
    }

    pub(super) fn holdings(&self) -> impl Iterator<Item = Holding> {
        self.all.iter().map(|lease| {
            let inside = self.placed.filter(|(id, _)| *id == lease.id);
            let spent_inside = inside.map_or(0, |(_, units)| units.saturating_sub(self.cell().tokens()));
            let Lease { id, deadline, granted, spent, returned, lent, .. } = *lease;
            Holding { id, deadline, granted, spent: spent + spent_inside, returned, lent }
        })
    }

    fn find(&self, id: LeaseId) -> Option<&Lease> {
        self.all.iter().find(|lease| lease.id == id)
    }

    fn find_mut(&mut self, id: LeaseId) -> Option<&mut Lease> {
        self.all.iter_mut().find(|lease| lease.id == id)
    }

    /// All but the cell.
    #[cfg(test)]
    pub(super) fn parts(&self) -> (&[Lease], Option<(LeaseId, u64)>, u64) {
        (&self.all, self.placed, self.counted)
    }

    /// A copy's own cell, that says the same.
    #[cfg(test)]
    pub(super) fn rebind(&mut self, held: Held) {
        self.held = held;
    }
}
