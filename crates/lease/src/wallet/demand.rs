//! How fast a key is asked for: an average whose weight falls by the factor e every [`TIME_CONSTANT`].
//!
//! Invariant: integers only, so the same looks give the same rate everywhere. With x the time since the last look over
//! the time constant, the old rate weighs 1/(1 + x + x²/2 + x³/6), within 2.5 % of e⁻ˣ; what came meanwhile is taken as
//! spread evenly over that time.

use leasehold_model::{BootTime, Nanos};

use crate::MilliRate;

/// Demand older than this counts for little.
pub(super) const TIME_CONSTANT: Nanos = Nanos::from_millis(250);
/// After so many time constants the old rate is forgotten: e⁻¹⁶ of it is nothing.
const FORGOTTEN_AFTER: u64 = 16;
/// Fixed point: one is 2¹⁶.
const ONE: u128 = 1 << 16;
/// Thousandths of a unit a second in one unit a nanosecond.
const MILLIS_PER_UNIT_NANO: u128 = 1_000_000_000_000;

/// One key's demand.
#[cfg_attr(test, derive(Hash))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    rate: MilliRate,
    at: BootTime,
}

impl Demand {
    pub(super) const fn new(now: BootTime) -> Self {
        Self { rate: MilliRate(0), at: now }
    }

    /// Counts units that came since the last look.
    pub(super) fn add(&mut self, units: u64, now: BootTime) {
        self.rate = self.after(units, now);
        self.at = BootTime(self.at.0.max(now.0));
    }

    /// The rate at `now`, if nothing came since the last look.
    pub(super) fn rate(&self, now: BootTime) -> MilliRate {
        self.after(0, now)
    }

    fn after(&self, units: u64, now: BootTime) -> MilliRate {
        let elapsed = now.since(self.at).0;
        let came = u128::from(units) * MILLIS_PER_UNIT_NANO;
        if elapsed >= TIME_CONSTANT.0.saturating_mul(FORGOTTEN_AFTER) {
            return saturated(came / u128::from(elapsed));
        }
        let x = u128::from(elapsed) * ONE / u128::from(TIME_CONSTANT.0);
        let old = u128::from(self.rate.0);
        if x == 0 {
            return saturated(old + came / u128::from(TIME_CONSTANT.0));
        }
        let growth = x + x * x / (2 * ONE) + x * x * x / (6 * ONE * ONE);
        saturated((old * ONE + came / u128::from(elapsed) * growth) / (ONE + growth))
    }
}

/// What a single arrival of `units` adds to a rate.
pub(super) fn bump(units: u64) -> MilliRate {
    saturated(u128::from(units) * MILLIS_PER_UNIT_NANO / u128::from(TIME_CONSTANT.0))
}

/// Units that come at `rate` in this time, rounded down.
pub(super) fn units(rate: MilliRate, over: Nanos) -> u64 {
    let units = u128::from(rate.0) * u128::from(over.0) / MILLIS_PER_UNIT_NANO;
    u64::try_from(units).unwrap_or(u64::MAX)
}

fn saturated(wide: u128) -> MilliRate {
    MilliRate(u64::try_from(wide).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// 100 a second for `seconds`, looked at every `look` milliseconds.
    fn steady(look: u64, seconds: u64) -> u64 {
        let mut demand = Demand::new(BootTime(0));
        let looks = seconds * 1_000 / look;
        for turn in 1..=looks {
            demand.add(look / 10, BootTime(turn * look * MILLI));
        }
        demand.rate.0
    }

    #[test]
    fn a_steady_demand_is_met_whatever_the_looks() {
        for look in [10, 50, 250, 1_000] {
            let rate = steady(look, 4);
            assert!((97_000..=101_000).contains(&rate), "looks every {look} ms: {rate}");
        }
    }

    #[test]
    fn demand_fades_by_the_factor_e_in_a_time_constant() {
        let mut demand = Demand::new(BootTime(0));
        demand.add(1, BootTime(0));
        assert_eq!(demand.rate(BootTime(0)), bump(1));
        let later = demand.rate(BootTime(TIME_CONSTANT.0)).0;
        assert!((1_400..=1_510).contains(&later), "{later}");
        assert_eq!(demand.rate(BootTime(TIME_CONSTANT.0 * 16)), MilliRate(0));
    }

    #[test]
    fn the_largest_numbers_saturate() {
        let mut demand = Demand::new(BootTime(0));
        for turn in 0..3 {
            demand.add(u64::MAX, BootTime(turn));
        }
        assert_eq!(demand.rate(BootTime(3)), MilliRate(u64::MAX));
        assert_eq!(units(MilliRate(u64::MAX), Nanos::MAX), u64::MAX);
    }
}
