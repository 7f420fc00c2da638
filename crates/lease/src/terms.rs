//! What an edge asks for one key and what its owner answers: the words that both ends and the wire share.
//!
//! An exact check is `need = want = cost`: all of it is consumed at the owner and nothing is ever out.

use leasehold_limit::RetryAfter;
use leasehold_model::{Key, Nanos, Stamp};

/// Clocks run at the right speed but for one part in a thousand: ten times what crystals are off by. The edge counts a
/// lease shorter by twice that, the owner longer.
pub const DRIFT_PER_MILLE: u64 = 1;
/// How long a lease lasts when nobody says otherwise: all that a dead edge strands is stranded so long.
pub const LIFETIME_DEFAULT: Nanos = Nanos::from_secs(5);
/// The longest lease. Whoever asks for a longer one gets this.
pub const LIFETIME_MAX: Nanos = Nanos::from_secs(60);

/// The shortest lease. Whoever asks for a shorter one gets this; where less is left of a window, nothing is lent.
pub const LIFETIME_MIN: Nanos = Nanos::from_millis(100);
/// How long an edge may act on its slot, from when it sent any ask that was answered and on its own boot-time clock.
pub const SLOT_LIFETIME: Nanos = Nanos::from_secs(3_600);

/// One life of a process that spends leases: drawn when it starts, so that no two lives share leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub u128);

/// A lease, among all that its ledger ever gave: never used twice, not even after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// Demand in thousandths of a unit a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliRate(pub u64);

/// What an edge asks of one counter, with word of what became of its leases on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseAsk {
    /// Who asks.
    pub edge: EdgeId,
    /// The counter.
    pub key: Key,
    /// Units that requests are waiting for now. As many of them as there are get consumed at once and are never out.
    pub need: u64,
    /// `need` and what to hold besides. Below `need`: as `need`. 0: only the usage is told.
    pub want: u64,
    /// The edge's demand, for fair shares when units are short.
    pub rate: MilliRate,
    /// How long the lease should last, counted by the owner; at most [`LIFETIME_MAX`].
    pub lifetime: Nanos,
    /// What became of its leases so far. Those it doesn't name are as they were.
    pub usage: Vec<Usage>,
}

/// What became of one lease so far. Totals, so that a message lost, repeated or late changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Usage {
    /// The lease.
    pub lease: LeaseId,
    /// Units spent since it was granted.
    pub spent_total: u64,
    /// Units handed back since it was granted. The edge lowers what it holds before it says so.
    pub returned_total: u64,
}

/// The owner's answer to a [`LeaseAsk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leased {
    /// The new lease; `None` when nothing was lent.
    pub lease: Option<LeaseId>,
    /// Units lent under it.
    pub granted: u64,
    /// Of the units that were needed at once, those consumed now: for requests that wait, and for nothing else.
    pub sync: u64,
    /// How long the lease lasts from its grant: see [`edge_lifetime`].
    pub lifetime: Nanos,
    /// How long the edge shall refuse by itself, units being short: its share comes then.
    pub gate: Option<Nanos>,
    /// When the counter has a unit again; `None` when all that was needed was there.
    pub retry_after: Option<RetryAfter>,
    /// Whole units that the counter has left after this.
    pub remaining: u64,
    /// Time until the counter equals a fresh one, if nothing more is taken.
    pub reset_after: Nanos,
    /// The edge's number among those that may hold a share of what the owner keeps back; `None` when all are taken.
    pub slot: Option<u16>,
    /// When it was decided, on the counter's time line.
    pub at: Stamp,
}

/// How long an edge may spend a lease of `lifetime`, from when it *sent* the ask and on its own boot-time clock.
#[must_use]
pub const fn edge_lifetime(lifetime: Nanos) -> Nanos {
    Nanos(lifetime.0.saturating_sub(margin(lifetime)))
}

/// How long after its grant the owner counts a lease of `lifetime` as spendable.
#[must_use]
pub const fn owner_lifetime(lifetime: Nanos) -> Nanos {
    Nanos(lifetime.0.saturating_add(margin(lifetime)))
}

/// Twice the drift over a lifetime, rounded up.
const fn margin(lifetime: Nanos) -> u64 {
    (lifetime.0 / 1_000 + 1).saturating_mul(2 * DRIFT_PER_MILLE)
}
