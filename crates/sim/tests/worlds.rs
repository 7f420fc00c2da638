//! A few dozen worlds, and what makes them worth running: a seed is a bug report, on any machine, as often as one likes.

use std::process::Command;

use leasehold_sim::sweep::{run_caught, sweep};
use leasehold_sim::{Outcome, replay, run};

/// Long enough for faults, healing, and a calm time after it.
const SECONDS: u64 = 40;

fn told(outcome: &Outcome) -> String {
    let again = format!("leasehold-sim replay --seed {} --seconds {SECONDS}", outcome.seed);
    format!("{:?}; again: {again}", outcome.findings)
}

#[test]
fn every_promise_holds_in_a_few_dozen_worlds() {
    let swept = sweep(0, 32, SECONDS, 2, false);
    let failed: Vec<String> = swept.failed.iter().map(told).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(swept.worlds, 32);
    assert!(swept.units > 10_000, "{} units admitted: that tries nothing", swept.units);
}

#[test]
fn how_many_worlds_run_at_a_time_changes_nothing() {
    let (one, two) = (sweep(500, 4, SECONDS, 1, false), sweep(500, 4, SECONDS, 2, false));
    assert_eq!((one.hash, one.events, one.units), (two.hash, two.events, two.units));
}

#[test]
fn a_seed_is_one_world_and_another_seed_another() {
    assert_eq!(run(7, SECONDS).hash, run(7, SECONDS).hash);
    assert_ne!(run(7, SECONDS).hash, run(8, SECONDS).hash);
}

#[test]
fn the_same_happens_in_two_processes() {
    let twice = Command::new(env!("CARGO_BIN_EXE_leasehold-sim"))
        .args(["twice", "--seed", "11", "--seconds", "40"])
        .output()
        .expect("the simulator runs");
    let told = String::from_utf8_lossy(&twice.stdout).into_owned() + &String::from_utf8_lossy(&twice.stderr);
    assert!(twice.status.success() && told.contains("twice the same"), "{told}");
}

#[test]
fn a_story_is_told_of_the_world_that_was_run() {
    let (silent, told) = (run(3, SECONDS), replay(3, SECONDS));
    assert_eq!(silent.hash, told.hash);
    assert!(silent.story.is_empty() && told.story.iter().any(|(_, what)| what.contains("leads group 0")));
}

/// Worlds that found something in the product once: with seconds, since a seed is another world at another length.
#[test]
fn worlds_that_found_something_once_find_nothing_now() {
    for (seed, seconds) in [(0, 120), (6, 120), (9, 120), (11, 120)] {
        let outcome = run_caught(seed, seconds);
        assert_eq!(outcome.findings, [], "seed {seed} of {seconds} s");
    }
}
