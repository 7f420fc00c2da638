//! Points and lengths of shard time, in integer nanoseconds.

use std::fmt;

/// A point on a shard's time line: nanoseconds since the Unix epoch as that line counts them.
///
/// A stamp is an argument everywhere below the adapters; only the shell turns a clock into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

/// Nanoseconds on a clock that goes on in suspend and never steps, since some start. Only differences mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(pub u64);

/// Nanoseconds since the Unix epoch as a machine's wall clock has it: it steps, so it is steered by, never counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallTime(pub u64);

impl BootTime {
    /// Time from `earlier` to `self`; zero when `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A length of time in nanoseconds. Saturates at about 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Stamp {
    /// The beginning of the line.
    pub const ZERO: Self = Self(0);

    /// Time from `earlier` to `self`; zero when `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The stamp `by` later, saturating at the end of the line.
    #[must_use]
    pub const fn after(self, by: Nanos) -> Self {
        Self(self.0.saturating_add(by.0))
    }

    /// The stamp `by` earlier, saturating at the beginning of the line.
    #[must_use]
    pub const fn before(self, by: Nanos) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest expressible length.
    pub const MAX: Self = Self(u64::MAX);

    /// A length of whole seconds, saturating.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// A length of whole milliseconds, saturating.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Whole seconds, rounded up: 1 ns is one second, an exact second is not inflated.
    ///
    /// ```
    /// use leasehold_model::Nanos;
    /// assert_eq!(Nanos(1).secs_ceil(), 1);
    /// assert_eq!(Nanos::from_secs(2).secs_ceil(), 2);
    /// ```
    #[must_use]
    pub const fn secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000_000)
    }

    /// Whole milliseconds, rounded up.
    #[must_use]
    pub const fn millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Nanos {
    /// The largest unit that divides the length evenly: `1h`, `90s`, `1500ms`, `7ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 7] = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "min"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        if self.0 == 0 {
            return f.write_str("0s");
        }
        for (size, unit) in UNITS {
            if self.0.is_multiple_of(size) {
                return write!(f, "{}{unit}", self.0 / size);
            }
        }
        Ok(())
    }
}

/// A line of time that never runs backwards: what a shard applies is `max(stamp, last)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLine {
    last: Stamp,
}

impl TimeLine {
    /// A line that continues from `last`.
    #[must_use]
    pub const fn from(last: Stamp) -> Self {
        Self { last }
    }

    /// The latest stamp this line has carried.
    #[must_use]
    pub const fn last(&self) -> Stamp {
        self.last
    }

    /// Moves to `at`, unless the line is already past it; returns the stamp that holds.
    pub fn advance(&mut self, at: Stamp) -> Stamp {
        self.last = self.last.max(at);
        self.last
    }

    /// The stamp that would hold at `at`, without moving.
    #[must_use]
    pub fn read(&self, at: Stamp) -> Stamp {
        self.last.max(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_runs_backwards() {
        let mut line = TimeLine::from(Stamp(5));
        assert_eq!(line.advance(Stamp(3)), Stamp(5));
        assert_eq!(line.read(Stamp(9)), Stamp(9));
        assert_eq!(line.advance(Stamp(7)), Stamp(7));
        assert_eq!(line.last(), Stamp(7));
    }

    #[test]
    fn whole_seconds_round_up_and_exact_ones_stay() {
        for (nanos, secs) in [(0, 0), (1, 1), (999_999_999, 1), (1_000_000_000, 1), (1_000_000_001, 2)] {
            assert_eq!(Nanos(nanos).secs_ceil(), secs);
        }
        assert_eq!(Nanos::MAX.secs_ceil(), 18_446_744_074);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Stamp(3).since(Stamp(5)), Nanos::ZERO);
        assert_eq!(Stamp(u64::MAX).after(Nanos(1)), Stamp(u64::MAX));
        assert_eq!(Stamp(1).before(Nanos(2)), Stamp::ZERO);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
    }

    #[test]
    fn lengths_print_in_the_largest_even_unit() {
        for (nanos, text) in
            [(0, "0s"), (90_000_000_000, "90s"), (3_600_000_000_000, "1h"), (1_500_000, "1500us")]
        {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
    }
}
