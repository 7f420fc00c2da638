//! One run: three nodes, clients, and faults that a seed chooses; then a healing phase in which everything must be answered.
//!
//! Invariant: all chance comes from the seed. Each class of faults is off in half of the runs; in some all are off.

use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::disk::sim::SimDisk;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use turmoil::Sim;

use crate::clients::{Clients, HEALED_WITHIN};
use crate::node::{self, GROUPS, NODES, World, name, open};
use crate::observed::{Breach, Reached};

const MS: u64 = 1_000_000;
/// How long faults go on.
const TROUBLE: u64 = 12_000 * MS;
/// Two new asks in this many steps, on average.
const ASKS_EVERY: u32 = 20;

/// What a run showed.
#[derive(Debug)]
pub struct Outcome {
    /// What didn't hold.
    pub breaches: Vec<Breach>,
    /// What was visited.
    pub reached: Reached,
    /// Equal for equal seeds.
    pub hash: u64,
    /// Asks.
    pub asks: usize,
    /// What happened, in order.
    pub story: Vec<String>,
}

/// Classes of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Kill,
    KillAll,
    /// A node dies just after it took a new term over.
    KillVoter,
    Cut,
    CutOneWay,
    Clog,
    FullDisk,
    FailingSync,
    PowerCut,
}

const CLASSES: [Class; 9] = [
    Class::Kill,
    Class::KillAll,
    Class::KillVoter,
    Class::Cut,
    Class::CutOneWay,
    Class::Clog,
    Class::FullDisk,
    Class::FailingSync,
    Class::PowerCut,
];

/// How a fault ends, at a time.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Start(u64),
    Mend(u64, u64),
    Room(u64),
}

struct Run<'a> {
    sim: Sim<'a>,
    world: World,
    disks: Vec<SimDisk>,
    chance: SmallRng,
    clients: Clients,
    ends: Vec<(u64, Ends)>,
    /// Nodes whose disk was told to fail: their end is no surprise.
    excused: Vec<u64>,
    down: Vec<u64>,
    /// Until then nodes die when they take a new term over.
    voters_die: u64,
    now: u64,
    story: Vec<String>,
}

/// Runs one seed.
///
/// # Panics
/// When the simulation itself can't run.
#[must_use]
pub fn run(seed: u64) -> Outcome {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let mut chance = SmallRng::seed_from_u64(seed);
    let mut builder = turmoil::Builder::new();
    builder
        .simulation_duration(Duration::from_secs(600))
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_millis(0))
        .max_message_latency(Duration::from_millis(chance.random_range(1..8)))
        .tcp_capacity(4096)
        .rng_seed(chance.random());
    let mut sim = builder.build();
    let world = World::default();
    let mut disks = Vec::new();
    for me in NODES {
        let (disk, dir, shared) = (SimDisk::new(), folder.path().join(name(me)), Arc::clone(&world));
        disks.push(disk.clone());
        sim.host(name(me), move || node::run(me, disk.clone(), dir.clone(), Arc::clone(&shared)));
    }
    let run = Run {
        sim,
        world,
        disks,
        chance,
        clients: Clients::default(),
        ends: Vec::new(),
        excused: Vec::new(),
        down: Vec::new(),
        voters_die: 0,
        now: 0,
        story: Vec::new(),
    };
    run.whole()
}

