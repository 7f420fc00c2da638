//! What groups cost: three nodes in one process over loopback and real disks, idle and then busy.
//!
//! `cargo run --release -p leasehold-consensus --example groups -- [groups] [seconds]`
//!
//! The figures are of one process with all three replicas of every group, so a node's part is a third.

#![expect(clippy::print_stdout, reason = "the report is the purpose")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::log::{Log, LogConfig};
use leasehold_consensus::machine::{Answer, Arrival, Machine, MachineError};
use leasehold_consensus::runner::{Machines, OnFatal, Runner, RunnerConfig};
use leasehold_consensus::transport::{ClusterId, Identity, Plain, Traffic, Transport, TransportConfig};
use leasehold_consensus::types::GroupId;
use leasehold_model::NodeId;
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Proposals of one group under way at a time when it is busy.
const AT_A_TIME: u32 = 4;
/// Bytes of one: a batch of a few asks.
const ENTRY_BYTES: usize = 512;

struct Count(u64);

impl Machine for Count {
    fn apply(&mut self, _entry: &[u8], _: Arrival) -> Result<Answer, MachineError> {
        self.0 += 1;
        Ok(Box::new(self.0))
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError> {
        let bytes = snapshot.try_into().map_err(|_| MachineError("not 8 bytes".to_owned()))?;
        self.0 = u64::from_le_bytes(bytes);
        Ok(())
    }

    fn state_hash(&self) -> u64 {
        self.0
    }
}

struct Node {
    transport: Transport,
    runner: Runner,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let groups = arguments.next().map_or(Ok(32), |groups| groups.parse())?;
    let seconds = Duration::from_secs(arguments.next().map_or(Ok(10), |seconds| seconds.parse())?);
    let dir = tempfile::tempdir()?;
    let nodes = start(dir.path(), groups).await?;
    let leaders = leaders(&nodes, groups).await;
    sleep(Duration::from_secs(1)).await;
    idle(&nodes, groups, seconds).await;
    let terms_before = terms(&nodes);
    busy(&nodes, &leaders, seconds).await;
    println!("{} elections meanwhile", terms(&nodes) - terms_before);
    for node in nodes.values() {
        node.runner.shutdown().await;
    }
    Ok(())
}

async fn idle(nodes: &BTreeMap<u64, Node>, groups: u32, time: Duration) {
    let terms_before = terms(nodes);
    let (cpu, before) = (cpu_time(), traffic(nodes));
    sleep(time).await;
    let (cpu, after) = (cpu_time() - cpu, traffic(nodes));
    let (count, secs) = (nodes.len() as f64, time.as_secs_f64());
    println!(
        "idle, {groups} groups: {:.2} % of a core a node; a node sends {:.0} messages in {:.0} writes, {:.1} kB a second; {} elections",
        cpu.as_secs_f64() / secs / count * 100.0,
        (after.frames - before.frames) as f64 / secs / count,
        (after.writes - before.writes) as f64 / secs / count,
        (after.bytes - before.bytes) as f64 / secs / count / 1000.0,
        terms(nodes) - terms_before,
    );
}

async fn busy(nodes: &BTreeMap<u64, Node>, leaders: &BTreeMap<GroupId, u64>, time: Duration) {
    let (cpu, began) = (cpu_time(), Instant::now());
    let end = began + time;
    let mut proposers = JoinSet::new();
    for (group, leader) in leaders {
        for _ in 0..AT_A_TIME {
            proposers.spawn(propose(nodes[leader].runner.clone(), *group, end));
        }
    }
    let mut latencies: Vec<Duration> = proposers.join_all().await.into_iter().flatten().collect();
    let (cpu, took) = (cpu_time() - cpu, began.elapsed());
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 100].as_secs_f64() * 1000.0;
    println!(
        "busy, {} groups x {AT_A_TIME} proposals of {ENTRY_BYTES} bytes: {:.0} entries/s, p50 {:.2} ms, p99 {:.2} ms, {:.2} cores",
        leaders.len(),
        latencies.len() as f64 / took.as_secs_f64(),
        at(50),
        at(99),
        cpu.as_secs_f64() / took.as_secs_f64(),
    );
}

async fn propose(runner: Runner, group: GroupId, end: Instant) -> Vec<Duration> {
    let entry = Bytes::from(vec![7; ENTRY_BYTES]);
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        match runner.propose(group, entry.clone(), began + Duration::from_secs(5)).await {
            Ok(_) => latencies.push(began.elapsed()),
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
    latencies
}

async fn start(dir: &Path, groups: u32) -> Outcome<BTreeMap<u64, Node>> {
    let mut nodes = BTreeMap::new();
    for id in 1..=3 {
        nodes.insert(id, open(id, &dir.join(id.to_string())).await?);
    }
    for (id, node) in &nodes {
        for (other, known) in nodes.iter().filter(|(other, _)| *other != id) {
            node.transport.set_peer(NodeId(*other), &known.transport.address().to_string());
        }
    }
    let voters: BTreeSet<NodeId> = nodes.keys().copied().map(NodeId).collect();
    for group in (0..groups).map(GroupId) {
        for (id, node) in &nodes {
            node.runner.create_group(group, &voters).await?;
            node.runner.prefer(group, u64::from(group.0 % 3) + 1 == *id);
        }
    }
    Ok(nodes)
}

async fn open(id: u64, dir: &Path) -> Outcome<Node> {
    let identity = Some(Identity { cluster: ClusterId(1), node: NodeId(id) });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let transport =
        Transport::start(listener, TransportConfig { identity, seed: id, secure: Arc::new(Plain) })?;
    let on_disk_fatal = Arc::new(|error: &io::Error| println!("the log failed: {error}"));
    let log = Log::open(&dir.join("log"), LogConfig::default(), on_disk_fatal)?;
    let on_fatal: OnFatal = Arc::new(|group, reason| println!("group {group} failed: {reason}"));
    let machines: Machines = Arc::new(|_| Box::new(Count(0)));
    let config = RunnerConfig::new(NodeId(id), dir.join("groups"), id, on_fatal);
    let runner = Runner::open(config, log, transport.clone(), machines).await?;
    Ok(Node { transport, runner })
}

async fn leaders(nodes: &BTreeMap<u64, Node>, groups: u32) -> BTreeMap<GroupId, u64> {
    let mut leaders = BTreeMap::new();
    for group in (0..groups).map(GroupId) {
        let leader = loop {
            if let Some((id, _)) = nodes.iter().find(|(_, node)| node.runner.is_leader(group)) {
                break *id;
            }
            sleep(Duration::from_millis(5)).await;
        };
        leaders.insert(group, leader);
    }
    leaders
}

/// Grows by each election.
fn terms(nodes: &BTreeMap<u64, Node>) -> u64 {
    let runner = &nodes[&1].runner;
    let term = |group| runner.leadership(group).map_or(0, |leadership| leadership.borrow().term);
    runner.groups().into_iter().map(term).sum()
}

fn traffic(nodes: &BTreeMap<u64, Node>) -> Traffic {
    nodes.values().map(|node| node.transport.traffic()).fold(Traffic::default(), |sum, one| Traffic {
        frames: sum.frames + one.frames,
        writes: sum.writes + one.writes,
        bytes: sum.bytes + one.bytes,
    })
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    whole + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
