//! The processes of a run and what lies between them: started, named, found and brought back.
//!
//! A process is known by its [`Place`]; histories name it `node-0` or `edge-1`. Whatever was done to the world, [`World::heal`]
//! undoes: it starts what is down and waits until everybody serves.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use leasehold_model::planted::Bug;
use leasehold_tests::cluster::{Plan, ShardStatus, Status, TestCluster};
use leasehold_tests::faketime::Clocks;
use leasehold_tests::{Deadline, Links, Seat, SmallDisk, TestEdge, own_port, require};

use crate::isolate;
use crate::look::Watched;
use crate::net::switch::Switch;
use crate::net::{Net, Place};
use crate::scenario::{FaultKind, Scenario, yaml};
use crate::shim::Shim;
use crate::traffic::Door;

/// A small file system takes two segments of a log and a little.
const SMALL_DISK_MEBIBYTES: u32 = 72;

/// Nothing on this machine takes longer to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// Between two looks at what isn't there yet.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Requests are remembered for longer than a run lasts: at its end they are asked for again.
const NODE_CONFIG: &str = "counters: { retry_window_seconds: 3600 }";

/// See the module.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) cluster: TestCluster,
    pub(crate) edges: Vec<Edge>,
    pub(crate) net: Net,
    pub(crate) clocks: Option<Clocks>,
    pub(crate) disks: BTreeMap<usize, SmallDisk>,
    pub(crate) shim: Option<Shim>,
    pub(crate) scenario: Scenario,
    /// What every process is started with.
    environment: Vec<(String, String)>,
    /// The shard of the first counter of the first load, once it is known.
    pub(crate) hot: Option<u32>,
}

/// An edge, and where it comes back.
#[derive(Debug)]
pub(crate) struct Edge {
    seat: Seat,
    upstreams: Vec<std::net::SocketAddr>,
    running: Option<TestEdge>,
    /// What it printed in former lives.
    earlier: String,
}

impl World {
    /// Starts all that a scenario names, and waits until it serves.
    ///
    /// # Errors
    /// When the network or the files can't be made.
    pub(crate) async fn start(scenario: &Scenario, seed: u64, planted: Option<Bug>) -> io::Result<Self> {
        let topology = &scenario.topology;
        let (mut net, inside) = (None, isolate::is_inside());
        if inside {
            net = Some(Switch::new(seed)?);
        }
        let seats =
            (0..topology.nodes).map(|node| seat(net.as_mut(), Place::Node(node), scenario.region(node)));
        let seats = seats.collect::<io::Result<Vec<Seat>>>()?;
        let plan = Plan {
            founders: topology.nodes,
            shards: topology.shards,
            replicas: u32::try_from(topology.nodes.min(3)).unwrap_or(3),
            rules: yaml(&scenario.limits),
            config: format!("{}\n{}", node_config(&topology.node_config), topology.node_config),
            cluster_config: topology.cluster_config.clone(),
            links: !inside,
            seats,
        };
        let cluster = TestCluster::prepare(plan).await;
        let net = match net {
            Some(switch) => Net::Namespaces(switch),
            None => loopback(&cluster, topology.nodes).await,
        };
        let mut world = Self {
            cluster,
            edges: Vec::new(),
            net,
            clocks: None,
            disks: BTreeMap::new(),
            shim: None,
            scenario: scenario.clone(),
            environment: vec![("TOKIO_WORKER_THREADS".to_owned(), "1".to_owned())],
            hot: None,
        };
        world.environment.extend(planted.map(|bug| ("LEASEHOLD_PLANT".to_owned(), bug.name().to_owned())));
        world.equip()?;
        for node in 0..topology.nodes {
            world.cluster.restart(node);
        }
        world.lengthen_ways();
        world.cluster.wait_until_all_ready().await;
        world.cluster.wait_until_led(BEGINS_WITHIN).await;
        world.start_edges(topology.edges).await?;
        Ok(world)
    }

    /// Clocks, disks and shims that the scenario's faults work through.
    fn equip(&mut self) -> io::Result<()> {
        let scenario = self.scenario.clone();
        let mut preloads: Vec<String> = Vec::new();
        let mut variables = self.environment.clone();
        if scenario.has(FaultKind::SyncFails)
            || scenario.has(FaultKind::SlowDisk)
            || scenario.has(FaultKind::PowerLoss)
        {
            let shim = Shim::build(self.cluster.folder())?;
            preloads.push(shim.library().display().to_string());
            self.shim = Some(shim);
        }
        let drift = scenario.has(FaultKind::ClockDrift);
        if drift || scenario.has(FaultKind::ClockStep) {
            let library = require("libfaketime").ok_or_else(|| io::Error::other("libfaketime is gone"))?;
            preloads.push(library.display().to_string());
            self.clocks = Some(Clocks::new(drift)?);
        }
        if !preloads.is_empty() {
            variables.push(("LD_PRELOAD".to_owned(), preloads.join(":")));
        }
        for node in 0..scenario.topology.nodes {
            let mut own = variables.clone();
            own.extend(self.shim.iter().flat_map(|shim| shim.variables(node)));
            own.extend(self.clocks.iter().flat_map(|clocks| clocks.variables(node)));
            let borrowed: Vec<(&str, &str)> =
                own.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            self.cluster.set_environment(node, &borrowed);
            if scenario.has(FaultKind::DiskFull) {
                let disk = SmallDisk::mount(&self.cluster.data(node), SMALL_DISK_MEBIBYTES);
                self.disks
                    .insert(node, disk.ok_or_else(|| io::Error::other("no file system can be mounted"))?);
            }
        }
        Ok(())
    }

