//! Nodes to test with, each at ports of its own that stay the same over its restarts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use leasehold_control::Control;
use leasehold_shard::Bounds;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};

use crate::{Cluster, ClusterConfig, Fatal, GossipKey, Phase, StartError, SystemClock};

/// Whatever has not come by then never comes.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Clusters at a time: more would starve each other.
static TURNS: Semaphore = Semaphore::const_new(2);

pub(crate) async fn turn() -> SemaphorePermit<'static> {
    TURNS.acquire().await.expect("never closed")
}

/// An address that stays free while its server is down: on an address of the loopback that is this process's alone, below
/// the ports that the system hands out.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(10_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    ([127, 0x40 | (high & 0x3f), middle, low], NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Where a node lives.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) config: ClusterConfig,
    dir: TempDir,
    fatal: Arc<Mutex<Option<String>>>,
}

/// `founders` nodes that are each other's seeds, then `others` that know them.
pub(crate) fn spots(founders: usize, others: usize) -> Vec<Spot> {
    let addresses: Vec<_> = (0..founders + others).map(|_| (own_address(), own_address())).collect();
    let seeds: Vec<String> = addresses[..founders].iter().map(|(peers, _)| peers.to_string()).collect();
    addresses.iter().enumerate().map(|(place, addresses)| spot(place, *addresses, &seeds)).collect()
}

fn spot(place: usize, (peers, gossip): (SocketAddr, SocketAddr), seeds: &[String]) -> Spot {
    let dir = tempfile::tempdir().unwrap();
    let config = ClusterConfig {
        name: "main".to_owned(),
        node: format!("n{place}"),
        data: dir.path().join("0"),
        seeds: seeds.to_vec(),
        peers_listen: peers,
        peers_advertise: None,
        gossip_listen: gossip,
        gossip_advertise: None,
        clients_advertise: format!("127.0.0.1:{}", 40_000 + place),
        gossip_key: GossipKey::from_bytes([7; 32]),
        gossip_key_other: None,
        zone: String::new(),
        region: String::new(),
        delays: BTreeMap::new(),
        weight: 100,
        shards: 4,
        replicas: 3,
        rules: vec![("api".into(), "domain: api\n".into())],
        replace_after: Duration::from_secs(600),
        bounds: Bounds::default(),
        snapshot_every: 1_000,
        keep_entries: 500,
    };
    Spot { config, dir, fatal: Arc::default() }
}

impl Spot {
    pub(crate) fn peers(&self) -> String {
        self.config.peers_listen.to_string()
    }

    /// Why the node said that it can't go on.
    pub(crate) fn fatal(&self) -> Option<String> {
        self.fatal.lock().clone()
    }

    /// From now on the node has an empty data directory.
    pub(crate) fn empty(&mut self) {
        let next: u32 = self.config.data.file_name().unwrap().to_str().unwrap().parse().unwrap();
        self.config.data = self.dir.path().join((next + 1).to_string());
    }

    pub(crate) async fn try_start(&self) -> Result<Cluster, StartError> {
        let told = Arc::clone(&self.fatal);
        let fatal = Fatal(Arc::new(move |reason: &str| *told.lock() = Some(reason.to_owned())));
        Cluster::start(self.config.clone(), Arc::new(SystemClock), fatal).await
    }

    pub(crate) async fn start(&self) -> Cluster {
        self.try_start().await.unwrap()
    }
}

/// Starts all of them, in order.
pub(crate) async fn start_all(spots: &[Spot]) -> Vec<Cluster> {
    let mut nodes = Vec::new();
    for spot in spots {
        nodes.push(spot.start().await);
    }
    nodes
}

/// The control state of a node, once it is a member and what it should hold.
pub(crate) async fn member(node: &Cluster, what: &str, holds: impl Fn(&Control) -> bool) -> Arc<Control> {
    let mut phase = node.phase();
    let found = timeout(SOON, async {
        loop {
            if let Phase::Member(control) = &*phase.borrow_and_update()
                && holds(control)
            {
                return Arc::clone(control);
            }
            phase.changed().await.unwrap();
        }
    });
    found.await.unwrap_or_else(|_| panic!("never: {what}; it is {:?}", *node.phase().borrow()))
}

/// Waits until a node waits, for a reason that contains these words.
pub(crate) async fn waits(node: &Cluster, words: &str) {
    let mut phase = node.phase();
    let found =
        timeout(SOON, phase.wait_for(|phase| matches!(phase, Phase::Waiting(why) if why.contains(words))));
    if found.await.is_err() {
        panic!("never waited for {words:?}; it is {:?}", *node.phase().borrow());
    }
}

/// Waits until it holds.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < SOON, "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn healthy(nodes: &[Cluster]) {
    for node in nodes {
        until("all are healthy", async || node.health().is_ok()).await;
    }
}

pub(crate) async fn stop_all(nodes: &[Cluster]) {
    for node in nodes {
        node.shutdown().await;
    }
}
