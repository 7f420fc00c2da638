//! Clients that ask all the time, and count what they were granted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_cluster::Cluster;
use leasehold_limit::{Algorithm, Ask, Limit, Window};
use leasehold_model::{Key, Nanos, NodeId, RulesVersion, Stamp, TenantId};
use leasehold_shard::{Acquire, Batch, Command, Demand, LimitSpec, Reply};
use parking_lot::Mutex;
use rand::seq::IteratorRandom;
use tokio::sync::{RwLock, RwLockWriteGuard};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::testbed::Testbed;

/// What one counter may admit while a test lasts. Some are used up, some never.
const QUOTAS: [u64; 2] = [30, 1_000_000];
/// A window that no test sees the end of.
const A_CENTURY: Nanos = Nanos::from_secs(86_400 * 36_500);
/// Counters of each kind, over all shards.
const KEYS: u64 = 200;
/// A check that has no answer by then has failed.
const DEADLINE: Duration = Duration::from_secs(5);

pub(crate) struct Load {
    nodes: Arc<Mutex<BTreeMap<NodeId, Cluster>>>,
    stop: Arc<AtomicBool>,
    /// Shared by the checks that are under way.
    asking: Arc<RwLock<()>>,
    clients: JoinSet<Tally>,
}

/// What clients saw.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    admitted: BTreeMap<(usize, u64), u64>,
    asked: u64,
    failed: Vec<String>,
    slowest: Duration,
}

impl Load {
    pub(crate) fn start(bed: &Testbed) -> Self {
        let nodes = bed.nodes().map(|node| (node.node(), node.clone())).collect();
        let (nodes, stop, asking) = (Arc::new(Mutex::new(nodes)), Arc::default(), Arc::default());
        let mut clients = JoinSet::new();
        for _ in 0..4 {
            clients.spawn(client(Arc::clone(&nodes), Arc::clone(&stop), Arc::clone(&asking)));
        }
        Self { nodes, stop, asking, clients }
    }

    /// Waits until all checks that are under way are answered; the next ones begin when the pause is dropped.
    pub(crate) async fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.asking.write().await
    }

    /// Asks this node no more.
    pub(crate) fn leave(&self, node: NodeId) {
        self.nodes.lock().remove(&node);
    }

    /// Asks this node too.
    pub(crate) fn join(&self, bed: &Testbed, id: u8) {
        self.nodes.lock().insert(bed.id(id), bed.node(id).clone());
    }

    pub(crate) async fn finish(self) -> Tally {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Tally::default();
        for tally in self.clients.join_all().await {
            all.asked += tally.asked;
            all.failed.extend(tally.failed);
            all.slowest = all.slowest.max(tally.slowest);
            for (key, admitted) in tally.admitted {
                *all.admitted.entry(key).or_default() += admitted;
            }
        }
        all
    }
}

impl Tally {
    /// No check failed and no counter admitted more than its limit.
    pub(crate) fn check(&self) {
        println!("{} checks, the slowest {:?}, {} failed", self.asked, self.slowest, self.failed.len());

        assert!(self.failed.is_empty(), "of {} checks: {:?}", self.asked, self.failed);
        assert!(self.asked > 100, "only {} checks, the slowest {:?}", self.asked, self.slowest);
        for ((kind, key), admitted) in &self.admitted {
            assert!(*admitted <= QUOTAS[*kind], "counter {key}: {admitted} of {}", QUOTAS[*kind]);
        }
    }
}

async fn client(
    nodes: Arc<Mutex<BTreeMap<NodeId, Cluster>>>,
    stop: Arc<AtomicBool>,
    asking: Arc<RwLock<()>>,
) -> Tally {
    let mut tally = Tally::default();
    while !stop.load(Ordering::SeqCst) {
        let under_way = asking.read().await;
        let node = nodes.lock().values().choose(&mut rand::rng()).cloned().unwrap();
        let (kind, n) = (rand::random_range(0..2), rand::random_range(0..KEYS));
        let started = Instant::now();
        let answer = node.propose(one(kind, n), started + DEADLINE).await;
        tally.asked += 1;
        tally.slowest = tally.slowest.max(started.elapsed());
        match answer.map(|mut replies| replies.pop()) {
            Ok(Some(Reply::Acquired(acquired))) => {
                *tally.admitted.entry((kind, n)).or_default() += u64::from(acquired.admitted);
            }
            Ok(other) => tally.failed.push(format!("{other:?}")),
            // Who asks a node that dies turns to another.
            Err(_) if !nodes.lock().contains_key(&node.node()) => {}
            Err(error) => tally.failed.push(error.to_string()),
        }
        drop(under_way);
        sleep(Duration::from_millis(2)).await;
    }
    tally
}

fn one(kind: usize, n: u64) -> Batch {
    let key = Key { high: n.wrapping_mul(0x9e37_79b9_7f4a_7c15), low: n * 2 + kind as u64 };
    let limit = Limit::new(Algorithm::FixedWindow(Window::Epoch), QUOTAS[kind], A_CENTURY).unwrap();
    let limit = LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit };
    let demand = Demand { key, limit: 0, ask: Ask::exactly(1), shadow: false };
    let acquire = Acquire { demands: vec![demand], ..Acquire::default() };
    Batch { limits: vec![limit], commands: vec![Command::Acquire(acquire)], ..Batch::default() }
}
