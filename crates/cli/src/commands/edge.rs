//! `leasehold edge`: a sidecar that decides from leases, until it is told to stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use leasehold_client::stream::Address;
use leasehold_edge::config::Flags;
use leasehold_edge::{Config, DEFAULT_CONFIG_YAML, Edge, StartError};
use leasehold_service::files::{CONFIG_BYTES_MAX, read_text};
use leasehold_service::logging;

use super::serving::{bind_step, until_stopped};
use crate::failure::{Failure, Outcome};
use crate::output;

/// Arguments of `leasehold edge`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For example: leasehold edge --upstream http://10.0.0.1:7600 --upstream http://10.0.0.2:7600 \
                  --unix /run/leasehold/edge.sock"
)]
pub(crate) struct Args {
    /// The configuration, as YAML. Without one the defaults hold, and what the other flags say.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A node to lease from, where its clients are served; repeat it for others of its cluster.
    #[arg(long, value_name = "http://HOST:PORT|unix:/PATH")]
    upstream: Vec<Address>,
    /// Where to serve clients: HTTP, gRPC and Envoy. Port 0 takes any free one.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// A socket file to serve clients on, instead of a port or, with --http, beside it.
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Where to serve operators: metrics, status and readiness.
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// What the nodes' operators see of this edge.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Check the configuration, say so, and exit.
    #[arg(long)]
    check_config: bool,
    /// Print the default configuration, every field with its comment, and exit.
    #[arg(long, exclusive = true)]
    print_default_config: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    if args.print_default_config {
        output::raw(DEFAULT_CONFIG_YAML);
        return Ok(Outcome::Done);
    }
    let config = args.config.as_deref().map_or_else(|| Ok(Config::default()), read_config)?;
    let config = config
        .with(Flags {
            upstreams: args.upstream.clone(),
            name: args.name.clone(),
            http: args.http,
            unix: args.unix.clone(),
            admin: args.admin,
        })
        .map_err(|message| Failure::usage(anyhow!(message)))?;
    if args.check_config {
        output::line("ok: the configuration has no mistakes");
        return Ok(Outcome::Done);
    }
    logging::init(&config.log).map_err(Failure::usage)?;
    let start = async { Edge::start(config).await.map_err(not_started) };
    until_stopped(start, Edge::drain)
}

fn read_config(path: &Path) -> Result<Config, Failure> {
    let name = path.display().to_string();
    let text = read_text(path, CONFIG_BYTES_MAX).with_context(|| format!("cannot read {name}")).map_err(
        |error| Failure::usage(error).next("print one to start from: leasehold edge --print-default-config"),
    )?;
    Config::from_yaml(&name, &text).map_err(Failure::usage)
}

/// Why an edge did not start, and what to do about it.
pub(super) fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Bind { field, addr, ref source } => {
            let next = bind_step(field, &[("clients.listen", "--http"), ("admin.listen", "--admin")], source);
            Failure::error(anyhow::Error::new(error).context(format!("cannot listen on {addr}"))).next(next)
        }
        StartError::Socket { .. } => {
            Failure::error(error).next("choose another path with --unix (in a configuration: clients.unix)")
        }
    }
}
