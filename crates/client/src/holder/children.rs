//! Children: edges that ask this process in the place of their owners, and are lent what it holds.
//!
//! Invariant: a child's ask goes to the wallet of its key, so that it is answered once however often it comes.

use std::collections::BTreeSet;

use leasehold_lease::{EdgeId, LeaseAsk, Leased, Lent};
use leasehold_model::RequestId;
use leasehold_shard::Settled;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Holder, STRIPES_MASK, Way};
use crate::Upstream;

/// What came of a child's ask.
#[derive(Debug)]
pub(crate) enum Lending {
    Answered(Leased),
    /// `None` comes when nobody could say.
    Waiting(oneshot::Receiver<Option<Leased>>),
    /// A bound is reached, or everything is going back.
    NoRoom,
}

impl<U: Upstream> Holder<U> {
    /// Lends to a child, which waits until `deadline` at the latest.
    pub(crate) fn lend(&self, id: RequestId, ask: &LeaseAsk, way: &Way, deadline: Instant) -> Lending {
        let now = self.now();
        let deadline = self.boot_time(deadline, now);
        self.shared.touch(ask.key, now, |inside| {
            match inside.wallet.handle_child_ask(id, ask, way, deadline, now) {
                Lent::Answered(leased) => Lending::Answered(leased),
                Lent::Waiting => Lending::Waiting(inside.lend_for(id)),
                Lent::NoRoom => Lending::NoRoom,
            }
        })
    }

    /// A child asks under none of its session's sequences below a number again. Edges number a session as the stripe of its
    /// keys, here as there; what a child of another make was answered is forgotten in time.
    pub(crate) fn child_settled(&self, settled: Settled) {
        let stripe = usize::try_from(settled.session & STRIPES_MASK).expect("a stripe's number is small");
        let mut inside = self.shared.stripes[stripe].lock();
        inside.wallet.handle_child_settled(settled.session, settled.below);
    }

    /// Sub-leases that children hold now, and how many children do. Walks everything that is held.
    pub(crate) fn sub_leases(&self) -> (usize, usize) {
        let (mut sub_leases, mut children) = (0, BTreeSet::<EdgeId>::new());
        for stripe in &self.shared.stripes {
            let inside = stripe.lock();
            children.extend(inside.wallet.children().inspect(|_| sub_leases += 1));
        }
        (sub_leases, children.len())
    }
}
