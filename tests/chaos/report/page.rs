//! `report.md` of a run: what came of the promises first, then figures, then pictures.

use std::fmt::Write as _;

use super::Reported;
use super::measure::{BY, Latency, Measures};
use super::panel::duration;
use crate::check::{Verdict, reached};
use crate::history::History;

/// Most findings that are written out; the history has all.
const FINDINGS_MAX: usize = 20;

/// The page of a run.
pub(super) fn page(history: &History, reported: &Reported, has_regrants: bool) -> String {
    let mut page = String::new();
    let run = &history.run;
    let mut line = |text: String| writeln!(page, "{text}").expect("writing to a string succeeds");
    line(format!("# {}, seed {}: {}\n", run.scenario, run.seed, verdict(reported)));
    line(format!(
        "{}. Started {}, {} long, commit `{}`.",
        run.topology,
        run.started,
        duration(history.end()),
        run.commit
    ));
    if !run.machine.is_empty() {
        line(format!("Machine: {}.", run.machine));
    }
    line("\nAgain from the history: `leasehold-chaos check history.jsonl`.\n".to_owned());
    line("![The run over time](timeline.svg)\n".to_owned());
    if has_regrants {
        line("![Until keys were granted again](regrants.svg)\n".to_owned());
    }
    line("## Promises\n\n| | promise | |\n|---|---|---|".to_owned());
    for (invariant, findings) in &reported.checked.findings {
        let kept = if findings.is_empty() {
            "kept".to_owned()
        } else {
            format!("**broken**, {} findings", findings.len())
        };
        line(format!("| {} | `{}` | {kept} |", invariant.promise, invariant.name));
    }
    if reported.checked.count() > 0 {
        line("\n## Findings\n".to_owned());
        let all = reported
            .checked
            .findings
            .iter()
            .flat_map(|(invariant, found)| found.iter().map(|one| (invariant.name, one)));
        for (name, finding) in all.take(FINDINGS_MAX) {
            line(format!("- `{name}`: {finding}"));
        }
    }
    line("\n## Figures\n\n| | |\n|---|---:|".to_owned());
    for (name, value) in figures(&reported.measures) {
        line(format!("| {name} | {value} |"));
    }
    line("\n| time to an answer | half | 99 of 100 | slowest |\n|---|---:|---:|---:|".to_owned());
    let parts = ["before the first fault", "through the faults", "when all is calm"];
    for (part, latency) in parts.into_iter().zip(reported.measures.latency) {
        let times = latency.map_or_else(
            || "– | – | –".to_owned(),
            |Latency { p50, p99, max }| format!("{} | {} | {}", duration(p50), duration(p99), duration(max)),
        );
        line(format!("| {part} | {times} |"));
    }
    let reached: Vec<String> = reached::reached(history).into_iter().collect();
    line("\n## Reached\n".to_owned());
    line(if reached.is_empty() {
        "Nothing out of the ordinary.".to_owned()
    } else {
        format!("`{}`", reached.join("`, `"))
    });
    if !reported.checked.missed.is_empty() {
        line(format!("\nNot reached, though the run is for it: `{}`.", reported.checked.missed.join("`, `")));
    }
    page
}

pub(super) fn verdict(reported: &Reported) -> &'static str {
    match reported.checked.verdict() {
        Verdict::Kept => "every promise kept",
        Verdict::NoResult => "no result",
        Verdict::Broken => "a promise broken",
    }
}

fn figures(measures: &Measures) -> Vec<(String, String)> {
    let mut rows = vec![
        ("checks".to_owned(), measures.checks.to_string()),
        ("allowed".to_owned(), measures.allowed.to_string()),
        ("over the limit".to_owned(), measures.over_limit.to_string()),
        (
            "**overshoot**: units beyond the bound, worst key, worst interval".to_owned(),
            format!("**{}**", measures.overshoot),
        ),
    ];
    if let Some((reach, key)) = &measures.fullest {
        let at_once = format!("{} of {} (`{key}`)", reach.most_at_once, reach.at_once_max);
        rows.push(("nearest to its bound: units at once".to_owned(), at_once));
    }
    rows.push((
        "undershoot, of what exact limiters admit".to_owned(),
        share(measures.undershoot, measures.exact),
    ));
    rows.push(("owner killed → keys granted again: half, slowest".to_owned(), regrants(measures)));
    rows.push(("longest silence of a key".to_owned(), duration(measures.silence)));
    rows.push(("stranded, of the units lent".to_owned(), share(measures.stranded, measures.lent)));
    let (unserved, calm) = measures.unserved_when_calm;
    rows.push(("not served though all was calm".to_owned(), share(unserved as u64, calm as u64)));
    if let Some(hops) = measures.hops {
        rows.push(("calls to owners for each 1,000 checks".to_owned(), per_thousand(hops, measures.checks)));
    }
    for by in BY {
        let count = measures.count(by);
        let of = share(count as u64, measures.checks as u64);
        rows.push((format!("decided by: {}", by.name()), of));
    }
    rows
}

/// Half of the kills and the slowest, for people.
pub(super) fn regrants(measures: &Measures) -> String {
    match (measures.regrant_median(), measures.regrants.last(), measures.never) {
        (Some(half), Some(slowest), 0) => format!("{}, {}", duration(half), duration(*slowest)),
        (Some(half), ..) => format!("{}, some never", duration(half)),
        (None, _, 0) => "–".to_owned(),
        (None, ..) => "never".to_owned(),
    }
}

/// A part of a whole, in percent.
pub(super) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => format!("{:.2} %", 100.0 * part as f64 / whole as f64),
    }
}

fn per_thousand(part: u64, whole: usize) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => format!("{:.0}", 1_000.0 * part as f64 / whole as f64),
    }
}
