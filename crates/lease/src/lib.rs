//! Both ends of a lease: the owner's ledger and the edge's wallet.
//!
//! Invariant (coupling): what a counter has left plus what is out on leases never exceeds its capacity, so leases of any
//! size, number and order admit no unit more than the counter alone would. What leasing costs is tokens that end unspent.
//! Time, chance and order are arguments; nothing here sends, waits or logs.

pub mod allowance;
pub mod cell;
pub mod cells;
mod fair;
pub mod ledger;
mod sync;
mod terms;
#[cfg(test)]
mod tests;
pub mod wallet;

pub use allowance::Allowances;
pub use cell::{Denial, Generation, KeyCell, Known, Spend};
pub use cells::{Cells, Held};
pub use ledger::{Asked, Ledger};
pub use terms::{
    DRIFT_PER_MILLE, EdgeId, LIFETIME_DEFAULT, LIFETIME_MAX, LIFETIME_MIN, LeaseAsk, LeaseId, Leased,
    MilliRate, SLOT_LIFETIME, Usage, edge_lifetime, owner_lifetime,
};
pub use wallet::{Answer, Checked, Event, Holding, Lent, Outgoing, Paid, Settings, Ticket, Totals, Wallet};
