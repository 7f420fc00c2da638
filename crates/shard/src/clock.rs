//! Steering: a line that runs with the boot-time clock and leans toward wall time, at a bounded rate. Pure arithmetic.
//!
//! Invariant: for boot times that don't run backwards neither do the stamps, and between two readings a stamp moves by
//! the boot clock's time, give or take [`SLEW_PER`]. So a wall clock that steps neither mints nor destroys tokens.

use leasehold_model::planted::{self, Bug};
use leasehold_model::{BootTime, Nanos, Stamp, WallTime};

/// One nanosecond of correction in this many: 0.1 %. A wall clock an hour off is met after six weeks, and until then
/// every limit is exact but for 0.1 % of its rate.
const SLEW_PER: u64 = 1_000;

/// How old a steering may get. Reading wall time more often costs a clock read for nothing: oscillators drift by ppm.
const STEER_EVERY: Nanos = Nanos::from_secs(1);

/// A line of stamps that follows the boot-time clock and slews toward wall time.
#[derive(Clone, Copy, Debug)]
pub struct SteeredClock {
    /// When it was last steered, and the stamp then.
    boot: BootTime,
    stamp: Stamp,
    /// How far wall time was ahead of the stamp then; negative: behind.
    lead: i128,
}

impl SteeredClock {
    /// A line that equals wall time now.
    #[must_use]
    pub const fn new(boot: BootTime, wall: WallTime) -> Self {
        Self { boot, stamp: Stamp(wall.0), lead: 0 }
    }

    /// A line that stood at `stamp` at `boot` and continues from there, whatever wall time is: how a new leader takes over
    /// the line of its shard, from the last entry that it applied and when it did.
    #[must_use]
    pub const fn continued(boot: BootTime, stamp: Stamp) -> Self {
        Self { boot, stamp, lead: 0 }
    }

    /// The stamp at `boot`.
    #[must_use]
    pub fn read(&self, boot: BootTime) -> Stamp {
        let elapsed = boot.since(self.boot);
        let slew = u128::from(elapsed.0 / SLEW_PER).min(self.lead.unsigned_abs());
        let slew = Nanos(u64::try_from(slew).unwrap_or(u64::MAX));
        let straight = self.stamp.after(elapsed);
        if self.lead < 0 { straight.before(slew) } else { straight.after(slew) }
    }

    /// Whether the steering at `boot` is old enough to be worth a reading of wall time.
    #[must_use]
    pub fn wants_steering(&self, boot: BootTime) -> bool {
        boot.since(self.boot) >= STEER_EVERY || planted::is(Bug::LeaderUsesWallClock)
    }

    /// From here on leans toward `wall`. The stamp itself doesn't move.
    pub fn steer(&mut self, boot: BootTime, wall: WallTime) {
        let stamp = if planted::is(Bug::LeaderUsesWallClock) { Stamp(wall.0) } else { self.read(boot) };
        let lead = i128::from(wall.0) - i128::from(stamp.0);
        *self = Self { boot: self.boot.max(boot), stamp, lead };
    }
}

#[cfg(test)]
mod tests;
