//! One key: what it holds, who waits for it, and what to do about it at a moment.
//!
//! Invariant: whatever changes a key ends in [`Entry::review`], which leaves it with everything done that is due at `now`
//! and says what comes next. Looking twice at one moment changes nothing more.

use std::collections::VecDeque;

use leasehold_model::{BootTime, Key, Nanos, RequestId, Stamp};

use super::answer::{Answer, Event, Totals};
use super::children::Children;
use super::demand::{self, Demand, TIME_CONSTANT};
use super::flight::Flight;
use super::leases::Leases;
use super::sizing::{LEASES_MAX, Settings};
use super::waiters::{Waiters, Who};
use crate::cells::Held;
use crate::{EdgeId, LeaseAsk, LeaseId, Leased, MilliRate};

/// A key without anything is kept for so long, so that its demand isn't forgotten between two requests.
const KEEP: Nanos = Nanos(4 * TIME_CONSTANT.0);
/// A lease that ended is told of for so long; its owner has settled it by then.
const TELL_FOR: Nanos = Nanos::from_secs(1);

/// What all keys of a wallet share.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) edge: EdgeId,
    pub(super) settings: Settings,
    pub(super) totals: Totals,
    pub(super) events: VecDeque<Event>,
    /// Smoothed over all keys: what a key starts from.
    pub(super) round_trip: Option<Nanos>,
    pub(super) draining: bool,
    /// Answers to children that waited, to be remembered.
    pub(super) answered: Vec<(RequestId, Leased)>,
    pub(super) sub_leases: u64,
    /// Where ids of sub-leases start: drawn with the wallet's session, so that no two lives share one.
    pub(super) sub_lease_base: u64,
}

impl Shared {
    pub(super) fn next_sub_lease(&mut self) -> LeaseId {
        self.sub_leases += 1;
        LeaseId(self.sub_lease_base.wrapping_add(self.sub_leases))
    }
}

/// What the owner last said of the counter.
#[cfg_attr(test, derive(Hash))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) remaining: u64,
    pub(super) reset_at: BootTime,
    /// The counter's time line, and this edge's when it was read.
    pub(super) at: Stamp,
    pub(super) when: BootTime,
}

/// What a key needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) ask: bool,
    pub(super) due: Option<BootTime>,
    pub(super) gone: bool,
}

#[cfg_attr(test, derive(Clone, Hash))]
#[derive(Debug)]
pub(super) struct Entry<L> {
    pub(super) limit: L,
    pub(super) leases: Leases,
    pub(super) demand: Demand,
    pub(super) waiters: Waiters,
    pub(super) children: Children,
    pub(super) flight: Option<Flight>,
    pub(super) heard: Heard,
    pub(super) round_trip: Option<Nanos>,
    /// Nothing is to be had until then.
    pub(super) denied_until: BootTime,
    /// When this edge's share comes, by the owner's word: ask then, unbidden.
    pub(super) share_at: Option<BootTime>,
    /// Units are asked for past this wallet: hold some.
    pub(super) wished: bool,
    /// No asking for units to hold until then.
    pub(super) quiet_until: BootTime,
    /// Whether the owner lends this key at all, as far as is known.
    pub(super) lends: bool,
    /// The owner had less than was wanted.
    pub(super) short: bool,
    pub(super) told_at: BootTime,
    pub(super) used_at: BootTime,
    looked_at: BootTime,
    /// The way to the owner broke: what is under way is sent again at once.
    pub(super) resend: bool,
    /// In the wallet's queue of keys with something to send.
    pub(super) queued: bool,
    /// Where the wallet's timers have it.
    pub(super) timer: Option<BootTime>,
}

impl<L> Entry<L> {
    pub(super) fn new(limit: L, held: Held, now: BootTime) -> Self {
        Self {
            limit,
            leases: Leases::new(held),
            demand: Demand::new(now),
            waiters: Waiters::default(),
            children: Children::default(),
            flight: None,
            heard: Heard { remaining: 0, reset_at: now, at: Stamp::ZERO, when: now },
            round_trip: None,
            denied_until: BootTime(0),
            share_at: None,
            wished: false,
            quiet_until: BootTime(0),
            lends: true,
            short: false,
            told_at: now,
            used_at: now,
            looked_at: now,
            resend: false,
            queued: false,
            timer: None,
        }
    }

    pub(super) fn round_trip(&self, shared: &Shared) -> Nanos {
        self.round_trip.or(shared.round_trip).unwrap_or(shared.settings.round_trip)
    }

    pub(super) fn is_denied(&self, now: BootTime) -> bool {
        now < self.denied_until
    }

    /// Demand of this process's requests and of all children.
    pub(super) fn rate(&self, now: BootTime) -> MilliRate {
        MilliRate(self.demand.rate(now).0.saturating_add(self.children.rate(now).0))
    }

    fn count(&mut self, units: u64, now: BootTime) {
        if units > 0 {
            self.demand.add(units, now);
            self.used_at = now;
        }
    }

