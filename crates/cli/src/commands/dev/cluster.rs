//! `leasehold dev --nodes N`, or `--regions A,B`: a whole cluster in this process.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use leasehold_node::config::{AdminConfig, DoorConfig};
use leasehold_node::{ClusterConfig, Config, EXAMPLE_RULES_YAML, Node};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::edges::{self, Beside, Doors};
use super::load::{Latencies, Load, RULES_YAML};
use super::regions::Regions;
use super::watch::watch;
use super::{Args, example, rules_table};
use crate::commands::node::{Planned, drain, start};
use crate::commands::serving::doing_until_stopped;
use crate::failure::{Failure, Outcome};
use crate::output::{self, table, text};

/// Between the ports of a node and those of the next.
const STRIDE: u16 = 10;

/// The cluster's name, and so what keeps it from hearing others on this machine.
const NAME: &str = "dev";

/// How long the nodes may take to find each other. They are in one process: what takes longer is broken.
const FORMED_WITHIN: Duration = Duration::from_secs(60);

/// Nodes of a cluster in one process. More would only wait for each other's turn on the processor.
const NODES_MAX: usize = 15;

/// Nodes in each region unless told otherwise: as many as a shard has replicas.
const NODES_OF_REGION: u16 = 3;

/// Shards of a cluster with regions: its many nodes share one process, and each shard costs them heartbeats.
const SHARDS_OF_REGIONS: u32 = 8;

/// One node, before it is started.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    name: String,
    pub(super) region: Option<String>,
}

/// Who is to run, region after region.
fn seats(args: &Args, regions: Option<&Regions>) -> Result<Vec<Seat>, Failure> {
    let Some(regions) = regions else {
        let seat = |number| Seat { name: format!("node-{number}"), region: None };
        return Ok((1..=args.nodes.unwrap_or(1)).map(seat).collect());
    };
    let nodes = args.nodes.unwrap_or(NODES_OF_REGION);
    let seat =
        |region: &String, number| Seat { name: format!("{region}-{number}"), region: Some(region.clone()) };
    let seats: Vec<_> = regions
        .names()
        .iter()
        .flat_map(|region| (1..=nodes).map(move |number| seat(region, number)))
        .collect();
    if seats.len() > NODES_MAX {
        let message = anyhow!("--nodes: {nodes} in each region are {} nodes", seats.len());
        let fix = format!("run at most {NODES_MAX} in all, for example --nodes {NODES_OF_REGION}");
        return Err(Failure::usage(message).next(fix));
    }
    Ok(seats)
}

/// The data of all nodes: named by the user, or gone with the process.
enum Data {
    Named(PathBuf),
    Temporary(TempDir),
}

impl Data {
    fn at(named: Option<&Path>) -> Result<Self, Failure> {
        match named {
            Some(path) => {
                fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
                Ok(Self::Named(path.to_owned()))
            }
            None => {
                let made = tempfile::Builder::new().prefix("leasehold-dev-").tempdir();
                Ok(Self::Temporary(made.context("cannot make a temporary directory")?))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Named(path) => path,
            Self::Temporary(dir) => dir.path(),
        }
    }
}

/// Runs the cluster.
pub(super) fn run(args: &Args, regions: Option<&Regions>, level: &str) -> Result<Outcome, Failure> {
    let seats = seats(args, regions)?;
    let data = Data::at(args.data.as_deref())?;
    let mut planned = plan(args, &seats, regions, data.path())?;
    for node in &mut planned {
        level.clone_into(&mut node.config.log.level);
    }
    let first = planned.first().ok_or_else(|| Failure::usage(anyhow!("--nodes: there is none")))?;
    leasehold_node::logging::init(&first.config.log).map_err(Failure::usage)?;
    output::note(format!("forming a cluster of {} nodes ...", planned.len()));
    let start = async {
        let nodes = start(planned).await?;
        timeout(FORMED_WITHIN, formed(&nodes))
            .await
            .map_err(|_| anyhow!("the nodes have not found each other: {}", waiting(&nodes).join("; ")))?;
        let edges = edges::start(Doors { http: args.http, admin: args.admin }, &seats, &nodes).await?;
        let running = Running { nodes, edges };
        output::raw(&banner(&running, &seats, regions, &data));
        Ok(running)
    };
    doing_until_stopped(
        start,
        async |running| {
            if let Some(per_second) = args.load {
                running.show(&seats, per_second).await;
            }
        },
        Running::drain,
    )
}

/// Everything that runs.
struct Running {
    nodes: Vec<Node>,
    edges: Vec<Beside>,
}

impl Running {
    /// Has the edges asked so often, and shows what comes of it.
    async fn show(&self, seats: &[Seat], per_second: u32) {
        let latencies: Vec<_> = self.edges.iter().map(|_| Latencies::default()).collect();
        let book = self.nodes.first().map(Node::rules).unwrap_or_default();
        let mut loads = JoinSet::new();
        match Load::new(&book, per_second).filter(|_| per_second > 0) {
            Some(load) => {
                for (beside, latencies) in self.edges.iter().zip(&latencies) {
                    loads.spawn(load.clone().run(beside.clients, latencies.clone()));
                }
            }
            None if per_second > 0 => output::note("no rule is leased: there is no load to put on"),
            None => {}
        }
        watch(seats, &self.nodes, &self.edges, &latencies).await;
    }