    /// What lies between regions takes its time.
    pub(crate) fn lengthen_ways(&self) {
        let (topology, delay) = (&self.scenario.topology, self.scenario.topology.between_regions_ms);
        let Some(switch) = self.net.switch().filter(|_| delay > 0) else { return };
        let places = places(topology.nodes, topology.edges);
        for (from, to) in pairs(&places) {
            if self.region(from) != self.region(to) {
                switch.change(from, to, |way| way.delay = Duration::from_millis(delay));
            }
        }
    }

    async fn start_edges(&mut self, count: usize) -> io::Result<()> {
        for edge in 0..count {
            let region = self.scenario.region(edge).map(str::to_owned);
            let seat = seat(self.switch_mut(), Place::Edge(edge), None)?;
            let own = self.scenario.topology.nodes;
            // Nodes of its region first: it takes the first that answers.
            let mut nodes: Vec<usize> = (0..own).collect();
            nodes.sort_by_key(|node| {
                (self.scenario.region(*node) != region.as_deref(), (node + own - edge % own) % own)
            });
            let upstreams = match &mut self.net {
                Net::Namespaces(_) => nodes.iter().map(|node| self.cluster.clients(*node)).collect(),
                Net::Loopback { doors, through, .. } => {
                    // Nobody calls an edge through a link.
                    doors.add(own_port()).await;
                    nodes.iter().map(|node| through[*node]).collect()
                }
            };
            self.edges.push(Edge { seat, upstreams, running: None, earlier: String::new() });
            self.start_edge(edge);
        }
        for edge in &mut self.edges {
            let running = edge.running.as_mut().expect("it was just started");
            tokio::task::block_in_place(|| running.wait_until_ready());
        }
        Ok(())
    }

    fn switch_mut(&mut self) -> Option<&mut Switch> {
        match &mut self.net {
            Net::Namespaces(switch) => Some(switch),
            Net::Loopback { .. } => None,
        }
    }

    /// Starts an edge that doesn't run.
    pub(crate) fn start_edge(&mut self, place: usize) {
        let (config, nodes) = (self.scenario.topology.edge_config.clone(), self.scenario.topology.nodes);
        let edge = &mut self.edges[place];
        let mut seat = edge.seat.clone();
        seat.environment.clone_from(&self.environment);
        let launch = || TestEdge::launch_at(&seat, &edge.upstreams, &format!("name: edge-{place}\n{config}"));
        edge.running = Some(match &self.net {
            Net::Namespaces(_) => launch(),
            Net::Loopback { doors, .. } => doors.start(nodes + place, launch, |edge| edge.process.id()),
        });
    }

    /// Ends an edge now.
    pub(crate) fn kill_edge(&mut self, place: usize) {
        let edge = &mut self.edges[place];
        if let Some(mut running) = edge.running.take() {
            running.process.kill();
            edge.earlier.push_str(&running.process.printed());
        }
    }

    /// The process of an edge that runs.
    pub(crate) fn edge(&self, place: usize) -> Option<&TestEdge> {
        self.edges[place].running.as_ref()
    }

    /// Finds the shard of the only counter that there is.
    ///
    /// # Panics
    /// When no shard says that it holds one.
    pub(crate) async fn find_hot(&mut self) {
        let busy = |status: &Status| {
            let holds = |shard: &&ShardStatus| shard.group.keys.is_some_and(|keys| keys > 0);
            status.shards.iter().find(holds).map(|shard| shard.shard)
        };
        self.hot = Some(self.cluster.wait_for("the first counter is somewhere", BEGINS_WITHIN, busy).await);
    }

