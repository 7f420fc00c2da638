//! `leasehold rules`: lint and explain work offline on files; status, get, apply and remove speak to a
//! running server.

mod explain;
mod lint;
mod remote;
mod request;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};
use crate::output::Format;

pub(super) use lint::show_mistakes;

/// What can be done with rules.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find every mistake in rule files, offline; exits 1 when there is one.
    Lint(lint::Args),
    /// Show what the rules make of one request: who is calling, what matches and why, which counters, what they say.
    Explain(explain::Args),
    /// Show which rules a server has in force and how its last reload went; exits 1 when that was refused.
    Status(remote::StatusArgs),
    /// Print one domain's rule file as a server has it in force.
    Get(remote::GetArgs),
    /// Put one domain's rule file in force on a server.
    Apply(remote::ApplyArgs),
    /// Take one domain's rules out of force on a server: its requests then pass without a limit.
    Remove(remote::RemoveArgs),
}

/// Runs the command.
pub(super) fn run(command: &Command, format: Format) -> Result<Outcome, Failure> {
    match command {
        Command::Lint(args) => lint::run(args, format),
        Command::Explain(args) => explain::run(args, format),
        Command::Status(args) => remote::status(args, format),
        Command::Get(args) => remote::get(args, format),
        Command::Apply(args) => remote::apply(args, format),
        Command::Remove(args) => remote::remove(args, format),
    }
}
