//! One of the wallets, behind its lock, with those who wait for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_lease::{Answer, Event, Leased, Ticket, Totals, Wallet};
use leasehold_model::{BootTime, Key, RequestId};
use leasehold_shard::Settled;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{Heard, Way};
use crate::{Grant, NoGrant, UpstreamAsk};

/// A wallet's timer when it has nothing to do.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Stripe {
    inside: Mutex<Inside>,
    /// When the wallet is to be looked at, for whoever doesn't hold the lock.
    due: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Inside {
    pub(super) wallet: Wallet<Way>,
    waiting: BTreeMap<Ticket, oneshot::Sender<Heard>>,
    /// Children's asks that wait. One that came again waits twice, and its answer goes to both.
    lending: BTreeMap<RequestId, Vec<oneshot::Sender<Option<Leased>>>>,
    drains: bool,
    emptied: bool,
}

/// What came of touching a wallet, to be acted on without its lock.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) tell: Vec<(oneshot::Sender<Heard>, Heard)>,
    pub(super) lent: Vec<(oneshot::Sender<Option<Leased>>, Option<Leased>)>,
    pub(super) asks: Vec<UpstreamAsk>,
    /// Of the asks' session.
    pub(super) settled: Option<Settled>,
    pub(super) slots: Vec<Slot>,
    pub(super) emptied: bool,
    /// When the wallet is to be looked at next; `None`: at no time.
    pub(super) due: Option<BootTime>,
}

/// A number that an owner gave this edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) key: Key,
    pub(super) number: u16,
    pub(super) parts: u32,
    pub(super) sent: BootTime,
}

impl Stripe {
    pub(super) fn new(wallet: Wallet<Way>) -> Self {
        let inside = Inside {
            wallet,
            waiting: BTreeMap::new(),
            lending: BTreeMap::new(),
            drains: false,
            emptied: false,
        };
        Self { inside: Mutex::new(inside), due: AtomicU64::new(NEVER) }
    }

    /// Whoever locks it collects what came of it, and unlocks it by [`Stripe::unlock`].
    pub(super) fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock()
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Inside>> {
        self.inside.try_lock()
    }

    pub(super) fn unlock(&self, inside: MutexGuard<'_, Inside>) {
        let due = inside.wallet.next_deadline().map_or(NEVER, |due| due.0);
        self.due.store(due, Ordering::SeqCst);
    }

    pub(super) fn due(&self) -> BootTime {
        BootTime(self.due.load(Ordering::SeqCst))
    }

    /// What its wallet did so far, and how many keys it holds.
    pub(super) fn totals(&self) -> (Totals, usize) {
        let wallet = &self.inside.lock().wallet;
        (wallet.totals(), wallet.keys())
    }
}

impl Inside {
    /// Where the answer of a request that waits will come from.
    pub(super) fn wait_for(&mut self, ticket: Ticket) -> oneshot::Receiver<Heard> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(ticket, sender);
        receiver
    }

    /// Where the answer to a child's ask that waits will come from: whatever ends its wait tells.
    pub(super) fn lend_for(&mut self, id: RequestId) -> oneshot::Receiver<Option<Leased>> {
        let (sender, receiver) = oneshot::channel();
        self.lending.entry(id).or_default().push(sender);
        receiver
    }

    /// A request goes away.
    pub(super) fn forget(&mut self, key: Key, ticket: Ticket, now: BootTime) {
        if self.waiting.remove(&ticket).is_some() {
            self.wallet.give_up(key, ticket, now);
        }
    }

    pub(super) fn drain(&mut self, now: BootTime) {
        self.drains = true;
        self.wallet.return_all(now);
    }

    /// Takes out everything that came of what was done. `outcome` is the upstream's answer, if that was it.
    pub(super) fn collect(
        &mut self,
        now: BootTime,
        outcome: Option<&Result<Grant, NoGrant>>,
        work: &mut Work,
    ) {
        loop {
            while let Some(event) = self.wallet.poll_event() {
                self.event(event, outcome, work);
            }
            let Some(outgoing) = self.wallet.poll_ask(now) else { break };
            let Way { spec, terms } = outgoing.limit;
            work.asks.push(UpstreamAsk { id: outgoing.id, spec, terms, ask: outgoing.ask });
        }
        if !work.asks.is_empty() {
            let (session, below) = self.wallet.settled();
            work.settled = Some(Settled { session, below });
        }
        if self.drains && !self.emptied && self.wallet.is_empty() {
            self.emptied = true;
            work.emptied = true;
        }
        work.due = self.wallet.next_deadline();
    }

    fn event(&mut self, event: Event, outcome: Option<&Result<Grant, NoGrant>>, work: &mut Work) {
        match event {
            Event::Answered { ticket, answer } => {
                if let Some(waiting) = self.waiting.remove(&ticket) {
                    work.tell.push((waiting, heard(answer, outcome)));
                }
            }
            Event::Slot { key, slot, sent } => {
                let parts =
                    outcome.and_then(|outcome| outcome.as_ref().ok()).map_or(1, |grant| grant.slot_parts);
                work.slots.push(Slot { key, number: slot, parts, sent });
            }
            Event::Lent { id, leased } => {
                let waiting = self.lending.remove(&id).unwrap_or_default();
                work.lent.extend(waiting.into_iter().map(|waiting| (waiting, leased)));
            }
        }
    }
}

/// What a request is told: a refusal of its ask in the refusal's own words.
fn heard(answer: Answer, outcome: Option<&Result<Grant, NoGrant>>) -> Heard {
    match (answer, outcome) {
        (Answer::Undecided, Some(Err(NoGrant::Refused(refusal)))) => Heard::Refused(*refusal),
        (Answer::Undecided, Some(Err(NoGrant::Overloaded))) => Heard::Overloaded,
        (answer, _) => Heard::Answer(answer),
    }
}
