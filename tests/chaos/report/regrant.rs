//! How long keys weren't granted after their owner was killed: of all kills, the share that was over by then.

use leasehold_plot::{begin, finish, nice_step, put};

use super::measure::Measures;
use super::panel::{Panel, Scale, Time, as_length, duration};
use crate::history::History;

const SIZE: (f64, f64) = (640.0, 300.0);
/// What the longest label takes.
const ROOM: f64 = 180.0;
const MS: u64 = 1_000_000;

/// Draws the distribution; `None` when no owner was killed.
pub(super) fn draw(history: &History, measures: &Measures) -> Option<String> {
    let kills = measures.regrants.len() + measures.never;
    let slowest = *measures.regrants.last()?;
    let length = slowest.max(history.run.regrant_ns).saturating_mul(11) / 10;
    let time = Time { left: 64.0, right: SIZE.0 - 40.0, length };
    let panel = Panel { time, top: 84.0, height: 150.0, scale: Scale::Linear(100.0) };
    let title = format!("{}: until the last key was granted again", history.run.scenario);
    let mut svg = begin(&title, SIZE, "");
    let name = format!("Share of {kills} kills that were over by then");
    let ticks = [0.0, 50.0, 100.0].map(|share| (share, format!("{share} %")));
    panel.frame(&mut svg, &name, &ticks);
    for (at, what) in [(history.run.regrant_ns / 2, "median goal"), (history.run.regrant_ns, "worst goal")] {
        let x = time.x(at);
        put(
            &mut svg,
            format_args!("<line class=\"bound\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"84\" y2=\"234\"/>"),
        );
        put(&mut svg, format_args!("<text class=\"warn end\" x=\"{:.1}\" y=\"229\">{what}</text>", x - 5.0));
    }
    panel.line(&mut svg, "l1", &steps(measures, kills, time));
    let median = measures.regrant_median().unwrap_or(slowest);
    for (at, share, what) in [(median, 50.0, "half"), (slowest, 100.0, "slowest")] {
        let (x, y) = (time.x(at), panel.y(share));
        put(&mut svg, format_args!("<circle class=\"s1\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"));
        // Left of the line there is nothing, where there is room.
        let (side, x) = if x > ROOM { (" end", x - 10.0) } else { ("", x + 10.0) };
        let (y, after) = (y + 14.0, duration(at));
        put(
            &mut svg,
            format_args!("<text class=\"s1{side}\" x=\"{x:.1}\" y=\"{y:.1}\">{what} {after}</text>"),
        );
    }
    axis(&mut svg, time, 234.0);
    Some(finish(svg))
}

/// Up by one kill at each time.
fn steps(measures: &Measures, kills: usize, time: Time) -> Vec<(f64, f64)> {
    let share = |over: usize| 100.0 * as_length(over as u64) / as_length(kills as u64);
    let mut points = vec![(time.x(0), 0.0)];
    for (before, ns) in measures.regrants.iter().enumerate() {
        points.extend([(time.x(*ns), share(before)), (time.x(*ns), share(before + 1))]);
    }
    points.push((time.right, share(measures.regrants.len())));
    points
}

fn axis(svg: &mut String, time: Time, y: f64) {
    let step = nice_step(time.length / MS, 8);
    for ms in (0..=time.length / MS / step).map(|tick| tick * step) {
        let x = time.x(ms * MS);
        put(
            svg,
            format_args!("<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y}\" y2=\"{}\"/>", y + 5.0),
        );
        put(svg, format_args!("<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{ms}</text>", y + 19.0));
    }
    let (middle, y) = (time.left.midpoint(time.right), y + 38.0);
    put(
        svg,
        format_args!("<text class=\"tick\" x=\"{middle:.1}\" y=\"{y}\">milliseconds since the kill</text>"),
    );
}
