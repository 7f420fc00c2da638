//! Lengths of time as Envoy's units: a month is 30 days and a year 365.

use leasehold_model::Nanos;

use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use crate::proto::envoy::r#type::v3::RateLimitUnit;

/// A period as so many units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitCount {
    /// [`Unit::Unknown`] when the period is no whole number of any unit.
    pub unit: Unit,
    /// How many; 1 for an unknown unit.
    pub count: u32,
}

const LONGEST_FIRST: [(Unit, Nanos); 7] = [
    (Unit::Year, Nanos::from_secs(31_536_000)),
    (Unit::Month, Nanos::from_secs(2_592_000)),
    (Unit::Week, Nanos::from_secs(604_800)),
    (Unit::Day, Nanos::from_secs(86_400)),
    (Unit::Hour, Nanos::from_secs(3_600)),
    (Unit::Minute, Nanos::from_secs(60)),
    (Unit::Second, Nanos::from_secs(1)),
];

/// The largest unit that divides `period`, and how often it does: 90 s is 90 × SECOND, 2 h is 2 × HOUR.
///
/// A period below one second, with a fraction of one, or of more than 2³² − 1 of its unit is [`Unit::Unknown`]: the
/// number is still true, its period can't be said.
#[must_use]
pub fn unit_of(period: Nanos) -> UnitCount {
    let fitting = LONGEST_FIRST.iter().find(|(_, length)| period.0 > 0 && period.0.is_multiple_of(length.0));
    let counted = fitting.and_then(|(unit, length)| Some((*unit, u32::try_from(period.0 / length.0).ok()?)));
    counted.map_or(UnitCount { unit: Unit::Unknown, count: 1 }, |(unit, count)| UnitCount { unit, count })
}

/// The length of an override's unit; `None` for UNKNOWN and for numbers that are no unit.
pub(super) fn override_length(unit: i32) -> Option<Nanos> {
    let secs = match RateLimitUnit::try_from(unit).ok()? {
        RateLimitUnit::Unknown => return None,
        RateLimitUnit::Second => 1,
        RateLimitUnit::Minute => 60,
        RateLimitUnit::Hour => 3_600,
        RateLimitUnit::Day => 86_400,
        RateLimitUnit::Month => 2_592_000,
        RateLimitUnit::Year => 31_536_000,
    };
    Some(Nanos::from_secs(secs))
}
