//! Those who wait for an answer from upstream: requests of this process, and asks of children.
//!
//! Invariant: in the order of their arrival. Units consumed at the owner (`sync`) go only to those who were there when
//! the ask left: whoever came later came after the units were charged.

use std::collections::VecDeque;

use leasehold_model::{BootTime, RequestId};

use crate::EdgeId;

/// One request that waits; its wallet's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Who waits.
#[cfg_attr(test, derive(Hash))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Request(Ticket),
    Child { id: RequestId, edge: EdgeId, lifetime: leasehold_model::Nanos },
}

#[cfg_attr(test, derive(Hash))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) who: Who,
    /// Units needed at once.
    pub(super) need: u64,
    /// Units that a child would hold besides.
    pub(super) extra: u64,
    /// Whether its units are asked for to be consumed at once. A request for more than one is served out of leases where
    /// that can be: half of what it needs would be consumed for nothing, half a lease is kept.
    pub(super) exact: bool,
    /// When it gives up.
    pub(super) deadline: BootTime,
    /// Whether the ask under way counts it.
    pub(super) asked: bool,
}

#[cfg_attr(test, derive(Clone, Hash))]
#[derive(Debug, Default)]
pub(super) struct Waiters {
    queue: VecDeque<Waiter>,
}

impl Waiter {
    fn is_child(&self) -> bool {
        matches!(self.who, Who::Child { .. })
    }
}

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push(&mut self, waiter: Waiter) {
        self.queue.push_back(waiter);
    }

    pub(super) fn front(&self) -> Option<&Waiter> {
        self.queue.front()
    }

    /// Units to be consumed at once, and units to be lent for those who wait, beside so many that are held.
    pub(super) fn wanted(&self, held: u64) -> (u64, u64) {
        let sum = |units: &dyn Fn(&Waiter) -> u64| {
            self.queue.iter().fold(0_u64, |sum, waiter| sum.saturating_add(units(waiter)))
        };
        let single = sum(&|waiter| if waiter.need <= 1 || waiter.is_child() { waiter.need } else { 0 });
        let several = sum(&|waiter| if waiter.exact { waiter.need } else { 0 }).saturating_sub(single);
        let need = single.saturating_add(several.saturating_sub(held));
        let lent = sum(&|waiter| if waiter.exact { waiter.extra } else { waiter.need });
        (need, lent.saturating_sub(held))
    }

    /// From here on they are part of an ask under way.
    pub(super) fn mark_asked(&mut self) {
        for waiter in &mut self.queue {
            waiter.asked = true;
        }
    }

    pub(super) fn take_all(&mut self) -> VecDeque<Waiter> {
        std::mem::take(&mut self.queue)
    }

    pub(super) fn has_child(&self, id: RequestId) -> bool {
        self.queue.iter().any(|waiter| matches!(waiter.who, Who::Child { id: other, .. } if other == id))
    }

    /// Takes out a request that waits no longer. Whether it was there.
    pub(super) fn give_up(&mut self, ticket: Ticket) -> bool {
        let before = self.queue.len();
        self.queue.retain(|waiter| waiter.who != Who::Request(ticket));
        self.queue.len() < before
    }

    /// Takes out those whose time is over.
    pub(super) fn overdue(&mut self, now: BootTime) -> Vec<Waiter> {
        let (over, waiting) = self.queue.drain(..).partition(|waiter| waiter.deadline <= now);
        self.queue = waiting;
        let over: VecDeque<Waiter> = over;
        over.into()
    }

    pub(super) fn next_deadline(&self) -> Option<BootTime> {
        self.queue.iter().map(|waiter| waiter.deadline).min()
    }
}
