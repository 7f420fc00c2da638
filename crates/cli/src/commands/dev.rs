//! `leasehold dev`: a node, or a whole cluster, to try things out on, in this process, with example rules.

mod cluster;
mod edges;
mod load;
mod regions;
mod sample;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::anyhow;
use leasehold_limit::rules::RuleBook;
use leasehold_limit::rules::rate::describe;
use leasehold_node::{Config, DevOptions, Node};

use super::node::serve;
use crate::failure::{Failure, Outcome};
use crate::output::{self, text};
use regions::Regions;

/// Arguments of `leasehold dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A rule file, or a folder of them, instead of the example rules. A single node picks changes up.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// How many nodes [default: 1, or 3 in each region]. Several form a cluster; each has the ports of the one before it
    /// plus 10.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: Option<u16>,
    /// Regions of a cluster, each with its own nodes.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    regions: Vec<String>,
    /// How far regions are apart: messages between them are held back for half of the round trip. 0 where it isn't said.
    #[arg(long, value_name = "A-B=TIME,...", value_delimiter = ',')]
    rtt: Vec<String>,
    /// Have the edge of each region asked so many times a second, and show each second what decided and how often somebody
    /// farther away was asked. 0 only shows. Without a number: 100.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "100", requires = "regions",
          value_parser = clap::value_parser!(u32).range(0..=10_000))]
    load: Option<u32>,
    /// Where a cluster keeps its data, for the next time; without it the data goes with the process.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where to serve clients: HTTP, gRPC and Envoy. Port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7600")]
    http: SocketAddr,
    /// Where to serve operators: metrics, status and rules.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7602")]
    admin: SocketAddr,
    /// Log more: -v what an operator wants in a timeline, -vv details, -vvv every request.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<Outcome, Failure> {
    if args.http == args.admin && args.http.port() != 0 {
        let failure = Failure::usage(anyhow!("--admin: {} is the clients' address already", args.admin));
        return Err(failure.next("give operators a port of their own, for example --admin 127.0.0.1:7602"));
    }
    let regions = Regions::read(&args.regions, &args.rtt)?;
    let is_cluster = regions.is_some() || args.nodes.is_some_and(|nodes| nodes > 1);
    let level = match args.verbose {
        // That gossip is as good as open is as it should be here.
        0 if is_cluster => "warn,leasehold_node::boot=error",
        // What became of an edited rule file belongs into the terminal it is watched from.
        0 => "warn,leasehold_node::rules=info",
        1 => "info",
        2 => "debug",
        3.. => "trace",
    };
    if is_cluster {
        return cluster::run(args, regions.as_ref(), level);
    }
    if args.data.is_some() {
        let failure = Failure::usage(anyhow!("--data: a single node keeps nothing"));
        return Err(failure.next("add --nodes 3"));
    }
    let mut config = Config::dev(DevOptions {
        rules: args.rules.clone(),
        clients: Some(args.http),
        admin: Some(args.admin),
    });
    config.log.level = level.to_owned();
    leasehold_node::logging::init(&config.log).map_err(Failure::usage)?;
    serve(config, |node| output::raw(&banner(node)))
}

fn banner(node: &Node) -> String {
    let (clients, admin) = (node.client_addr(), node.admin_addr());
    let book = node.rules();
    let source = node.rules_status().source;
    format!(
        "leasehold {version} is ready\n\n\
         \x20 clients    http://{clients}   HTTP, gRPC, Envoy RLS\n\
         \x20 operators  http://{admin}   /metrics, /v1/status\n\
         \x20 rules      {source}\n\n\
         {rules}\n\
         Try it:\n\n{curl}\n\n\
         Ctrl-C ends it.\n",
        version = env!("CARGO_PKG_VERSION"),
        rules = rules_table(&book),
        curl = example(&book, clients),
    )
}

/// Rules shown at the start; more are counted, so that the banner fits a screen.
const RULES_SHOWN_MAX: usize = 12;

fn rules_table(book: &RuleBook) -> String {
    let rules: Vec<_> = book.domains.values().flat_map(|domain| &domain.rules).collect();
    let columns = [text("domain"), text("rule"), text("limit"), text("algorithm"), text("per")];
    let rows = rules.iter().take(RULES_SHOWN_MAX).map(|rule| {
        let per: Vec<_> = rule.per.iter().map(|dimension| &*dimension.attribute).collect();
        vec![
            rule.domain.to_string(),
            rule.name.to_string(),
            describe(&rule.limit),
            rule.limit.algorithm().name().to_owned(),
            if per.is_empty() { "-".to_owned() } else { per.join(", ") },
        ]
    });
    let mut table = output::table(&columns, rows);
    if let Some(more) = rules.len().checked_sub(RULES_SHOWN_MAX).filter(|more| *more > 0) {
        table.push_str(&format!("and {more} more\n"));
    }
    table
}

/// A request that the first rule applies to, as a command that can be pasted.
fn example(book: &RuleBook, clients: SocketAddr) -> String {
    let Some(rule) = book.domains.values().find_map(|domain| domain.rules.first()) else {
        return "  (there are no rules yet)".to_owned();
    };
    let attributes = sample::attributes(rule, "203.0.113.7", "alice");
    let body = serde_json::json!({ "domain": &*rule.domain, "attributes": attributes });
    format!(
        "  curl -i http://{clients}/v1/check -H 'content-type: application/json' \\\n    -d '{}'",
        body.to_string().replace('\'', "'\\''")
    )
}
