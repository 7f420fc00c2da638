//! Lengths of time between `google.protobuf.Duration` and [`Nanos`].

use leasehold_model::Nanos;
/// The message, under a name that doesn't need its crate.
pub use prost_types::Duration;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Why a duration is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Seconds or nanoseconds below zero.
    #[error("the duration is negative; send 0s or more")]
    Negative,
    /// A second or more in the part below one second.
    #[error("nanos is beyond 999999999; carry whole seconds over to seconds")]
    Nanos,
    /// Past the end of the time line.
    #[error("the duration is longer than 584 years; send less")]
    TooLong,
}

/// The exact length.
#[must_use]
pub fn to_proto(length: Nanos) -> Duration {
    let seconds = i64::try_from(length.0 / NANOS_PER_SEC).expect("2^64 / 10^9 fits 63 bits");
    let nanos = i32::try_from(length.0 % NANOS_PER_SEC).expect("a rest below 10^9 fits 31 bits");
    Duration { seconds, nanos }
}

/// The length in whole seconds, rounded up: for receivers that look at the seconds only.
#[must_use]
pub fn to_proto_secs(length: Nanos) -> Duration {
    let seconds = i64::try_from(length.secs_ceil()).expect("2^64 / 10^9 fits 63 bits");
    Duration { seconds, nanos: 0 }
}

/// The exact length, checked.
///
/// # Errors
/// [`DurationError`] when it is negative, malformed or too long.
pub fn from_proto(duration: Duration) -> Result<Nanos, DurationError> {
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(duration.seconds), u64::try_from(duration.nanos)) else {
        return Err(DurationError::Negative);
    };
    if nanos >= NANOS_PER_SEC {
        return Err(DurationError::Nanos);
    }
    let whole = seconds.checked_mul(NANOS_PER_SEC).ok_or(DurationError::TooLong)?;
    whole.checked_add(nanos).map(Nanos).ok_or(DurationError::TooLong)
}

#[cfg(test)]
mod tests;