    /// Counts what was spent and refused without the wallet's knowing, and ends what is over.
    pub(super) fn look(&mut self, shared: &mut Shared, now: BootTime) {
        let news = self.leases.look().saturating_add(self.leases.cell().take_refused());
        self.count(news, now);
        self.looked_at = now;
        shared.totals.stranded += self.children.expire(&mut self.leases, now);
        if self.leases.first_deadline().is_some_and(|deadline| deadline <= now) {
            self.withdraw(now);
            shared.totals.returned += self.leases.expire(now);
            let told_for = BootTime(now.0.saturating_sub(TELL_FOR.0));
            self.leases.forget(told_for);
        }
    }

    /// Empties the cell into the leases, so that their totals are exact.
    pub(super) fn withdraw(&mut self, now: BootTime) {
        let news = self.leases.withdraw();
        self.count(news, now);
    }

    /// Takes units out of leases, for one request.
    pub(super) fn spend(&mut self, units: u64, now: BootTime) -> bool {
        self.withdraw(now);
        if units == 0 {
            return self.leases.held(now) > 0;
        }
        self.leases.spend(units, now)
    }

    /// Does whatever is due.
    pub(super) fn review(&mut self, shared: &mut Shared, now: BootTime) -> Next {
        self.look(shared, now);
        self.end_waits(shared, now);
        if self.flight.as_ref().is_some_and(|flight| flight.is_stale(now)) {
            self.flight = None;
            self.resend = false;
        }
        self.hand_back(shared, now);
        let again = self.flight.as_ref().is_some_and(|flight| flight.is_due(now));
        self.resend |= again;
        let ask = self.resend || self.intent(shared, now).is_some();
        self.place(shared, now);
        let gone = self.is_idle(now) && !ask;
        let due = self.next_due(shared, now).map(|due| BootTime(due.0.max(now.0.saturating_add(1))));
        Next { ask, due, gone }
    }

    fn end_waits(&mut self, shared: &mut Shared, now: BootTime) {
        for waiter in self.waiters.overdue(now) {
            shared.events.push_back(match waiter.who {
                Who::Request(ticket) => Event::Answered { ticket, answer: Answer::Undecided },
                Who::Child { id, .. } => Event::Lent { id, leased: None },
            });
        }
    }

    /// Hands back what isn't used: everything when idle or on the way out, what is above the mark otherwise.
    fn hand_back(&mut self, shared: &mut Shared, now: BootTime) {
        let held = self.leases.held(now);
        if held == 0 || !self.waiters.is_empty() {
            return;
        }
        let target = self.target(self.rate(now), shared);
        let idle = now.since(self.used_at) >= shared.settings.idle && self.children.rate(now) == MilliRate(0);
        let keep = if shared.draining || idle {
            0
        } else if held > shared.settings.excess_mark(target) {
            target
        } else {
            return;
        };
        self.withdraw(now);
        let held = self.leases.held(now);
        shared.totals.returned += self.leases.give_back(held.saturating_sub(keep), now);
    }

    /// What to ask for now, if anything: (need, want).
    fn intent(&self, shared: &Shared, now: BootTime) -> Option<(u64, u64)> {
        if self.flight.is_some() {
            return None;
        }
        let hold = self.to_hold(shared, now);
        if !self.waiters.is_empty() {
            let (need, lent) = self.waiters.wanted(self.leases.held(now));
            let room = !shared.draining && self.leases.len() < LEASES_MAX;
            return Some((need, need.saturating_add(if room { hold.max(lent) } else { 0 })));
        }
        if hold > 0 && self.may_prefetch(shared, now) {
            return Some((0, hold));
        }
        let report = now.since(self.told_at) >= self.report_every(shared);
        let tells = self.leases.has_untold_return() || (report && self.leases.has_news());
        // The next ask waits until this one is answered, so it takes along what is wanted.
        let rides = self.may_hold(shared, now) && self.in_use(shared, now);
        tells.then_some((0, if rides { hold } else { 0 }))
    }

    fn report_every(&self, shared: &Shared) -> Nanos {
        shared.settings.report_every(self.short, self.round_trip(shared))
    }

    fn target(&self, rate: MilliRate, shared: &Shared) -> u64 {
        shared.settings.target(rate, self.round_trip(shared), !self.children.is_empty())
    }

    /// Units short of the target, but for those that end before an answer could come. The request that waits first
    /// doesn't count: a key that is asked for once has no use for a lease.
    pub(super) fn to_hold(&self, shared: &Shared, now: BootTime) -> u64 {
        let first = self.waiters.front().map_or(MilliRate(0), |waiter| match waiter.who {
            Who::Request(_) => demand::bump(waiter.need),
            Who::Child { .. } => MilliRate(0),
        });
        let rate = MilliRate(self.rate(now).0.saturating_sub(first.0));
        let target = self.target(rate, shared);
        target.saturating_sub(self.useful(shared, now))
    }

    fn useful(&self, shared: &Shared, now: BootTime) -> u64 {
        let answer_comes = now.0.saturating_add(self.round_trip(shared).0.saturating_mul(2));
        self.leases.held_at(now, BootTime(answer_comes))
    }

