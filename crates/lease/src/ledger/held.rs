//! One key's leases and the edges that want its units.
//!
//! Invariant: `due` and `leases` stand side by side, soonest end first, and no lease is without units. The counter's state
//! is an argument: it is always settled with what was out before that changes.

use leasehold_limit::{Ask, Decision, Due, Limit, Out, RetryAfter, State};
use leasehold_model::planted::{self, Bug};
use leasehold_model::{Key, Nanos, Stamp};

use super::sizing::{self, Demand, Share, Supply};
use super::{HolderRecord, LeaseRecord, Totals};
use crate::{EdgeId, LIFETIME_MAX, LIFETIME_MIN, LeaseAsk, LeaseId, Leased, MilliRate, Usage};
use crate::{edge_lifetime, owner_lifetime};

/// Leases of one key. At the bound nothing more is lent of it: all is consumed where it is asked.
pub const LEASES_PER_KEY_MAX: usize = 1_024;
/// Edges that one key knows the demand of. At the bound another gets no lease, but what it needs at once.
pub const HOLDERS_PER_KEY_MAX: usize = 256;
/// Items of usage in one ask. What is beyond is not looked at: totals are told again with the next ask.
pub const USAGE_MAX: usize = 256;

/// One key's share of the ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    due: Vec<Due>,
    leases: Vec<Lease>,
    holders: Vec<Holder>,
}

/// A lease. What is out of it is in its [`Due`].
#[derive(Clone, Copy, Debug)]
struct Lease {
    id: LeaseId,
    edge: EdgeId,
    granted: u64,
    spent: u64,
    returned: u64,
    granted_at: Stamp,
}

/// An edge that wants units to hold.
#[derive(Clone, Copy, Debug)]
struct Holder {
    edge: EdgeId,
    rate: MilliRate,
    until: Stamp,
}

/// One counter at one moment.
pub(super) struct Counter<'a> {
    pub(super) limit: &'a Limit,
    pub(super) state: &'a mut State,
    pub(super) at: Stamp,
}

/// What an ask may use of the ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) id: LeaseId,
    pub(super) slot: Option<u16>,
    /// Leases and holders that there is room for.
    pub(super) room: usize,
}

/// What came of an ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) leased: Leased,
    /// Whether the counter changed.
    pub(super) counter: bool,
    /// Whether anything is to be kept of it, the counter or what is known of the edge.
    pub(super) changed: bool,
}

impl Held {
    /// What is out at `at`. Leases that have ended by then become spent in `state`: each at its own end, in order.
    ///
    /// No further than the last of them is `state` brought, so that it is the same whenever that is done.
    pub(super) fn beside(&self, counter: &mut Counter<'_>) -> Out<'_> {
        let mut out = Out::new(&self.due);
        while let Some((ended, rest)) = out.due().split_first()
            && ended.at <= counter.at
        {
            if planted::is(Bug::CreditAtExpiry) {
                counter.limit.returned(counter.state, ended.at, ended.units, ended.at, out.units());
            } else {
                counter.limit.spent(counter.state, ended.at, ended.units, out.units());
            }
            out = Out::new(rest);
        }
        out
    }

    /// Drops the leases that have ended and the edges that were not heard of.
    pub(super) fn drop_ended(&mut self, at: Stamp, totals: &mut Totals) {
        let ended = self.due.partition_point(|due| due.at <= at);
        self.leases.drain(..ended);
        for due in self.due.drain(..ended) {
            totals.lapsed += u128::from(due.units);
            totals.live = totals.live.saturating_sub(u128::from(due.units));
        }
        self.holders.retain(|holder| holder.until > at);
    }

    pub(super) fn out(&self) -> Out<'_> {
        Out::new(&self.due)
    }

