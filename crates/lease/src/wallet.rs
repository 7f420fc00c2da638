//! The edge's side: what a process holds of every key, when it asks for more, and when it hands back.
//!
//! Invariant: it spends only what an owner charged before, never past a deadline counted from when the ask was first sent,
//! and never after it said that it wouldn't. Whatever is lost on the way strands units; nothing makes any.
//!
//! Single-threaded, without a clock: every call takes the time, and whatever it gives rise to is polled for.
//! [`Cells`] are the part that other threads touch. A shell with many threads holds
//!
//! ```text
//! wallets: [Mutex<Wallet<L>>; N]                      a key's by bits of its high half, each with a session of its own
//! cells:   [Arc<Cells>; N]                            each wallet's ([`Wallet::cells`]), read without its lock
//! ```
//!
//! and decides a request for `cost` units of a key so:
//!
//! 1. `cells.find(key)`, then `cell.spend(cost, now)`. `Taken`: done; when it says `low`, try the wallet's lock and call [`Wallet::handle_low`].
//! 2. Otherwise `cell.refuse(cost, now)`. `Some`: denied, done.
//! 3. Otherwise (or without a cell) lock the wallet and call [`Wallet::handle_check`]. `Waiting`: drop the lock and await
//!    the [`Event::Answered`] of that ticket; [`Wallet::give_up`] when the caller goes away.
//!
//! Whoever called anything then polls, under the same lock: [`Wallet::poll_event`], and [`Wallet::poll_ask`], whose asks
//! go out in batches. One task a wallet sleeps until [`Wallet::next_deadline`] and calls [`Wallet::handle_timeout`]. Units
//! that a request took and can't use, because another of its limits refused, go back by [`KeyCell::put_back`], or, when
//! that says no, by [`Wallet::handle_put_back`].

mod answer;
mod broker;
mod children;
mod demand;
mod entry;
mod flight;
#[cfg(test)]
mod fork;
mod leases;
mod replies;
mod serve;
mod sizing;
#[cfg(test)]
mod tests;
mod waiters;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use leasehold_limit::Decision;
use leasehold_model::{BootTime, Key, RequestId};

pub use self::answer::{Answer, Checked, Event, Holding, Lent, Outgoing, Paid, Totals};
use self::entry::{Entry, Next, Shared};
use self::replies::Replies;
pub use self::sizing::Settings;
pub use self::waiters::Ticket;
use self::waiters::{Waiter, Who};
use crate::cell::{Generation, KeyCell};
use crate::cells::{Cells, Slab};
use crate::{EdgeId, LeaseAsk, LeaseId, Leased};

/// What a process holds of every key. `L` is what the shell needs to send a key's ask: its limit, its way.
#[derive(Debug)]
pub struct Wallet<L> {
    shared: Shared,
    slab: Slab,
    session: u128,
    next_seq: u64,
    next_ticket: u64,
    keys: BTreeMap<Key, Entry<L>>,
    /// Keys by when they are to be looked at.
    timers: BTreeSet<(BootTime, Key)>,
    /// Keys with something to send.
    ready: VecDeque<Key>,
    /// Asks under way.
    flights: BTreeMap<u64, Key>,
    replies: Replies,
}

impl<L: Clone> Wallet<L> {
    /// A wallet that holds nothing. `session` is drawn at random for each wallet of each life of a process: its asks are
    /// carried out once under it, and its sub-leases are numbered from it.
    #[must_use]
    pub fn new(edge: EdgeId, session: u128, settings: Settings) -> Self {
        let shared = Shared {
            edge,
            settings,
            totals: Totals::default(),
            events: VecDeque::new(),
            round_trip: None,
            draining: false,
            answered: Vec::new(),
            sub_leases: 0,
            sub_lease_base: Key::from_u128(session).low,
        };
        Self {
            shared,
            slab: Slab::new(),
            session,
            next_seq: 0,
            next_ticket: 0,
            keys: BTreeMap::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            flights: BTreeMap::new(),
            replies: Replies::default(),
        }
    }

