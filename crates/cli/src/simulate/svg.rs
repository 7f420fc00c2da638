//! A drawing of one or more replays: a lane each, time to the right, admitted and refused units as stacked bars.
//!
//! It stands alone: no script, no outside font, colours for light and dark, shapes as well as colours.
//! Coordinates are floats; no decision comes from here.

mod axis;
mod bars;

use leasehold_plot::{escape, put};

use super::compare::Lane;
use crate::output;
use axis::Axis;
use bars::{Bar, Bars};

#[cfg(test)]
mod tests;

const WIDTH: f64 = 960.0;
/// Where lanes begin, below title and legend.
const TOP: f64 = 84.0;
/// Where time begins, right of the lanes' names.
const LEFT: f64 = 196.0;
const RIGHT: f64 = 28.0;
/// Height of the axis below the lanes.
const BOTTOM: f64 = 56.0;
const GAP: f64 = 10.0;
/// Free room above the tallest bar of a lane.
const HEADROOM: f64 = 12.0;
/// Bars narrower or lower than this carry no number.
const NUMBER_FITS: (f64, f64) = (12.0, 14.0);

/// Refused units are striped: a shape as well as a colour.
const DEFS: &str = "\
<pattern id=\"denied\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect class=\"no\" width=\"6\" height=\"6\"/><line class=\"stripe\" x1=\"0\" x2=\"0\" y1=\"0\" y2=\"6\"/></pattern>";

/// Draws `lanes`, which replayed the same events. With a period, dashed lines show where its windows begin.
pub(crate) fn draw(title: &str, lanes: &[Lane], period_nanos: Option<u64>) -> String {
    let axis = Axis::over(lanes.iter().flat_map(|lane| &lane.steps), LEFT, WIDTH - RIGHT);
    let bars = Bars::of(lanes, &axis);
    let lane_height = if lanes.len() == 1 { 150.0 } else { 66.0 };
    let bottom = lanes.iter().fold(TOP - GAP, |y, _| y + GAP + lane_height);
    let mut svg = leasehold_plot::begin(title, (WIDTH, bottom + BOTTOM), DEFS);
    let boundaries = period_nanos.map(|period| axis.multiples_of(period)).unwrap_or_default();
    legend(&mut svg, !boundaries.is_empty(), bars.units_max);
    let floors = (0..lanes.len()).scan(TOP - GAP, |y, _| {
        *y += GAP + lane_height;
        Some(*y)
    });
    let floors: Vec<f64> = floors.collect();
    for (lane, floor) in lanes.iter().zip(&floors) {
        let (y, width) = (floor - lane_height, WIDTH - RIGHT - LEFT);
        put(
            &mut svg,
            format_args!(
                "<rect class=\"lane\" x=\"{LEFT}\" y=\"{y}\" width=\"{width}\" height=\"{lane_height}\" rx=\"4\"/>"
            ),
        );
        names(&mut svg, lane, y + lane_height / 2.0);
    }
    for x in boundaries {
        put(
            &mut svg,
            format_args!("<line class=\"window\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"),
        );
    }
    let scale = (lane_height - HEADROOM) / bars::as_units(bars.units_max);
    for (bars_of_lane, floor) in bars.lanes.iter().zip(&floors) {
        for bar in bars_of_lane {
            draw_bar(&mut svg, bar, bars.width, *floor, scale);
        }
    }
    draw_axis(&mut svg, &axis, bottom);
    leasehold_plot::finish(svg)
}

