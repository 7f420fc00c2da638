//! `leasehold-sim`: runs worlds from seeds, and tells what they found.
//!
//! What it prints for a seed is the same on every machine. It ends with an error when something was found, when a sweep
//! missed a state that it must have visited, or when a planted bug wasn't caught.

#![expect(clippy::print_stdout, reason = "a command prints its answer")]

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::{Args, Parser, Subcommand};
use leasehold_sim::invariants::ALL;
use leasehold_sim::reached::State;
use leasehold_sim::sweep::{Swept, run_caught, sweep};
use leasehold_sim::{Outcome, replay};

/// Findings of a sweep that are told in full.
const TOLD_MAX: usize = 10;

#[derive(Debug, Parser)]
#[command(name = "leasehold-sim", about = "Whole clusters in virtual time, from seeds")]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Args)]
struct Length {
    /// Simulated seconds of each world.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run one world.
    Run {
        /// Which.
        #[arg(long)]
        seed: u64,
        #[command(flatten)]
        length: Length,
    },
    /// Run many worlds, on all cores.
    Sweep {
        /// How many.
        #[arg(long)]
        seeds: u64,
        /// The first.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Worlds at a time; as many as there are cores if not said.
        #[arg(long)]
        threads: Option<usize>,
        #[command(flatten)]
        length: Length,
    },
    /// Run one world and tell its story.
    Replay {
        /// Which.
        #[arg(long)]
        seed: u64,
        #[command(flatten)]
        length: Length,
    },
    /// Run one world in two processes: the same must happen.
    Twice {
        /// Which.
        #[arg(long)]
        seed: u64,
        #[command(flatten)]
        length: Length,
    },
    /// Put each known bug back, and see in how many seeds it is caught.
    Planted {
        /// Seeds for each bug.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Only this one; may be given more than once.
        #[arg(long)]
        bug: Vec<String>,
        /// Stop with the first seed that catches a bug.
        #[arg(long)]
        first: bool,
        #[command(flatten)]
        length: Length,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    // A world that panics is a finding, and its message is told with it.
    std::panic::set_hook(Box::new(|_| {}));
    match Cli::parse().command {
        What::Run { seed, length } => {
            let outcome = run_caught(seed, length.seconds);
            println!("{}", line(&outcome));
            tell_findings(&outcome);
            Ok(code(outcome.findings.is_empty()))
        }
        What::Sweep { seeds, from, threads, length } => {
            let threads = threads.unwrap_or_else(cores);
            #[expect(
                clippy::disallowed_methods,
                reason = "how long it took is told beside, and decides nothing"
            )]
            let begun = Instant::now();
            let swept = sweep(from, seeds, length.seconds, threads, false);
            Ok(report(&swept, length.seconds, begun.elapsed().as_secs_f64()))
        }
        What::Replay { seed, length } => {
            let outcome = replay(seed, length.seconds);
            for (at, what) in &outcome.story {
                println!("{:>4}.{:03} {what}", at / 1_000_000_000, at / 1_000_000 % 1_000);
            }
            println!("{}", line(&outcome));
            tell_findings(&outcome);
            Ok(code(outcome.findings.is_empty()))
        }
        What::Twice { seed, length } => twice(seed, length.seconds),
        What::Planted { seeds, from, bug, first, length } => {
            planted(seeds, from, &bug, first, length.seconds)
        }
    }
}

fn code(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn line(outcome: &Outcome) -> String {
    let Outcome { seed, hash, events, units, overshoot_per_mille, .. } = outcome;
    format!(
        "seed {seed}: hash {hash:016x}, {events} events, {units} units, overshoot {overshoot_per_mille} per mille"
    )
}

fn tell_findings(outcome: &Outcome) {
    for finding in &outcome.findings {
        let promise =
            ALL.iter().find(|(name, _)| *name == finding.invariant).map_or("", |(_, promise)| promise);
        let (second, milli) = (finding.at / 1_000_000_000, finding.at / 1_000_000 % 1_000);
        println!("  {} {promise} at {second}.{milli:03}: {}", finding.invariant, finding.what);
    }
}

fn report(swept: &Swept, seconds: u64, took: f64) -> ExitCode {
    let worlds = swept.worlds;
    println!(
        "{worlds} worlds of {seconds} s, {} events, {} units admitted, hash {:016x}",
        swept.events, swept.units, swept.hash
    );
    for failed in swept.failed.iter().take(TOLD_MAX) {
        println!("{}", line(failed));
        tell_findings(failed);
        println!("  again: leasehold-sim replay --seed {} --seconds {seconds}", failed.seed);
    }
    println!("failed: {} of {worlds}", swept.failed.len());
    for state in State::ALL {
        println!("reached in {:>5} worlds: {state}", swept.reached.times(state));
    }
    eprintln!("took {took:.1} s: {:.1} worlds a second", count(worlds) / took.max(0.001));
    let missed = swept.missed();
    if !missed.is_empty() {
        println!("no result: {} states were visited by no world", missed.len());
    }
    code(swept.failed.is_empty() && missed.is_empty())
}

#[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
const fn count(worlds: u64) -> f64 {
    worlds as f64
}

/// Runs the seed in two processes of this program.
fn twice(seed: u64, seconds: u64) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("find this program")?;
    let once = || -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new(&program);
        command.args(["run", "--seed", &seed.to_string(), "--seconds", &seconds.to_string()]);
        Ok(command.output().context("run this program")?.stdout)
    };
    let (first, second) = (once()?, once()?);
    ensure!(!first.is_empty(), "the program printed nothing");
    ensure!(first == second, "two runs of seed {seed} differ:\n{}{}", text(&first), text(&second));
    println!("twice the same: {}", text(&first).trim_end());
    Ok(ExitCode::SUCCESS)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(not(feature = "planted"))]
fn planted(_: u64, _: u64, _: &[String], _: bool, _: u64) -> anyhow::Result<ExitCode> {
    anyhow::bail!("build it with `--profile planted --features planted`: bugs can't be put into other builds")
}

#[cfg(feature = "planted")]
fn planted(seeds: u64, from: u64, only: &[String], first: bool, seconds: u64) -> anyhow::Result<ExitCode> {
    use leasehold_model::planted::{Bug, plant};

    let bugs = only.iter().map(|name| name.parse()).collect::<Result<Vec<Bug>, _>>().context("read --bug")?;
    let bugs = if bugs.is_empty() { Bug::ALL.to_vec() } else { bugs };
    let mut caught_all = true;
    println!("| bug | caught in | first seed | by |");
    println!("|---|--:|--:|---|");
    for bug in bugs {
        plant(bug);
        let swept = sweep(from, seeds, seconds, cores(), first);
        plant(None);
        caught_all &= !swept.failed.is_empty();
        let mut by = std::collections::BTreeMap::<&str, u64>::new();
        for failed in &swept.failed {
            let names: std::collections::BTreeSet<&str> =
                failed.findings.iter().map(|f| f.invariant).collect();
            names.into_iter().for_each(|name| *by.entry(name).or_default() += 1);
        }
        let by: Vec<String> = by.into_iter().map(|(name, times)| format!("{name} ({times})")).collect();
        let seed = swept.failed.first().map_or("-".to_owned(), |failed| failed.seed.to_string());
        println!("| {bug} | {} of {} | {seed} | {} |", swept.failed.len(), swept.worlds, by.join(", "));
    }
    Ok(code(caught_all))
}
