//! The benchmark's simulation, small: leases keep to their limits and cost about what they should, and the meters by which
//! that is known see what the other policies do.

#![expect(clippy::print_stdout, reason = "figures beside a failure")]

#[path = "../benches/leases/sim/mod.rs"]
mod sim;

use sim::{ALL, COLUMNS, Report, Which, Workload};

const SMALL: Workload = Workload {
    keys: 20,
    per_second: 3_000,
    limit_per_second: 300,
    limit_burst: 300,
    bursts: true,
    seconds: 8,
    seed: 7,
};
/// Timers of a wallet for each 1,000 decisions. One that doesn't sleep rings a million times.
const WAKES_MAX: u64 = 400;

fn run(which: Which) -> Report {
    let report = sim::run(which, SMALL, false);
    println!("{} {COLUMNS}\n{report}", which.name());
    report
}

#[test]
fn leases_by_brokers_cost_few_calls_and_little_undershoot_and_never_overshoot() {
    let report = run(Which::Brokers);
    assert_eq!(report.overshoot_ppm, 0);
    assert!(report.wan_per_1000() <= 60.0);
    assert!(report.undershoot_percent() <= 5.0);
    assert!(report.added_ms() <= 8.0);
    assert!(report.wakes * 1_000 <= WAKES_MAX * report.decisions, "{} timers rang", report.wakes);
}

#[test]
fn leases_from_the_owners_themselves_never_overshoot() {
    let report = run(Which::Leases);
    assert_eq!(report.overshoot_ppm, 0);
    assert!(report.undershoot_percent() <= 5.0);
    assert!(report.wakes * 1_000 <= WAKES_MAX * report.decisions, "{} timers rang", report.wakes);
}

#[test]
fn owners_that_crash_six_times_never_overshoot() {
    for which in [Which::Leases, Which::Brokers] {
        let report = sim::run(which, Workload { seconds: 15, ..SMALL }, true);
        assert_eq!(report.overshoot_ppm, 0, "{}", which.name());
    }
}

#[test]
fn the_meters_see_what_the_other_policies_do() {
    for which in ALL {
        let report = run(which);
        match which {
            Which::AskPerRequest => {
                assert_eq!((report.calls, report.waited), (report.decisions, report.admitted));
                assert_eq!(report.overshoot_ppm, 0);
            }
            Which::Static => {
                assert_eq!((report.calls, report.overshoot_ppm), (0, 0));
                assert!(report.undershoot_percent() > 2.0);
            }
            Which::Optimistic => assert!(report.overshoot_ppm > 100_000),
            Which::Leases | Which::Brokers => assert_eq!(report.overshoot_ppm, 0),
            // How far these go depends on the traffic.
            Which::FixedBatch(_) | Which::QuarterOfRemaining | Which::Uncoupled => {}
        }
    }
}

#[test]
fn a_seed_gives_one_table() {
    assert_eq!(run(Which::Brokers), run(Which::Brokers));
}
