//! Reports of small runs, of odd ones, and of none.

use std::fs::File;
use std::io::Write as _;

use super::*;
use crate::history::sample::{SECOND, allowed, fault, limit, over_limit, phase, unknown};
use crate::history::{Check, Event, Fault, FaultPhase, PhaseName, Rules, Run, Source, Writer};

fn run(scenario: &str, seed: u64) -> Vec<Event> {
    let run =
        Run { scenario: scenario.to_owned(), seed, commit: "abc".to_owned(), clock_ppm: 0, ..Run::default() };
    vec![
        Event::Run(run),
        Event::Rules(Rules {
            version: 1,
            in_force: Some(0),
            limits: vec![limit("a", 10)],
            ..Rules::default()
        }),
    ]
}

/// Forty seconds: an owner is killed, a sidecar cut off, then all is calm.
fn eventful(scenario: &str, seed: u64, overshoot: u64) -> Vec<Event> {
    let kill = Fault {
        at: 8 * SECOND,
        name: "kill".to_owned(),
        target: "node-1".to_owned(),
        owner: true,
        phase: FaultPhase::Once,
        ..Fault::default()
    };
    let mut events = run(scenario, seed);
    events.extend([phase(5 * SECOND, PhaseName::Trouble), Event::Fault(kill)]);
    events.extend([
        fault(15 * SECOND, "cut", "edge-1", FaultPhase::Begin),
        fault(22 * SECOND, "cut", "edge-1", FaultPhase::End),
        phase(25 * SECOND, PhaseName::Heal),
        phase(30 * SECOND, PhaseName::Calm),
        phase(40 * SECOND, PhaseName::End),
    ]);
    for tenth in 0..400 {
        let at = tenth * SECOND / 10;
        let took = if (80..87).contains(&tenth) { (87 - tenth) * SECOND / 10 } else { 1_000_000 };
        let lent = Check { source: Some(Source::Lease), ..allowed(at, 1) };
        let check = if tenth % 3 == 0 { lent } else { allowed(at, 1) };
        events.push(Event::Check(Check { returned: Some(at + took), ..check }));
    }
    events.push(Event::Check(over_limit(31 * SECOND, 9)));
    events.push(Event::Check(unknown(16 * SECOND, 1, "lost")));
    events.push(Event::Check(allowed(39 * SECOND, 9 + overshoot)));
    events
}

fn write_history(dir: &Path, name: &str, events: &[Event]) {
    let folder = dir.join(name);
    fs::create_dir(&folder).expect("a new folder");
    let mut writer = Writer::create(&folder.join(HISTORY)).expect("a new file");
    for event in events {
        writer.write(event).expect("there is room");
    }
    writer.flush().expect("there is room");
}

#[test]
fn runs_get_a_page_with_pictures_each_and_one_table() {
    let dir = tempfile::tempdir().expect("a folder");
    write_history(dir.path(), "kill-1", &eventful("kill", 1, 0));
    write_history(dir.path(), "kill-2", &eventful("kill", 2, 7));
    assert_eq!(report_all(dir.path()).expect("two runs"), Verdict::Broken);

    let read = |path: &str| fs::read_to_string(dir.path().join(path)).expect("it was written");
    for drawing in ["kill-1/timeline.svg", "kill-1/regrants.svg", "kill-2/timeline.svg"] {
        leasehold_plot::well_formed(&read(drawing)).unwrap_or_else(|problem| panic!("{drawing}: {problem}"));
    }
    let kept = read("kill-1/report.md");
    assert!(kept.starts_with("# kill, seed 1: every promise kept"), "{kept}");
    assert!(kept.contains("| P1 | `bounded_overshoot` | kept |"), "{kept}");
    assert!(kept.contains("half, slowest | 700 ms, 700 ms |"), "{kept}");
    let broken = read("kill-2/report.md");
    assert!(broken.contains("- `bounded_overshoot`: at 39.000 s: shop/a=x:"), "{broken}");
    let summary = read("report.md");
    assert!(summary.contains("2 runs of 1 scenarios"), "{summary}");
    assert!(summary.contains("1 kept every promise, 1 broke one, 0 have no result"), "{summary}");
    assert!(summary.contains("| kill | 2 | 806 | **7** |"), "{summary}");
    assert!(summary.contains("[kill, seed 2](kill-2/report.md): a promise broken"), "{summary}");
}

#[test]
fn odd_runs_are_drawn_too() {
    let mut late = run("late", 1);
    late.push(Event::Check(allowed(u64::MAX, 1)));
    let mut lost = run("lost", 1);
    lost.extend([Event::Check(unknown(0, 1, "r")), fault(0, "a<b", "n", FaultPhase::End)]);
    let mut many = run("many", 1);
    many.extend((0..30).map(|kind| fault(kind, &format!("kind-{kind}"), "n", FaultPhase::Begin)));
    let dir = tempfile::tempdir().expect("a folder");
    for (name, events) in [("none", run("none", 1)), ("late", late), ("lost", lost), ("many", many)] {
        write_history(dir.path(), name, &events);
        report(&dir.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let drawing = fs::read_to_string(dir.path().join(name).join("timeline.svg")).expect("it was written");
        leasehold_plot::well_formed(&drawing).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
}

#[test]
fn a_folder_without_runs_is_an_error_and_so_is_a_broken_history() {
    let dir = tempfile::tempdir().expect("a folder");
    let error = report_all(dir.path()).expect_err("no runs").to_string();
    assert!(error.contains("no history.jsonl"), "{error}");
    fs::create_dir(dir.path().join("x")).expect("a new folder");
    let mut file = File::create(dir.path().join("x").join(HISTORY)).expect("a new file");
    file.write_all(b"{\"event\":\"run\"}\n").expect("there is room");
    let error = format!("{:#}", report_all(dir.path()).expect_err("a broken history"));
    assert!(error.contains("line 1: run: missing field"), "{error}");
}
