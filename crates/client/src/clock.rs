//! The boot-time clock of this process, as an argument: tests bring their own.

use std::fmt;

use leasehold_model::BootTime;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Goes on in suspend, where the system has such a clock.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// What leases are counted by. One a process: readings of two don't compare.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Goes on in suspend and never steps.
    fn boot(&self) -> BootTime;
}

/// The machine's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn boot(&self) -> BootTime {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(BOOT_CLOCK);
        let seconds = u64::try_from(tv_sec).unwrap_or(0);
        BootTime(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(tv_nsec).unwrap_or(0)))
    }
}
