//! Some sidecars in front of some nodes, which can be killed, stopped and cut off from all nodes.

use std::net::SocketAddr;
use std::time::Duration;

use leasehold_tests::{Deadline, Links, TestEdge, own_port};
use rustix::process::Signal;

use super::traffic::Doors;

/// An edge that has all its nodes knows so within this.
const RECOVERED_WITHIN: Duration = Duration::from_secs(20);

/// See the module. A sidecar is known by its place, which another takes when it was killed.
#[derive(Debug)]
pub(super) struct Fleet {
    edges: Vec<TestEdge>,
    doors: Doors,
    links: Links,
    /// Where edges reach the nodes: through links.
    nodes: Vec<SocketAddr>,
    /// Of those that were killed.
    hops_before: u64,
}

impl Fleet {
    /// Starts sidecars that know all these nodes.
    pub(super) async fn start(nodes: &[SocketAddr], count: usize) -> Self {
        let mut links = Links::new();
        let mut through = Vec::new();
        for node in nodes {
            through.push(links.add(*node).await);
        }
        let mut edges = Vec::new();
        for _ in 0..count {
            // Nobody calls an edge through a link.
            links.add(own_port()).await;
            edges.push(launch(&links, through.len() + edges.len(), &through));
        }
        for edge in &mut edges {
            tokio::task::block_in_place(|| edge.wait_until_ready());
        }
        let doors = Doors::new(edges.iter().map(|edge| edge.clients).collect());
        Self { edges, doors, links, nodes: through, hops_before: 0 }
    }

    pub(super) fn doors(&self) -> &Doors {
        &self.doors
    }

    /// Kills a sidecar with all that it holds, and starts another.
    pub(super) async fn replace(&mut self, place: usize) {
        self.hops_before += hops(&self.edges[place]).await;
        self.edges[place].process.kill();
        self.edges[place] = launch(&self.links, self.nodes.len() + place, &self.nodes);
        tokio::task::block_in_place(|| self.edges[place].wait_until_ready());
        self.doors.set(place, self.edges[place].clients);
    }

    /// Stops a sidecar in the middle of whatever it does.
    pub(super) fn pause(&self, place: usize) {
        self.edges[place].process.pause();
    }

    /// Lets it go on.
    pub(super) fn resume(&self, place: usize) {
        self.edges[place].process.signal(Signal::CONT);
    }

    /// Cuts a sidecar off from all nodes. What was under way is lost.
    pub(super) fn cut_off(&self, place: usize) {
        self.links.isolate(&[self.nodes.len() + place]);
        self.links.drop_cut();
    }

    /// Lets everybody reach everybody, after what waited in the cut was lost.
    pub(super) fn heal(&self) {
        self.links.drop_cut();
        self.links.heal();
    }

    /// Asks of owners by all sidecars that there were.
    pub(super) async fn hops(&self) -> u64 {
        let mut sum = self.hops_before;
        for edge in &self.edges {
            sum += hops(edge).await;
        }
        sum
    }

    /// Why a sidecar doesn't ask owners, if it doesn't.
    pub(super) async fn degraded(&self, place: usize) -> Option<String> {
        let status = self.edges[place].admin_http().get("/v1/status").await.json();
        status["degraded"].as_str().map(str::to_owned)
    }

    /// Waits until every sidecar asks owners. Returns how long that took.
    ///
    /// # Panics
    /// When one doesn't in time.
    pub(super) async fn wait_until_none_is_degraded(&self) -> Duration {
        let deadline = Deadline::after(RECOVERED_WITHIN);
        for place in 0..self.edges.len() {
            while let Some(why) = self.degraded(place).await {
                assert!(!deadline.passed(), "sidecar {place} is still degraded: {why}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        deadline.elapsed()
    }
}

fn launch(links: &Links, link: usize, nodes: &[SocketAddr]) -> TestEdge {
    links.start(link, || TestEdge::launch(nodes, ""), |edge| edge.process.id())
}

async fn hops(edge: &TestEdge) -> u64 {
    let page = edge.admin_http().get("/metrics").await.text();
    metric(&page, "leasehold_wallet_hops_total")
}

/// A counter without labels.
pub(super) fn metric(page: &str, name: &str) -> u64 {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {page}"))
}