    /// What is out at `at`, whether leases that have ended were dropped or not.
    pub(super) fn out_at(&self, at: Stamp) -> Out<'_> {
        Out::new(&self.due[self.due.partition_point(|due| due.at <= at)..])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.holders.is_empty()
    }

    pub(super) fn has_leases(&self) -> bool {
        !self.leases.is_empty()
    }

    pub(super) fn lease_count(&self) -> usize {
        self.leases.len()
    }

    /// Entries that count to the ledger's bound.
    pub(super) fn len(&self) -> usize {
        self.leases.len() + self.holders.len()
    }

    /// When to look at it again though nobody asks.
    pub(super) fn wake(&self) -> Option<Stamp> {
        let ended = self.due.first().map(|due| due.at);
        ended.or_else(|| self.holders.iter().map(|holder| holder.until).max())
    }

    /// Whether any of it would change anything.
    pub(super) fn is_news(&self, edge: EdgeId, usage: &[Usage]) -> bool {
        usage.iter().take(USAGE_MAX).any(|usage| {
            self.place(edge, usage.lease).is_some_and(|place| {
                let lease = &self.leases[place];
                usage.spent_total > lease.spent || usage.returned_total > lease.returned
            })
        })
    }

    /// Takes in what became of the edge's leases, then gives what there is. Everything that ended has been dropped.
    pub(super) fn ask(
        &mut self,
        counter: &mut Counter<'_>,
        ask: &LeaseAsk,
        terms: Terms,
        totals: &mut Totals,
    ) -> Outcome {
        let mut counted = false;
        for usage in ask.usage.iter().take(USAGE_MAX) {
            counted |= self.usage(counter, ask.edge, *usage, totals);
        }
        let demand = Wanted::of(ask);
        let registers = demand.want > demand.need;
        let place = self.holders.iter().position(|holder| holder.edge == ask.edge);
        let known = place.is_some() || (self.holders.len() < HOLDERS_PER_KEY_MAX && terms.room > 0);
        let lifetime = lifetime(counter.limit, counter.at, ask.lifetime);
        let edges = self.holders.len() + usize::from(place.is_none());
        let pays = sizing::pays(counter.limit, edges);
        let lends = registers
            && known
            && pays
            && lifetime.is_some()
            && counter.limit.lends()
            && self.fits(terms.room);
        let fair = self.fair(counter.limit, ask);
        let share = self.share(counter, demand, fair, lends);
        let lifetime = lifetime.unwrap_or(LIFETIME_MIN);
        let lease = self.give(counter, ask.edge, share, lifetime, terms.id, totals);
        let after = counter.limit.decide_beside(counter.state, counter.at, Ask::PEEK, self.out());
        let gate = gate(counter.limit, demand, share, fair, (registers && !pays, &after));
        let taken = share.sync > 0 || share.granted > 0;
        counted |= taken;
        let mut changed = counted;
        if registers && known {
            let until = counter.at.after(owner_lifetime(lifetime)).after(gate.unwrap_or(Nanos::ZERO));
            changed |=
                self.register(place, Holder { edge: ask.edge, rate: ask.rate, until }, counter.at, taken);
        }
        totals.gates += u64::from(gate.is_some() && changed);
        let retry_after = (share.sync < demand.need).then(|| match after.retry_after {
            Some(wait) => wait,
            None => RetryAfter::In(gate.unwrap_or(Nanos::ZERO)),
        });
        let leased = Leased {
            lease,
            granted: share.granted,
            sync: share.sync,
            lifetime,
            gate,
            retry_after,
            remaining: after.remaining,
            reset_after: after.reset_after,
            slot: terms.slot,
            at: counter.at,
        };
        Outcome { leased, counter: counted, changed }
    }

    /// What the totals say beyond what was known. Only of the edge's own leases, and never beyond what was granted.
    fn usage(&mut self, counter: &mut Counter<'_>, edge: EdgeId, usage: Usage, totals: &mut Totals) -> bool {
        let Some(place) = self.place(edge, usage.lease) else { return false };
        let (lease, out) = (self.leases[place], self.out().units());
        let spent = usage.spent_total.saturating_sub(lease.spent).min(self.due[place].units);
        let rest = self.due[place].units - spent;
        let returned = usage.returned_total.saturating_sub(lease.returned).min(rest);
        if spent == 0 && returned == 0 {
            return false;
        }
        let Counter { limit, state, at } = counter;
        limit.spent(state, *at, spent, out);
        limit.returned(state, *at, returned, lease.granted_at, out - spent);
        self.leases[place].spent += spent;
        self.leases[place].returned += returned;
        self.due[place].units = rest - returned;
        if rest == returned {
            self.leases.remove(place);
            self.due.remove(place);
        }
        totals.spent += u128::from(spent);
        totals.returned += u128::from(returned);
        totals.live = totals.live.saturating_sub(u128::from(spent) + u128::from(returned));
        true
    }

    fn share(&self, counter: &Counter<'_>, wanted: Wanted, fair: MilliRate, lends: bool) -> Share {
        let out = self.out();
        let decision = counter.limit.decide_beside(counter.state, counter.at, Ask::PEEK, out);
        let supply = Supply { left: decision.remaining, out: out.units() };
        let others = self.holders.iter().filter(|holder| holder.edge != wanted.edge);
        let total = others.map(|holder| u128::from(holder.rate.0)).sum::<u128>() + u128::from(wanted.rate.0);
        let demand = Demand { need: wanted.need, want: wanted.want, fair, total };
        sizing::share(counter.limit, supply, demand, lends)
    }

    fn fair(&self, limit: &Limit, ask: &LeaseAsk) -> MilliRate {
        let others = self.holders.iter().filter(|holder| holder.edge != ask.edge).map(|holder| holder.rate);
        sizing::fair(limit, ask.rate, others)
    }

    /// Charges what is consumed at once and lends the rest.
    fn give(
        &mut self,
        counter: &mut Counter<'_>,
        edge: EdgeId,
        share: Share,
        lifetime: Nanos,
        id: LeaseId,
        totals: &mut Totals,
    ) -> Option<LeaseId> {
        let Counter { limit, state, at } = counter;
        let (at, out, granted) = (*at, self.out().units(), share.granted);
        if share.sync > 0 {
            limit.charge_beside(state, at, share.sync, out);
        }
        if granted == 0 {
            return None;
        }
        limit.lend(state, at, granted, out);
        let due = Due { at: at.after(owner_lifetime(lifetime)), units: granted };
        let place = self.due.partition_point(|other| other.at <= due.at);
        self.due.insert(place, due);
        self.leases.insert(place, Lease { id, edge, granted, spent: 0, returned: 0, granted_at: at });
        totals.granted += u128::from(granted);
        totals.live += u128::from(granted);
        Some(id)
    }

    /// Notes an edge's demand. What was noted stands as long as it is about right and not about to run out, so that an
    /// edge that is refused again and again changes nothing.
    fn register(&mut self, place: Option<usize>, holder: Holder, at: Stamp, taken: bool) -> bool {
        let Some(noted) = place.map(|place| &mut self.holders[place]) else {
            self.holders.push(holder);
            return true;
        };
        let (old, new) = (noted.rate.0, holder.rate.0);
        let right = new / 2 <= old && old / 2 <= new;
        let lasts = noted.until.since(at).0 >= holder.until.since(at).0 / 2;
        if taken || !right || !lasts {
            *noted = holder;
            return true;
        }
        false
    }

    /// Whether one more lease, and the edge's own entry, find room.
    fn fits(&self, room: usize) -> bool {
        room >= 2 && self.leases.len() < LEASES_PER_KEY_MAX
    }

    fn place(&self, edge: EdgeId, lease: LeaseId) -> Option<usize> {
        self.leases.iter().position(|other| other.id == lease && other.edge == edge)
    }

    /// Whether every unit of every lease is accounted for.
    pub(super) fn conserves(&self) -> bool {
        let whole = |(lease, due): (&Lease, &Due)| {
            due.units > 0
                && u128::from(lease.granted)
                    == u128::from(lease.spent) + u128::from(lease.returned) + u128::from(due.units)
        };
        self.leases.len() == self.due.len() && self.leases.iter().zip(&self.due).all(whole)
    }

    pub(super) fn leases(&self, key: Key) -> impl Iterator<Item = LeaseRecord> {
        self.leases.iter().zip(&self.due).map(move |(lease, due)| LeaseRecord {
            key,
            id: lease.id,
            edge: lease.edge,
            granted: lease.granted,
            spent: lease.spent,
            returned: lease.returned,
            granted_at: lease.granted_at,
            expires: due.at,
        })
    }

    pub(super) fn holders(&self, key: Key) -> impl Iterator<Item = HolderRecord> {
        self.holders.iter().map(move |&Holder { edge, rate, until }| HolderRecord { key, edge, rate, until })
    }

    /// Takes over a record; `false` when it is out of order or has nothing out.
    pub(super) fn restore_lease(&mut self, record: &LeaseRecord) -> bool {
        let LeaseRecord { id, edge, granted, spent, returned, granted_at, expires, .. } = *record;
        let gone = spent.checked_add(returned);
        let Some(units) = gone.and_then(|gone| granted.checked_sub(gone)).filter(|&units| units > 0) else {
            return false;
        };
        if self.due.last().is_some_and(|last| last.at > expires) {
            return false;
        }
        self.due.push(Due { at: expires, units });
        self.leases.push(Lease { id, edge, granted, spent, returned, granted_at });
        true
    }

    pub(super) fn restore_holder(&mut self, HolderRecord { edge, rate, until, .. }: HolderRecord) -> bool {
        let known = self.holders.iter().any(|holder| holder.edge == edge);
        self.holders.push(Holder { edge, rate, until });
        !known
    }
}

