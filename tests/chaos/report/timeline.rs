//! A run over time: the faults, how near admissions came to their bound, who decided, and how long it took.

use leasehold_plot::{begin, escape, finish, put};
use leasehold_tests::bound::at_once;

use super::measure::{BY, By, Latency};
use super::panel::{Panel, Scale, Time, as_length, linear_ticks};
use crate::check::charges::charges;
use crate::check::spans::spans;
use crate::history::{Fault, FaultPhase, History, PhaseName};

const WIDTH: f64 = 960.0;
const TIME: (f64, f64) = (112.0, 836.0);
/// Where the faults' rows begin, below title and phases.
const TOP: f64 = 78.0;
const ROW: f64 = 18.0;
/// Kinds of fault beyond this share the last row.
const ROWS_MAX: usize = 8;
const HEIGHT: f64 = 128.0;
/// Between panels: the next one's name stands there.
const GAP: f64 = 38.0;
/// Widths, in pixels, of what a point of a line or a bar stands for.
const POINT: f64 = 3.0;
const BAR: f64 = 8.0;

/// Draws a run.
pub(super) fn draw(history: &History) -> String {
    let time = Time { left: TIME.0, right: TIME.1, length: history.end().max(1) };
    let rows = rows(history);
    let first = TOP + as_length(rows.len() as u64) * ROW + GAP;
    let tops = [first, first + HEIGHT + GAP, first + 2.0 * (HEIGHT + GAP)];
    let bottom = tops[2] + HEIGHT;
    let title = format!("{}, seed {}", history.run.scenario, history.run.seed);
    let mut svg = begin(&title, (WIDTH, bottom + 52.0), "");
    let panels = [
        fullness(history, time, tops[0]),
        deciders(history, time, tops[1]),
        latencies(history, time, tops[2]),
    ];
    for panel in &panels {
        panel.0.frame(&mut svg, panel.1, &panel.2);
    }
    faults(&mut svg, history, time, &rows, bottom);
    phases(&mut svg, history, time, bottom);
    for (.., drawing) in panels {
        svg.push_str(&drawing);
    }
    time.axis(&mut svg, bottom);
    finish(svg)
}

/// A panel, its name, its ticks, and what is drawn on it.
type Drawn = (Panel, &'static str, Vec<(f64, String)>, String);

/// Kinds of fault, in the order in which they first came.
fn rows(history: &History) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for fault in &history.faults {
        if !rows.contains(&fault.name) {
            rows.push(fault.name.clone());
        }
    }
    if rows.len() > ROWS_MAX {
        rows.truncate(ROWS_MAX - 1);
        rows.push("others".to_owned());
    }
    rows
}

/// A row for each kind, and a shade below them through all panels while anything is wrong.
fn faults(svg: &mut String, history: &History, time: Time, rows: &[String], bottom: f64) {
    let row_y = |place: usize| TOP + as_length(place as u64) * ROW;
    let (left, right) = (time.left, time.right);
    for (place, row) in rows.iter().enumerate() {
        let (x, y, row) = (left - 8.0, row_y(place), escape(row));
        put(svg, format_args!("<text class=\"left\" x=\"{x}\" y=\"{:.1}\">{row}</text>", y + 9.0));
        let y = y + 5.0;
        put(svg, format_args!("<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\"/>"));
    }
    let mut shades: Vec<(f64, f64)> = Vec::new();
    for fault in history.faults.iter().filter(|fault| fault.phase != FaultPhase::End) {
        let place = rows.iter().position(|row| *row == fault.name).unwrap_or(rows.len().saturating_sub(1));
        let (y, x) = (row_y(place), time.x(fault.at));
        let width = (time.x(end(history, fault)) - x).max(2.0);
        let what = escape(format!("{} {} {}", fault.name, fault.target, fault.note).trim());
        let size = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"10\" rx=\"1\"");
        put(svg, format_args!("<rect class=\"warn\" {size}><title>{what}</title></rect>"));
        shades.push((x, x + width));
    }
    let y = row_y(rows.len()) + GAP;
    for (x, to) in joined(shades) {
        let (width, height) = (to - x, bottom - y);
        let size = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
        put(svg, format_args!("<rect class=\"fault\" {size}/>"));
    }
}

