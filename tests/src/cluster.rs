//! A cluster of real `leasehold node` processes on the loopback: started, killed, stopped, paused, partitioned.
//!
//! Every node has its own configuration and data directory in one temporary folder that goes with the cluster. All that
//! a node printed in any of its lives is shown when a test fails.

mod node;
mod status;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::clock::Deadline;
use crate::http::{Http, Reply};
use crate::links::Links;
use crate::seat::Seat;
use node::Node;

pub use status::{GroupStatus, Member, Replica, ShardStatus, StateHash, Status};

/// Three unoptimised nodes that form on a busy machine take some seconds; what takes longer is broken.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A node that was told to stop hands over what it leads and finishes what is in flight, which both have their bounds.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);

/// Between two looks at a cluster that isn't there yet.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes that found it.
    pub founders: usize,
    /// Shards, a power of two.
    pub shards: u32,
    /// Replicas of each.
    pub replicas: u32,
    /// The rule file that it is created with.
    pub rules: String,
    /// More lines of every node's configuration, at the left margin.
    pub config: String,
    /// More lines of the section `cluster:`, each indented by two spaces.
    pub cluster_config: String,
    /// Whether peers reach each other through [`Links`], which can be cut.
    pub links: bool,
    /// Where the nodes run, by their places; those beyond: on the loopback.
    pub seats: Vec<Seat>,
}

impl Plan {
    /// Three nodes that keep three replicas of eight shards.
    #[must_use]
    pub fn of_three(rules: &str) -> Self {
        Self {
            founders: 3,
            shards: 8,
            replicas: 3,
            rules: rules.to_owned(),
            config: String::new(),
            cluster_config: String::new(),
            links: false,
            seats: Vec::new(),
        }
    }
}

/// A cluster. Nodes are named by their places: the founders first, then those that were added. Dropped, it ends.
#[derive(Debug)]
pub struct TestCluster {
    plan: Plan,
    nodes: Vec<Node>,
    links: Option<Links>,
    folder: TempDir,
}

impl TestCluster {
    /// Starts a cluster and waits until every node is ready.
    ///
    /// # Panics
    /// When it isn't in time.
    pub async fn start(plan: Plan) -> Self {
        let mut cluster = Self::prepare(plan).await;
        for node in 0..cluster.nodes.len() {
            cluster.restart(node);
        }
        cluster.wait_until_all_ready().await;
        cluster
    }