    /// A request for `cost` units (0: a look) that its cell couldn't serve; it waits until `deadline` at the latest.
    pub fn handle_check(
        &mut self,
        key: Key,
        limit: &L,
        cost: u64,
        deadline: BootTime,
        now: BootTime,
    ) -> Checked {
        if self.shared.draining || !self.open(key, limit, now) {
            return Checked::NoRoom;
        }
        let ticket = Ticket(self.next_ticket);
        let settings = self.shared.settings;
        let shared = &mut self.shared;
        let entry = self.keys.get_mut(&key).expect("the key was opened");
        entry.look(shared, now);
        entry.demand.add(cost, now);
        entry.used_at = now;
        let checked = if entry.spend(cost, now) {
            Checked::Answered(entry.taken(Paid::Lease, now))
        } else if entry.is_denied(now) && entry.leases.held(now) == 0 {
            Checked::Answered(entry.denied_before(now))
        } else if entry.waiters.len() >= settings.waiters_max || (cost > 1 && !entry.lends) {
            Checked::NoRoom
        } else {
            self.next_ticket += 1;
            shared.totals.waited += 1;
            entry.waiters.push(Waiter {
                who: Who::Request(ticket),
                need: cost,
                extra: 0,
                exact: cost <= 1,
                deadline,
                asked: false,
            });
            Checked::Waiting(ticket)
        };
        self.review(key, now);
        checked
    }

    /// A cell said that it runs low.
    pub fn handle_low(&mut self, key: Key, now: BootTime) {
        self.review(key, now);
    }

    /// A request waits no longer. What the owner charges for it may serve another that waits; otherwise it is lost.
    pub fn give_up(&mut self, key: Key, ticket: Ticket, now: BootTime) {
        if self.keys.get_mut(&key).is_some_and(|entry| entry.waiters.give_up(ticket)) {
            self.review(key, now);
        }
    }

    /// Puts back units that [`KeyCell::put_back`] wouldn't take. `false`: their owner may know them as spent; so they are.
    pub fn handle_put_back(&mut self, key: Key, units: u64, from: Generation, now: BootTime) -> bool {
        let Some(entry) = self.keys.get_mut(&key) else { return false };
        entry.look(&mut self.shared, now);
        entry.withdraw(now);
        let back = entry.leases.put_back(units, from);
        self.review(key, now);
        back
    }

    /// The owner decided a request for `cost` units that asked it past this wallet, being under several limits: the next
    /// may find units held, or a refusal known.
    pub fn handle_decided_elsewhere(
        &mut self,
        key: Key,
        limit: &L,
        cost: u64,
        decision: &Decision,
        now: BootTime,
    ) {
        if self.shared.draining || !self.open(key, limit, now) {
            return;
        }
        let entry = self.keys.get_mut(&key).expect("the key was opened");
        entry.look(&mut self.shared, now);
        entry.decided_elsewhere(cost, decision, &self.shared, now);
        self.review(key, now);
    }

    /// The owner's answer to an ask. `false`: to none that is under way; it changes nothing.
    pub fn handle_leased(&mut self, id: RequestId, leased: &Leased, now: BootTime) -> bool {
        let Some(key) = self.under_way(id) else { return false };
        let entry = self.keys.get_mut(&key).expect("a key with an ask under way is held");
        // A lease of an ask so old is over; the ask is given up for another.
        let Some(flight) = entry.flight.take_if(|flight| !flight.is_stale(now)) else {
            self.review(key, now);
            return false;
        };
        self.flights.remove(&id.seq);
        entry.resend = false;
        entry.answered(key, &flight, leased, &mut self.shared, now);
        let answered = std::mem::take(&mut self.shared.answered);
        for (id, leased) in answered {
            self.replies.remember(id, leased, self.shared.settings.child_replies_max, now);
        }
        self.review(key, now);
        true
    }

    /// Upstream won't carry an ask out, now or later. Whoever waits for it is told that nobody could say.
    pub fn handle_refused(&mut self, id: RequestId, now: BootTime) {
        let Some(key) = self.under_way(id) else { return };
        self.flights.remove(&id.seq);
        let entry = self.keys.get_mut(&key).expect("a key with an ask under way is held");
        entry.flight = None;
        entry.resend = false;
        entry.refused(&mut self.shared, now);
        self.review(key, now);
    }

    /// An ask got lost, or has to go another way: it is sent again at once.
    pub fn handle_lost(&mut self, id: RequestId, now: BootTime) {
        let Some(key) = self.under_way(id) else { return };
        let entry = self.keys.get_mut(&key).expect("a key with an ask under way is held");
        if let Some(flight) = entry.flight.as_mut() {
            flight.hurry(now);
        }
        self.review(key, now);
    }

