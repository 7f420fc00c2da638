//! What a wallet tells its shell.

use leasehold_limit::RetryAfter;
use leasehold_model::{Key, Nanos, RequestId};

use super::waiters::Ticket;
use crate::{LeaseAsk, Leased};

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The units are the request's.
    Taken {
        /// Where they came from.
        paid: Paid,
        /// Units left, here and at the owner, as far as is known.
        remaining: u64,
        /// Time until the counter equals a fresh one, as far as is known.
        reset_after: Nanos,
    },
    /// They are not to be had.
    Denied {
        /// When to come back.
        retry_after: RetryAfter,
        /// Time until the counter equals a fresh one, as far as is known.
        reset_after: Nanos,
        /// Whether the owner said so to this very request; otherwise it is known from before.
        asked: bool,
    },
    /// Nobody could say: the request's time is over, or upstream won't carry the ask out. Its rule's `on_unavailable`
    /// stands in. Nothing was taken for it here; what the owner may have charged for it stays charged.
    Undecided,
}

/// Where a request's units came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paid {
    /// Charged by the owner for requests that waited.
    Owner,
    /// Out of a lease.
    Lease,
}

/// What came of a check.
#[derive(Clone, Debug)]
pub enum Checked {
    /// Known now.
    Answered(Answer),
    /// It waits: [`Event::Answered`] follows under this ticket.
    Waiting(Ticket),
    /// Ask upstream for exactly this one: a bound is reached, the wallet is being emptied, or several units are wanted of a
    /// limit that isn't lent, of which a part would be consumed for nothing.
    NoRoom,
}

/// What came of a child's ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lent {
    /// Known now.
    Answered(Leased),
    /// It waits: [`Event::Lent`] follows under its id.
    Waiting,
    /// A bound is reached, or the wallet is being emptied: the child asks elsewhere, or later.
    NoRoom,
}

/// Something that the shell has to act on.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request that waited has its answer.
    Answered {
        /// Which.
        ticket: Ticket,
        /// Its answer.
        answer: Answer,
    },
    /// A child's ask that waited has its answer.
    Lent {
        /// Which.
        id: RequestId,
        /// `None`: nobody could say. The child asks again under the same id.
        leased: Option<Leased>,
    },
    /// The owner gave this edge a number among those that may hold a share (see [`crate::Allowances`]).
    Slot {
        /// A key that the owner leads: slots are numbered for each shard.
        key: Key,
        /// The number.
        slot: u16,
        /// When the ask that brought it was sent.
        sent: leasehold_model::BootTime,
    },
}

/// An ask to be sent upstream.
#[derive(Clone, Debug)]
pub struct Outgoing<L> {
    /// Under this id it is carried out once.
    pub id: RequestId,
    /// What is asked. Sent again, it is the same.
    pub ask: LeaseAsk,
    /// What the shell gave for the key: its limit, and whatever else an ask needs on its way.
    pub limit: L,
    /// Whether it was sent before.
    pub again: bool,
}

/// What has become of a lease so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The lease.
    pub id: crate::LeaseId,
    /// When this side stops spending it.
    pub deadline: leasehold_model::BootTime,
    /// Units that came with it.
    pub granted: u64,
    /// Of those, units spent, by this process or, as far as it was told, by its children.
    pub spent: u64,
    /// Of those, units handed back.
    pub returned: u64,
    /// Of those, units that children may spend.
    pub lent: u64,
}

/// Counts since the wallet was made, for metrics. They only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Asks sent, without those sent again.
    pub asks: u64,
    /// Asks sent again.
    pub resends: u64,
    /// Leases received.
    pub leases: u64,
    /// Units lent to this wallet.
    pub granted: u64,
    /// Units handed back.
    pub returned: u64,
    /// Units charged by the owner for requests that had gone by then.
    pub sync_lost: u64,
    /// Requests that waited.
    pub waited: u64,
    /// Sub-leases given.
    pub sub_leases: u64,
    /// Units lent to children.
    pub lent: u64,
    /// Units that children never said a word of.
    pub stranded: u64,
}
