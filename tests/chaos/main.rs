//! `leasehold-chaos`: breaks a real cluster in every way that we know, and says what came of its promises.
//!
//! A run writes a history; checks and reports read it and nothing else, here or elsewhere, now or a year later. Exit codes:
//! 0 every promise was kept, 1 one wasn't (or a run never reached what it is for), 2 it could not be told.

#![expect(clippy::print_stdout, reason = "a command prints what it found")]

mod check;
mod commands;
mod faults;
mod history;
mod hold;
mod isolate;
mod look;
mod net;
mod record;
mod report;
mod run;
mod scenario;
mod shim;
mod traffic;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use check::{Checked, Verdict};
use history::History;

#[derive(Debug, Parser)]
#[command(name = "leasehold-chaos", about = "Breaks a real cluster and says what came of its promises")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios, and hold what happened against every promise
    Run(commands::RunArgs),
    /// Say which scenarios there are
    List,
    /// Run what should catch known bugs, with a binary that has them
    Planted(commands::PlantedArgs),
    /// Hold a history against every promise
    Check {
        /// A run's history.jsonl
        history: PathBuf,
    },
    /// Draw every run below a folder, and one table over all of them
    Report {
        /// Where histories are: `DIR/RUN/history.jsonl`
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Run(args) => commands::run_scenarios(&args),
        Command::Planted(args) => commands::run_planted(&args),
        Command::List => {
            println!("{}", commands::list()?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Check { history } => {
            let history = History::read(&history).context("check")?;
            anyhow::ensure!(!history.calls.is_empty(), "nothing was asked in this history");
            let checked = Checked::of(&history);
            println!("{checked}");
            Ok(code(checked.verdict()))
        }
        Command::Report { dir } => {
            let verdict = report::report_all(&dir)?;
            println!("{}", dir.join("report.md").display());
            Ok(code(verdict))
        }
    }
}

fn code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Kept => ExitCode::SUCCESS,
        Verdict::NoResult | Verdict::Broken => ExitCode::from(1),
    }
}
