//! A request that waits for its wallet.

use std::fmt;

use leasehold_lease::Ticket;
use leasehold_model::Key;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Heard, Shared};
use crate::Upstream;

/// A place in a key's queue, given up when it is dropped.
pub(crate) struct Wait<'a, U: Upstream> {
    shared: &'a Shared<U>,
    key: Key,
    /// `None`: it has been answered, or goes on without anybody.
    ticket: Option<Ticket>,
    answer: oneshot::Receiver<Heard>,
}

impl<U: Upstream> fmt::Debug for Wait<'_, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl<'a, U: Upstream> Wait<'a, U> {
    pub(super) const fn new(
        shared: &'a Shared<U>,
        key: Key,
        ticket: Ticket,
        answer: oneshot::Receiver<Heard>,
    ) -> Self {
        Self { shared, key, ticket: Some(ticket), answer }
    }

    /// What it hears; `None` when the deadline comes first.
    pub(crate) async fn until(mut self, deadline: Instant) -> Option<Heard> {
        let answered = timeout_at(deadline, &mut self.answer).await.ok().and_then(Result::ok);
        if answered.is_some() {
            self.ticket = None;
            return answered;
        }
        self.give_up();
        // It may have come in the last moment; then it is charged for.
        self.answer.try_recv().ok()
    }

    /// Leaves it in the queue without waiting: its units are charged when there are any.
    pub(crate) fn leave(mut self) {
        self.ticket = None;
    }

    fn give_up(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.shared.clock.boot();
            self.shared.touch(self.key, now, |inside| inside.forget(self.key, ticket, now));
        }
    }
}

impl<U: Upstream> Drop for Wait<'_, U> {
    fn drop(&mut self) {
        self.give_up();
    }
}
