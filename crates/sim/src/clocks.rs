//! A machine's three clocks as functions of true time: boot-time goes on in suspend, monotonic doesn't, wall steps.
//!
//! Invariant: boot-time and monotonic never run backwards, whatever becomes of wall time.

use leasehold_model::{BootTime, WallTime};

/// Nanoseconds of true time since the world began.
pub(crate) type Time = u64;

/// One millisecond.
pub(crate) const MILLI: Time = 1_000_000;
/// One second.
pub(crate) const SECOND: Time = 1_000_000_000;
/// Where wall clocks that are right stand when a world begins.
const EPOCH: u64 = 1_800_000_000 * SECOND;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    /// When the rate last changed, and what boot-time showed then.
    since: Time,
    boot: u64,
    /// Parts in a million that all three run too fast; negative: too slow.
    rate_ppm: i64,
    /// How far wall time is ahead of boot-time.
    wall_ahead: i128,
    /// Boot-time that was spent suspended.
    slept: u64,
    asleep_since: Option<u64>,
}

impl Clocks {
    /// Clocks that run at a rate; boot-time began `boot` ago, and wall time is off by `wall_off` nanoseconds.
    #[must_use]
    pub(crate) fn new(boot: u64, rate_ppm: i64, wall_off: i64) -> Self {
        let wall_ahead = i128::from(EPOCH) - i128::from(boot) + i128::from(wall_off);
        Self { since: 0, boot, rate_ppm, wall_ahead, slept: 0, asleep_since: None }
    }

    /// Boot-time at a moment.
    #[must_use]
    pub(crate) fn boot(&self, now: Time) -> BootTime {
        let elapsed = i128::from(now.saturating_sub(self.since));
        let shown = elapsed + elapsed * i128::from(self.rate_ppm) / 1_000_000;
        BootTime(self.boot.saturating_add(u64::try_from(shown).unwrap_or(0)))
    }

    /// What a process's timers count by: boot-time without suspends.
    #[must_use]
    pub(crate) fn monotonic(&self, now: Time) -> u64 {
        self.asleep_since.unwrap_or(self.boot(now).0) - self.slept
    }

    /// Wall time at a moment.
    #[must_use]
    pub(crate) fn wall(&self, now: Time) -> WallTime {
        let wall = i128::from(self.boot(now).0) + self.wall_ahead;
        WallTime(u64::try_from(wall).unwrap_or(0))
    }

    /// Somebody sets wall time.
    pub(crate) fn step(&mut self, by: i64) {
        self.wall_ahead += i128::from(by);
    }

    /// From here on the clocks run at another rate.
    pub(crate) fn drift(&mut self, now: Time, rate_ppm: i64) {
        self.boot = self.boot(now).0;
        self.since = now;
        self.rate_ppm = rate_ppm;
    }

    /// The machine is suspended.
    pub(crate) fn sleep(&mut self, now: Time) {
        self.asleep_since.get_or_insert(self.boot(now).0);
    }

    /// It goes on.
    pub(crate) fn wake(&mut self, now: Time) {
        if let Some(since) = self.asleep_since.take() {
            self.slept += self.boot(now).0 - since;
        }
    }
}