    /// Edges first: what they hand back is taken.
    async fn drain(self) -> bool {
        let edges = edges::drain(self.edges).await;
        let nodes = drain(self.nodes).await;
        edges && nodes
    }
}

fn plan(
    args: &Args,
    seats: &[Seat],
    regions: Option<&Regions>,
    data: &Path,
) -> Result<Vec<Planned>, Failure> {
    let rules = match &args.rules {
        Some(rules) => rules.clone(),
        None => example_rules(data, args.load.is_some())?,
    };
    let mut ports = Vec::new();
    for (node, _) in (0..).zip(seats) {
        ports.push(match args.http.port() {
            0 => PeerPorts::free()?,
            port => PeerPorts { open: None, peers: offset(port, node, 1)?, gossip: offset(port, node, 3)? },
        });
    }
    let seeds: Vec<_> = ports.iter().map(|ports| format!("127.0.0.1:{}", ports.peers)).collect();
    let mut planned = Vec::new();
    for (node, (seat, PeerPorts { open, peers, gossip })) in (0..).zip(seats.iter().zip(ports)) {
        let mut cluster = ClusterConfig::new(NAME, data.join(&seat.name), seeds.clone());
        cluster.node = Some(seat.name.clone());
        if let (Some(regions), Some(region)) = (regions, &seat.region) {
            cluster.region.clone_from(region);
            cluster.delays = regions.delays(region);
            cluster.shards = SHARDS_OF_REGIONS;
        }
        cluster.peers.listen.set_port(peers);
        cluster.gossip.listen.set_port(gossip);
        let config = Config {
            clients: door(args.http, node)?,
            admin: admin(args.admin, node)?,
            rules: Some(rules.clone()),
            cluster: Some(cluster),
            ..Config::default()
        };
        planned.push(Planned { config, peers: open });
    }
    Ok(planned)
}

/// The door of a node, counted from the first one's. Port 0 is any for all.
fn door(first: SocketAddr, node: u16) -> Result<DoorConfig, Failure> {
    let mut listen = first;
    if first.port() != 0 {
        listen.set_port(offset(first.port(), node, 0)?);
    }
    // Naming it is the explicit word, as with a single node.
    Ok(DoorConfig { listen, plaintext: true })
}

/// The same for operators, who see on this machine what it asks for.
fn admin(first: SocketAddr, node: u16) -> Result<AdminConfig, Failure> {
    let DoorConfig { listen, plaintext } = door(first, node)?;
    Ok(AdminConfig { listen, plaintext, show_key_values: listen.ip().is_loopback() })
}

/// A port counted from the first node's: of the node at a place, `more` above its first.
pub(super) fn offset(port: u16, node: u16, more: u16) -> Result<u16, Failure> {
    let port = node.checked_mul(STRIDE).and_then(|far| port.checked_add(far)?.checked_add(more));
    port.ok_or_else(|| {
        Failure::usage(anyhow!("--http, --admin: the ports of the last node are beyond 65535"))
            .next("choose lower ones, for example --http 127.0.0.1:7600")
    })
}

/// Where one node talks to the others.
struct PeerPorts {
    /// The port for peers, if any free one was taken: it stays open, so that nobody else gets it before the node does.
    open: Option<TcpListener>,
    peers: u16,
    /// 0 is any: the nodes learn of it from each other.
    gossip: u16,
}

impl PeerPorts {
    fn free() -> Result<Self, Failure> {
        let open = TcpListener::bind(("127.0.0.1", 0)).context("cannot open a port for peers")?;
        let peers = open.local_addr().context("cannot open a port for peers")?.port();
        Ok(Self { open: Some(open), peers, gossip: 0 })
    }
}

/// The example rules in files, since a cluster is created with those of a folder; with a load, its rules beside them.
fn example_rules(data: &Path, load: bool) -> Result<PathBuf, Failure> {
    let folder = data.join("example-rules");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let files = [Some(("api.yaml", EXAMPLE_RULES_YAML)), load.then_some(("load.yaml", RULES_YAML))];
    for (name, text) in files.into_iter().flatten() {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(folder)
}

async fn formed(nodes: &[Node]) {
    while !waiting(nodes).is_empty() {
        sleep(Duration::from_millis(20)).await;
    }
}

/// Why nodes are not ready yet.
fn waiting(nodes: &[Node]) -> Vec<String> {
    let reasons = nodes.iter().filter_map(Node::not_ready);
    reasons.collect()
}

fn banner(running: &Running, seats: &[Seat], regions: Option<&Regions>, data: &Data) -> String {
    let Running { nodes, edges } = running;
    let (first, last) = (nodes.first(), nodes.last());
    let clients = first.map_or_else(String::new, |node| example(&node.rules(), node.client_addr()));
    let rules = first.map_or_else(String::new, |node| rules_table(&node.rules()));
    let other = last.map_or_else(String::new, |node| format!("http://{}", node.client_addr()));
    let admin = first.map_or_else(String::new, |node| format!("http://{}", node.admin_addr()));
    let second = seats.get(1).map_or("node-2", |seat| &seat.name);
    let end = match data {
        Data::Named(path) => format!("Ctrl-C ends it; {} keeps what was counted.", path.display()),
        Data::Temporary(_) => "Ctrl-C ends it, and what was counted goes with it.".to_owned(),
    };
    format!(
        "leasehold {version} is ready: a cluster of {count} nodes in this process\n\n\
         {nodes}{edges}{ways}\n\
         {rules}\n\
         Any node answers for all; what one admits all count{apart}:\n\n\
         {clients}\n\
         \x20 curl -i {other}/v1/check ...\n\n\
         Look at it and move things:\n\n\
         \x20 leasehold status  --admin {admin}\n\
         \x20 leasehold members --admin {admin}\n\
         \x20 leasehold shards  --admin {admin} --watch\n\
         \x20 leasehold shards move-leader 0 {second} --admin {admin}\n\n\
         {end}\n",
        version = env!("CARGO_PKG_VERSION"),
        count = nodes.len(),
        nodes = nodes_table(nodes, seats),
        edges = if edges.is_empty() { String::new() } else { format!("\n{}", edges::listed(edges)) },
        ways = regions.map_or_else(String::new, |regions| ways(regions, seats)),
        apart = if regions.is_some() { ",\nbut for limits with `scope: region`" } else { "" },
    )
}

fn nodes_table(nodes: &[Node], seats: &[Seat]) -> String {
    let mut columns = vec![text("node"), text("clients"), text("operators")];
    let regions = seats.iter().any(|seat| seat.region.is_some());
    if regions {
        columns.insert(0, text("region"));
    }
    let rows = seats.iter().zip(nodes).map(|(seat, node)| {
        let mut row = vec![
            seat.name.clone(),
            format!("http://{}", node.client_addr()),
            format!("http://{}", node.admin_addr()),
        ];
        if regions {
            row.insert(0, seat.region.clone().unwrap_or_default());
        }
        row
    });
    table(&columns, rows)
}

/// How far the regions are apart, and what follows for shards.
fn ways(regions: &Regions, seats: &[Seat]) -> String {
    let homes = if seats.len() / regions.names().len() >= usize::from(NODES_OF_REGION) {
        "each at home\nin one region"
    } else {
        "spread\nover the regions: give each 3 nodes, and shards are at home in one"
    };
    format!(
        "\nRound trips: {}.\n{SHARDS_OF_REGIONS} shards (instead of 16, as all nodes share one process), {homes}.\n",
        regions.describe()
    )
}

#[cfg(test)]
mod tests;
