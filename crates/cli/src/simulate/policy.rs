//! Policies as files and flags spell them, checked into a [`Limit`]. Every error names its field.

use leasehold_limit::rules::rate;
use leasehold_limit::{Algorithm, CalendarUnit, Limit, LimitError, Window, Zone};
use leasehold_model::Nanos;
use serde::Deserialize;

/// A policy as JSON spells it. Numbers are integers up to 2^64 - 1; nothing passes through a float.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyFile {
    algorithm: AlgorithmName,
    n: u64,
    /// Period in nanoseconds; left out for calendar windows.
    p: Option<u64>,
    /// Buckets; `n` when left out.
    burst: Option<u64>,
    /// Shaper; `n` when left out.
    queue: Option<u64>,
    /// Fixed windows: the calendar unit, in place of `p`.
    unit: Option<Unit>,
    /// Fixed windows with a unit; UTC when left out.
    zone: Option<String>,
}

/// The six algorithms by name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AlgorithmName {
    TokenBucket,
    LeakyBucket,
    Shaper,
    FixedWindow,
    SlidingLog,
    SlidingCounter,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// Why a policy can't be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PolicyError {
    /// A field that this algorithm has no use for.
    #[error("{field}: {algorithm} has none; leave it out")]
    NotForAlgorithm {
        /// The field.
        field: &'static str,
        /// The algorithm.
        algorithm: &'static str,
    },
    /// A field that this policy needs.
    #[error(
        "p: give the period in nanoseconds, for example 60000000000 for a minute (or, for fixed_window, a unit)"
    )]
    NoPeriod,
    /// Two fields that say the same thing.
    #[error("unit: a window has a unit or a period p, not both")]
    UnitAndPeriod,
    /// A zone without a calendar.
    #[error("zone: only calendar windows have one; give a unit in place of p")]
    ZoneWithoutUnit,
    /// Numbers that don't make a limit.
    #[error("{field}: {source}")]
    Numbers {
        /// The field to mend.
        field: &'static str,
        /// What is wrong with it.
        source: LimitError,
    },
}

impl PolicyFile {
    /// Checks the policy.
    ///
    /// # Errors
    /// [`PolicyError`] names the field and the fix.
    pub(crate) fn limit(&self) -> Result<Limit, PolicyError> {
        self.refuse_useless_fields()?;
        let algorithm = match self.algorithm {
            AlgorithmName::TokenBucket => Algorithm::TokenBucket { burst: self.burst.unwrap_or(self.n) },
            AlgorithmName::LeakyBucket => Algorithm::LeakyBucket { burst: self.burst.unwrap_or(self.n) },
            AlgorithmName::Shaper => Algorithm::Shaper { queue: self.queue.unwrap_or(self.n) },
            AlgorithmName::FixedWindow => Algorithm::FixedWindow(self.window()?),
            AlgorithmName::SlidingLog => Algorithm::SlidingLog,
            AlgorithmName::SlidingCounter => Algorithm::SlidingCounter,
        };
        let period = match (self.p, self.unit) {
            (Some(p), _) => Nanos(p),
            (None, Some(_)) => Nanos::ZERO,
            (None, None) => return Err(PolicyError::NoPeriod),
        };
        Limit::new(algorithm, self.n, period).map_err(|source| self.numbers(source))
    }

    fn window(&self) -> Result<Window, PolicyError> {
        let Some(unit) = self.unit else {
            return if self.zone.is_some() { Err(PolicyError::ZoneWithoutUnit) } else { Ok(Window::Epoch) };
        };
        if self.p.is_some() {
            return Err(PolicyError::UnitAndPeriod);
        }
        let zone = match &self.zone {
            Some(name) => Zone::new(name).map_err(|source| self.numbers(source))?,
            None => Zone::utc(),
        };
        Ok(Window::Calendar { unit: unit.into(), zone })
    }

    fn refuse_useless_fields(&self) -> Result<(), PolicyError> {
        let bucket = matches!(self.algorithm, AlgorithmName::TokenBucket | AlgorithmName::LeakyBucket);
        let shaper = self.algorithm == AlgorithmName::Shaper;
        let window = self.algorithm == AlgorithmName::FixedWindow;
        let fields = [
            ("burst", self.burst.is_some(), bucket),
            ("queue", self.queue.is_some(), shaper),
            ("unit", self.unit.is_some(), window),
            ("zone", self.zone.is_some(), window),
        ];
        match fields.iter().find(|(_, given, useful)| *given && !useful) {
            Some((field, ..)) => {
                Err(PolicyError::NotForAlgorithm { field, algorithm: self.algorithm.as_str() })
            }
            None => Ok(()),
        }
    }

    fn numbers(&self, source: LimitError) -> PolicyError {
        let field = match &source {
            LimitError::ZeroPeriod => "p",
            LimitError::ZeroRate => "n",
            LimitError::ZeroQueue => "queue",
            LimitError::ZeroBurst if self.burst.is_none() => "n",
            LimitError::TooSlow { .. } if self.algorithm == AlgorithmName::Shaper => "queue",
            LimitError::ZeroBurst | LimitError::TooSlow { .. } => "burst",
            LimitError::UnknownZone(_) => "zone",
        };
        PolicyError::Numbers { field, source }
    }
}

impl AlgorithmName {
    fn as_str(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
            Self::Shaper => "shaper",
            Self::FixedWindow => "fixed_window",
            Self::SlidingLog => "sliding_log",
            Self::SlidingCounter => "sliding_counter",
        }
    }
}

impl From<Unit> for CalendarUnit {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Minute => Self::Minute,
            Unit::Hour => Self::Hour,
            Unit::Day => Self::Day,
            Unit::Week => Self::Week,
            Unit::Month => Self::Month,
            Unit::Year => Self::Year,
        }
    }
}

/// A rate as the command line spells it: `5/min`, `100/s`, `10/90s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// As given.
    pub(crate) text: String,
    n: u64,
    period: Nanos,
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = rate::parse(text).map_err(|error| format!("{error}: {}", error.fix()))?;
        let rate = Self { text: text.to_owned(), n: rate.n, period: rate.per.length() };
        rate.under_every_algorithm().map_err(|error| error.to_string())?;
        Ok(rate)
    }
}

impl Rate {
    /// This rate under each of the six algorithms, each with its default capacity (n).
    ///
    /// # Errors
    /// [`PolicyError`] when the numbers don't make a limit.
    pub(crate) fn under_every_algorithm(&self) -> Result<Vec<Limit>, PolicyError> {
        [
            Algorithm::FixedWindow(Window::Epoch),
            Algorithm::SlidingLog,
            Algorithm::SlidingCounter,
            Algorithm::TokenBucket { burst: self.n },
            Algorithm::LeakyBucket { burst: self.n },
            Algorithm::Shaper { queue: self.n },
        ]
        .into_iter()
        .map(|algorithm| {
            Limit::new(algorithm, self.n, self.period)
                .map_err(|source| PolicyError::Numbers { field: "limit", source })
        })
        .collect()
    }

    /// The period, for drawing where windows begin.
    pub(crate) fn period(&self) -> Nanos {
        self.period
    }
}