    /// All that is under way got lost, with the connection that it went by.
    pub fn handle_all_lost(&mut self, now: BootTime) {
        let ids: Vec<u64> = self.flights.keys().copied().collect();
        for seq in ids {
            self.handle_lost(RequestId { session: self.session, seq }, now);
        }
    }

    /// Other rules hold: refusals are forgotten, leases kept. `replace` says what each key's limit is now; `None`: it has
    /// none, and everything that is held of it goes back.
    pub fn handle_rules_changed(&mut self, mut replace: impl FnMut(Key, &L) -> Option<L>, now: BootTime) {
        let keys: Vec<Key> = self.keys.keys().copied().collect();
        for key in keys {
            let entry = self.keys.get_mut(&key).expect("no key goes while they are walked");
            entry.denied_until = BootTime(0);
            entry.quiet_until = BootTime(0);
            entry.share_at = None;
            entry.lends = true;
            match replace(key, &entry.limit) {
                Some(limit) => entry.limit = limit,
                None => {
                    entry.look(&mut self.shared, now);
                    entry.withdraw(now);
                    self.shared.totals.returned += entry.leases.give_back(u64::MAX, now);
                }
            }
            self.review(key, now);
        }
    }

    /// Hands everything back and takes nothing more: before the process ends. [`Wallet::is_empty`] says when all is told.
    pub fn return_all(&mut self, now: BootTime) {
        self.shared.draining = true;
        let keys: Vec<Key> = self.keys.keys().copied().collect();
        for key in keys {
            self.review(key, now);
        }
    }

