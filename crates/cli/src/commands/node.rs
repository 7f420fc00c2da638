//! `leasehold node`: a node from a configuration file, until it is told to stop.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use leasehold_node::files::{CONFIG_BYTES_MAX, read_text};
use leasehold_node::{Config, DEFAULT_CONFIG_YAML, Node, StartError};
use tokio::task::JoinSet;

use crate::commands::rules::show_mistakes;
use crate::commands::serving::{bind_step, until_stopped};
use crate::failure::{Failure, Outcome};
use crate::output;

/// Arguments of `leasehold node`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration, as YAML.
    #[arg(long, value_name = "FILE", required_unless_present = "print_default_config")]
    config: Option<PathBuf>,
    /// Print the default configuration, every field with its comment, and exit.
    #[arg(long, conflicts_with = "config")]
    print_default_config: bool,
    /// What this node is called in its cluster, instead of what the file or the machine's host name says.
    #[arg(long, value_name = "NAME", requires = "config")]
    node: Option<String>,
    /// The directory of everything that this node of a cluster keeps, instead of the file's.
    #[arg(long, value_name = "DIR", requires = "config")]
    data: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    let Some(path) = &args.config else {
        output::raw(DEFAULT_CONFIG_YAML);
        return Ok(Outcome::Done);
    };
    let config = read_config(path)?
        .on_this_machine(args.node.clone(), args.data.clone())
        .map_err(|message| Failure::usage(anyhow!("--node, --data: {message}")))?;
    leasehold_node::logging::init(&config.log).map_err(Failure::usage)?;
    serve(config, |_| {})
}

fn read_config(path: &Path) -> Result<Config, Failure> {
    let name = path.display().to_string();
    let text = read_text(path, CONFIG_BYTES_MAX).with_context(|| format!("cannot read {name}")).map_err(
        |error| Failure::usage(error).next("print one to start from: leasehold node --print-default-config"),
    )?;
    Config::from_yaml(&name, &text).map_err(Failure::usage)
}

/// A node to start.
pub(super) struct Planned {
    pub(super) config: Config,
    /// Its port for peers, if that is open already.
    pub(super) peers: Option<TcpListener>,
}

impl From<Config> for Planned {
    fn from(config: Config) -> Self {
        Self { config, peers: None }
    }
}

/// Starts a node, says so, and serves until SIGTERM or Ctrl-C; then lets what is in flight finish.
pub(super) fn serve(config: Config, started: impl FnMut(&Node)) -> Result<Outcome, Failure> {
    let start = async {
        let nodes = start(vec![config.into()]).await?;
        nodes.iter().for_each(started);
        Ok(nodes)
    };
    until_stopped(start, drain)
}

/// Starts nodes.
pub(super) async fn start(planned: Vec<Planned>) -> Result<Vec<Node>, Failure> {
    let mut nodes = Vec::with_capacity(planned.len());
    for Planned { config, peers } in planned {
        nodes.push(Node::start_on(config, peers).await.map_err(not_started)?);
    }
    Ok(nodes)
}

/// Drains all at once; whether everything finished in time.
pub(super) async fn drain(nodes: Vec<Node>) -> bool {
    let mut draining: JoinSet<bool> = nodes.into_iter().map(Node::drain).collect();
    let mut finished = true;
    while let Some(drained) = draining.join_next().await {
        finished &= drained.unwrap_or(false);
    }
    finished
}

fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Rules(mistakes) => {
            show_mistakes(&mistakes);
            Failure::usage(anyhow!("{} in the rules", output::plural(mistakes.len(), "mistake")))
                .next("mend them and try again; `leasehold rules lint` finds them without starting a node")
        }
        StartError::Bind { field, addr, ref source } => {
            let next = bind_step(field, &[("clients.listen", "--http"), ("admin.listen", "--admin")], source);
            Failure::error(anyhow::Error::new(error).context(format!("cannot listen on {addr}"))).next(next)
        }
        StartError::ReadRules { .. } | StartError::Secret { .. } | StartError::Setting { .. } => {
            Failure::usage(error)
        }
        StartError::Cluster(_) | StartError::System { .. } => Failure::error(error),
    }
}
