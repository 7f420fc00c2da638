//! Steps gathered into bars: one for each moment where moments are far enough apart to be seen, else one for each slice of time.

use std::collections::BTreeMap;

use super::super::compare::Lane;
use super::axis::Axis;

/// Moments closer than this, in pixels, are drawn as slices of time.
const APART_MIN: f64 = 10.0;
/// Width of a slice in pixels, with the gap to the next.
const SLICE: f64 = 8.0;
/// Widest bar.
const WIDTH_MAX: f64 = 34.0;

/// What was admitted and refused at one place of the axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bar {
    /// Middle of the bar.
    pub(super) x: f64,
    /// The first moment it stands for.
    pub(super) label: String,
    /// Units admitted.
    pub(super) allowed: u64,
    /// Units refused.
    pub(super) denied: u64,
}

/// The bars of all lanes on one scale.
pub(super) struct Bars {
    /// As the lanes are.
    pub(super) lanes: Vec<Vec<Bar>>,
    /// Of every bar.
    pub(super) width: f64,
    /// Units of the tallest bar; at least 1.
    pub(super) units_max: u64,
}

/// Units as a length.
pub(super) fn as_units(units: u64) -> f64 {
    units as f64
}

impl Bars {
    /// Gathers the steps of `lanes`, which replayed the same events.
    pub(super) fn of(lanes: &[Lane], axis: &Axis) -> Self {
        let apart = least_distance(lanes, axis);
        let exact = apart >= APART_MIN;
        let width = if exact { (apart * 0.6).min(WIDTH_MAX) } else { SLICE - 2.0 };
        let lanes: Vec<_> = lanes.iter().map(|lane| gather(lane, axis, exact)).collect();
        let tallest = lanes.iter().flatten().map(|bar| bar.allowed.saturating_add(bar.denied)).max();
        Self { lanes, width, units_max: tallest.unwrap_or(1).max(1) }
    }
}

/// Pixels between the two nearest moments.
fn least_distance(lanes: &[Lane], axis: &Axis) -> f64 {
    let mut moments: Vec<_> = lanes.iter().flat_map(|lane| &lane.steps).map(|step| step.at.0).collect();
    moments.sort_unstable();
    moments.dedup();
    moments.windows(2).map(|pair| axis.x(pair[1]) - axis.x(pair[0])).fold(f64::INFINITY, f64::min)
}

fn gather(lane: &Lane, axis: &Axis, exact: bool) -> Vec<Bar> {
    let mut bars: BTreeMap<u64, Bar> = BTreeMap::new();
    for step in &lane.steps {
        let (allowed, denied) = (step.answer.taken().unwrap_or(0), step.answer.refused().unwrap_or(0));
        if allowed == 0 && denied == 0 {
            continue;
        }
        let x = axis.x(step.at.0);
        let middle = if exact { x } else { ((x / SLICE).floor() + 0.5) * SLICE };
        // Coordinates of one drawing are positive, and positive floats order as their bits do.
        let bar = bars.entry(middle.to_bits()).or_default();
        if bar.label.is_empty() {
            bar.label = axis.label(step.at.0);
            bar.x = middle;
        }
        bar.allowed = bar.allowed.saturating_add(allowed);
        bar.denied = bar.denied.saturating_add(denied);
    }
    bars.into_values().collect()
}
