//! Nodes to start, kill and silence, and what they are asked.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use leasehold_consensus::log::{Log, LogConfig};
use leasehold_consensus::runner::{OnFatal, RunnerConfig};
use leasehold_consensus::transport::{ClusterId, Identity, TransportConfig};
use leasehold_control::{Cluster, Command as ControlCommand, Reply as ControlReply};
use leasehold_limit::{Algorithm, Ask, Limit};
use leasehold_model::{BootTime, Epoch, Key, Nanos, RequestId, RulesVersion, Stamp, TenantId, WallTime};
use leasehold_placement::{Placement, ShardMap};
use leasehold_shard::{Acquire, Acquired, Bounds, Demand, LimitSpec};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::super::*;
use super::net::Silence;
use crate::{SystemClock, machines};

/// How long a test waits for what has to happen.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// A node that no group knows.
pub(super) const OUTSIDER: u64 = 4;

/// The machine's clock, but fast or slow, and with another wall time.
#[derive(Debug, Default)]
pub(super) struct TestClock {
    pub(super) wall_off: AtomicI64,
    pub(super) fast_ppm: AtomicI64,
}

impl TestClock {
    pub(super) fn set(&self, wall_off: i64, fast_ppm: i64) {
        self.wall_off.store(wall_off, Ordering::SeqCst);
        self.fast_ppm.store(fast_ppm, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn boot(&self) -> BootTime {
        let BootTime(real) = SystemClock.boot();
        let fast = i128::from(real) * i128::from(self.fast_ppm.load(Ordering::SeqCst)) / 1_000_000;
        BootTime(u64::try_from(i128::from(real) + fast).unwrap())
    }

    fn wall(&self) -> WallTime {
        WallTime(SystemClock.wall().0.strict_add_signed(self.wall_off.load(Ordering::SeqCst)))
    }
}

pub(super) struct Node {
    pub(super) router: Router,
    pub(super) runner: Runner,
    pub(super) silence: Silence,
    pub(super) clock: Arc<TestClock>,
    control: watch::Receiver<Arc<Control>>,
    transport: Transport,
    log: Log,
}

pub(super) struct Nodes {
    dirs: BTreeMap<u64, TempDir>,
    pub(super) nodes: BTreeMap<u64, Node>,
    shards: u32,
    bounds: Bounds,
}

impl Nodes {
    /// Three nodes that hold every shard. Shard `s` wants to be led by node `s % 3 + 1`.
    pub(super) async fn of_three(shards: u32) -> Self {
        Self::of_three_within(shards, Bounds::default(), |_, _| {}).await
    }

    pub(super) async fn of_three_within(shards: u32, bounds: Bounds, set_clock: fn(u64, &TestClock)) -> Self {
        let mut cluster = Self { dirs: BTreeMap::new(), nodes: BTreeMap::new(), shards, bounds };
        for id in 1..=3 {
            let clock = Arc::new(TestClock::default());
            set_clock(id, &clock);
            cluster.start(id, clock).await;
        }
        let voters = [1, 2, 3].map(NodeId).into();
        for node in cluster.nodes.values() {
            for group in (0..=shards).map(GroupId) {
                node.runner.create_group(group, &voters).await.unwrap();
            }
        }
        cluster.prefer();
        cluster.create().await;
        cluster
    }

    async fn create(&self) {
        let placement = |shard| Placement {
            home: None,
            replicas: vec![NodeId(1), NodeId(2), NodeId(3)],
            leader: Some(NodeId(u64::from(shard % 3) + 1)),
        };
        let map = ShardMap { epoch: Epoch(1), shards: (0..self.shards).map(placement).collect() };
        let id = leasehold_control::ClusterId(1);
        let cluster = Cluster { id, secret: [7; 16], shards: self.shards, replicas: 3 };
        let create = ControlCommand::Create { cluster, nodes: Vec::new(), map };
        let deadline = Instant::now() + SOON;
        assert_eq!(self.nodes[&2].router.command(create, deadline).await, Ok(ControlReply::Done));
        self.formed().await;
        for shard in 0..self.shards {
            self.leader(shard).await;
        }
    }

    /// Waits until every node knows its cluster.
    pub(super) async fn formed(&self) {
        for node in self.nodes.values() {
            let mut control = node.control.clone();
            control.wait_for(|control| control.cluster().is_some()).await.unwrap();
        }
    }

    fn prefer(&self) {
        for (id, node) in &self.nodes {
            for group in node.runner.groups() {
                node.runner.prefer(group, u64::from(group.0.wrapping_sub(1) % 3) + 1 == *id);
            }
        }
    }

    /// Starts a node, on what it left behind if it was here before.
    pub(super) async fn start(&mut self, id: u64, clock: Arc<TestClock>) {
        let dir = self.dirs.entry(id).or_insert_with(|| tempfile::tempdir().unwrap()).path().to_owned();
        let node = open(id, &dir, self.bounds, clock).await;
        for (other, known) in &self.nodes {
            known.transport.set_peer(NodeId(id), &node.transport.address().to_string());
            node.transport.set_peer(NodeId(*other), &known.transport.address().to_string());
        }
        self.nodes.insert(id, node);
        self.prefer();
    }

    /// A router of a node that has connections to all and no replicas, which sees this control state and these hints.
    pub(super) async fn outsider(
        &mut self,
        control: watch::Receiver<Arc<Control>>,
        hint: impl Fn(GroupId) -> Option<NodeId> + Send + Sync + 'static,
    ) -> Router {
        self.start(OUTSIDER, Arc::default()).await;
        let Node { runner, transport, clock, .. } = &self.nodes[&OUTSIDER];
        Router::new(RouterParts {
            node: NodeId(OUTSIDER),
            runner: runner.clone(),
            transport: transport.clone(),
            clock: Arc::<TestClock>::clone(clock),
            control,
            hint: Arc::new(hint),
        })
    }

    /// The control state as a node follows it.
    pub(super) fn control(&self, id: u64) -> watch::Receiver<Arc<Control>> {
        self.nodes[&id].control.clone()
    }

    /// Ends a node as `kill -9` does, as far as the others can tell: its connections break at once.
    pub(super) async fn kill(&mut self, id: u64) -> Arc<TestClock> {
        let node = self.nodes.remove(&id).unwrap();
        node.transport.shutdown();
        node.router.stop();
        node.runner.shutdown().await;
        node.log.close();
        node.clock
    }

    pub(super) fn router(&self, id: u64) -> Router {
        self.nodes[&id].router.clone()
    }

    pub(super) fn routers(&self) -> Vec<Router> {
        self.nodes.values().map(|node| node.router.clone()).collect()
    }

    /// The node that serves a shard, once there is one that isn't silent.
    pub(super) async fn leader(&self, shard: u32) -> u64 {
        self.leader_but(shard, 0).await
    }

    /// The node that serves a shard, once there is another than `not`.
    pub(super) async fn leader_but(&self, shard: u32, not: u64) -> u64 {
        let group = GroupId::of_shard(ShardId(shard));
        let mut found = 0;
        until("a leader", || {
            let leads = |(id, node): &(&u64, &Node)| **id != not && node.runner.is_leader(group);
            found = self.nodes.iter().find(leads).map_or(0, |(id, _)| *id);
            found != 0
        })
        .await;
        found
    }

    /// Entries applied by a shard's replica on a node, and what it holds.
    pub(super) fn held(&self, id: u64, shard: u32) -> (usize, usize) {
        let read = |machine: &ShardMachine| (machine.shard.keys(), machine.shard.replies());
        self.nodes[&id].runner.with_machine(GroupId::of_shard(ShardId(shard)), read).unwrap()
    }

    /// Entries and commands that all nodes put into their logs.
    pub(super) fn logged(&self) -> (u64, u64) {
        let counts = self.nodes.values().map(|node| node.router.counts());
        counts.fold((0, 0), |(entries, commands), counts| {
            (entries + counts.entries, commands + counts.commands)
        })
    }

    /// Waits until all replicas of a shard have the same state.
    pub(super) async fn agree(&self, shard: u32) {
        let group = GroupId::of_shard(ShardId(shard));
        let mut states = Vec::new();
        until("all have the same state", || {
            states = self.nodes.values().map(|node| node.runner.state_hash(group)).collect();
            states.iter().all(|state| state.is_some() && *state == states[0])
        })
        .await;
    }
}

pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

async fn open(id: u64, dir: &Path, bounds: Bounds, clock: Arc<TestClock>) -> Node {
    let identity = Some(Identity { cluster: ClusterId(1), node: NodeId(id) });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silence = Silence::default();
    let config = TransportConfig { identity, seed: id, secure: Arc::new(silence.clone()) };
    let transport = Transport::start(listener, config).unwrap();
    let on_disk_fatal = Arc::new(|error: &io::Error| panic!("{error}"));
    let log = Log::open(&dir.join("log"), LogConfig::default(), on_disk_fatal).unwrap();
    let on_fatal: OnFatal = Arc::new(|group, reason| panic!("{group}: {reason}"));
    let config = RunnerConfig::new(NodeId(id), dir.join("groups"), id, on_fatal);
    let (told, control) = watch::channel(Arc::default());
    let shard_clock: Arc<dyn Clock> = clock.clone();
    let machines = machines(bounds, Arc::clone(&shard_clock), told);
    let runner = Runner::open(config, log.clone(), transport.clone(), machines).await.unwrap();
    let router = Router::new(RouterParts {
        node: NodeId(id),
        runner: runner.clone(),
        transport: transport.clone(),
        clock: shard_clock,
        control: control.clone(),
        hint: Arc::new(|_| None),
    });
    router.serve();
    Node { router, runner, silence, clock, control, transport, log }
}

/// The `n`th counter of a shard, of 16 in all.
pub(super) fn key(shard: u32, n: u64) -> Key {
    Key { high: n.wrapping_mul(0x9e37_79b9_7f4a_7c15), low: (n << 32) | u64::from(shard) }
}

/// So many units in a window that lasts longer than any test.
pub(super) fn quota(n: u64) -> LimitSpec {
    spec(Algorithm::SlidingLog, n, Nanos::from_secs(3600))
}

pub(super) fn spec(algorithm: Algorithm, n: u64, period: Nanos) -> LimitSpec {
    let limit = Limit::new(algorithm, n, period).unwrap();
    LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit }
}

pub(super) fn demand(key: Key, limit: u32, cost: u64) -> Demand {
    Demand { key, limit, ask: Ask::exactly(cost), shadow: false }
}

/// One unit of each counter, all under one limit.
pub(super) fn one_of_each(id: Option<RequestId>, limit: &LimitSpec, keys: &[Key]) -> Batch {
    let demands = keys.iter().map(|key| demand(*key, 0, 1)).collect();
    let acquire = Acquire { id, remember_denial: false, demands };
    Batch { limits: vec![limit.clone()], commands: vec![Command::Acquire(acquire)], ..Batch::default() }
}

/// The answer to the only acquire of a batch.
pub(super) async fn acquire(router: &Router, batch: Batch) -> Acquired {
    acquire_within(router, batch, SOON).await.unwrap()
}

pub(super) async fn acquire_within(
    router: &Router,
    batch: Batch,
    within: Duration,
) -> Result<Acquired, Unanswered> {
    let reply = router.propose(batch, Instant::now() + within).await?.pop();
    let Some(Reply::Acquired(acquired)) = reply else { panic!("{reply:?}") };
    Ok(acquired)
}

/// What a counter has left.
pub(super) async fn remaining(router: &Router, limit: &LimitSpec, key: Key) -> u64 {
    let looked = Acquire { demands: vec![demand(key, 0, 0)], ..Acquire::default() };
    let reply = router.preview(std::slice::from_ref(limit), &looked, Instant::now() + SOON).await.unwrap();
    let Reply::Acquired(looked) = reply else { panic!("{reply:?}") };
    looked.decisions[0].remaining
}

/// What remains when `expected` units do, or at the latest soon: a refusal waits only so long for what it returns.
pub(super) async fn once_all_is_back(router: &Router, limit: &LimitSpec, key: Key, expected: u64) -> u64 {
    let deadline = Instant::now() + SOON;
    loop {
        let left = remaining(router, limit, key).await;
        if left >= expected || Instant::now() >= deadline {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
