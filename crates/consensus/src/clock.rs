//! The clock that leases and elections are measured by.
//!
//! Invariant: it counts on while the machine is suspended, so a leader that was asleep knows that its lease is over.

use leasehold_model::Stamp;
#[cfg(not(feature = "simulated"))]
use rustix::time::{ClockId, clock_gettime};

/// Time since boot.
#[cfg(not(feature = "simulated"))]
pub(crate) fn now() -> Stamp {
    let time = clock_gettime(ClockId::Boottime);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Stamp(secs.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Time since the simulation began: every simulated machine has been on since then.
#[cfg(feature = "simulated")]
pub(crate) fn now() -> Stamp {
    let elapsed = turmoil::sim_elapsed().unwrap_or_default();
    Stamp(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}
