//! What one counter rose by for each thousand that another did, of late: for people, who can't divide two rates in their head.

use std::collections::VecDeque;

use leasehold_model::{BootTime, Nanos};
use parking_lot::Mutex;

/// What is looked at: as much, or the time since the last reading before that.
const WINDOW: Nanos = Nanos::from_secs(60);
/// Readings nearer to each other than this are one.
const APART: Nanos = Nanos::from_secs(1);

/// See the module. It only knows what the counters were when somebody read them.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<Reading>>);

/// Both counters at a moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: BootTime,
    part: u64,
    whole: u64,
}

impl Recent {
    /// Notes both counters, and tells how many of `part` there were for each thousand of `whole` in the last minute or since
    /// the reading before it; 0 where there was nothing, or a counter fell.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn per_thousand(&self, now: BootTime, part: u64, whole: u64) -> f64 {
        let mut readings = self.0.lock();
        // A counter that fell is another one: what it was before says nothing.
        if readings.back().is_some_and(|last| last.part > part || last.whole > whole) {
            readings.clear();
        }
        while readings.get(1).is_some_and(|second| now.since(second.at) >= WINDOW) {
            readings.pop_front();
        }
        let first = readings.front().copied();
        if readings.back().is_none_or(|last| now.since(last.at) >= APART) {
            readings.push_back(Reading { at: now, part, whole });
        }
        let Reading { part: part_then, whole: whole_then, .. } =
            first.unwrap_or(Reading { at: now, part: 0, whole: 0 });
        match whole - whole_then {
            0 => 0.0,
            whole => (part - part_then) as f64 * 1_000.0 / whole as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> BootTime {
        BootTime(second * 1_000_000_000)
    }

    #[track_caller]
    fn check(recent: &Recent, second: u64, part: u64, whole: u64, expected: f64) {
        let told = recent.per_thousand(at(second), part, whole);
        assert!((told - expected).abs() < 1e-9, "{told}");
    }

    #[test]
    fn it_is_of_the_last_minute() {
        let recent = Recent::default();
        check(&recent, 0, 500, 1_000, 500.0);
        check(&recent, 30, 510, 2_000, 10.0);
        check(&recent, 60, 520, 3_000, 10.0);
        // The first reading within a minute, or the last before it.
        check(&recent, 95, 520, 4_000, 5.0);
    }

    #[test]
    fn where_nothing_happened_or_a_counter_fell_there_is_nothing_to_tell() {
        let recent = Recent::default();
        check(&recent, 0, 0, 0, 0.0);
        check(&recent, 1, 5, 10, 500.0);
        check(&recent, 2, 1, 4, 250.0);
    }

    #[test]
    fn who_reads_all_the_time_fills_no_memory() {
        let recent = Recent::default();
        for tick in 0..10_000 {
            let _ = recent.per_thousand(BootTime(tick * 50_000_000), tick, tick);
        }
        assert!(recent.0.lock().len() <= 62, "{}", recent.0.lock().len());
    }
}
