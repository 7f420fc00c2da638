//! Limits there and back, and messages that are none.

use proptest::prelude::*;

use super::*;

fn check_round_trip(algorithm: Algorithm, n: u64, period: Nanos) {
    let limit = Limit::new(algorithm, n, period).unwrap();
    assert_eq!(Limit::try_from(&v1::Limit::from(&limit)), Ok(limit));
}

fn check_refused(proto: v1::Limit, expected: &str) {
    let error = Limit::try_from(&proto).expect_err("it should be refused").to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

#[test]
fn every_kind_of_limit_survives_the_way_there_and_back() {
    let minute = Nanos::from_secs(60);
    check_round_trip(Algorithm::TokenBucket { burst: 7 }, 5, minute);
    check_round_trip(Algorithm::LeakyBucket { burst: 7 }, 5, Nanos(1));
    check_round_trip(Algorithm::Shaper { queue: 3 }, 5, minute);
    check_round_trip(Algorithm::FixedWindow(Window::Epoch), 0, Nanos::MAX);
    check_round_trip(Algorithm::SlidingLog, u64::MAX, minute);
    check_round_trip(Algorithm::SlidingCounter, 5, minute);
    for unit in [CalendarUnit::Minute, CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week] {
        let zone = Zone::new("Europe/Berlin").unwrap();
        check_round_trip(Algorithm::FixedWindow(Window::Calendar { unit, zone }), 5, unit.nominal());
    }
    for unit in [CalendarUnit::Month, CalendarUnit::Year] {
        check_round_trip(
            Algorithm::FixedWindow(Window::Calendar { unit, zone: Zone::utc() }),
            5,
            unit.nominal(),
        );
    }
}

#[test]
fn what_is_no_limit_is_refused_with_its_field() {
    let minute = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let window = v1::Limit { algorithm: 4, n: 5, period: minute, ..v1::Limit::default() };
    check_refused(v1::Limit::default(), "algorithm: 0 is none");
    check_refused(v1::Limit { algorithm: 99, ..window.clone() }, "algorithm: 99 is none");
    check_refused(v1::Limit { period: None, ..window.clone() }, "period: it is absent");
    check_refused(v1::Limit { algorithm: 1, ..window.clone() }, "burst is 0");
    let calendar = Some(v1::Calendar { unit: 3, zone: "Mars/Base".to_owned() });
    check_refused(v1::Limit { calendar, ..window.clone() }, "unknown time zone");
    let calendar = Some(v1::Calendar { unit: 0, zone: "UTC".to_owned() });
    check_refused(v1::Limit { calendar, ..window }, "calendar.unit: 0 is none");
}

proptest! {
    #[test]
    fn no_numbers_panic(
        algorithm in -1..9, n: u64, seconds: i64, nanos: i32, burst: u64, queue: u64, unit in -1..9, zone in ".{0,9}",
    ) {
        let period = Some(prost_types::Duration { seconds, nanos });
        let calendar = (unit > 0).then_some(v1::Calendar { unit, zone });
        let proto = v1::Limit { algorithm, n, period, burst, queue, calendar };
        if let Ok(limit) = Limit::try_from(&proto) {
            prop_assert_eq!(Limit::try_from(&v1::Limit::from(&limit)), Ok(limit));
        }
    }
}
