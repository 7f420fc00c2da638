//! Mistakes to plant: each is a known way to get leases wrong. None is in the crate; they are put around it.

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// The owner credits what nobody reported of a lease that ended: spent and unspent look the same.
    CreditAtExpiry,
    /// The edge spends on from what it said it handed back.
    KeepAfterReturn,
    /// The owner adds up totals as if each were news, of messages that come again too.
    CountersAdded,
    /// The owner refills a bucket while units of it are out.
    Uncoupled,
    /// The owner credits, at a report, the refill that was withheld since the grant, as if the units were spent then.
    RefillCreditedFromGrant,
    /// The edge counts a lease from when it heard of it.
    DeadlineFromReceipt,
    /// A new leader's line jumps ahead.
    ClockJumps,
    /// A new leader doesn't know the last that the old one answered.
    Amnesia,
}
