//! The one clock of the process. Everybody else takes a [`Stamp`] or a [`BootTime`] as an argument.
//!
//! It reads the boot-time clock, which goes on in suspend and never steps, and wall time only to steer by.
//! It holds no state: the steering is the caller's [`SteeredClock`], behind the lock that orders the stamps.

use leasehold_model::{BootTime, Stamp, WallTime};
use leasehold_shard::SteeredClock;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Goes on in suspend, where the system has such a clock.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// The boot-time clock now.
#[must_use]
pub fn boot() -> BootTime {
    BootTime(nanos(clock_gettime(BOOT_CLOCK)))
}

/// The wall clock now.
#[must_use]
pub fn wall() -> WallTime {
    WallTime(nanos(clock_gettime(ClockId::Realtime)))
}

/// A line anchored to wall time now.
#[must_use]
pub fn start_line() -> SteeredClock {
    SteeredClock::new(boot(), wall())
}

/// The stamp of now on `line`, which is steered first when its steering is old.
pub fn stamp(line: &mut SteeredClock) -> Stamp {
    let boot = self::boot();
    if line.wants_steering(boot) {
        line.steer(boot, wall());
    }
    line.read(boot)
}

fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
