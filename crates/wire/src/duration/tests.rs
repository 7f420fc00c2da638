//! Lengths of time there and back, and durations that are none.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn every_length_survives_the_way_there_and_back(length: u64) {
        prop_assert_eq!(from_proto(to_proto(Nanos(length))), Ok(Nanos(length)));
    }

    #[test]
    fn no_duration_panics(seconds: i64, nanos: i32) {
        let _ = from_proto(Duration { seconds, nanos });
    }
}

#[test]
fn negative_malformed_and_endless_durations_are_refused() {
    for (seconds, nanos, error) in [
        (-1, 0, DurationError::Negative),
        (0, -1, DurationError::Negative),
        (0, 1_000_000_000, DurationError::Nanos),
        (i64::MAX, 0, DurationError::TooLong),
        (18_446_744_073, 709_551_616, DurationError::TooLong),
    ] {
        assert_eq!(from_proto(Duration { seconds, nanos }), Err(error));
    }
}

#[test]
fn whole_seconds_are_rounded_up_and_exact_ones_stay() {
    assert_eq!(to_proto_secs(Nanos(1)), Duration { seconds: 1, nanos: 0 });
    assert_eq!(to_proto_secs(Nanos::from_secs(2)), Duration { seconds: 2, nanos: 0 });
}
