//! The time axis: which stamps it spans, where each is drawn, and where its ticks are.

use leasehold_plot::nice_step;

use super::super::answer::Step;

/// Most ticks on the axis; more would run into each other.
const TICKS_MAX: u64 = 10;
/// Most lines at window boundaries; more would hide the bars, so then none is drawn.
const BOUNDARIES_MAX: u64 = 40;
/// Stamps from here on are dates rather than seconds from zero: the axis then counts from the first event.
const DATES_FROM_NANOS: u64 = 10_000_000 * SECOND;
const SECOND: u64 = 1_000_000_000;

/// Time from left to right.
pub(super) struct Axis {
    start: u64,
    end: u64,
    origin: u64,
    left: f64,
    right: f64,
}

impl Axis {
    /// Spans all steps with a margin on both sides, between two coordinates.
    pub(super) fn over<'a>(steps: impl Iterator<Item = &'a Step>, left: f64, right: f64) -> Self {
        let (mut first, mut last) = (u64::MAX, 0);
        for step in steps {
            first = first.min(step.at.0);
            last = last.max(step.at.0);
        }
        let first = first.min(last);
        let margin = ((last - first) / 14).max(if first == last { SECOND } else { 1 });
        let origin = if first >= DATES_FROM_NANOS { first } else { 0 };
        Self { start: first.saturating_sub(margin), end: last.saturating_add(margin), origin, left, right }
    }

    /// Where a stamp is drawn.
    pub(super) fn x(&self, at: u64) -> f64 {
        let share = nanos(at.saturating_sub(self.start)) / nanos(self.end - self.start);
        self.left + share * (self.right - self.left)
    }

    /// Where multiples of `period` within the axis are drawn; none when there are too many.
    pub(super) fn multiples_of(&self, period: u64) -> Vec<f64> {
        let Some(first) = self.start.checked_div(period) else { return Vec::new() };
        let last = self.end / period;
        if last - first > BOUNDARIES_MAX {
            return Vec::new();
        }
        (first + 1..=last).map(|index| self.x(index * period)).collect()
    }

    /// Positions and labels of the ticks, in seconds.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let step = nice_step(self.end - self.start, TICKS_MAX);
        let start = self.start.saturating_sub(self.origin);
        let end = self.end - self.origin;
        let first = start.div_ceil(step);
        (first..=end / step)
            .map(|index| (self.x(self.origin + index * step), seconds(index * step)))
            .collect()
    }

    /// What the axis counts.
    pub(super) fn name(&self) -> &'static str {
        if self.origin == 0 { "seconds" } else { "seconds after the first event" }
    }

    /// A stamp as the axis counts it.
    pub(super) fn label(&self, at: u64) -> String {
        format!("{} s", seconds(at.saturating_sub(self.origin)))
    }
}

fn nanos(value: u64) -> f64 {
    value as f64
}

/// Seconds without the zeros at their end.
fn seconds(nanos: u64) -> String {
    let (whole, rest) = (nanos / SECOND, nanos % SECOND);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:09}").trim_end_matches('0').to_owned()
}
