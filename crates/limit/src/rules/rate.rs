//! The text of a rate: `5/min`, `6000/hour`, `100/1h30m`; and a limit's numbers as text again.
//!
//! Invariant: what [`describe`] writes for a limit, [`parse`] reads as the same rate. No floats: `1.5/s` is refused, and
//! `3/2s` says the same.

use std::borrow::Cow;

use leasehold_model::Nanos;

use super::error::{did_you_mean, quoted};
use crate::{Algorithm, CalendarUnit, Limit, Window};

/// So many units in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units a period; 0 is a rate, though no limit.
    pub n: u64,
    /// The period.
    pub per: Period,
}

/// The time a rate counts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// A unit word. A second is a length; the others are the calendar's for fixed windows, a nominal length elsewhere.
    Second,
    /// See [`Period::Second`].
    Calendar(CalendarUnit),
    /// A length, never zero.
    Length(Nanos),
}

impl Period {
    /// Its length; a month is 30 days, a year 365.
    #[must_use]
    pub const fn length(self) -> Nanos {
        match self {
            Self::Second => Nanos::from_secs(1),
            Self::Calendar(unit) => unit.nominal(),
            Self::Length(length) => length,
        }
    }
}

/// Why a text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// It has no slash.
    #[error("{0} is no rate")]
    NoSlash(String),
    /// What is before the slash is no whole number.
    #[error("{0} is no whole number")]
    NotWhole(String),
    /// A whole number past 2^64 - 1.
    #[error("{0} is too large")]
    TooLarge(String),
    /// What is after the slash is neither a unit nor a duration.
    #[error("{unit} is no unit of time")]
    UnknownUnit {
        /// As written.
        unit: String,
        /// `did you mean X? `, or nothing.
        hint: String,
    },
    /// `m` alone could be a minute or a month.
    #[error("`m` may mean minute or month")]
    AmbiguousUnit,
    /// A duration that isn't number and unit, from the largest unit to the smallest.
    #[error("{0} is no duration")]
    NoDuration(String),
    /// A duration of no length.
    #[error("a duration of zero")]
    ZeroDuration,
    /// A duration past 2^64 - 1 nanoseconds.
    #[error("{0} is longer than 584 years")]
    TooLong(String),
}

impl RateError {
    /// What to write instead.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::NoSlash(_) => "write units per time, such as 5/min or 100/90s".into(),
            Self::NotWhole(_) => {
                "write a whole number without sign, point or separators, such as 1000".into()
            }
            Self::TooLarge(_) => format!("the largest number is {}", u64::MAX),
            Self::UnknownUnit { hint, .. } => {
                format!(
                    "{hint}use second, minute, hour, day, week, month, year, or a duration such as 90s or 1h30m"
                )
            }
            Self::AmbiguousUnit => "write min or month".into(),
            Self::NoDuration(_) => {
                "write numbers with units w, d, h, m, s, ms, us, ns from large to small, such as 90s or 1h30m"
                    .into()
            }
            Self::ZeroDuration => "a limit counts over some length of time, for example 1s".into(),
            Self::TooLong(_) => "use a shorter period".into(),
        }
    }
}

/// Reads `n/unit` or `n/duration`.
///
/// # Errors
/// [`RateError`], whose message and [`RateError::fix`] are for the author of the text.
pub fn parse(text: &str) -> Result<Rate, RateError> {
    let (count, per) = text.split_once('/').ok_or_else(|| RateError::NoSlash(quoted(text)))?;
    let per = per.trim_ascii();
    let per = match per {
        "m" => return Err(RateError::AmbiguousUnit),
        _ if per.starts_with(|first: char| first.is_ascii_digit()) => Period::Length(parse_duration(per)?),
        _ => unit(per)?,
    };
    Ok(Rate { n: parse_count(count.trim_ascii())?, per })
}

/// Reads a whole number.
///
/// # Errors
/// [`RateError::NotWhole`], [`RateError::TooLarge`].
pub fn parse_count(text: &str) -> Result<u64, RateError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RateError::NotWhole(quoted(text)));
    }
    text.parse().map_err(|_| RateError::TooLarge(quoted(text)))
}

