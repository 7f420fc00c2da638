//! What leasing costs beside other ways to share a limit: 12 edges in 3 regions, 60–150 ms apart, in virtual time over
//! the real ledger and wallet.
//!
//! `just bench-leases`. A seed gives one table. Ends with an error when leases admit more than their limits.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod sim;

use std::process::ExitCode;

use sim::{ALL, COLUMNS, Which, Workload};

const USUAL: Workload = Workload {
    keys: 40,
    per_second: 6_000,
    limit_per_second: 300,
    limit_burst: 300,
    bursts: true,
    seconds: 20,
    seed: 1,
};
const LEASES: [Which; 2] = [Which::Leases, Which::Brokers];

fn main() -> ExitCode {
    let hot = Workload { keys: 6, ..USUAL };
    let smooth = Workload { bursts: false, ..USUAL };
    let exact = [
        table("with bursts", USUAL, &ALL, false),
        table("smooth", smooth, &LEASES, false),
        table("hot keys only", hot, &LEASES, false),
        table("with bursts and six owner crashes", USUAL, &LEASES, true),
    ];
    if exact.iter().all(|exact| *exact) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints one; says whether leases kept within their limits.
fn table(title: &str, workload: Workload, policies: &[Which], crashes: bool) -> bool {
    let Workload { keys, per_second, limit_per_second, limit_burst, seconds, seed, .. } = workload;
    println!(
        "{title}: {per_second} requests a second for {keys} keys, each limited to {limit_per_second} a second"
    );
    println!("and {limit_burst} at once; {seconds} s from a cold start, seed {seed}");
    println!("| policy {COLUMNS}");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut exact = true;
    for &which in policies {
        let report = sim::run(which, workload, crashes);
        exact &= !LEASES.contains(&which) || report.overshoot_ppm == 0;
        println!("| {} {report}", which.name());
    }
    println!();
    exact
}