    /// Writes everything that the founders need, and starts none of them.
    ///
    /// # Panics
    /// When the temporary folder can't be written to.
    pub async fn prepare(plan: Plan) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("the temporary folder can be written to");
        };
        write("rules.yaml", &plan.rules);
        write("gossip.key", &format!("{}\n", "5a".repeat(32)));
        let links = if plan.links { Some(Links::new()) } else { None };
        let founders = plan.founders;
        let mut cluster = Self { plan, nodes: Vec::new(), links, folder };
        for _ in 0..founders {
            cluster.prepare_node().await;
        }
        // Only now are all addresses known that stand in everybody's seeds.
        for node in 0..founders {
            cluster.configure(node);
        }
        cluster
    }

    /// Starts one more node, which joins, and waits until it is ready. Returns its place.
    ///
    /// # Panics
    /// When it isn't in time.
    pub async fn add_node(&mut self) -> usize {
        let place = self.prepare_node().await;
        self.configure(place);
        self.restart(place);
        self.wait_until_ready(place).await;
        place
    }

    async fn prepare_node(&mut self) -> usize {
        let place = self.nodes.len();
        let seat = self.plan.seats.get(place).cloned().unwrap_or_else(Seat::own);
        let mut node = Node::new(self.folder.path(), place, seat);
        if let Some(links) = &mut self.links {
            node.peers_advertised = links.add(node.seat.peers).await;
        }
        self.nodes.push(node);
        place
    }

    fn configure(&self, place: usize) {
        let seeds: Vec<String> = self.nodes[..self.plan.founders]
            .iter()
            .map(|node| format!("'{}'", node.peers_advertised))
            .collect();
        self.nodes[place].configure(&self.plan, self.folder.path(), &seeds.join(", "));
    }

    /// Puts something else in a node's configuration, which counts from its next start on.
    ///
    /// # Panics
    /// When what is to be replaced isn't there.
    pub fn reconfigure(&self, place: usize, old: &str, new: &str) {
        let path = self.config(place);
        let text = fs::read_to_string(path).expect("the configuration was written");
        assert!(text.contains(old), "no {old:?} in {text}");
        fs::write(path, text.replace(old, new)).expect("the temporary folder can be written to");
    }

    /// From its next start on a node has these variables in its environment.
    pub fn set_environment(&mut self, place: usize, variables: &[(&str, &str)]) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.nodes[place].seat.environment = variables.iter().map(owned).collect();
    }

    /// Starts a node that doesn't run, with what its directory holds.
    pub fn restart(&mut self, place: usize) {
        self.nodes[place].start();
        self.tell_links(place);
    }

    /// Ends a node now, as `kill -9` does.
    pub fn kill(&mut self, place: usize) {
        self.nodes[place].running().kill();
        self.nodes[place].end();
        self.tell_links(place);
    }

    /// Tells a node to stop and waits for its end.
    ///
    /// # Panics
    /// When it doesn't end in time.
    pub async fn stop(&mut self, place: usize) -> ExitStatus {
        self.nodes[place].running().signal(Signal::TERM);
        self.wait_until_ended(place).await
    }

    /// Waits until a node has ended by itself.
    ///
    /// # Panics
    /// When it doesn't end in time.
    pub async fn wait_until_ended(&mut self, place: usize) -> ExitStatus {
        let process = self.nodes[place].running();
        let deadline = Deadline::after(STOPPED_WITHIN);
        while process.is_running() {
            assert!(!deadline.passed(), "n{place} didn't end:\n{}", process.printed());
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let status = process.wait(STOPPED_WITHIN);
        self.nodes[place].end();
        self.tell_links(place);
        status
    }

    /// Stops a node in the middle of whatever it does, until [`Self::resume`].
    pub fn pause(&mut self, place: usize) {
        self.nodes[place].running().signal(Signal::STOP);
    }

    /// Lets a paused node go on.
    pub fn resume(&mut self, place: usize) {
        self.nodes[place].running().signal(Signal::CONT);
    }

    /// Takes away all that a node that doesn't run had kept.
    ///
    /// # Panics
    /// When the directory can't be removed.
    pub fn wipe(&mut self, place: usize) {
        let data = self.data(place);
        fs::remove_dir_all(&data).unwrap_or_else(|error| panic!("removing {}: {error}", data.display()));
    }

    /// Waits until a node is ready for clients.
    ///
    /// # Panics
    /// When it ends or isn't in time.
    pub async fn wait_until_ready(&mut self, place: usize) {
        let deadline = Deadline::after(READY_WITHIN);
        while !self.is_ready(place).await {
            let node = &mut self.nodes[place];
            assert!(node.running().is_running(), "n{place} ended before it was ready:\n{}", node.printed());
            assert!(!deadline.passed(), "n{place} isn't ready:\n{}", node.printed());
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// The same for every node that runs.
    pub async fn wait_until_all_ready(&mut self) {
        for place in self.running() {
            self.wait_until_ready(place).await;
        }
    }

    /// Whether a node says that it is ready for clients.
    pub async fn is_ready(&self, place: usize) -> bool {
        self.readiness(place).await.is_some_and(|reply| reply.status == 200)
    }

    /// What a node says when it is asked whether it is ready; `None` when it says nothing.
    pub async fn readiness(&self, place: usize) -> Option<Reply> {
        let http = self.http(place);
        let answer = http.try_send(http::Method::GET, "/readyz", &[], bytes::Bytes::new());
        tokio::time::timeout(Duration::from_secs(2), answer).await.ok()?.ok()
    }

    /// Waits until a node says that it isn't ready, and why: in words that hold `why`.
    ///
    /// # Panics
    /// When it doesn't in time.
    pub async fn wait_until_unready(&mut self, place: usize, why: &str, within: Duration) -> String {
        let deadline = Deadline::after(within);
        loop {
            let said = self.readiness(place).await;
            if let Some(reply) = said.as_ref().filter(|reply| reply.status == 503)
                && reply.text().contains(why)
            {
                return reply.text();
            }
            assert!(!deadline.passed(), "n{place} doesn't say {why:?}: {said:?}\n{}", self.printed(place));
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Places of the nodes that were started and not ended by the test since.
    #[must_use]
    pub fn running(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|place| self.nodes[*place].process.is_some()).collect()
    }

    /// Whether a node that should run has ended by itself.
    pub fn has_ended(&mut self, place: usize) -> bool {
        !self.nodes[place].running().is_running()
    }

    /// Where a node serves clients.
    #[must_use]
    pub fn clients(&self, place: usize) -> SocketAddr {
        self.nodes[place].seat.clients
    }

    /// Where all running nodes serve clients.
    #[must_use]
    pub fn all_clients(&self) -> Vec<SocketAddr> {
        self.running().into_iter().map(|place| self.clients(place)).collect()
    }

    /// A client of a node's door for clients.
    #[must_use]
    pub fn http(&self, place: usize) -> Http {
        Http::new(self.nodes[place].seat.clients)
    }

    /// A client of a node's door for operators.
    #[must_use]
    pub fn admin_http(&self, place: usize) -> Http {
        Http::new(self.nodes[place].seat.admin)
    }

    /// Where a node serves operators.
    #[must_use]
    pub fn admin(&self, place: usize) -> SocketAddr {
        self.nodes[place].seat.admin
    }

    /// Where other nodes are told to reach a node: what stands in everybody's seeds.
    #[must_use]
    pub fn peers(&self, place: usize) -> SocketAddr {
        self.nodes[place].peers_advertised
    }

    /// Where a node listens to what others say of themselves, over UDP.
    #[must_use]
    pub fn gossip(&self, place: usize) -> SocketAddr {
        self.nodes[place].seat.gossip
    }

    /// Where everything lies that the test gave the nodes.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a node keeps everything.
    #[must_use]
    pub fn data(&self, place: usize) -> PathBuf {
        self.nodes[place].data.clone()
    }

    /// A node's configuration file.
    #[must_use]
    pub fn config(&self, place: usize) -> &Path {
        &self.nodes[place].config
    }

    /// A node's process id, while it runs.
    #[must_use]
    pub fn process_id(&self, place: usize) -> Option<u32> {
        self.nodes[place].process.as_ref().map(|process| process.id())
    }

    /// All that a node printed, in all its lives.
    #[must_use]
    pub fn printed(&self, place: usize) -> String {
        self.nodes[place].printed()
    }

    /// The connections between peers, to be cut.
    ///
    /// # Panics
    /// When the plan has none.
    #[must_use]
    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("the plan says `links: true`")
    }

    fn tell_links(&self, place: usize) {
        if let Some(links) = &self.links {
            links.set_process(place, self.process_id(place));
        }
    }
}

#[cfg(test)]
mod tests;