const UNITS: [(&str, Period); 13] = [
    ("s", Period::Second),
    ("sec", Period::Second),
    ("second", Period::Second),
    ("min", Period::Calendar(CalendarUnit::Minute)),
    ("minute", Period::Calendar(CalendarUnit::Minute)),
    ("h", Period::Calendar(CalendarUnit::Hour)),
    ("hour", Period::Calendar(CalendarUnit::Hour)),
    ("d", Period::Calendar(CalendarUnit::Day)),
    ("day", Period::Calendar(CalendarUnit::Day)),
    ("w", Period::Calendar(CalendarUnit::Week)),
    ("week", Period::Calendar(CalendarUnit::Week)),
    ("month", Period::Calendar(CalendarUnit::Month)),
    ("year", Period::Calendar(CalendarUnit::Year)),
];

fn unit(word: &str) -> Result<Period, RateError> {
    UNITS.iter().find(|(name, _)| *name == word).map(|(_, period)| *period).ok_or_else(|| {
        let words = UNITS.iter().map(|(name, _)| *name).filter(|name| name.len() >= 3);
        RateError::UnknownUnit { unit: quoted(word), hint: did_you_mean(word, words) }
    })
}

/// Units of durations, from the largest to the smallest: name and nanoseconds.
const LENGTHS: [(&str, u64); 11] = [
    ("w", 604_800_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("sec", 1_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// Reads a length such as `90s`, `1h30m` or `500ms`: whole numbers with units, from the largest unit to the smallest.
///
/// # Errors
/// [`RateError::NoDuration`], [`RateError::ZeroDuration`], [`RateError::TooLong`].
pub fn parse_duration(text: &str) -> Result<Nanos, RateError> {
    let wrong = || RateError::NoDuration(quoted(text));
    let (mut total, mut smallest, mut rest) = (0_u64, u64::MAX, text);
    while !rest.is_empty() {
        let digits =
            rest.find(|c: char| !c.is_ascii_digit()).filter(|length| *length > 0).ok_or_else(wrong)?;
        let (count, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (name, next) = after.split_at(letters);
        let (_, size) = LENGTHS.iter().find(|(unit, _)| *unit == name).ok_or_else(wrong)?;
        if *size >= smallest {
            return Err(wrong());
        }
        let too_long = || RateError::TooLong(quoted(text));
        let count: u64 = count.parse().map_err(|_| too_long())?;
        total = count.checked_mul(*size).and_then(|part| total.checked_add(part)).ok_or_else(too_long)?;
        (smallest, rest) = (*size, next);
    }
    match total {
        0 if text.is_empty() => Err(wrong()),
        0 => Err(RateError::ZeroDuration),
        _ => Ok(Nanos(total)),
    }
}

/// A limit's numbers for a table: `5/min`, `6000/hour burst 200`, `10/s queue 20`, `1000/month in Europe/Berlin`.
///
/// A burst that equals the rate isn't named, nor is the zone UTC.
#[must_use]
pub fn describe(limit: &Limit) -> String {
    let n = limit.n();
    match limit.algorithm() {
        Algorithm::TokenBucket { burst } | Algorithm::LeakyBucket { burst } if *burst != n => {
            format!("{n}/{} burst {burst}", length_name(limit.period()))
        }
        Algorithm::Shaper { queue } => format!("{n}/{} queue {queue}", length_name(limit.period())),
        Algorithm::FixedWindow(Window::Calendar { unit, zone }) if zone.name() == "UTC" => {
            format!("{n}/{}", unit_name(*unit))
        }
        Algorithm::FixedWindow(Window::Calendar { unit, zone }) => {
            format!("{n}/{} in {}", unit_name(*unit), zone.name())
        }
        // The unit's word would mean the calendar's window here.
        Algorithm::FixedWindow(Window::Epoch) => format!("{n}/{}", limit.period()),
        Algorithm::TokenBucket { .. }
        | Algorithm::LeakyBucket { .. }
        | Algorithm::SlidingLog
        | Algorithm::SlidingCounter => format!("{n}/{}", length_name(limit.period())),
    }
}

fn length_name(length: Nanos) -> Cow<'static, str> {
    use CalendarUnit::{Day, Hour, Minute, Month, Week, Year};
    if length == Period::Second.length() {
        return "s".into();
    }
    match [Minute, Hour, Day, Week, Month, Year].into_iter().find(|unit| unit.nominal() == length) {
        Some(unit) => unit_name(unit).into(),
        None => length.to_string().into(),
    }
}

const fn unit_name(unit: CalendarUnit) -> &'static str {
    match unit {
        CalendarUnit::Minute => "min",
        CalendarUnit::Hour => "hour",
        CalendarUnit::Day => "day",
        CalendarUnit::Week => "week",
        CalendarUnit::Month => "month",
        CalendarUnit::Year => "year",
    }
}

#[cfg(test)]
mod tests;
