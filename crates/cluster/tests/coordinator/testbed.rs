//! Nodes to start, stop and ask.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Cluster, ClusterConfig, Fatal, GossipKey, Phase, Report, Role, SystemClock};
use leasehold_control::{Command, Reply};
use leasehold_model::NodeId;
use leasehold_placement::Standing;
use leasehold_shard::Bounds;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

/// How long a test waits for what has to happen: two cores may run several clusters at once.
const SOON: Duration = Duration::from_secs(120);

pub(crate) struct Testbed {
    dir: TempDir,
    /// Loopback has addresses enough for each test to have its own.
    net: [u8; 2],
    seeds: Vec<String>,
    configure: fn(&mut ClusterConfig),
    nodes: BTreeMap<u8, Cluster>,
}

/// Whether every shard is led, has the replicas that the map says, and nothing is on its way.
pub(crate) fn settled(report: &Report) -> bool {
    let active = report.members.iter().filter(|member| member.record.standing == Standing::Active).count();
    let votes = report.members.iter().filter(|member| member.votes).count();
    let roles = |role: Option<Role>| matches!(role, Some(Role::Leader | Role::Follower));
    let shard_settled = |shard: &leasehold_cluster::GroupReport| {
        shard.leader.is_some()
            && shard.moving.is_none()
            && shard.replicas.len() == active.min(3)
            && shard.replicas.iter().all(|replica| roles(replica.role) && replica.behind < Some(1_000))
    };
    let loads: Vec<usize> = report
        .members
        .iter()
        .filter(|member| member.record.standing == Standing::Active)
        .map(|member| member.replicas)
        .collect();
    let living = report.members.iter().filter(|member| member.record.standing != Standing::Dead).count();
    let follow = report.control.replicas.iter().filter(|replica| replica.role == Some(Role::Learner)).count();
    let even = loads.iter().max().zip(loads.iter().min()).is_some_and(|(most, least)| most - least <= 1);
    let control_settled = votes == active.min(3) && follow == living - votes;
    !report.shards.is_empty() && report.shards.iter().all(shard_settled) && control_settled && even
}

impl Testbed {
    /// A cluster of so many founders.
    pub(crate) async fn start(founders: u8, configure: fn(&mut ClusterConfig)) -> Self {
        let net = [rand::random_range(1..255), rand::random_range(1..255)];
        let mut bed = Self {
            dir: tempfile::tempdir().unwrap(),
            net,
            seeds: Vec::new(),
            configure,
            nodes: BTreeMap::new(),
        };
        bed.seeds = (1..=founders).map(|id| bed.address(id, 7_401).to_string()).collect();
        for id in 1..=founders {
            bed.open(id).await;
        }
        for id in 1..=founders {
            bed.wait_for_membership(id).await;
        }
        bed
    }

    fn address(&self, id: u8, port: u16) -> SocketAddr {
        let [a, b] = self.net;
        (IpAddr::V4(Ipv4Addr::new(127, a, b, id)), port).into()
    }

    fn config(&self, id: u8) -> ClusterConfig {
        let (peers, gossip) = (self.address(id, 7_401), self.address(id, 7_402));
        let mut config = ClusterConfig {
            name: "steered".to_owned(),
            node: format!("n{id}"),
            data: self.dir.path().join(id.to_string()),
            seeds: self.seeds.clone(),
            peers_listen: peers,
            peers_advertise: Some(peers.to_string()),
            gossip_listen: gossip,
            gossip_advertise: Some(gossip),
            clients_advertise: self.address(id, 7_400).to_string(),
            gossip_key: GossipKey::from_bytes([7; 32]),
            gossip_key_other: None,
            zone: String::new(),
            delays: std::collections::BTreeMap::new(),
            region: String::new(),
            weight: 100,
            shards: 8,
            replicas: 3,
            rules: Vec::new(),
            replace_after: Duration::from_secs(600),
            bounds: Bounds::default(),
            snapshot_every: 20_000,
            keep_entries: 5_000,
        };
        (self.configure)(&mut config);
        config
    }

    async fn open(&mut self, id: u8) {
        let fatal = Fatal(Arc::new(move |reason| panic!("node {id} can't go on: {reason}")));
        let cluster = Cluster::start(self.config(id), Arc::new(SystemClock), fatal).await.unwrap();
        self.nodes.insert(id, cluster);
    }

    async fn wait_for_membership(&self, id: u8) {
        let mut phase = self.nodes[&id].phase();
        let member =
            phase.wait_for(|phase| matches!(phase, Phase::Member(control) if control.cluster().is_some()));
        timeout(SOON, member).await.expect("it becomes a member").unwrap();
    }

    /// Starts a node: a new one, or one that was stopped.
    pub(crate) async fn add(&mut self, id: u8) -> NodeId {
        self.open(id).await;
        self.wait_for_membership(id).await;
        self.id(id)
    }

    /// Stops a node as an operator does; how long it took to hand over.
    pub(crate) async fn stop(&mut self, id: u8) -> Duration {
        let node = self.nodes.remove(&id).unwrap();
        let started = Instant::now();
        node.hand_over(Duration::from_secs(10)).await;
        let took = started.elapsed();
        node.shutdown().await;
        took
    }

    /// Stops a node that hands nothing over.
    pub(crate) async fn stop_at_once(&mut self, id: u8) {
        self.nodes.remove(&id).unwrap().shutdown().await;
    }

    pub(crate) async fn end(self) {
        for node in self.nodes.into_values() {
            node.shutdown().await;
        }
    }

    pub(crate) fn id(&self, id: u8) -> NodeId {
        self.nodes[&id].node()
    }

    pub(crate) fn number(&self, node: NodeId) -> u8 {
        *self.nodes.iter().find(|(_, cluster)| cluster.node() == node).unwrap().0
    }

    pub(crate) fn node(&self, id: u8) -> &Cluster {
        &self.nodes[&id]
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Cluster> {
        self.nodes.values()
    }

    pub(crate) async fn command(&self, command: Command) -> Reply {
        let any = self.nodes.values().next().unwrap();
        any.command(command, Instant::now() + SOON).await.unwrap()
    }

    /// As any node has it.
    pub(crate) async fn report(&self, hashes: bool) -> Option<Report> {
        self.nodes.values().next_back()?.report(hashes).await.ok()
    }

    /// Waits until the cluster stands like this.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Report) -> bool) -> Report {
        let deadline = Instant::now() + SOON;
        loop {
            let report = self.report(false).await;
            if let Some(report) = report.as_ref().filter(|report| holds(report)) {
                return report.clone();
            }
            assert!(Instant::now() < deadline, "never: {what}; {report:#?}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until all replicas of each shard have applied the same, and checks that it made the same state.
    pub(crate) async fn states_agree(&self) {
        let deadline = Instant::now() + SOON;
        loop {
            let report = self.report(true).await.unwrap();
            assert!(report.shards.iter().all(leasehold_cluster::GroupReport::agrees), "{:#?}", report.shards);
            let same = report.shards.iter().chain([&report.control]).all(|group| {
                let hashes: Vec<_> = group.replicas.iter().map(|replica| replica.hash).collect();
                hashes.iter().all(|hash| hash.is_some() && hash == &hashes[0])
            });
            if same {
                return;
            }
            assert!(Instant::now() < deadline, "replicas never had the same: {report:#?}");
            sleep(Duration::from_millis(100)).await;
        }
    }
}