fn legend(svg: &mut String, windows: bool, units_max: u64) {
    let (y, text_y) = (50.0, 60.0);
    let tallest = format!("the tallest bar is {} units", output::count(units_max));
    put(
        svg,
        format_args!(
            "<rect class=\"yes\" x=\"24\" y=\"{y}\" width=\"12\" height=\"12\" rx=\"2\"/><text x=\"42\" y=\"{text_y}\">allowed</text>"
        ),
    );
    put(
        svg,
        format_args!(
            "<rect fill=\"url(#denied)\" x=\"104\" y=\"{y}\" width=\"12\" height=\"12\" rx=\"2\"/><text x=\"122\" y=\"{text_y}\">denied</text>"
        ),
    );
    let mut x = LEFT;
    if windows {
        put(
            svg,
            format_args!(
                "<line class=\"window\" x1=\"{x}\" x2=\"{x}\" y1=\"47\" y2=\"65\"/><text x=\"{}\" y=\"{text_y}\">a window begins</text>",
                x + 8.0
            ),
        );
        x += 124.0;
    }
    put(svg, format_args!("<text class=\"soft\" x=\"{x}\" y=\"{text_y}\">{tallest}</text>"));
}

fn names(svg: &mut String, lane: &Lane, middle: f64) {
    let totals = &lane.totals;
    let waits = totals.wait_ns_max > 0;
    let first = if waits { middle - 13.0 } else { middle - 4.0 };
    put(svg, format_args!("<text class=\"name\" x=\"24\" y=\"{first:.1}\">{}</text>", escape(&lane.title)));
    let sums = format!(
        "{} allowed, {} denied",
        output::count(totals.allowed_units),
        output::count(totals.denied_units)
    );
    put(svg, format_args!("<text class=\"soft\" x=\"24\" y=\"{:.1}\">{sums}</text>", first + 17.0));
    if waits {
        let wait = output::duration(totals.wait_ns_max);
        put(
            svg,
            format_args!("<text class=\"soft\" x=\"24\" y=\"{:.1}\">waits up to {wait}</text>", first + 33.0),
        );
    }
}

/// Admitted units stand on the lane's floor, refused ones on top of them.
fn draw_bar(svg: &mut String, bar: &Bar, width: f64, floor: f64, scale: f64) {
    let (allowed, denied) = (bars::as_units(bar.allowed) * scale, bars::as_units(bar.denied) * scale);
    put(svg, format_args!("<g><title>{}: {} allowed, {} denied</title>", bar.label, bar.allowed, bar.denied));
    segment(svg, "class=\"yes\"", bar.x, width, floor - allowed, allowed);
    segment(svg, "fill=\"url(#denied)\"", bar.x, width, floor - allowed - denied, denied);
    for (units, middle, height) in
        [(bar.allowed, floor - allowed / 2.0, allowed), (bar.denied, floor - allowed - denied / 2.0, denied)]
    {
        if units > 0 && width >= NUMBER_FITS.0 && height >= NUMBER_FITS.1 && units < 1_000 {
            if units == bar.denied && middle < floor - allowed {
                let plate = (width - 2.0).min(18.0);
                put(
                    svg,
                    format_args!(
                        "<rect class=\"no\" x=\"{:.1}\" y=\"{:.1}\" width=\"{plate:.1}\" height=\"13\" rx=\"3\"/>",
                        bar.x - plate / 2.0,
                        middle - 6.5
                    ),
                );
            }
            put(
                svg,
                format_args!(
                    "<text class=\"on\" x=\"{:.1}\" y=\"{:.1}\">{units}</text>",
                    bar.x,
                    middle + 4.0
                ),
            );
        }
    }
    svg.push_str("</g>\n");
}

fn segment(svg: &mut String, look: &str, middle: f64, width: f64, y: f64, height: f64) {
    if height > 0.0 {
        let x = middle - width / 2.0;
        put(
            svg,
            format_args!(
                "<rect {look} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
            ),
        );
    }
}

fn draw_axis(svg: &mut String, axis: &Axis, bottom: f64) {
    let (y, end) = (bottom + 6.0, WIDTH - RIGHT);
    put(svg, format_args!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y}\" y2=\"{y}\"/>"));
    for (x, label) in axis.ticks() {
        put(
            svg,
            format_args!("<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y}\" y2=\"{}\"/>", y + 5.0),
        );
        put(svg, format_args!("<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{label}</text>", y + 20.0));
    }
    let name = axis.name();
    put(
        svg,
        format_args!("<text class=\"tick\" x=\"{:.1}\" y=\"{}\">{name}</text>", LEFT.midpoint(end), y + 38.0),
    );
}
