//! The one clock of the process. Everybody else takes a [`Stamp`] or a [`BootTime`] as an argument.
//!
//! It reads the boot-time clock, which goes on in suspend and never steps, and wall time only to steer by.
//! It holds no state: the steering is the caller's [`SteeredClock`], behind the lock that orders the stamps.

mod steer;

pub use steer::SteeredClock;

use leasehold_model::{Nanos, Stamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Goes on in suspend, where the system has such a clock.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds since the machine booted. Only differences mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(pub u64);

/// Nanoseconds since the Unix epoch as the system's wall clock has it: it steps, so it is steered by, never counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallTime(pub u64);

impl BootTime {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self(nanos(clock_gettime(BOOT_CLOCK)))
    }

    /// Time from `earlier` to `self`; zero when `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl WallTime {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self(nanos(clock_gettime(ClockId::Realtime)))
    }
}

/// A line anchored to wall time now.
#[must_use]
pub fn start_line() -> SteeredClock {
    SteeredClock::new(BootTime::now(), WallTime::now())
}

/// The stamp of now on `line`, which is steered first when its steering is old.
pub fn stamp(line: &mut SteeredClock) -> Stamp {
    let boot = BootTime::now();
    if line.wants_steering(boot) {
        line.steer(boot, WallTime::now());
    }
    line.read(boot)
}

fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
