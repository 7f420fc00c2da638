//! The one binary: `leasehold`. Parses the command line, runs one command, turns its outcome into an exit code.
//!
//! Exit codes: 0 ok, 1 error, 2 usage or bad configuration, 3 denied. Answers go to stdout, everything else to stderr.

mod bench;
mod commands;
mod failure;
mod output;
mod remote;
mod simulate;

use std::process::ExitCode;

use clap::Parser;

/// A check is many small allocations, made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    #[cfg(feature = "planted")]
    if let Err(unknown) = plant() {
        eprintln!("error: LEASEHOLD_PLANT: {unknown}");
        return ExitCode::from(2);
    }
    let cli = match commands::Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return output::usage(&usage),
    };
    match commands::run(cli) {
        Ok(outcome) => {
            output::finish().map_or_else(|unwritten| output::failure(&unwritten), |()| outcome.into())
        }
        Err(failure) => output::failure(&failure),
    }
}

/// Puts back the bug that the environment names.
#[cfg(feature = "planted")]
fn plant() -> Result<(), leasehold_model::planted::UnknownBug> {
    if let Ok(name) = std::env::var("LEASEHOLD_PLANT") {
        leasehold_model::planted::plant(name.parse::<leasehold_model::planted::Bug>()?);
    }
    Ok(())
}