impl Run<'_> {
    fn whole(mut self) -> Outcome {
        let quiet = self.chance.random_ratio(1, 8);
        let classes: Vec<Class> =
            CLASSES.into_iter().filter(|_| self.chance.random_bool(0.5) && !quiet).collect();
        self.tell(format!("faults: {classes:?}"));
        let mut next = 1_500 * MS;
        while self.now < TROUBLE {
            if self.chance.random_ratio(2, ASKS_EVERY) {
                self.clients.begin(self.now, &mut self.chance);
            }
            if self.now >= next && !classes.is_empty() {
                let class = classes[self.chance.random_range(0..classes.len())];
                self.strike(class);
                next = self.now + self.chance.random_range(50..1_800) * MS;
            }
            self.step();
        }
        self.heal();
        self.until_idle("asks");
        self.clients.echo(self.now);
        self.until_idle("repeated asks");
        self.clients.want_left(&mut open(&self.world));
        self.until_equal();
        self.end()
    }

    /// All replicas come to the same state, and say what is left.
    fn until_equal(&mut self) {
        let until = self.now + HEALED_WITHIN.as_nanos() as u64;
        // Nodes tell their state each 64 steps: what they told before the last answer counts for nothing.
        open(&self.world).states.clear();
        while self.differing().is_some() && self.now < until {
            self.step();
        }
        if let Some(what) = self.differing() {
            open(&self.world).observed.breach("heals", self.now, what);
        }
    }

    fn differing(&self) -> Option<String> {
        let shared = open(&self.world);
        GROUPS.iter().find_map(|group| {
            let states: Vec<_> =
                NODES.iter().map(|node| shared.states.get(&(*group, *node)).copied()).collect();
            let differ = states.iter().any(|state| state.is_none() || *state != states[0]);
            differ.then(|| format!("group {group}: replicas have {states:?}"))
        })
    }

    fn end(mut self) -> Outcome {
        let (asks, _) = self.clients.counts();
        self.tell("end".to_owned());
        let mut shared = open(&self.world);
        let judged = self.clients.judge(&shared, self.now);
        let mut breaches = std::mem::take(&mut shared.observed.breaches);
        breaches.extend(judged);
        Outcome {
            breaches,
            reached: shared.observed.reached,
            hash: shared.observed.hash,
            asks,
            story: self.story,
        }
    }

    /// One millisecond.
    fn step(&mut self) {
        open(&self.world).tick += 1;
        self.sim.step().expect("the simulation runs");
        self.now += MS;
        self.bury();
        let risen = std::mem::take(&mut open(&self.world).risen);
        for node in risen {
            if self.now < self.voters_die.min(TROUBLE) && self.chance.random_bool(0.5) {
                self.tell(format!("node {node} dies with a new term"));
                let down_ms = self.chance.random_range(20..400);
                self.kill(node, down_ms);
            }
        }
        for (_, ends) in self.ends.extract_if(.., |(at, _)| *at <= self.now).collect::<Vec<_>>() {
            self.mend(ends);
        }
        let mut shared = open(&self.world);
        self.clients.step(self.now, &mut shared, &mut self.chance);
    }

    /// Nodes that asked for their end are killed and started again, as a supervisor does.
    fn bury(&mut self) {
        let fatal = std::mem::take(&mut open(&self.world).fatal);
        for (node, reason) in fatal {
            self.tell(format!("node {node} ends: {reason}"));
            if !self.excused.contains(&node) {
                open(&self.world).observed.breach("heals", self.now, format!("node {node} ended: {reason}"));
            }
            self.kill(node, 300);
        }
    }

    fn strike(&mut self, class: Class) {
        let served = open(&self.world).serving.values().next().copied();
        let drawn = NODES[self.chance.random_range(0..NODES.len())];
        let node = served.filter(|_| self.chance.random_bool(0.6)).unwrap_or(drawn);
        let peer = NODES[(node as usize + self.chance.random_range(0..2)) % NODES.len()];
        let lasts = self.chance.random_range(20..2_500);
        let of_disk = matches!(class, Class::FullDisk | Class::FailingSync | Class::PowerCut);
        if of_disk && self.down.contains(&node) {
            return;
        }
        self.tell(format!("{class:?}: node {node}, peer {peer}, {lasts} ms"));
        let disk = &self.disks[node as usize - 1];
        match class {
            Class::Kill => return self.kill(node, lasts),
            Class::KillVoter => {
                // Someone has to stand, and someone else to vote.
                self.voters_die = self.now + lasts * MS;
                return self.kill(node, lasts);
            }
            Class::KillAll => return NODES.into_iter().for_each(|node| self.kill(node, lasts)),
            Class::Cut => self.sim.partition(name(node), name(peer)),
            Class::CutOneWay => self.sim.partition_oneway(name(node), name(peer)),
            Class::Clog => self.sim.hold(name(node), name(peer)),
            Class::FullDisk => {
                disk.set_capacity(Some(disk.used_bytes()));
                open(&self.world).observed.reached.full_disks += 1;
                return self.ends.push((self.now + lasts * MS, Ends::Room(node)));
            }
            Class::FailingSync => {
                disk.fail_sync_after(self.chance.random_range(0..20));
                return self.excused.push(node);
            }
            Class::PowerCut => {
                disk.cut_power_after(self.chance.random_range(0..40));
                return self.excused.push(node);
            }
        }
        self.ends.push((self.now + lasts * MS, Ends::Mend(node, peer)));
    }

    fn kill(&mut self, node: u64, down_ms: u64) {
        if self.down.contains(&node) {
            return;
        }
        let mut shared = open(&self.world);
        shared.inboxes.remove(&node);
        shared.observed.crashed(node);
        let led = shared.serving.values().any(|known| *known == node);
        shared.observed.reached.killed_while_asked += u64::from(led && self.clients.is_asked(node));
        shared.observed.reached.crashed_disks += 1;
        shared.serving.retain(|_, known| *known != node);
        drop(shared);
        self.sim.crash(name(node));
        self.disks[node as usize - 1].crash(self.chance.random());
        // With the crash its disk is sound again.
        self.excused.retain(|excused| *excused != node);
        // What it said before it died has left it.
        self.clients.died(node, self.now);
        self.down.push(node);
        self.ends.push((self.now + down_ms * MS, Ends::Start(node)));
    }

    fn mend(&mut self, ends: Ends) {
        self.tell(format!("ends: {ends:?}"));
        match ends {
            Ends::Start(node) => {
                self.down.retain(|down| *down != node);
                self.sim.bounce(name(node));
            }
            Ends::Mend(node, peer) => {
                self.sim.repair(name(node), name(peer));
                self.sim.release(name(node), name(peer));
            }
            Ends::Room(node) => self.disks[node as usize - 1].set_capacity(None),
        }
    }

    /// All faults end. Disks that were told to fail and didn't yet get the chance to are changed by a last kill.
    fn heal(&mut self) {
        self.tell("heal".to_owned());
        for node in self.excused.clone() {
            self.kill(node, 50);
        }
        for (at, _) in &mut self.ends {
            *at = (*at).min(self.now + 50 * MS);
        }
    }

    fn until_idle(&mut self, what: &str) {
        let until = self.now + HEALED_WITHIN.as_nanos() as u64;
        while !self.clients.idle() && self.now < until {
            self.step();
        }
        let (_, left) = self.clients.counts();
        if left > 0 {
            open(&self.world).observed.breach("heals", self.now, format!("{left} {what} have no answer"));
        }
    }

    fn tell(&mut self, line: String) {
        self.story.push(format!("{:>9.3} s  {line}", self.now as f64 / 1e9));
    }
}
