//! The policies, one a file, none larger than it must be.

mod asking;
mod batches;
mod leases;
mod optimistic;
mod owners;
mod shares;

pub(super) use self::asking::Asking;
pub(super) use self::batches::{Batches, Size};
pub(super) use self::leases::Leases;
pub(super) use self::optimistic::Optimistic;
pub(super) use self::owners::Owners;
pub(super) use self::shares::Static;
