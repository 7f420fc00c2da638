//! The numbers of one limit, checked once: rate, burst and algorithm.

use leasehold_model::Nanos;

/// Rate, capacity and algorithm of one limit. Checked when it is made; everything after trusts it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Limit {
    algorithm: Algorithm,
    n: u64,
    period: Nanos,
}

/// How a limit counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Tokens refill continuously at n/period up to `burst`.
    TokenBucket {
        /// Capacity in units.
        burst: u64,
    },
    /// The same bucket seen from the other side: its level drains at n/period and may not exceed `burst`.
    LeakyBucket {
        /// Capacity in units.
        burst: u64,
    },
    /// One unit departs every period/n; up to `queue` units wait their turn.
    Shaper {
        /// Units that may wait.
        queue: u64,
    },
    /// Up to n units in each window.
    FixedWindow(Window),
    /// Up to n units in any span of one period, exactly.
    SlidingLog,
    /// An estimate from two neighbouring windows: previous count weighted by its overlap, plus the current one.
    SlidingCounter,
}

/// Where fixed windows begin.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// At multiples of the period since the Unix epoch.
    Epoch,
    /// At calendar boundaries of a zone. Weeks are ISO weeks (Monday); DST days have 23 or 25 hours.
    Calendar {
        /// The unit whose boundaries count.
        unit: CalendarUnit,
        /// The zone they are read in.
        zone: Zone,
    },
}

/// A calendar unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CalendarUnit {
    /// Clock minute.
    Minute,
    /// Clock hour; an hour repeated at the end of summer time is two windows.
    Hour,
    /// Midnight to midnight.
    Day,
    /// Monday to Monday.
    Week,
    /// First to first.
    Month,
    /// 1 January to 1 January.
    Year,
}

/// Why numbers don't make a limit. The message names the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The period is zero.
    #[error("period is 0: a limit counts over some length of time, for example 1s")]
    ZeroPeriod,
    /// A bucket or shaper that never refills.
    #[error(
        "rate is 0: it would never refill; use at least 1 per period, or a fixed window of 0 to block everything"
    )]
    ZeroRate,
    /// A bucket that holds nothing.
    #[error("burst is 0: it would never admit; leave it out for burst = rate, or use at least 1")]
    ZeroBurst,
    /// A shaper with no place to wait. (Its first unit leaves at once, yet needs a place to arrive in.)
    #[error("queue is 0: it would never admit; use at least 1")]
    ZeroQueue,
    /// Refilling from empty would take longer than the time line is long.
    #[error(
        "refilling {capacity} units at {n} per {period} takes longer than 290 years; lower the burst or raise the rate"
    )]
    TooSlow {
        /// Burst or queue.
        capacity: u64,
        /// Units a period.
        n: u64,
        /// The period.
        period: Nanos,
    },
    /// No such zone.
    #[error("unknown time zone {0:?}: use an IANA name such as UTC or Europe/Berlin")]
    UnknownZone(String),
}

/// An IANA time zone from the compiled-in database. Equality and order are those of its name.
#[derive(Clone, Debug)]
pub struct Zone {
    name: std::sync::Arc<str>,
    tz: jiff::tz::TimeZone,
}

impl Zone {
    /// Looks up an IANA name such as `Europe/Berlin`.
    ///
    /// # Errors
    /// [`LimitError::UnknownZone`].
    pub fn new(name: &str) -> Result<Self, LimitError> {
        let unknown = || LimitError::UnknownZone(name.to_owned());
        let tz = jiff::tz::TimeZoneDatabase::bundled().get(name).map_err(|_| unknown())?;
        let canonical = tz.iana_name().ok_or_else(unknown)?.into();
        Ok(Self { name: canonical, tz })
    }

    /// Coordinated universal time.
    #[must_use]
    pub fn utc() -> Self {
        Self { name: "UTC".into(), tz: jiff::tz::TimeZone::UTC }
    }

    /// Its IANA name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn tz(&self) -> &jiff::tz::TimeZone {
        &self.tz
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl std::hash::Hash for Zone {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for Zone {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Zone {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

impl CalendarUnit {
    /// A length for headers and sizing; windows themselves follow the calendar (a month is taken as 30 days, a year as 365).
    #[must_use]
    pub const fn nominal(self) -> Nanos {
        Nanos::from_secs(match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 604_800,
            Self::Month => 2_592_000,
            Self::Year => 31_536_000,
        })
    }
}

/// The slowest refill from empty to full that a limit may have: half the time line, so that no wait saturates.
const FULL_REFILL_MAX: u128 = (u64::MAX / 2) as u128;

impl Limit {
    /// `n` units a `period` by `algorithm`. For calendar windows the period is the unit's nominal length, whatever is given.
    ///
    /// # Errors
    /// [`LimitError`] names the number that can't be.
    pub fn new(algorithm: Algorithm, n: u64, period: Nanos) -> Result<Self, LimitError> {
        let period = match &algorithm {
            Algorithm::FixedWindow(Window::Calendar { unit, .. }) => unit.nominal(),
            Algorithm::FixedWindow(Window::Epoch)
            | Algorithm::TokenBucket { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::Shaper { .. }
            | Algorithm::SlidingLog
            | Algorithm::SlidingCounter => period,
        };
        if period == Nanos::ZERO {
            return Err(LimitError::ZeroPeriod);
        }
        let capacity = match algorithm {
            Algorithm::TokenBucket { burst: 0 } | Algorithm::LeakyBucket { burst: 0 } => {
                return Err(LimitError::ZeroBurst);
            }
            Algorithm::Shaper { queue: 0 } => return Err(LimitError::ZeroQueue),
            Algorithm::TokenBucket { burst } | Algorithm::LeakyBucket { burst } => burst,
            Algorithm::Shaper { queue } => queue.saturating_add(1),
            Algorithm::FixedWindow(_) | Algorithm::SlidingLog | Algorithm::SlidingCounter => 0,
        };
        if capacity > 0 {
            if n == 0 {
                return Err(LimitError::ZeroRate);
            }
            if u128::from(capacity) * u128::from(period.0) / u128::from(n) > FULL_REFILL_MAX {
                return Err(LimitError::TooSlow { capacity, n, period });
            }
        }
        Ok(Self { algorithm, n, period })
    }

    /// How it counts.
    #[must_use]
    pub const fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// Units a period.
    #[must_use]
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// The period; for calendar windows a nominal length.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        self.period
    }
}

impl Algorithm {
    /// As rules and policies spell it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TokenBucket { .. } => "token_bucket",
            Self::LeakyBucket { .. } => "leaky_bucket",
            Self::Shaper { .. } => "shaper",
            Self::FixedWindow(_) => "fixed_window",
            Self::SlidingLog => "sliding_log",
            Self::SlidingCounter => "sliding_counter",
        }
    }
}
