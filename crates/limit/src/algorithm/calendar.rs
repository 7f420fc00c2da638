//! Where calendar windows begin and end in a time zone.
//!
//! Invariant: windows cover the time line without gap or overlap, and every one is found from any stamp in it. Minutes
//! and hours follow the offset in force, so a repeated hour is two windows; days and longer begin at the first midnight
//! of their date, even where clocks later step back over it. What it isn't: a calendar; dates are jiff's business.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use leasehold_model::{Nanos, Stamp};

use super::window::Bounds;
use crate::CalendarUnit;

#[cfg(test)]
mod tests;

const NANOS: u64 = 1_000_000_000;

/// The calendar window that `at` lies in.
pub(super) fn bounds(unit: CalendarUnit, zone: &TimeZone, at: Stamp) -> Bounds {
    let second = i64::try_from(at.0 / NANOS).expect("2^64 ns are fewer than 2^63 s");
    let (start, end) = match unit {
        CalendarUnit::Minute => clock_window(zone, second, 60),
        CalendarUnit::Hour => clock_window(zone, second, 3_600),
        CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month | CalendarUnit::Year => {
            date_window(unit, zone, second)
        }
    };
    // A window that began before the epoch is cut there: no stamp lies in the part that is lost.
    let start = u64::try_from(start).unwrap_or(0) * NANOS;
    let whole = u64::try_from(end - second).expect("a window ends after every second in it");
    Bounds { start: Stamp(start), left: Nanos(whole * NANOS - at.0 % NANOS) }
}

/// Seconds at which the minute or hour of `second` begins and ends by the zone's own clock.
fn clock_window(zone: &TimeZone, second: i64, size: i64) -> (i64, i64) {
    let offset = offset_at(zone, second);
    let start = (second + offset).div_euclid(size) * size - offset;
    let end = start + size;
    // A step of the clock by less than a whole window (Pyongyang 2018) ends one early and begins another late.
    let in_step = |other: i64| (offset_at(zone, other) - offset).rem_euclid(size) == 0;
    let start = if in_step(start) { start } else { last_step(zone, second).unwrap_or(start).max(start) };
    let end = if in_step(end - 1) { end } else { next_step(zone, second).unwrap_or(end).min(end) };
    (start, end)
}

/// Seconds at which the day, week, month or year of `second` begins and ends.
fn date_window(unit: CalendarUnit, zone: &TimeZone, second: i64) -> (i64, i64) {
    let local = zone.to_offset(timestamp(second)).to_datetime(timestamp(second)).date();
    let first = first_date(unit, local);
    let after = next_date(unit, first);
    let (start, end) = (midnight(zone, first), midnight(zone, after));
    // Where a step of the clock crosses midnight the date runs ahead of, or back behind, the boundary that counts.
    if second >= end {
        (end, midnight(zone, next_date(unit, after)))
    } else if second < start {
        (midnight(zone, first_date(unit, first.saturating_sub(1.day()))), start)
    } else {
        (start, end)
    }
}

fn first_date(unit: CalendarUnit, date: Date) -> Date {
    match unit {
        CalendarUnit::Minute | CalendarUnit::Hour | CalendarUnit::Day => date,
        CalendarUnit::Week => date.saturating_sub(i64::from(date.weekday().to_monday_zero_offset()).days()),
        CalendarUnit::Month => date.first_of_month(),
        CalendarUnit::Year => date.first_of_year(),
    }
}

fn next_date(unit: CalendarUnit, first: Date) -> Date {
    first.saturating_add(match unit {
        CalendarUnit::Minute | CalendarUnit::Hour | CalendarUnit::Day => 1.day(),
        CalendarUnit::Week => 7.days(),
        CalendarUnit::Month => 1.month(),
        CalendarUnit::Year => 1.year(),
    })
}

/// The second at which a date begins: its first midnight, or where clocks skip that, the step.
fn midnight(zone: &TimeZone, date: Date) -> i64 {
    zone.to_timestamp(date.at(0, 0, 0, 0))
        .expect("dates until 2556 are far inside what jiff can tell")
        .as_second()
}

fn offset_at(zone: &TimeZone, second: i64) -> i64 {
    i64::from(zone.to_offset(timestamp(second)).seconds())
}

/// The latest change of offset that `second` has seen.
fn last_step(zone: &TimeZone, second: i64) -> Option<i64> {
    zone.preceding(timestamp(second + 1)).next().map(|step| step.timestamp().as_second())
}

/// The first change of offset after `second`.
fn next_step(zone: &TimeZone, second: i64) -> Option<i64> {
    zone.following(timestamp(second)).next().map(|step| step.timestamp().as_second())
}

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("stamps end in 2554, jiff's range in 9999")
}