    /// Undoes what is left of faults, starts what is down, and waits until everybody serves. Returns what doesn't in time.
    pub(crate) async fn heal(&mut self, within: Duration) -> Vec<String> {
        let deadline = Deadline::after(within);
        self.net.join_all(self.peers());
        let nodes = self.scenario.topology.nodes;
        for node in 0..nodes {
            if !self.cluster.running().contains(&node) {
                self.cluster.restart(node);
            }
        }
        for edge in 0..self.edges.len() {
            if self.edges[edge].running.is_none() {
                self.start_edge(edge);
            }
        }
        loop {
            let unserved = self.unserved().await;
            if unserved.is_empty() || deadline.passed() {
                return unserved;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Everything that doesn't serve as it should, for people.
    async fn unserved(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        for node in self.cluster.running() {
            if self.cluster.has_ended(node) {
                found.push(format!("node-{node} has ended"));
            } else if !self.cluster.is_ready(node).await {
                found.push(format!("node-{node} isn't ready"));
            }
        }
        for (place, edge) in self.edges.iter().enumerate() {
            let Some(running) = &edge.running else { continue };
            let status = crate::look::get(running.admin, "/v1/status").await;
            let status: Option<serde_json::Value> = status.and_then(|text| serde_json::from_str(&text).ok());
            match status.map(|status| status["degraded"].clone()) {
                None => found.push(format!("edge-{place} says nothing")),
                Some(serde_json::Value::Null) => {}
                Some(why) => found.push(format!("edge-{place} asks nobody: {why}")),
            }
        }
        match self.cluster.status().await {
            None => found.push("no node can say how the cluster is".to_owned()),
            Some(status) => {
                let unled = status.shards.iter().filter(|shard| shard.group.leader.is_none());
                found.extend(unled.map(|shard| format!("nobody leads shard {}", shard.shard)));
            }
        }
        found
    }

    /// The proxies between peers, where there are any.
    pub(crate) fn peers(&self) -> Option<&Links> {
        matches!(self.net, Net::Loopback { .. }).then(|| self.cluster.links())
    }

    /// Where nodes serve clients.
    pub(crate) fn node_doors(&self) -> Vec<Door> {
        let door = |node| Door { name: name(Place::Node(node)), address: self.cluster.clients(node) };
        (0..self.scenario.topology.nodes).map(door).collect()
    }

    /// Where edges serve clients.
    pub(crate) fn edge_doors(&self) -> Vec<Door> {
        let door = |(place, edge): (usize, &Edge)| Door {
            name: name(Place::Edge(place)),
            address: edge.seat.clients,
        };
        self.edges.iter().enumerate().map(door).collect()
    }

    /// Where all serve operators.
    pub(crate) fn watched(&self) -> Watched {
        let nodes = 0..self.scenario.topology.nodes;
        let edges = self.edges.iter().enumerate();
        Watched {
            nodes: nodes.map(|node| (name(Place::Node(node)), self.cluster.admin(node))).collect(),
            edges: edges.map(|(place, edge)| (name(Place::Edge(place)), edge.seat.admin)).collect(),
        }
    }

    /// The region of a process, if there are regions.
    pub(crate) fn region(&self, place: Place) -> Option<&str> {
        match place {
            Place::Tester => None,
            Place::Node(place) | Place::Edge(place) => self.scenario.region(place),
        }
    }

    /// All processes.
    pub(crate) fn places(&self) -> Vec<Place> {
        places(self.scenario.topology.nodes, self.edges.len())
    }

    /// Writes what each process printed in all its lives to a folder.
    ///
    /// # Errors
    /// When it can't be written to.
    pub(crate) fn write_logs(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for node in 0..self.scenario.topology.nodes {
            std::fs::write(folder.join(format!("node-{node}.log")), self.cluster.printed(node))?;
        }
        for (place, edge) in self.edges.iter().enumerate() {
            let now = edge.running.as_ref().map(|edge| edge.process.printed()).unwrap_or_default();
            std::fs::write(folder.join(format!("edge-{place}.log")), format!("{}{now}", edge.earlier))?;
        }
        Ok(())
    }
}

/// As histories name a process.
pub(crate) fn name(place: Place) -> String {
    match place {
        Place::Tester => "tester".to_owned(),
        Place::Node(node) => format!("node-{node}"),
        Place::Edge(edge) => format!("edge-{edge}"),
    }
}

/// All ways between different places.
pub(crate) fn pairs(places: &[Place]) -> Vec<(Place, Place)> {
    let from =
        |from: &Place| places.iter().filter(|to| **to != *from).map(|to| (*from, *to)).collect::<Vec<_>>();
    places.iter().flat_map(from).collect()
}

fn places(nodes: usize, edges: usize) -> Vec<Place> {
    (0..nodes).map(Place::Node).chain((0..edges).map(Place::Edge)).collect()
}

/// Where a process is to run: in a namespace of its own where there are any.
fn seat(net: Option<&mut Switch>, place: Place, region: Option<&str>) -> io::Result<Seat> {
    let mut seat = net.map_or_else(|| Ok(Seat::own()), |switch| switch.seat(place))?;
    if let Some(region) = region {
        seat.cluster_config = format!("  region: {region}\n");
    }
    Ok(seat)
}

/// What the scenario doesn't say itself.
fn node_config(own: &str) -> &'static str {
    if own.contains("counters:") { "" } else { NODE_CONFIG }
}

async fn loopback(cluster: &TestCluster, nodes: usize) -> Net {
    let mut doors = Links::new();
    let mut through = Vec::new();
    for node in 0..nodes {
        through.push(doors.add(cluster.clients(node)).await);
    }
    Net::Loopback { doors, through, nodes }
}
