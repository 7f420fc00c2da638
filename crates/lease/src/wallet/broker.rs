//! The owner's side towards children: a broker answers their asks out of what it holds, in the owner's own words.
//!
//! Invariant: what a child gets was held here and is held no longer, or was consumed at the owner for that very ask. An ask
//! that comes again under its id gets the same answer; one whose answer is forgotten gets other units, and those that
//! went with the first count as spent when their time is over.

use leasehold_limit::RetryAfter;
use leasehold_model::{BootTime, Nanos};

use super::children::sub_lifetime;
use super::entry::{Entry, Shared};
use super::waiters::{Waiter, Who};
use crate::{EdgeId, LIFETIME_MAX, LeaseAsk, LeaseId, Leased};

impl<L> Entry<L> {
    /// Takes in what a child tells.
    pub(super) fn hear_child(&mut self, ask: &LeaseAsk, shared: &mut Shared, now: BootTime) {
        self.look(shared, now);
        self.withdraw(now);
        let _moved = self.children.report(ask.edge, &ask.usage, &mut self.leases);
        self.children.hear(ask.edge, ask.rate, now);
        if ask.want > 0 || ask.need > 0 {
            self.used_at = now;
        }
    }

    /// The answer to a child, if there is one without asking the owner.
    pub(super) fn answer_child(
        &mut self,
        ask: &LeaseAsk,
        shared: &mut Shared,
        now: BootTime,
    ) -> Option<Leased> {
        let want = ask.want.max(ask.need);
        if want == 0 {
            return Some(self.leased_nothing(None, now));
        }
        let held = self.leases.held(now);
        if held == 0 && self.is_denied(now) {
            return Some(self.leased_nothing(Some(self.denied_until.since(now)), now));
        }
        if held < ask.need || held == 0 {
            return None;
        }
        let child = Child { edge: ask.edge, lifetime: ask.lifetime, extra: want - ask.need };
        self.leases.spend(ask.need, now);
        let (lease, granted, lifetime) = self.lend(&child, shared, now);
        if ask.need == 0 && lease.is_none() {
            return None;
        }
        Some(Leased { lease, granted, lifetime, sync: ask.need, ..self.leased_nothing(None, now) })
    }

    /// What a child that waited gets from an answer of the owner; `None`: it goes on waiting.
    pub(super) fn serve_child(
        &mut self,
        waiter: &Waiter,
        from_owner: &Leased,
        sync: &mut u64,
        shared: &mut Shared,
        now: BootTime,
    ) -> Option<Leased> {
        let Who::Child { edge, lifetime, .. } = waiter.who else { return None };
        if !waiter.asked && self.leases.held(now) < waiter.need.max(1) {
            return None;
        }
        let consumed = if waiter.asked { waiter.need.min(*sync) } else { 0 };
        *sync -= consumed;
        let more = (waiter.need - consumed).min(self.leases.held(now));
        self.leases.spend(more, now);
        let child = Child { edge, lifetime, extra: waiter.extra };
        let (lease, granted, lifetime) = self.lend(&child, shared, now);
        let given = consumed + more;
        let gate = from_owner.gate.filter(|_| lease.is_none());
        let retry_after = from_owner.retry_after.filter(|_| given < waiter.need);
        let base = self.leased_nothing(None, now);
        Some(Leased { lease, granted, lifetime, sync: given, gate, retry_after, ..base })
    }

    fn lend(&mut self, child: &Child, shared: &mut Shared, now: BootTime) -> (Option<LeaseId>, u64, Nanos) {
        let nothing = (None, 0, Nanos::ZERO);
        if child.extra == 0 || self.children.len() >= shared.settings.sub_leases_max {
            return nothing;
        }
        let Some((parent, units, ends)) = self.leases.lend(self.extra(child, shared, now), now) else {
            return nothing;
        };
        let asked = child.lifetime.min(LIFETIME_MAX);
        let Some(lifetime) = sub_lifetime(asked, ends.since(now), shared.settings.guard) else {
            self.leases.lent_returned(parent, units);
            return nothing;
        };
        let id = shared.next_sub_lease();
        self.children.add(id, child.edge, parent, units, lifetime, now);
        shared.totals.sub_leases += 1;
        shared.totals.lent += units;
        (Some(id), units, lifetime)
    }

    /// What a child may hold: all that it wants, or its fair share while the owner gives less than is wanted.
    fn extra(&self, child: &Child, shared: &Shared, now: BootTime) -> u64 {
        if !self.short {
            return child.extra;
        }
        let share = self.children.share(child.edge, self.leases.held(now), shared.settings.horizon, now);
        child.extra.min(share)
    }

    /// An answer that brings nothing; with a wait, one that says when to come back.
    fn leased_nothing(&self, wait: Option<Nanos>, now: BootTime) -> Leased {
        Leased {
            lease: None,
            granted: 0,
            sync: 0,
            lifetime: Nanos::ZERO,
            gate: wait,
            retry_after: wait.map(RetryAfter::In),
            remaining: self.heard.remaining.saturating_add(self.leases.held(now)),
            reset_after: self.heard.reset_at.since(now),
            slot: None,
            at: self.heard.at.after(now.since(self.heard.when)),
        }
    }
}

/// What a child would hold.
struct Child {
    edge: EdgeId,
    lifetime: Nanos,
    extra: u64,
}

#[cfg(test)]
mod tests;