/// Stretches that overlap, as one each.
fn joined(mut stretches: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    stretches.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for (from, to) in stretches {
        match joined.last_mut().filter(|last| from <= last.1) {
            Some(last) => last.1 = last.1.max(to),
            None => joined.push((from, to)),
        }
    }
    joined
}

/// When a fault was over; it was at once when nothing says so.
fn end(history: &History, fault: &Fault) -> u64 {
    let ends = history.faults.iter().filter(|end| {
        end.phase == FaultPhase::End
            && (&end.name, &end.target) == (&fault.name, &fault.target)
            && end.at >= fault.at
    });
    let open = if fault.phase == FaultPhase::Begin { history.end() } else { fault.at };
    ends.map(|end| end.at).min().filter(|_| fault.phase == FaultPhase::Begin).unwrap_or(open)
}

fn phases(svg: &mut String, history: &History, time: Time, bottom: f64) {
    let names = [(PhaseName::Trouble, "trouble"), (PhaseName::Heal, "heal"), (PhaseName::Calm, "calm")];
    for (phase, name) in names {
        let Some(at) = history.began(phase) else { continue };
        let x = time.x(at);
        put(
            svg,
            format_args!("<line class=\"window\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"50\" y2=\"{bottom:.1}\"/>"),
        );
        put(svg, format_args!("<text class=\"soft\" x=\"{:.1}\" y=\"60\">{name}</text>", x + 5.0));
    }
}

/// Cuts a run into stretches of some pixels and gives each call its place.
#[derive(Clone, Copy, Debug)]
struct Stretches {
    length: u64,
    count: usize,
}

impl Stretches {
    fn of(time: Time, width: f64) -> Self {
        let mut count = 1;
        while as_length(count) * width < time.right - time.left {
            count += 1;
        }
        let count = count.min(time.length);
        Self { length: time.length.div_ceil(count).max(1), count: usize::try_from(count).unwrap_or(1) }
    }

    fn place(self, at: u64) -> usize {
        usize::try_from(at / self.length).unwrap_or(0).min(self.count - 1)
    }

    fn begin(self, place: usize) -> u64 {
        self.length.saturating_mul(place as u64)
    }

    /// Its middle.
    fn at(self, place: usize) -> u64 {
        self.begin(place).saturating_add(self.length / 2)
    }
}

/// What share of its bound the fullest counter had at once.
fn fullness(history: &History, time: Time, top: f64) -> Drawn {
    let stretches = Stretches::of(time, POINT);
    let mut fullest = vec![0.0_f64; stretches.count];
    for (key, operations) in charges(history) {
        for span in spans(history, key) {
            let inside = operations.iter().filter(|op| span.from <= op.invoked && op.returned <= span.to);
            let most = as_length(span.bound.burst) * (1.0 + as_length(span.bound.over_ppm) / 1e6);
            for (at, units) in at_once(&inside.copied().collect::<Vec<_>>(), span.bound) {
                let share = 100.0 * as_length(units) / most.max(1.0);
                let highest = &mut fullest[stretches.place(at)];
                *highest = highest.max(share);
            }
        }
    }
    let max = fullest.iter().copied().fold(110.0, f64::max);
    let panel = Panel { time, top, height: HEIGHT, scale: Scale::Linear(max) };
    let mut svg = String::new();
    let points: Vec<(f64, f64)> =
        fullest.iter().enumerate().map(|(place, share)| (time.x(stretches.at(place)), *share)).collect();
    panel.line(&mut svg, "l1", &points);
    let y = panel.y(100.0);
    put(
        &mut svg,
        format_args!(
            "<line class=\"bound\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            time.left, time.right
        ),
    );
    panel.label(&mut svg, "warn", y, "the bound");
    panel.label(
        &mut svg,
        "s1",
        panel.y(points.last().map_or(0.0, |last| last.1).min(82.0)),
        "fullest counter",
    );
    let ticks = [0.0, 50.0, 100.0].map(|share| (share, format!("{share} %")));
    (panel, "Admitted at once, of what the limit allows", ticks.to_vec(), svg)
}

