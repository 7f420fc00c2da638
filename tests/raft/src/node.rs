//! One simulated node: the real log, transport, runner and shards on a simulated machine.
//!
//! Invariant: it knows what a node knows, its disk and its peers; what it tells the world about itself influences nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold_consensus::disk::sim::SimDisk;
use leasehold_consensus::log::{Log, LogConfig};
use leasehold_consensus::machine::Machine;
use leasehold_consensus::runner::{CreateError, ProposeError, Runner, RunnerConfig};
use leasehold_consensus::transport::{ClusterId, Identity, Plain, Transport, TransportConfig};
use leasehold_consensus::types::GroupId;
use leasehold_limit::{Ask, Limit};
use leasehold_model::{Key, NodeId, RequestId, RulesVersion, Stamp, TenantId};
use leasehold_shard::{Acquire, Batch, Command, Demand, LimitSpec, Reply, SteeredClock};
use leasehold_wire::entry::encode_entry;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};

use crate::machine::{ShardMachine, now};
use crate::observed::Observed;

/// Ids of the nodes.
pub const NODES: [u64; 3] = [1, 2, 3];
/// The groups that they replicate.
pub const GROUPS: [GroupId; 2] = [GroupId(1), GroupId(2)];
/// How long a node tries to have an entry committed.
pub const WITHIN: Duration = Duration::from_secs(2);

const PORT: u16 = 7601;
/// Small, so that a run meets rolled segments, purges and installed snapshots.
const LOG: LogConfig =
    LogConfig { segment_bytes: 128 << 10, reserve_bytes: 16 << 10, tail_bytes_max: 16 << 10 };
const SNAPSHOT_EVERY: u64 = 60;
const KEEP_ENTRIES: u64 = 20;

/// One ask, as a client sends it to a node.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The client's number of it.
    pub op: usize,
    /// Charged once under it.
    pub id: RequestId,
    /// The shard's group.
    pub group: GroupId,
    /// The counter.
    pub key: Key,
    /// Its numbers.
    pub limit: Limit,
}

/// What a node told a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Decided, by an entry with this stamp.
    Decided {
        /// Whether it was admitted.
        admitted: bool,
        /// When, on the shard's line.
        at: Stamp,
        /// By this ask's entry; otherwise by an earlier one of the same id.
        anew: bool,
    },
    /// Not carried out: ask another.
    Elsewhere,
    /// It may have been carried out.
    Unknown,
}

/// What the nodes and the world share.
#[derive(Debug, Default)]
pub struct Shared {
    /// What was seen.
    pub observed: Observed,
    /// Where asks go, of nodes that are up.
    pub inboxes: BTreeMap<u64, UnboundedSender<Asked>>,
    /// Answers that the clients haven't read: op, node, answer.
    pub told: Vec<(usize, u64, Told)>,
    /// Nodes that asked for their end, and why.
    pub fatal: BTreeMap<u64, String>,
    /// Nodes that took a new term over in this step.
    pub risen: BTreeSet<u64>,
    /// Who serves a group, as it says itself.
    pub serving: BTreeMap<GroupId, u64>,
    /// Units left of a counter at the replica that serves it, asked for at the end.
    pub left: BTreeMap<Key, u64>,
    /// Applied index and hash of every replica.
    pub states: BTreeMap<(GroupId, u64), (u64, u64)>,
    /// Counters whose `left` is wanted.
    pub wanted: BTreeMap<Key, (GroupId, LimitSpec)>,
    /// The simulation's steps.
    pub tick: u64,
}

/// [`Shared`], from everywhere. One thread runs a simulation; hooks of the consensus crate have to be `Send`.
pub type World = Arc<Mutex<Shared>>;

/// The shared part.
pub fn open(world: &World) -> MutexGuard<'_, Shared> {
    world.lock().expect("nothing panics while it holds the world")
}

/// The numbers of a limit as an entry carries them.
pub fn spec(limit: Limit) -> LimitSpec {
    LimitSpec { tenant: TenantId(1), version: RulesVersion(1), since: Stamp::ZERO, limit }
}

/// A name that the simulated network resolves.
pub fn name(node: u64) -> String {
    format!("n{node}")
}

/// Runs until it is killed. When its log can't be read back it says so and stays down.
///
/// # Errors
/// When the simulated network fails at once.
pub async fn run(me: u64, disk: SimDisk, dir: PathBuf, world: World) -> turmoil::Result {
    let runner = match start(me, disk, dir, &world).await {
        Ok(runner) => runner,
        Err(reason) => {
            open(&world).fatal.insert(me, reason);
            return std::future::pending().await;
        }
    };
    let (inbox, asks) = unbounded_channel();
    open(&world).inboxes.insert(me, inbox);
    serve(me, runner, asks, world).await
}

