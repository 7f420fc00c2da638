//! Windows around the days on which clocks are set. Times are UTC seconds, checked against the tz database by hand.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use leasehold_model::{Nanos, Stamp};

use super::bounds;
use crate::CalendarUnit::{self, Day, Hour, Minute, Month, Week, Year};

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn stamp(utc: &str) -> Stamp {
    let civil: DateTime = utc.parse().unwrap();
    let second = TimeZone::UTC.to_timestamp(civil).unwrap().as_second();
    Stamp(u64::try_from(second).unwrap() * 1_000_000_000)
}

/// The window of `at` reaches from `start` to `end`, and its first and last stamp say so too.
#[track_caller]
fn check(unit: CalendarUnit, name: &str, at: &str, start: &str, end: &str) {
    let (start, end) = (stamp(start), stamp(end));
    for at in [stamp(at), start, Stamp(end.0 - 1)] {
        let window = bounds(unit, &zone(name), at);
        assert_eq!((window.start, at.after(window.left)), (start, end), "{unit:?} of {at} in {name}");
    }
}

#[test]
fn days_on_which_clocks_are_set_have_23_and_25_hours() {
    check(Day, "America/New_York", "2026-03-08T12:00", "2026-03-08T05:00", "2026-03-09T04:00");
    check(Day, "America/New_York", "2026-11-01T12:00", "2026-11-01T04:00", "2026-11-02T05:00");
}

#[test]
fn weeks_begin_on_monday_and_cross_the_turn_of_the_year() {
    check(Week, "UTC", "2027-01-01T00:00", "2026-12-28T00:00", "2027-01-04T00:00");
    check(Week, "Europe/Berlin", "2026-03-29T12:00", "2026-03-22T23:00", "2026-03-29T22:00");
}

#[test]
fn months_and_years_have_their_own_lengths() {
    check(Month, "UTC", "2028-02-29T23:59:59", "2028-02-01T00:00", "2028-03-01T00:00");
    check(Month, "Asia/Kathmandu", "2026-01-31T18:15", "2026-01-31T18:15", "2026-02-28T18:15");
    check(Year, "UTC", "2100-06-01T00:00", "2100-01-01T00:00", "2101-01-01T00:00");
}

#[test]
fn a_repeated_hour_is_two_windows() {
    check(Hour, "America/New_York", "2026-11-01T05:30", "2026-11-01T05:00", "2026-11-01T06:00");
    check(Hour, "America/New_York", "2026-11-01T06:30", "2026-11-01T06:00", "2026-11-01T07:00");
}

#[test]
fn an_hour_ends_where_the_clock_is_set_by_half_of_it() {
    check(Hour, "Asia/Pyongyang", "2018-05-04T14:45", "2018-05-04T14:30", "2018-05-04T15:00");
    check(Hour, "Asia/Pyongyang", "2018-05-04T15:00", "2018-05-04T15:00", "2018-05-04T16:00");
    check(Hour, "Australia/Lord_Howe", "2026-04-04T14:50", "2026-04-04T14:00", "2026-04-04T15:00");
    check(Hour, "Australia/Lord_Howe", "2026-04-04T15:10", "2026-04-04T15:00", "2026-04-04T15:30");
}

#[test]
fn a_day_begins_at_its_first_midnight_even_when_clocks_step_back_over_it() {
    // St John's set its clocks from 00:01 back to 23:01: Sunday began, was Saturday again, and goes on.
    check(Day, "America/St_Johns", "2010-11-07T02:31", "2010-11-07T02:30", "2010-11-08T03:30");
    check(Day, "America/St_Johns", "2010-11-07T03:00", "2010-11-07T02:30", "2010-11-08T03:30");
}

#[test]
fn a_day_that_a_zone_left_out_is_no_window() {
    check(Day, "Pacific/Apia", "2011-12-30T09:59:59", "2011-12-29T10:00", "2011-12-30T10:00");
    check(Day, "Pacific/Apia", "2011-12-30T10:00", "2011-12-30T10:00", "2011-12-31T10:00");
}

#[test]
fn a_day_whose_midnight_is_skipped_begins_at_the_step() {
    check(Day, "America/Havana", "2026-03-08T12:00", "2026-03-08T05:00", "2026-03-09T04:00");
}

#[test]
fn windows_of_every_zone_join_without_gap_from_the_first_stamp_to_the_last() {
    let moments = [Stamp(0), Stamp(1), stamp("1986-01-01T12:00"), stamp("2026-11-01T05:59"), Stamp(u64::MAX)];
    for name in TimeZoneDatabase::bundled().available() {
        let zone = zone(name.as_str());
        for unit in [Minute, Hour, Day, Week, Month, Year] {
            for at in moments {
                let window = bounds(unit, &zone, at);
                assert!(window.start <= at && window.left > Nanos::ZERO, "{unit:?} of {at} in {name}");
                let first = bounds(unit, &zone, window.start);
                assert_eq!(first.start, window.start, "{unit:?} of {at} in {name}");
                assert_eq!(first.left.0, window.left.0.saturating_add(at.0 - window.start.0));
                let Some(end) = at.0.checked_add(window.left.0) else { continue };
                assert_eq!(bounds(unit, &zone, Stamp(end)).start, Stamp(end), "{unit:?} of {at} in {name}");
            }
        }
    }
}
