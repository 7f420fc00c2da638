//! An answer from the owner: what it brought is laid beside what is held, and those who wait are served in order.
//!
//! Invariant: units consumed at the owner go to those who were part of the ask, or to nobody. Everything else comes out of
//! leases, for which it makes no difference who came when.

use leasehold_limit::{Decision, RetryAfter};
use leasehold_model::planted::{self, Bug};
use leasehold_model::{BootTime, Key, Nanos};

use super::answer::{Answer, Event, Paid};
use super::entry::{Entry, Heard, Shared};
use super::flight::Flight;
use super::waiters::{Waiter, Who};
use crate::{LIFETIME_MAX, Leased, edge_lifetime};

/// The longest that a denial is kept. A quota of a day that is used up is asked for once a minute, so that a change is seen
/// and a flood of such keys doesn't fill the wallet for a day.
const DENIED_MAX: Nanos = Nanos::from_secs(60);
/// When to come back if the owner didn't say.
const RETRY_UNKNOWN: Nanos = Nanos::from_millis(100);

impl<L> Entry<L> {
    /// The answer to the ask that was under way.
    pub(super) fn answered(
        &mut self,
        key: Key,
        flight: &Flight,
        leased: &Leased,
        shared: &mut Shared,
        now: BootTime,
    ) {
        self.look(shared, now);
        self.leases.known(&flight.ask.usage);
        let when = self.measure(flight, shared, now);
        self.heard = Heard {
            remaining: leased.remaining,
            reset_at: after(when, leased.reset_after),
            at: leased.at,
            when,
        };
        if let Some(slot) = leased.slot {
            shared.events.push_back(Event::Slot { key, slot, sent: flight.sent });
        }
        self.take_lease(flight, leased, shared, now);
        self.learn(flight, leased, shared, when, now);
        self.serve(leased, shared, now);
    }

    /// When the owner decided, about: half a round trip ago. Earlier is safe, so the first sending when there were more.
    fn measure(&mut self, flight: &Flight, shared: &mut Shared, now: BootTime) -> BootTime {
        if !flight.was_sent_once() {
            return flight.sent;
        }
        let trip = now.since(flight.sent);
        self.round_trip = Some(smoothed(self.round_trip, trip));
        shared.round_trip = Some(smoothed(shared.round_trip, trip));
        BootTime(now.0 - trip.0 / 2)
    }

    fn take_lease(&mut self, flight: &Flight, leased: &Leased, shared: &mut Shared, now: BootTime) {
        let Some(id) = leased.lease.filter(|_| leased.granted > 0) else { return };
        let lifetime = edge_lifetime(leased.lifetime.min(LIFETIME_MAX));
        let from = if planted::is(Bug::TtlFromReply) { now } else { flight.sent };
        self.leases.add(id, leased.granted, after(from, lifetime));
        shared.totals.leases += 1;
        shared.totals.granted += leased.granted;
        // It may have been over before it came.
        self.look(shared, now);
    }

    /// What the answer says about asking again.
    fn learn(&mut self, flight: &Flight, leased: &Leased, shared: &Shared, when: BootTime, now: BootTime) {
        let wanted = flight.ask.want.max(flight.ask.need);
        let got = leased.granted.saturating_add(leased.sync);
        if wanted == 0 {
            return;
        }
        let refused = got < wanted;
        self.short = refused || leased.remaining < wanted;
        if leased.lease.is_some() {
            self.lends = true;
        } else if wanted > flight.ask.need && leased.gate.is_none() && leased.remaining > 0 {
            // Units to hold were wanted, there are some, and none were lent: this limit isn't lent.
            self.lends = false;
        }
        let wait = leased.gate.or(match leased.retry_after {
            Some(RetryAfter::In(wait)) if leased.remaining == 0 => Some(wait),
            Some(RetryAfter::In(_) | RetryAfter::Never) | None => None,
        });
        let wait = wait.filter(|_| refused).map(|wait| wait.min(DENIED_MAX));
        self.denied_until = wait.map_or(BootTime(0), |wait| after(when, wait));
        self.share_at = leased.gate.and(wait).map(|wait| after(when, wait));
        if self.share_at.is_some() && self.asks_from(shared) <= now {
            // The way is so long that the next ask leaves at once.
            self.refuse_until_answered(shared, now);
        }
        self.quiet_until = match refused {
            // The gate says when.
            true if self.share_at.is_some() => BootTime(0),
            true => after(now, shared.settings.quiet(self.round_trip(shared))),
            false => BootTime(0),
        };
    }

    /// Until when nothing is asked for unbidden. An ask for this edge's share reaches the owner when the share comes.
    pub(super) fn asks_from(&self, shared: &Shared) -> BootTime {
        let way = self.round_trip(shared).0 / 2;
        self.share_at.map_or(self.denied_until, |share| BootTime(share.0.saturating_sub(way)))
    }

    /// While an ask for this edge's share is under way: what comes meanwhile would wait for units that are spoken for.
    pub(super) fn refuse_until_answered(&mut self, shared: &Shared, now: BootTime) {
        let answered = now.0.saturating_add(self.round_trip(shared).0.saturating_mul(9) / 8);
        self.denied_until = BootTime(self.denied_until.0.max(answered));
    }