async fn start(me: u64, disk: SimDisk, dir: PathBuf, world: &World) -> Result<Runner, String> {
    let (told, told_too) = (Arc::clone(world), Arc::clone(world));
    let on_disk_fatal = Arc::new(move |error: &std::io::Error| end(&told_too, me, error.to_string()));
    let log = Log::open_on(Arc::new(disk), LOG, on_disk_fatal).map_err(|error| error.to_string())?;
    let listener =
        turmoil::net::TcpListener::bind(("0.0.0.0", PORT)).await.map_err(|error| error.to_string())?;
    let identity = Some(Identity { cluster: ClusterId(1), node: NodeId(me) });
    let transport =
        Transport::start(listener, TransportConfig { identity, seed: me, secure: Arc::new(Plain) });
    let transport = transport.map_err(|error| error.to_string())?;
    for peer in NODES {
        transport.set_peer(NodeId(peer), &format!("{}:{PORT}", name(peer)));
    }
    let on_fatal =
        Arc::new(move |group: GroupId, reason: &str| end(&told, me, format!("group {group}: {reason}")));
    let mut config = RunnerConfig::new(NodeId(me), dir, me, on_fatal);
    config.snapshot_every = SNAPSHOT_EVERY;
    config.keep_entries = KEEP_ENTRIES;
    let machines = Arc::new(|_| -> Box<dyn Machine> { Box::new(ShardMachine::default()) });
    let runner = Runner::open(config, log, transport, machines).await.map_err(|error| error.to_string())?;
    let voters: BTreeSet<NodeId> = NODES.map(NodeId).into();
    for group in GROUPS {
        match runner.create_group(group, &voters).await {
            Ok(()) | Err(CreateError::Exists) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(runner)
}

fn end(world: &World, me: u64, reason: String) {
    open(world).fatal.entry(me).or_insert(reason);
}

async fn serve(me: u64, runner: Runner, mut asks: UnboundedReceiver<Asked>, world: World) -> turmoil::Result {
    let lines = Arc::new(Mutex::new(BTreeMap::new()));
    loop {
        while let Ok(asked) = asks.try_recv() {
            let (runner, world, lines) = (runner.clone(), Arc::clone(&world), Arc::clone(&lines));
            tokio::spawn(async move {
                let op = asked.op;
                let told = answer(&runner, asked, &lines).await;
                open(&world).told.push((op, me, told));
            });
        }
        look(me, &runner, &world);
        sleep(Duration::from_millis(1)).await;
    }
}

type Lines = Mutex<BTreeMap<GroupId, (u64, SteeredClock)>>;

async fn answer(runner: &Runner, asked: Asked, lines: &Lines) -> Told {
    let Some(stamp) = stamp(runner, asked.group, lines) else { return Told::Elsewhere };
    let demand = Demand { key: asked.key, limit: 0, ask: Ask::exactly(1), shadow: false };
    let acquire = Acquire { id: Some(asked.id), remember_denial: true, demands: vec![demand] };
    let batch = Batch {
        limits: vec![spec(asked.limit)],
        commands: vec![Command::Acquire(acquire)],
        ..Batch::default()
    };
    let entry = encode_entry(stamp, &batch);
    match runner.propose(asked.group, entry, Instant::now() + WITHIN).await {
        Ok(answer) => match answer.downcast::<Vec<Reply>>().expect("a shard answers so").first() {
            Some(Reply::Acquired(acquired)) => {
                Told::Decided { admitted: acquired.admitted, at: acquired.at, anew: acquired.at >= stamp }
            }
            other => panic!("an acquire was answered by {other:?}"),
        },
        Err(ProposeError::Unknown { .. }) => Told::Unknown,
        Err(_) => Told::Elsewhere,
    }
}

/// The leader's line, made anew in each term.
fn stamp(runner: &Runner, group: GroupId, lines: &Lines) -> Option<Stamp> {
    let term = runner.leadership(group)?.borrow().term;
    if !runner.is_leader(group) {
        return None;
    }
    let begun = runner.with_machine(group, ShardMachine::line)?;
    let mut lines = lines.lock().expect("nothing panics while it holds the lines");
    let line = lines.entry(group).or_insert((term, begun));
    if line.0 != term {
        *line = (term, begun);
    }
    Some(line.1.read(now()))
}

/// Tells the world how this node is.
fn look(me: u64, runner: &Runner, world: &World) {
    let at = now().0;
    let mut world = open(world);
    let tick = world.tick;
    for group in GROUPS {
        let serving = runner.is_leader(group);
        world.observed.serves(me, group, serving, tick, at);
        if serving {
            world.serving.insert(group, me);
        }
        if let Some(leadership) = runner.leadership(group) {
            let known = *leadership.borrow();
            if world.observed.leads(me, group, known, at) {
                world.risen.insert(me);
            }
        }
        let restored =
            runner.with_machine(group, |machine: &ShardMachine| machine.restored).unwrap_or_default();
        world.observed.restored(me, group, restored);
        if tick.is_multiple_of(64)
            && let Some((Some(index), hash)) = runner.state_hash(group)
        {
            world.observed.applied(me, group, index, hash, at);
            world.states.insert((group, me), (index, hash));
        }
        if serving {
            let wanted: Vec<(Key, LimitSpec)> = world
                .wanted
                .iter()
                .filter(|(_, of)| of.0 == group)
                .map(|(key, of)| (*key, of.1.clone()))
                .collect();
            for (key, spec) in wanted {
                if let Some(left) =
                    runner.with_machine(group, |machine: &ShardMachine| machine.left(key, spec))
                {
                    world.left.insert(key, left);
                }
            }
        }
    }
}