/// Decisions a second by who took them, stacked.
fn deciders(history: &History, time: Time, top: f64) -> Drawn {
    let stretches = Stretches::of(time, BAR);
    let mut counts = vec![[0_u64; BY.len()]; stretches.count];
    for call in &history.calls {
        let by = By::of(call);
        let series = BY.iter().position(|one| *one == by).unwrap_or(0);
        counts[stretches.place(call.returned.unwrap_or(call.invoked))][series] += 1;
    }
    let a_second = |count: u64| as_length(count) * 1e9 / as_length(stretches.length);
    let max = counts.iter().map(|bar| a_second(bar.iter().sum())).fold(1.0, f64::max);
    let panel = Panel { time, top, height: HEIGHT, scale: Scale::Linear(max * 1.05) };
    let mut svg = String::new();
    for (place, bar) in counts.iter().enumerate() {
        let (x, mut below) = (time.x(stretches.begin(place)), 0);
        let width = (time.x(stretches.begin(place + 1)) - x - 1.0).max(1.0);
        for (series, count) in bar.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (y, foot) = (panel.y(a_second(below + count)), panel.y(a_second(below)));
            let (class, height) = (series + 1, foot - y);
            put(
                &mut svg,
                format_args!(
                    "<rect class=\"s{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
                ),
            );
            below += count;
        }
    }
    let present = (0..BY.len()).rev().filter(|series| counts.iter().any(|bar| bar[*series] > 0));
    for (line, series) in present.enumerate() {
        let (y, x) = (top + 10.0 + as_length(line as u64) * 18.0, time.right + 10.0);
        put(
            &mut svg,
            format_args!(
                "<rect class=\"s{}\" x=\"{x}\" y=\"{:.1}\" width=\"10\" height=\"10\" rx=\"2\"/>",
                series + 1,
                y - 6.0
            ),
        );
        put(
            &mut svg,
            format_args!("<text x=\"{}\" y=\"{:.1}\">{}</text>", x + 15.0, y + 3.0, BY[series].name()),
        );
    }
    (panel, "Decisions a second, by who took them", linear_ticks(max, ""), svg)
}

/// Median, 99th percentile and maximum of the answers of each stretch.
fn latencies(history: &History, time: Time, top: f64) -> Drawn {
    let stretches = Stretches::of(time, BAR);
    let mut answers: Vec<Vec<u64>> = vec![Vec::new(); stretches.count];
    for call in &history.calls {
        if let Some(returned) = call.returned {
            answers[stretches.place(call.invoked)].push(returned - call.invoked);
        }
    }
    let points: Vec<(f64, Latency)> = answers
        .into_iter()
        .enumerate()
        .filter_map(|(place, ns)| Some((time.x(stretches.at(place)), Latency::of(ns)?)))
        .collect();
    let ms = |ns: u64| as_length(ns) / 1e6;
    let longest = points.iter().map(|(_, latency)| ms(latency.max)).fold(10.0, f64::max);
    let max = [10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]
        .into_iter()
        .find(|max| *max >= longest)
        .unwrap_or(longest);
    let panel = Panel { time, top, height: HEIGHT, scale: Scale::Log(0.1, max) };
    let mut svg = String::new();
    let mut last_y = f64::MIN;
    for (series, name) in ["slowest", "99 of 100", "half"].into_iter().enumerate() {
        let (of, class) =
            (|latency: &Latency| [latency.max, latency.p99, latency.p50][series], ["3", "4", "1"][series]);
        let line: Vec<(f64, f64)> = points.iter().map(|(x, latency)| (*x, ms(of(latency)))).collect();
        panel.line(&mut svg, &format!("l{class}"), &line);
        let y = panel.y(line.last().map_or(0.1, |last| last.1)).max(last_y + 15.0);
        panel.label(&mut svg, &format!("s{class}"), y, name);
        last_y = y;
    }
    let ticks = [
        (0.1, "0.1 ms"),
        (1.0, "1 ms"),
        (10.0, "10 ms"),
        (100.0, "100 ms"),
        (1_000.0, "1 s"),
        (10_000.0, "10 s"),
    ];
    let ticks =
        ticks.into_iter().filter(|(value, _)| *value <= max).map(|(value, text)| (value, text.to_owned()));
    (panel, "Time to an answer", ticks.collect(), svg)
}