    fn serve(&mut self, leased: &Leased, shared: &mut Shared, now: BootTime) {
        let mut sync = leased.sync;
        let mut blocked = false;
        self.withdraw(now);
        for mut waiter in self.waiters.take_all() {
            let served = match waiter.who {
                Who::Request(ticket) => {
                    let answer = self.answer(&waiter, leased, &mut sync, blocked, now);
                    answer.map(|answer| shared.events.push_back(Event::Answered { ticket, answer }))
                }
                Who::Child { id, .. } => {
                    self.serve_child(&waiter, leased, &mut sync, shared, now).map(|leased| {
                        shared.answered.push((id, leased));
                        shared.events.push_back(Event::Lent { id, leased: Some(leased) });
                    })
                }
            };
            if served.is_none() {
                blocked = true;
                waiter.exact |= waiter.asked;
                waiter.asked = false;
                self.waiters.push(waiter);
            }
        }
        shared.totals.sync_lost += sync;
    }

    /// What a request that waited gets; `None`: it goes on waiting, for an ask of its own.
    fn answer(
        &mut self,
        waiter: &Waiter,
        leased: &Leased,
        sync: &mut u64,
        blocked: bool,
        now: BootTime,
    ) -> Option<Answer> {
        if waiter.asked && waiter.need == 0 {
            let any = leased.remaining > 0 || self.leases.held(now) > 0;
            return Some(if any { self.taken(Paid::Owner, now) } else { self.denied(leased, now) });
        }
        if waiter.asked && !waiter.exact {
            if self.leases.spend(waiter.need, now) {
                return Some(self.taken(Paid::Lease, now));
            }
            // There are enough, but not to be lent: the rest is asked for to be consumed.
            let enough = leased.remaining.saturating_add(self.leases.held(now)) >= waiter.need;
            return (!enough || leased.gate.is_some()).then(|| self.denied(leased, now));
        }
        if waiter.asked {
            let part = waiter.need.min(*sync);
            if part == waiter.need || self.leases.spend(waiter.need - part, now) {
                *sync -= part;
                return Some(self.taken(if part > 0 { Paid::Owner } else { Paid::Lease }, now));
            }
            return Some(self.denied(leased, now));
        }
        if !blocked && self.spend(waiter.need, now) {
            return Some(self.taken(Paid::Lease, now));
        }
        (self.is_denied(now) && self.leases.held(now) == 0).then(|| self.denied_before(now))
    }

    pub(super) fn taken(&self, paid: Paid, now: BootTime) -> Answer {
        let remaining = self.heard.remaining.saturating_add(self.leases.held(now));
        Answer::Taken { paid, remaining, reset_after: self.heard.reset_at.since(now) }
    }

    fn denied(&self, leased: &Leased, now: BootTime) -> Answer {
        let wait = RetryAfter::In(leased.gate.unwrap_or(RETRY_UNKNOWN));
        // Some were there, but not enough: when enough are, the owner wasn't asked.
        let told = leased.retry_after.filter(|&told| told > RetryAfter::In(Nanos::ZERO));
        let retry_after = told.unwrap_or(wait);
        Answer::Denied { retry_after, reset_after: self.heard.reset_at.since(now), asked: true }
    }

    /// A refusal that was heard of before.
    pub(super) fn denied_before(&self, now: BootTime) -> Answer {
        let retry_after = self.denied_until.since(now);
        let reset_after = self.heard.reset_at.since(now).max(retry_after);
        Answer::Denied { retry_after: RetryAfter::In(retry_after), reset_after, asked: false }
    }

    /// The owner decided a request for `cost` units that this wallet had no part in. As with those that wait, the first one
    /// says nothing of a need to hold any.
    pub(super) fn decided_elsewhere(
        &mut self,
        cost: u64,
        decision: &Decision,
        shared: &Shared,
        now: BootTime,
    ) {
        self.wished = decision.allowed && self.to_hold(shared, now) > 0;
        self.demand.add(cost, now);
        self.used_at = now;
        let (remaining, reset_at) = (decision.remaining, after(now, decision.reset_after));
        self.heard = Heard { remaining, reset_at, ..self.heard };
        if let Some(RetryAfter::In(wait)) = decision.retry_after
            && remaining == 0
        {
            self.denied_until = after(now, wait.min(DENIED_MAX));
        }
    }

    /// Nobody will answer the ask that was under way.
    pub(super) fn refused(&mut self, shared: &mut Shared, now: BootTime) {
        self.quiet_until = after(now, shared.settings.quiet(self.round_trip(shared)));
        for waiter in self.waiters.take_all() {
            shared.events.push_back(match waiter.who {
                Who::Request(ticket) => Event::Answered { ticket, answer: Answer::Undecided },
                Who::Child { id, .. } => Event::Lent { id, leased: None },
            });
        }
    }
}

pub(super) fn after(at: BootTime, by: Nanos) -> BootTime {
    BootTime(at.0.saturating_add(by.0))
}

/// An eighth of the new, seven of the old.
fn smoothed(old: Option<Nanos>, new: Nanos) -> Nanos {
    old.map_or(new, |old| Nanos(old.0 - old.0 / 8 + new.0 / 8))
}
