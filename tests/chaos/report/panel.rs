//! A panel of a drawing over time: where moments and values are drawn in it, its frame and its ticks.

use leasehold_plot::{nice_step, put};

const SECOND: f64 = 1e9;
/// More ticks would run into each other.
const TICKS_MAX: u64 = 12;

/// Where a drawing's time begins and ends, from left to right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) left: f64,
    pub(super) right: f64,
    /// Of the run, in ns.
    pub(super) length: u64,
}

impl Time {
    pub(super) fn x(&self, at: u64) -> f64 {
        let share = at.min(self.length) as f64 / self.length.max(1) as f64;
        self.left + share * (self.right - self.left)
    }

    /// Ticks and their numbers below a drawing.
    pub(super) fn axis(&self, svg: &mut String, y: f64) {
        let seconds = self.length.div_ceil(1_000_000_000);
        let step = nice_step(seconds, TICKS_MAX);
        let (left, right) = (self.left, self.right);
        put(svg, format_args!("<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\"/>"));
        for second in (0..=seconds / step).map(|tick| tick * step) {
            let x = self.x(second.saturating_mul(1_000_000_000));
            put(
                svg,
                format_args!(
                    "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y}\" y2=\"{}\"/>",
                    y + 5.0
                ),
            );
            put(svg, format_args!("<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{second}</text>", y + 19.0));
        }
        let (middle, y) = (left.midpoint(right), y + 36.0);
        put(
            svg,
            format_args!(
                "<text class=\"tick\" x=\"{middle:.1}\" y=\"{y}\">seconds since the run began</text>"
            ),
        );
    }
}

/// How values go up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From 0.
    Linear(f64),
    /// From one to another, by powers of ten.
    Log(f64, f64),
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    pub(super) time: Time,
    pub(super) top: f64,
    pub(super) height: f64,
    pub(super) scale: Scale,
}

impl Panel {
    pub(super) fn y(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear(max) => value / max,
            Scale::Log(min, max) => (value.max(min) / min).ln() / (max / min).ln(),
        };
        self.top + self.height * (1.0 - share.clamp(0.0, 1.0))
    }

    /// The ground, what it shows, and lines at some values with their names on the left.
    pub(super) fn frame(&self, svg: &mut String, name: &str, ticks: &[(f64, String)]) {
        let Self { time: Time { left, right, .. }, top, height, .. } = *self;
        let width = right - left;
        put(
            svg,
            format_args!(
                "<rect class=\"lane\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>"
            ),
        );
        put(svg, format_args!("<text class=\"name\" x=\"{left}\" y=\"{}\">{name}</text>", top - 8.0));
        for (value, text) in ticks {
            let y = self.y(*value);
            put(
                svg,
                format_args!(
                    "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
                ),
            );
            put(
                svg,
                format_args!("<text class=\"left\" x=\"{}\" y=\"{:.1}\">{text}</text>", left - 8.0, y + 4.0),
            );
        }
    }

    /// Points joined by a line.
    pub(super) fn line(&self, svg: &mut String, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> =
            points.iter().map(|(x, value)| format!("{x:.1},{:.1}", self.y(*value))).collect();
        put(svg, format_args!("<polyline class=\"line {class}\" points=\"{}\"/>", points.join(" ")));
    }

    /// A name right of the panel, at a height.
    pub(super) fn label(&self, svg: &mut String, class: &str, y: f64, text: &str) {
        let x = self.time.right + 10.0;
        put(svg, format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{:.1}\">{text}</text>", y + 4.0));
    }
}

/// Lines for a scale from 0 to `max`, few and round.
pub(super) fn linear_ticks(max: f64, unit: &str) -> Vec<(f64, String)> {
    let most = whole(max);
    let step = nice_step(most, 4);
    (0..=most / step).map(|tick| (as_length(tick * step), format!("{}{unit}", tick * step))).collect()
}

/// A number of things as a length.
pub(super) fn as_length(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the end of an axis: negative ones and those past 2^64 are cut off"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// A time for people.
pub(super) fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        1_000_000_000.. => (ns as f64 / SECOND, "s"),
    };
    if value < 10.0 {
        format!("{value:.2} {unit}")
    } else if value < 100.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}
