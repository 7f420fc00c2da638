//! Both ends of a lease: the owner's ledger and the edge's wallet.
//!
//! Invariant (coupling): what a counter has left plus what is out on leases never exceeds its capacity, so leases of any
//! size, number and order admit no unit more than the counter alone would. What leasing costs is tokens that end unspent.
//! Time, chance and order are arguments; nothing here sends, waits or logs.

mod terms;

pub use terms::{
    DRIFT_PER_MILLE, EdgeId, LIFETIME_DEFAULT, LIFETIME_MAX, LeaseAsk, LeaseId, Leased, MilliRate, Usage,
    edge_lifetime, owner_lifetime,
};