    /// Whether to ask before anybody waits: units run low while they are being used, or the gate has opened.
    fn may_prefetch(&self, shared: &Shared, now: BootTime) -> bool {
        if !self.may_hold(shared, now) || now < self.quiet_until {
            return false;
        }
        let low = shared.settings.low_water(self.rate(now), self.round_trip(shared));
        let runs_low = self.in_use(shared, now) && self.useful(shared, now) <= low;
        self.share_at.is_some() || self.wished || runs_low
    }

    /// Whether units to hold may be asked for at all.
    fn may_hold(&self, shared: &Shared, now: BootTime) -> bool {
        !shared.draining && self.lends && self.leases.len() < LEASES_MAX && now >= self.asks_from(shared)
    }

    fn in_use(&self, shared: &Shared, now: BootTime) -> bool {
        !self.leases.is_empty() && now.since(self.used_at) < shared.settings.look_every()
    }

    /// Fills the cell, and says when it is to call.
    fn place(&mut self, shared: &Shared, now: BootTime) {
        let low_water = shared.settings.low_water(self.rate(now), self.round_trip(shared));
        let calls = self.flight.is_none() && !shared.draining && self.lends && now >= self.quiet_until;
        let low = |beside: u64, inside: u64| match calls {
            true => low_water.saturating_sub(beside).max(inside / 2).saturating_add(1),
            false => 0,
        };
        if self.leases.cell().tokens() == 0 {
            self.withdraw(now);
        }
        self.leases.place(now, low);
        let inside = self.leases.cell().tokens();
        let held = self.leases.held(now);
        self.leases.cell().set_low(low(held.saturating_sub(inside), inside));
        let beside = self.heard.remaining.saturating_add(held.saturating_sub(inside));
        self.leases.cell().inform(beside, self.heard.reset_at);
        self.leases.cell().deny(if held == 0 { self.denied_until } else { BootTime(0) });
    }

    /// The ask to send, under an id of its own; it is under way from here on.
    pub(super) fn ask(
        &mut self,
        key: Key,
        id: RequestId,
        shared: &mut Shared,
        now: BootTime,
    ) -> Option<LeaseAsk> {
        self.look(shared, now);
        let (need, want) = self.intent(shared, now)?;
        self.withdraw(now);
        let ask = LeaseAsk {
            edge: shared.edge,
            key,
            need,
            want,
            rate: self.rate(now),
            lifetime: shared.settings.lifetime,
            usage: self.leases.tell(),
        };
        if self.share_at.is_some() && need == 0 {
            self.refuse_until_answered(shared, now);
        }
        self.waiters.mark_asked();
        self.share_at = None;
        self.wished = false;
        self.told_at = now;
        self.flight = Some(Flight::new(id, ask.clone(), now, self.round_trip(shared)));
        shared.totals.asks += 1;
        Some(ask)
    }

    /// The ask under way, to be sent again.
    pub(super) fn ask_again(&mut self, shared: &mut Shared, now: BootTime) -> Option<(RequestId, LeaseAsk)> {
        let round_trip = self.round_trip(shared);
        if !std::mem::take(&mut self.resend) {
            return None;
        }
        let flight = self.flight.as_mut()?;
        flight.resent(now, round_trip);
        shared.totals.resends += 1;
        Some((flight.id, flight.ask.clone()))
    }

    fn is_empty(&self) -> bool {
        self.flight.is_none() && self.waiters.is_empty() && self.leases.is_empty() && self.children.is_empty()
    }

    fn is_idle(&self, now: BootTime) -> bool {
        self.is_empty() && !self.is_denied(now) && now.since(self.used_at) >= KEEP
    }

    /// When to look again, whoever calls or doesn't.
    fn next_due(&self, shared: &Shared, now: BootTime) -> Option<BootTime> {
        let later = |at: BootTime, by: Nanos| BootTime(at.0.saturating_add(by.0));
        // A gate that opened while nothing is wanted waits for the next request, not for the next nanosecond.
        let opens = self.share_at.map(|_| self.asks_from(shared)).filter(|&opens| opens > now);
        if self.is_empty() {
            let kept = later(self.used_at, KEEP);
            return opens.into_iter().chain([BootTime(kept.0.max(self.denied_until.0))]).min();
        }
        let held = !self.leases.is_empty();
        let ahead = self.round_trip(shared).0.saturating_mul(2);
        let end = self.leases.next_end(now);
        let before_end = end.map(|end| BootTime(end.0.saturating_sub(ahead))).filter(|&then| then > now);
        let quiet_ends = (self.quiet_until > now && held).then_some(self.quiet_until);
        [
            self.flight.as_ref().map(Flight::next_deadline),
            self.waiters.next_deadline(),
            self.children.next_deadline(),
            end,
            before_end,
            quiet_ends,
            opens,
            held.then(|| later(self.looked_at, shared.settings.look_every().min(self.report_every(shared)))),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