/// An ask's numbers in order: need ≤ want.
#[derive(Clone, Copy)]
struct Wanted {
    edge: EdgeId,
    need: u64,
    want: u64,
    rate: MilliRate,
}

impl Wanted {
    fn of(ask: &LeaseAsk) -> Self {
        Self { edge: ask.edge, need: ask.need, want: ask.want.max(ask.need), rate: ask.rate }
    }
}

/// How long a lease granted at `at` lasts; `None` when that is too short to be of use.
fn lifetime(limit: &Limit, at: Stamp, asked: Nanos) -> Option<Nanos> {
    let asked = asked.clamp(LIFETIME_MIN, LIFETIME_MAX);
    let lasts = limit.lease_max(at).map_or(asked, |max| asked.min(edge_lifetime(max)));
    (lasts >= LIFETIME_MIN).then_some(lasts)
}

/// How long the edge refuses by itself. Where leases don't pay (`exact`) that is until there is a unit again.
fn gate(
    limit: &Limit,
    wanted: Wanted,
    share: Share,
    fair: MilliRate,
    (exact, after): (bool, &Decision),
) -> Option<Nanos> {
    if exact {
        let waits = share.sync < wanted.need && after.next_unit_after < Nanos::MAX;
        return waits.then_some(after.next_unit_after);
    }
    share.cut.then(|| sizing::gate(limit, fair, after.next_unit_after))
}
