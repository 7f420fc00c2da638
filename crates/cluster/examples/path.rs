//! What exact checks cost: three nodes in one process over loopback and real disks, a closed loop of callers.
//!
//! `cargo run --release -p leasehold-cluster --example path -- [shards] [callers] [seconds] [keys]`
//!
//! Each caller asks a random node for one unit of a random counter, and asks again when it is answered. All is on a
//! quorum's disk before the answer. The figures are of one process with all three replicas and all callers.

#![expect(clippy::print_stdout, reason = "the report is the purpose")]

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Clock, Counts, Router, RouterParts, SystemClock, machines};
use leasehold_consensus::log::{Log, LogConfig};
use leasehold_consensus::runner::{OnFatal, Runner, RunnerConfig};
use leasehold_consensus::transport::{ClusterId, Identity, Plain, Transport, TransportConfig};
use leasehold_consensus::types::GroupId;
use leasehold_control::{Cluster, Command as ControlCommand};
use leasehold_limit::{Algorithm, Ask, Limit};
use leasehold_model::{Epoch, Key, Nanos, NodeId, RulesVersion, ShardId, Stamp, TenantId};
use leasehold_placement::{Placement, ShardMap};
use leasehold_shard::{Acquire, Batch, Bounds, Command, Demand, LimitSpec, Reply};
use rand::Rng;
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Node {
    transport: Transport,
    runner: Runner,
    router: Router,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |number| number.parse());
    let shards = u32::try_from(number(32)?)?;
    let (callers, seconds, keys) = (number(512)?, number(10)?, number(100_000)?);
    let dir = tempfile::tempdir()?;
    let nodes = start(dir.path(), shards).await?;
    sleep(Duration::from_millis(500)).await;
    let routers: Vec<Router> = nodes.iter().map(|node| node.router.clone()).collect();
    load(&routers, callers, keys, Duration::from_secs(1)).await;
    let (cpu, before, began) = (cpu_time(), counts(&routers), Instant::now());
    let mut latencies = load(&routers, callers, keys, Duration::from_secs(seconds)).await;
    let (cpu, after, took) = (cpu_time() - cpu, counts(&routers), began.elapsed().as_secs_f64());
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 1000].as_secs_f64() * 1000.0;
    let (checks, entries) = (latencies.len() as f64, (after.entries - before.entries) as f64);
    println!(
        "{shards} shards, {callers} callers, {keys} counters: {:.0} checks/s, p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms",
        checks / took,
        at(500),
        at(990),
        at(999),
    );
    println!(
        "{:.0} entries/s of {:.1} commands; {:.0} forwards/s of {:.1}; {} retries, {} unknown; {:.1} µs of CPU a check, {:.2} cores",
        entries / took,
        (after.commands - before.commands) as f64 / entries,
        (after.forwards - before.forwards) as f64 / took,
        (after.forwarded - before.forwarded) as f64 / (after.forwards - before.forwards) as f64,
        after.retries - before.retries,
        after.unknown - before.unknown,
        cpu.as_secs_f64() * 1e6 / checks,
        cpu.as_secs_f64() / took,
    );
    Ok(())
}

fn counts(routers: &[Router]) -> Counts {
    let mut sum = Counts::default();
    for counts in routers.iter().map(Router::counts) {
        sum.entries += counts.entries;
        sum.commands += counts.commands;
        sum.forwards += counts.forwards;
        sum.forwarded += counts.forwarded;
        sum.retries += counts.retries;
        sum.unknown += counts.unknown;
    }
    sum
}

/// How long each answer took.
async fn load(routers: &[Router], callers: u64, keys: u64, time: Duration) -> Vec<Duration> {
    let end = Instant::now() + time;
    let mut asking = JoinSet::new();
    for caller in 0..callers {
        let routers = routers.to_vec();
        asking.spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let began = Instant::now();
                let router = &routers[rand::rng().random_range(0..routers.len())];
                let replies = router.propose(one(keys), began + Duration::from_secs(10)).await;
                match replies.as_deref() {
                    Ok([Reply::Acquired(acquired)]) if acquired.admitted => latencies.push(began.elapsed()),
                    other => println!("caller {caller}: {other:?}"),
                }
            }
            latencies
        });
    }
    asking.join_all().await.into_iter().flatten().collect()
}

/// One unit of a random counter that has plenty.
fn one(keys: u64) -> Batch {
    let n = rand::rng().random_range(0..keys).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bucket = Algorithm::TokenBucket { burst: 1_000_000_000 };
    let limit = Limit::new(bucket, 1_000, Nanos::from_secs(1)).expect("these are a limit's numbers");
    let spec = LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit };
    let key = Key { high: n, low: n.rotate_left(32) };
    let demand = Demand { key, limit: 0, ask: Ask::exactly(1), shadow: false };
    let acquire = Acquire { demands: vec![demand], ..Acquire::default() };
    Batch { limits: vec![spec], commands: vec![Command::Acquire(acquire)], ..Batch::default() }
}

async fn start(dir: &Path, shards: u32) -> Outcome<Vec<Node>> {
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(open(id, &dir.join(id.to_string())).await?);
    }
    let voters: BTreeSet<NodeId> = [1, 2, 3].map(NodeId).into();
    for (id, node) in (1..).zip(&nodes) {
        for (other, known) in (1..).zip(&nodes) {
            node.transport.set_peer(NodeId(other), &known.transport.address().to_string());
        }
        for group in (0..=shards).map(GroupId) {
            node.runner.create_group(group, &voters).await?;
            node.runner.prefer(group, u64::from(group.0 % 3) + 1 == id);
        }
    }
    let placement = |shard: u32| Placement {
        home: None,
        replicas: voters.iter().copied().collect(),
        leader: Some(NodeId(u64::from((shard + 1) % 3) + 1)),
    };
    let map = ShardMap { epoch: Epoch(1), shards: (0..shards).map(placement).collect() };
    let cluster = Cluster { id: leasehold_control::ClusterId(1), secret: [0; 16], shards, replicas: 3 };
    let create = ControlCommand::Create { cluster, nodes: Vec::new(), map };
    nodes[0].router.command(create, Instant::now() + Duration::from_secs(10)).await?;
    for group in (0..shards).map(|shard| GroupId::of_shard(ShardId(shard))) {
        while !nodes.iter().any(|node| node.runner.is_leader(group)) {
            sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(nodes)
}

async fn open(id: u64, dir: &Path) -> Outcome<Node> {
    let identity = Some(Identity { cluster: ClusterId(1), node: NodeId(id) });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let transport =
        Transport::start(listener, TransportConfig { identity, seed: id, secure: Arc::new(Plain) })?;
    let on_disk_fatal = Arc::new(|error: &io::Error| panic!("{error}"));
    let log = Log::open(&dir.join("log"), LogConfig::default(), on_disk_fatal)?;
    let on_fatal: OnFatal = Arc::new(|group, reason| panic!("{group}: {reason}"));
    let config = RunnerConfig::new(NodeId(id), dir.join("groups"), id, on_fatal);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (told, control) = watch::channel(Arc::default());
    let machines = machines(Bounds::default(), Arc::clone(&clock), told);
    let runner = Runner::open(config, log, transport.clone(), machines).await?;
    let router = Router::new(RouterParts {
        node: NodeId(id),
        runner: runner.clone(),
        transport: transport.clone(),
        clock,
        control,
        hint: Arc::new(|_| None),
    });
    router.serve();
    Ok(Node { transport, runner, router })
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (secs, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Duration::new(secs, nanos)
}
