//! `raft-simulation`: the real Raft, log and shards of three nodes, on simulated network, disks and time, broken by seeds.
//!
//! Invariant: a seed decides a run. A sweep fails when a promise didn't hold in a run, and gives no result when its runs
//! didn't visit all the states that it is for.

mod clients;
mod machine;
mod node;
mod observed;
mod world;

use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::{Parser, Subcommand};
use leasehold_model::planted::{Bug, plant};

use observed::Reached;
use world::Outcome;

#[derive(Parser)]
#[command(about = "Three nodes with the real Raft, log and shards on simulated network, disks and time")]
struct Arguments {
    #[command(subcommand)]
    command: Wanted,
}

#[derive(Subcommand)]
enum Wanted {
    /// One seed, and what happened in it.
    Run {
        #[arg(long)]
        seed: u64,
    },
    /// Many seeds; fails when a promise didn't hold, gives no result when something wasn't visited.
    Sweep {
        #[arg(long, default_value_t = 300)]
        seeds: u64,
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// One seed in two processes: the same events, or it fails.
    Twice {
        #[arg(long)]
        seed: u64,
    },
    /// Puts known bugs back, one after the other; fails when one isn't caught within so many seeds.
    Planted {
        #[arg(long, default_value_t = 40)]
        seeds: u64,
        /// All that this simulation is for, unless some are named.
        bugs: Vec<Bug>,
    },
}

/// The bugs that need real Raft, disks or snapshots to show.
const BUGS: [Bug; 4] =
    [Bug::AckBeforeSync, Bug::VoteNotSynced, Bug::ReplyCacheNotInSnapshot, Bug::NonFreshEvicted];

fn main() -> ExitCode {
    match Arguments::parse().command {
        Wanted::Run { seed } => one(seed),
        Wanted::Sweep { seeds, from } => sweep(from, seeds),
        Wanted::Twice { seed } => twice(seed),
        Wanted::Planted { seeds, bugs } => planted(seeds, if bugs.is_empty() { &BUGS } else { &bugs }),
    }
}

fn one(seed: u64) -> ExitCode {
    let outcome = world::run(seed);
    for line in &outcome.story {
        println!("{line}");
    }
    println!("seed {seed}: {} asks, events {:016x}", outcome.asks, outcome.hash);
    tell(seed, &outcome)
}

fn tell(seed: u64, outcome: &Outcome) -> ExitCode {
    for breach in &outcome.breaches {
        println!("seed {seed}: {} at {:.3} s: {}", breach.invariant, breach.at as f64 / 1e9, breach.what);
    }
    if outcome.breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn sweep(from: u64, seeds: u64) -> ExitCode {
    let (began, next) = (Instant::now(), AtomicU64::new(from));
    let sum = Mutex::new((Reached::default(), 0_usize, 0_u64));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let outcome = world::run(seed);
                    tell(seed, &outcome);
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.0.add(&outcome.reached);
                    sum.1 += outcome.asks;
                    sum.2 += u64::from(!outcome.breaches.is_empty());
                }
            });
        }
    });
    let (reached, asks, failed) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (state, count) in reached.rows() {
        println!("{count:>8}  {state}");
    }
    let missed = reached.rows().iter().filter(|(_, count)| *count == 0).count();
    let took = began.elapsed().as_secs_f64();
    println!("{seeds} seeds, {asks} asks, {failed} failed, {missed} states not visited, {took:.1} s");
    match (failed, missed) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => {
            println!("no result: run more seeds");
            ExitCode::from(2)
        }
        _ => ExitCode::FAILURE,
    }
}

fn planted(seeds: u64, bugs: &[Bug]) -> ExitCode {
    let mut missed = 0;
    for bug in bugs {
        plant(*bug);
        let began = Instant::now();
        let caught =
            (0..seeds).map(|seed| (seed, world::run(seed))).find(|(_, run)| !run.breaches.is_empty());
        let took = began.elapsed().as_secs_f64();
        match caught {
            Some((seed, run)) => {
                println!(
                    "{bug:<28} caught by {} in seed {seed}, {} seeds, {took:.1} s",
                    run.breaches[0].invariant,
                    seed + 1
                );
            }
            None => {
                println!("{bug:<28} not caught in {seeds} seeds, {took:.1} s");
                missed += 1;
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn twice(seed: u64) -> ExitCode {
    let program = std::env::current_exe().expect("this program has a path");
    let run = || {
        let run = Command::new(&program).args(["run", "--seed", &seed.to_string()]).output();
        run.expect("this program can be started").stdout
    };
    let (first, second) = (run(), run());
    if first == second && !first.is_empty() {
        println!("seed {seed}: the same events twice");
        return ExitCode::SUCCESS;
    }
    println!("seed {seed}: two processes saw different events");
    ExitCode::FAILURE
}
