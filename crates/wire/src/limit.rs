//! A limit's numbers between `leasehold.v1.Limit` and [`Limit`].

use leasehold_limit::{Algorithm, CalendarUnit, Limit, LimitError, Window, Zone};
use leasehold_model::Nanos;

use crate::duration::{self, DurationError};
use crate::proto::leasehold::v1;

/// Why a message is no limit. Names the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitProtoError {
    /// No algorithm, or one that this version doesn't know.
    #[error("algorithm: {0} is none; use ALGORITHM_TOKEN_BUCKET (1) to ALGORITHM_SLIDING_COUNTER (6)")]
    Algorithm(i32),
    /// A calendar without a unit that this version knows.
    #[error("calendar.unit: {0} is none; use CALENDAR_UNIT_MINUTE (1) to CALENDAR_UNIT_YEAR (6)")]
    CalendarUnit(i32),
    /// The period is absent.
    #[error("period: it is absent; send the length that n counts over, for example 60s")]
    NoPeriod,
    /// The period is no length.
    #[error("period: {0}")]
    Period(#[from] DurationError),
    /// The numbers don't make a limit.
    #[error("{0}")]
    Limit(#[from] LimitError),
}

impl From<&Limit> for v1::Limit {
    fn from(limit: &Limit) -> Self {
        let mut proto = Self {
            n: limit.n(),
            period: Some(duration::to_proto(limit.period())),
            algorithm: algorithm_to_proto(limit.algorithm()).into(),
            ..Self::default()
        };
        match limit.algorithm() {
            Algorithm::TokenBucket { burst } | Algorithm::LeakyBucket { burst } => proto.burst = *burst,
            Algorithm::Shaper { queue } => proto.queue = *queue,
            Algorithm::FixedWindow(Window::Calendar { unit, zone }) => {
                let (unit, zone) = (calendar_unit_to_proto(*unit).into(), zone.name().to_owned());
                proto.calendar = Some(v1::Calendar { unit, zone });
            }
            Algorithm::FixedWindow(Window::Epoch) | Algorithm::SlidingLog | Algorithm::SlidingCounter => {}
        }
        proto
    }
}

impl TryFrom<&v1::Limit> for Limit {
    type Error = LimitProtoError;

    fn try_from(proto: &v1::Limit) -> Result<Self, LimitProtoError> {
        let algorithm = match proto.algorithm() {
            v1::Algorithm::Unspecified => return Err(LimitProtoError::Algorithm(proto.algorithm)),
            v1::Algorithm::TokenBucket => Algorithm::TokenBucket { burst: proto.burst },
            v1::Algorithm::LeakyBucket => Algorithm::LeakyBucket { burst: proto.burst },
            v1::Algorithm::Shaper => Algorithm::Shaper { queue: proto.queue },
            v1::Algorithm::FixedWindow => Algorithm::FixedWindow(window_from_proto(proto.calendar.as_ref())?),
            v1::Algorithm::SlidingLog => Algorithm::SlidingLog,
            v1::Algorithm::SlidingCounter => Algorithm::SlidingCounter,
        };
        // A calendar window takes its nominal length from its unit.
        let period = match (&algorithm, proto.period) {
            (_, Some(period)) => duration::from_proto(period)?,
            (Algorithm::FixedWindow(Window::Calendar { .. }), None) => Nanos::ZERO,
            (_, None) => return Err(LimitProtoError::NoPeriod),
        };
        Ok(Self::new(algorithm, proto.n, period)?)
    }
}

fn window_from_proto(calendar: Option<&v1::Calendar>) -> Result<Window, LimitProtoError> {
    let Some(calendar) = calendar else {
        return Ok(Window::Epoch);
    };
    let unit = match calendar.unit() {
        v1::CalendarUnit::Unspecified => return Err(LimitProtoError::CalendarUnit(calendar.unit)),
        v1::CalendarUnit::Minute => CalendarUnit::Minute,
        v1::CalendarUnit::Hour => CalendarUnit::Hour,
        v1::CalendarUnit::Day => CalendarUnit::Day,
        v1::CalendarUnit::Week => CalendarUnit::Week,
        v1::CalendarUnit::Month => CalendarUnit::Month,
        v1::CalendarUnit::Year => CalendarUnit::Year,
    };
    Ok(Window::Calendar { unit, zone: Zone::new(&calendar.zone)? })
}

fn algorithm_to_proto(algorithm: &Algorithm) -> v1::Algorithm {
    match algorithm {
        Algorithm::TokenBucket { .. } => v1::Algorithm::TokenBucket,
        Algorithm::LeakyBucket { .. } => v1::Algorithm::LeakyBucket,
        Algorithm::Shaper { .. } => v1::Algorithm::Shaper,
        Algorithm::FixedWindow(_) => v1::Algorithm::FixedWindow,
        Algorithm::SlidingLog => v1::Algorithm::SlidingLog,
        Algorithm::SlidingCounter => v1::Algorithm::SlidingCounter,
    }
}

fn calendar_unit_to_proto(unit: CalendarUnit) -> v1::CalendarUnit {
    match unit {
        CalendarUnit::Minute => v1::CalendarUnit::Minute,
        CalendarUnit::Hour => v1::CalendarUnit::Hour,
        CalendarUnit::Day => v1::CalendarUnit::Day,
        CalendarUnit::Week => v1::CalendarUnit::Week,
        CalendarUnit::Month => v1::CalendarUnit::Month,
        CalendarUnit::Year => v1::CalendarUnit::Year,
    }
}

#[cfg(test)]
mod tests;
