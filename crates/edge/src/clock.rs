//! Wall time, for headers that carry it. Nothing is decided by it.

use rustix::time::{ClockId, clock_gettime};

/// Seconds since 1970.
pub(crate) fn epoch_seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0)
}
