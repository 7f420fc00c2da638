//! The clocks of one process, as an argument: tests bring their own.

use std::fmt;

use leasehold_model::{BootTime, WallTime};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Goes on in suspend, where the system has such a clock.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// What shards are stamped by.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Goes on in suspend and never steps.
    fn boot(&self) -> BootTime;
    /// Is steered by, never counted by.
    fn wall(&self) -> WallTime;
}

/// The machine's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn boot(&self) -> BootTime {
        BootTime(nanos(clock_gettime(BOOT_CLOCK)))
    }

    fn wall(&self) -> WallTime {
        WallTime(nanos(clock_gettime(ClockId::Realtime)))
    }
}

fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
