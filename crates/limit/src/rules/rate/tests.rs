//! Rates in rule files.

use super::*;
use crate::Zone;

fn check(text: &str, n: u64, nanos: u64) {
    let rate = parse(text).expect(text);
    assert_eq!((rate.n, rate.per.length()), (n, Nanos(nanos)), "{text}");
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn every_unit_word_has_its_length() {
    for (words, seconds) in [
        (&["s", "sec", "second"][..], 1),
        (&["min", "minute"], 60),
        (&["h", "hour"], 3_600),
        (&["d", "day"], 86_400),
        (&["w", "week"], 604_800),
        (&["month"], 30 * 86_400),
        (&["year"], 365 * 86_400),
    ] {
        for word in words {
            check(&format!("7/{word}"), 7, seconds * SECOND);
        }
    }
}

#[test]
fn durations_add_up() {
    check("1/90s", 1, 90 * SECOND);
    check("1/1h30m", 1, 5_400 * SECOND);
    check("1/1m", 1, 60 * SECOND);
    check("1/1w2d3h4min5sec6ms7us8ns", 1, 788_645 * SECOND + 6_007_008);
    check("1/1ns", 1, 1);
    check("1/18446744073709551615ns", 1, u64::MAX);
}

#[test]
fn numbers_reach_the_end_of_64_bits() {
    check("18446744073709551615/s", u64::MAX, SECOND);
    check("0/s", 0, SECOND);
}

#[test]
fn blanks_around_the_slash_change_nothing() {
    check("5 / min", 5, 60 * SECOND);
}

#[test]
fn what_is_no_rate_is_refused() {
    for text in [
        "",
        "/",
        "5",
        "5/",
        "/s",
        "5/s/s",
        "+5/s",
        "5_000/s",
        "5e3/s",
        "0x5/s",
        "5/1",
        "5/1s1s",
        "5/1s1m",
        "5/1s ago",
        "5/-1s",
        "5/1.5s",
        "5/18446744073709551616ns",
        "5/30501w",
        "5/0s",
        "5/0h0m",
        "5/S",
        "5/Minute",
        "٥/s",
        "5/٥s",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn limits_are_described_as_rules_spell_them() {
    let minute = Nanos::from_secs(60);
    let limit = |algorithm, n, period| describe(&Limit::new(algorithm, n, period).expect("a limit"));
    assert_eq!(limit(Algorithm::TokenBucket { burst: 5 }, 5, minute), "5/min");
    assert_eq!(
        limit(Algorithm::TokenBucket { burst: 200 }, 6000, Nanos::from_secs(3600)),
        "6000/hour burst 200"
    );
    assert_eq!(limit(Algorithm::LeakyBucket { burst: 9 }, 5, Nanos::from_millis(1500)), "5/1500ms burst 9");
    assert_eq!(limit(Algorithm::Shaper { queue: 20 }, 10, Nanos::from_secs(1)), "10/s queue 20");
    assert_eq!(limit(Algorithm::SlidingLog, 5, Nanos::from_secs(86_400 * 30)), "5/month");
    assert_eq!(limit(Algorithm::FixedWindow(Window::Epoch), 5, minute), "5/1min");
    let calendar = |zone| Window::Calendar { unit: CalendarUnit::Day, zone };
    assert_eq!(limit(Algorithm::FixedWindow(calendar(Zone::utc())), 5, minute), "5/day");
    let berlin = Zone::new("Europe/Berlin").expect("a zone");
    assert_eq!(limit(Algorithm::FixedWindow(calendar(berlin)), 5, minute), "5/day in Europe/Berlin");
}

#[test]
fn what_is_described_reads_as_the_same_rate() {
    for nanos in
        [1, 999, 1_000, 1_500_000, SECOND, 60 * SECOND, 90 * SECOND, 86_400 * SECOND, 604_800 * SECOND, 7]
    {
        for algorithm in [Algorithm::SlidingCounter, Algorithm::FixedWindow(Window::Epoch)] {
            let limit = Limit::new(algorithm, 12, Nanos(nanos)).expect("a limit");
            check(&describe(&limit), 12, nanos);
            if matches!(limit.algorithm(), Algorithm::FixedWindow(_)) {
                let rate = parse(&describe(&limit)).expect("a rate");
                assert!(
                    matches!(rate.per, Period::Length(_)),
                    "a length stays a length: {}",
                    describe(&limit)
                );
            }
        }
    }
}
