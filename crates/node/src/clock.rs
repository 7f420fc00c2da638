//! The one clock of the process. Everybody else takes a [`Stamp`] or a [`BootTime`] as an argument.
//!
//! It reads the boot-time clock, which goes on in suspend and never steps, and wall time only to steer by.
//! It holds no state: the steering is the caller's [`SteeredClock`], behind the lock that orders the stamps.

use leasehold_cluster::{Clock, SystemClock};
use leasehold_model::{BootTime, Stamp, WallTime};
use leasehold_shard::SteeredClock;

/// The boot-time clock now.
#[must_use]
pub fn boot() -> BootTime {
    SystemClock.boot()
}

/// The wall clock now.
#[must_use]
pub fn wall() -> WallTime {
    SystemClock.wall()
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
