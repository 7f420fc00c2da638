//! The command line: what can be said, and which function does it.

mod bench;
mod check;
mod cluster;
mod dev;
mod edge;
mod keys;
mod leases;
mod node;
mod rules;
mod serving;
mod simulate;

use std::sync::OnceLock;

use anyhow::anyhow;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::failure::{Failure, Outcome};
use crate::output::Format;

#[cfg(test)]
mod tests;

/// The version, and the commit it was built from where the build says so (`LEASEHOLD_COMMIT=abc1234 cargo build`).
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| match option_env!("LEASEHOLD_COMMIT") {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// A rate limiter that decides exactly, over HTTP, gRPC and Envoy's protocol, on one node or on several.
///
/// Start with `leasehold dev`. Exit codes: 0 ok, 1 error, 2 usage or bad configuration, 3 denied.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version = version(), propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// How answers are printed.
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a node, or a cluster of them, here and now, with example rules.
    Dev(dev::Args),
    /// Run a node from a configuration file.
    Node(node::Args),
    /// Run a sidecar that decides from leases, beside the services that ask.
    Edge(edge::Args),
    /// Take from every limit that applies, or from none; exits 3 when denied.
    Check(check::CheckArgs),
    /// Look at what a check would answer, taking nothing; exits 3 when it would be denied.
    Peek(check::PeekArgs),
    /// Make the counters of these attributes fresh again.
    Reset(check::ResetArgs),
    /// Check, explain and change rules.
    #[command(subcommand)]
    Rules(rules::Command),
    /// Show how a node and its cluster are.
    Status(cluster::StatusArgs),
    /// Show the nodes of a cluster; drain, bring back or forget one.
    Members(cluster::MembersArgs),
    /// Show where counters live and who leads them; have another node lead some.
    Shards(cluster::ShardsArgs),
    /// Show what is lent to edges.
    #[command(subcommand)]
    Leases(leases::Command),
    /// Show which keys are asked for most often.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Replay events in virtual time through the code that decides in production.
    Simulate(simulate::Args),
    /// Put load on a server and measure it.
    Bench(bench::Args),
    /// Print a completion script for a shell.
    ///
    /// For example: leasehold completions bash > /etc/bash_completion.d/leasehold
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

/// Runs one command to its end.
///
/// # Errors
/// What kept it from doing its work.
pub(crate) fn run(cli: Cli) -> Result<Outcome, Failure> {
    let format = cli.output;
    if format == Format::Svg && !matches!(cli.command, Command::Simulate(_)) {
        return Err(Failure::usage(anyhow!("--output svg is only made by `leasehold simulate`")));
    }
    match cli.command {
        Command::Dev(args) => dev::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Edge(args) => edge::run(&args),
        Command::Check(args) => check::check(&args, format),
        Command::Peek(args) => check::peek(&args, format),
        Command::Reset(args) => check::reset(&args, format),
        Command::Rules(command) => rules::run(&command, format),
        Command::Status(args) => cluster::status(&args, format),
        Command::Members(args) => cluster::members(&args, format),
        Command::Shards(args) => cluster::shards(&args, format),
        Command::Leases(command) => leases::run(&command, format),
        Command::Keys(command) => keys::run(&command, format),
        Command::Simulate(args) => simulate::run(&args, format),
        Command::Bench(args) => bench::run(&args, format),
        Command::Completions { shell } => completions(shell),
    }
}

fn completions(shell: Shell) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "leasehold", &mut script);
    crate::output::raw(&String::from_utf8_lossy(&script));
    Ok(Outcome::Done)
}
