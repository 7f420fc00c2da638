//! What counts in windows: every charge ever made is kept, and each question sums up those that concern it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use leasehold_limit::{CalendarUnit, Limit, Window};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use super::{Oracle, Time, whole};

/// Every charge, in order.
#[derive(Default)]
struct History(Vec<(Time, u64)>);

impl History {
    fn sum(&self, counts: impl Fn(Time) -> bool) -> u128 {
        self.0.iter().filter(|&&(at, _)| counts(at)).map(|&(_, cost)| u128::from(cost)).sum()
    }

    fn forget(&mut self, charged_at: Time, mut cost: u64) {
        for (_, units) in self.0.iter_mut().filter(|(at, _)| *at == charged_at) {
            let less = cost.min(*units);
            (*units, cost) = (*units - less, cost - less);
        }
    }
}

/// Fixed window: charges count together when their windows have the same name.
pub(super) struct Windows {
    n: u64,
    period: u64,
    window: Window,
    history: History,
}

/// What tells one window from the next.
#[derive(PartialEq)]
enum Name {
    Number(Time),
    /// Numbers of the local date, from the year down, as far as they matter; and the offset for clock windows.
    Local([i64; 6]),
}

impl Windows {
    pub(super) fn new(limit: &Limit, window: Window) -> Self {
        Self { n: limit.n(), period: limit.period().0, window, history: History::default() }
    }

    fn name(&self, at: Time) -> Name {
        match &self.window {
            Window::Epoch => Name::Number(at / u128::from(self.period)),
            Window::Calendar { unit, zone } => {
                let zone = TimeZone::get(zone.name()).expect("the zone of the limit");
                Name::Local(local(*unit, &zone, at))
            }
        }
    }

    fn used(&self, at: Time) -> u128 {
        let now = self.name(at);
        self.history.sum(|charged_at| self.name(charged_at) == now)
    }
}

fn local(unit: CalendarUnit, zone: &TimeZone, at: Time) -> [i64; 6] {
    let second =
        i64::try_from(at / 1_000_000_000).unwrap_or(i64::MAX).min(Timestamp::MAX.as_second() - 100_000);
    let offset = zone.to_offset(Timestamp::from_second(second).expect("cut to what jiff can tell"));
    let civil = offset.to_datetime(Timestamp::from_second(second).expect("cut to what jiff can tell"));
    let (year, month, day) = (i64::from(civil.year()), i64::from(civil.month()), i64::from(civil.day()));
    let (hour, minute, offset) =
        (i64::from(civil.hour()), i64::from(civil.minute()), i64::from(offset.seconds()));
    match unit {
        CalendarUnit::Minute => [year, month, day, hour, minute, offset],
        CalendarUnit::Hour => [year, month, day, hour, 0, offset],
        CalendarUnit::Day => [year, month, day, 0, 0, 0],
        CalendarUnit::Week => {
            let week = civil.date().iso_week_date();
            [i64::from(week.year()), i64::from(week.week()), 0, 0, 0, 0]
        }
        CalendarUnit::Month => [year, month, 0, 0, 0, 0],
        CalendarUnit::Year => [year, 0, 0, 0, 0, 0],
    }
}

impl Oracle for Windows {
    fn fits(&self, at: Time, cost: u64) -> bool {
        self.used(at) + u128::from(cost) <= u128::from(self.n)
    }

    fn take(&mut self, at: Time, cost: u64) {
        self.history.0.push((at, cost));
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.used(at) == 0
    }

    fn change(&mut self, _at: Time, limit: &Limit) {
        self.n = limit.n();
    }

    fn forget(&mut self, charged_at: Time, cost: u64) {
        self.history.forget(charged_at, cost);
    }
}

/// Sliding log: charges newer than one period count.
pub(super) struct Log {
    n: u64,
    period: u64,
    history: History,
}

impl Log {
    pub(super) fn new(limit: &Limit) -> Self {
        Self { n: limit.n(), period: limit.period().0, history: History::default() }
    }

    fn used(&self, at: Time) -> u128 {
        self.history.sum(|charged_at| charged_at + u128::from(self.period) > at)
    }
}

impl Oracle for Log {
    fn fits(&self, at: Time, cost: u64) -> bool {
        self.used(at) + u128::from(cost) <= u128::from(self.n)
    }

    fn take(&mut self, at: Time, cost: u64) {
        self.history.0.push((at, cost));
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.used(at) == 0
    }

    fn change(&mut self, _at: Time, limit: &Limit) {
        self.n = limit.n();
    }

    fn forget(&mut self, charged_at: Time, cost: u64) {
        self.history.forget(charged_at, cost);
    }
}

/// Sliding counter: the estimate as a rational, from the charges of two windows.
pub(super) struct Estimate {
    n: u64,
    period: u64,
    history: History,
}

impl Estimate {
    pub(super) fn new(limit: &Limit) -> Self {
        Self { n: limit.n(), period: limit.period().0, history: History::default() }
    }

    fn estimate(&self, at: Time) -> BigRational {
        let period = Time::from(self.period);
        let now = at / period;
        let current = self.history.sum(|charged_at| charged_at / period == now);
        let previous = self.history.sum(|charged_at| charged_at / period + 1 == now);
        let elapsed = BigRational::new(BigInt::from(at % period), BigInt::from(period));
        whole(previous) * (whole(1) - elapsed) + whole(current)
    }
}

impl Oracle for Estimate {
    fn fits(&self, at: Time, cost: u64) -> bool {
        self.estimate(at).floor() + whole(cost) <= whole(self.n)
    }

    fn take(&mut self, at: Time, cost: u64) {
        self.history.0.push((at, cost));
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.estimate(at).is_zero()
    }

    fn change(&mut self, _at: Time, limit: &Limit) {
        self.n = limit.n();
    }

    fn forget(&mut self, charged_at: Time, cost: u64) {
        self.history.forget(charged_at, cost);
    }
}