    /// Whether no lease is held, no return untold and no ask under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
            && self.keys.values().all(|entry| entry.leases.is_empty() && entry.waiters.is_empty())
    }

    /// What a child asks of a key, as an edge asks its owner. It waits until `deadline` at the latest.
    pub fn handle_child_ask(
        &mut self,
        id: RequestId,
        ask: &LeaseAsk,
        limit: &L,
        deadline: BootTime,
        now: BootTime,
    ) -> Lent {
        if let Some(leased) = self.replies.get(id) {
            return Lent::Answered(leased);
        }
        if !self.open(ask.key, limit, now) {
            return Lent::NoRoom;
        }
        let lent = self.lend(id, ask, deadline, now);
        if let Lent::Answered(leased) = lent {
            self.replies.remember(id, leased, self.shared.settings.child_replies_max, now);
        }
        self.review(ask.key, now);
        lent
    }

    fn lend(&mut self, id: RequestId, ask: &LeaseAsk, deadline: BootTime, now: BootTime) -> Lent {
        let settings = self.shared.settings;
        let shared = &mut self.shared;
        let entry = self.keys.get_mut(&ask.key).expect("the key was opened");
        if entry.waiters.has_child(id) {
            return Lent::Waiting;
        }
        entry.hear_child(ask, shared, now);
        let (need, want) = (ask.need, ask.want.max(ask.need));
        if shared.draining && want > 0 {
            return Lent::NoRoom;
        }
        if let Some(leased) = entry.answer_child(ask, shared, now) {
            return Lent::Answered(leased);
        }
        if entry.waiters.len() >= settings.waiters_max {
            return Lent::NoRoom;
        }
        let who = Who::Child { id, edge: ask.edge, lifetime: ask.lifetime };
        entry.waiters.push(Waiter { who, need, extra: want - need, exact: true, deadline, asked: false });
        Lent::Waiting
    }

    /// A child has its answers: it asks again under none of its session's sequences below a number.
    pub fn handle_child_settled(&mut self, session: u128, below: u64) {
        self.replies.settle(session, below);
    }

    /// Does whatever is due at `now`.
    pub fn handle_timeout(&mut self, now: BootTime) {
        while let Some(&(due, key)) = self.timers.first() {
            if due > now {
                break;
            }
            self.review(key, now);
        }
        self.replies.forget(now);
    }

    /// When to call [`Wallet::handle_timeout`] next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<BootTime> {
        self.timers.first().map(|&(due, _)| due)
    }

    /// The next ask to send. Its lease is counted from `now`: send it at once, or report it lost.
    pub fn poll_ask(&mut self, now: BootTime) -> Option<Outgoing<L>> {
        while let Some(key) = self.ready.pop_front() {
            let Some(entry) = self.keys.get_mut(&key) else { continue };
            entry.queued = false;
            let limit = entry.limit.clone();
            let again = entry.ask_again(&mut self.shared, now);
            let outgoing = again
                .map(|(id, ask)| Outgoing { id, ask, limit: limit.clone(), again: true })
                .or_else(|| {
                    let id = RequestId { session: self.session, seq: self.next_seq };
                    let ask = entry.ask(key, id, &mut self.shared, now)?;
                    self.next_seq += 1;
                    self.flights.insert(id.seq, key);
                    Some(Outgoing { id, ask, limit, again: false })
                });
            self.review(key, now);
            if outgoing.is_some() {
                return outgoing;
            }
        }
        None
    }

    /// The next thing to act on.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// The session of its asks, and the smallest sequence that may still be sent again: what an owner may forget.
    #[must_use]
    pub fn settled(&self) -> (u128, u64) {
        (self.session, self.flights.first_key_value().map_or(self.next_seq, |(&seq, _)| seq))
    }

    /// The cells of all keys held, for others to spend from without this wallet's lock.
    #[must_use]
    pub const fn cells(&self) -> &Arc<Cells> {
        self.slab.cells()
    }

    /// A key's cell, if the key is held.
    #[must_use]
    pub fn cell(&self, key: Key) -> Option<KeyCell<'_>> {
        self.keys.get(&key).map(|entry| entry.leases.cell())
    }

    /// Units that could be spent of a key now, in its cell and beside it.
    #[must_use]
    pub fn held(&self, key: Key, now: BootTime) -> u64 {
        self.keys.get(&key).map_or(0, |entry| entry.leases.held(now))
    }

    /// What has become so far of every lease held of a key, what was spent from its cell among it. For tests that count
    /// along: nothing here depends on it.
    pub fn holdings(&self, key: Key) -> impl Iterator<Item = Holding> {
        self.keys.get(&key).into_iter().flat_map(|entry| entry.leases.holdings())
    }

    /// Of which lease a sub-lease is a part, until it is settled. For tests that count along.
    #[must_use]
    pub fn parent(&self, key: Key, sub_lease: LeaseId) -> Option<LeaseId> {
        self.keys.get(&key).and_then(|entry| entry.children.parent(sub_lease))
    }

    /// The children that hold sub-leases, once for each. Walks all keys.
    pub fn children(&self) -> impl Iterator<Item = EdgeId> {
        self.keys.values().flat_map(|entry| entry.children.holders())
    }

    /// Keys held.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Counts since it was made.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.shared.totals
    }

    /// Makes sure that the key is held under these numbers. `false`: there is no room.
    fn open(&mut self, key: Key, limit: &L, now: BootTime) -> bool {
        if let Some(entry) = self.keys.get_mut(&key) {
            entry.limit = limit.clone();
            return true;
        }
        if self.keys.len() >= self.shared.settings.keys_max {
            return false;
        }
        let Some(held) = self.slab.open(key) else { return false };
        self.keys.insert(key, Entry::new(limit.clone(), held, now));
        true
    }

    /// The key whose ask under way this is.
    fn under_way(&self, id: RequestId) -> Option<Key> {
        self.flights.get(&id.seq).filter(|_| id.session == self.session).copied()
    }

    /// Has a key do what is due, and files what it needs next.
    fn review(&mut self, key: Key, now: BootTime) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        let was = entry.flight.as_ref().map(|flight| flight.id.seq);
        let Next { ask, due, gone } = entry.review(&mut self.shared, now);
        // First of all: a key may give its ask up and go in one look.
        if entry.flight.is_none()
            && let Some(seq) = was
        {
            self.flights.remove(&seq);
        }
        if ask && !entry.queued {
            entry.queued = true;
            self.ready.push_back(key);
        }
        if let Some(timer) = entry.timer.take() {
            self.timers.remove(&(timer, key));
        }
        if entry.flight.is_none()
            && let Some(seq) = was
        {
            self.flights.remove(&seq);
        }
        if gone {
            self.slab.close(entry.leases.held_cell());
            self.keys.remove(&key);
            return;
        }
        entry.timer = due;
        if let Some(due) = due {
            self.timers.insert((due, key));
        }
    }
}
