//! `leasehold bench`: puts load on a server and measures it.

use std::time::Duration;

use anyhow::anyhow;

use super::check::parse_attribute;
use crate::bench::keys::Distribution;
use crate::bench::plan::{self, End, Plan, Protocol};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};
use crate::remote::parse_duration;

/// Arguments of `leasehold bench`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --rate each stream sends its next request when the last was answered (closed loop). With --rate \
                  requests are due at fixed moments and latency counts from those (open loop), so a server that stalls \
                  is charged for everybody who would have waited."
)]
pub(crate) struct Args {
    /// The server, for example http://127.0.0.1:7600.
    target: String,
    /// How requests are carried.
    #[arg(long, value_enum, default_value_t = Protocol::Grpc)]
    protocol: Protocol,
    /// Open loop: so many requests a second in all.
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Connections.
    #[arg(long, default_value_t = 4, value_name = "N")]
    connections: usize,
    /// Requests in flight on each connection [default: 16, for http 1].
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Threads that send.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Checks in one message [default: 16 for grpc-batch, otherwise 1].
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// The domain: the namespace of rules.
    #[arg(long, default_value = "api")]
    domain: String,
    /// An attribute of every check; `{key}` in the value becomes the check's key. May be repeated.
    #[arg(
        long = "attribute",
        value_name = "NAME=VALUE",
        value_parser = parse_attribute,
        default_values = ["path=/api/v1/items", "ip=bench-{key}"]
    )]
    attributes: Vec<(String, String)>,
    /// Units each check takes; 0 only looks.
    #[arg(long, default_value_t = 1, value_name = "N")]
    cost: u32,
    /// Distinct keys.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    keys: u64,
    /// How often each key is asked: uniform, zipf, zipf:S.
    #[arg(long, default_value = "uniform", value_name = "SHAPE")]
    distribution: Distribution,
    /// Equal seeds ask for equal keys.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Load before anything is measured.
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "TIME")]
    warmup: Duration,
    /// How long to measure.
    #[arg(long, default_value = "10s", value_parser = parse_duration, value_name = "TIME")]
    duration: Duration,
    /// Measure so many requests instead.
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    requests: Option<u64>,
    /// Charge the processor time of this process, the server, to the decisions.
    #[arg(long, value_name = "PID")]
    cpu_of: Option<u32>,
    /// Put load on another machine.
    #[arg(long)]
    allow_remote: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args, format: Format) -> Result<Outcome, Failure> {
    let plan = plan(args).map_err(Failure::usage)?;
    plan.check(args.allow_remote).map_err(Failure::usage)?;
    let report = crate::bench::run(plan, format == Format::Table).map_err(|error| {
        Failure::error(error).next("start a server with `leasehold dev`, or name another TARGET")
    })?;
    match format {
        Format::Json => output::json(&report),
        Format::Table | Format::Svg => output::raw(&report.to_text()),
    }
    if report.answered() {
        return Ok(Outcome::Done);
    }
    let errors = report.errors();
    if errors.is_empty() {
        return Err(Failure::error(anyhow!(
            "nothing was sent after the warm-up, which the server is still busy with"
        ))
        .next("lower --rate, or raise --duration"));
    }
    Err(Failure::error(anyhow!("no check was decided: {errors}")))
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let (authority, address) = plan::target(&args.target)?;
    let http = args.protocol == Protocol::Http;
    let batched = args.protocol == Protocol::GrpcBatch;
    Ok(Plan {
        authority,
        address,
        protocol: args.protocol,
        connections: args.connections,
        streams: args.streams.unwrap_or(if http { 1 } else { 16 }),
        threads: args.threads,
        batch: args.batch.unwrap_or(if batched { 16 } else { 1 }),
        rate: args.rate,
        domain: args.domain.clone(),
        attributes: args.attributes.clone(),
        cost: args.cost,
        keys: args.keys,
        distribution: args.distribution,
        warmup: args.warmup,
        end: args.requests.map_or(End::After(args.duration), End::Requests),
        cpu_of: args.cpu_of,
        seed: args.seed,
    })
}
