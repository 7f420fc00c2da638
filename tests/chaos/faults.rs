//! What is done to a world when: a plan carried out, each beginning and end in the history.
//!
//! Invariant: whatever begins ends before the time of trouble is over, and nothing is done to a process that isn't there.
//! Targets and numbers are drawn from the plan's seed; only who leads is asked of the cluster.

mod clocks;
mod disks;
mod flood;
mod gossip;
mod network;
mod processes;
mod rules;

use std::io;
use std::time::Duration;

use leasehold_tests::Deadline;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use tokio::task::AbortHandle;

use crate::history::{Event, Fault, FaultPhase};
use crate::net::Place;
use crate::record::Record;
use crate::scenario::{FaultKind, FaultSpec, OneWay, Planned, Target};
use crate::world::{World, name};

pub(crate) use rules::version as rules_version;

/// Somebody leads again by then, or nobody is to be found.
const LED_WITHIN: Duration = Duration::from_secs(6);

/// A fault that began and has to end.
#[derive(Debug, Default)]
struct Begun {
    targets: Vec<Place>,
    /// What goes on by itself meanwhile.
    task: Option<AbortHandle>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Driver<'a> {
    world: &'a mut World,
    record: Record,
}

impl<'a> Driver<'a> {
    pub(crate) const fn new(world: &'a mut World, record: Record) -> Self {
        Self { world, record }
    }

    /// Carries a plan out, from now on.
    ///
    /// # Errors
    /// When something can't be done: the harness's own trouble.
    pub(crate) async fn run(&mut self, planned: &[Planned]) -> io::Result<()> {
        let began = Deadline::after(Duration::ZERO);
        let mut steps: Vec<(Duration, bool, usize)> = Vec::new();
        for (number, one) in planned.iter().enumerate() {
            let spec = &self.world.scenario.faults[one.fault];
            steps.push((one.at, false, number));
            if !spec.kind.ends_by_itself() {
                steps.push((one.at + one.lasts, true, number));
            }
        }
        steps.sort();
        let mut begun: Vec<Option<Begun>> = planned.iter().map(|_| None).collect();
        for (at, is_end, number) in steps {
            tokio::time::sleep(at.saturating_sub(began.elapsed())).await;
            let one = &planned[number];
            let spec = self.world.scenario.faults[one.fault].clone();
            let mut chance = SmallRng::seed_from_u64(one.seed);
            if is_end {
                if let Some(done) = begun[number].take() {
                    self.end(&spec, &done, &mut chance).await?;
                }
            } else {
                begun[number] = self.begin(&spec, one, &mut chance).await?;
            }
        }
        Ok(())
    }

    /// `None`: there was nobody to do it to.
    async fn begin(
        &mut self,
        spec: &FaultSpec,
        planned: &Planned,
        chance: &mut SmallRng,
    ) -> io::Result<Option<Begun>> {
        let leader = self.leader(spec).await;
        let targets = self.targets(spec, leader, chance);
        if targets.is_empty() && spec.kind.has_target() {
            return Ok(None);
        }
        let at = self.record.now_ns();
        let (note, task) = self.act(spec, &targets, planned, chance).await?;
        let once = spec.kind.ends_by_itself();
        let phase = if once { FaultPhase::Once } else { FaultPhase::Begin };
        self.write(spec, &targets, at, phase, leader, &note);
        Ok(Some(Begun { targets, task }))
    }

    /// Does it. Returns what people may want to know, and what goes on by itself.
    async fn act(
        &mut self,
        spec: &FaultSpec,
        targets: &[Place],
        planned: &Planned,
        chance: &mut SmallRng,
    ) -> io::Result<(String, Option<AbortHandle>)> {
        let mut task = None;
        let note = match spec.kind {
            FaultKind::Kill | FaultKind::Replace => processes::kill(self.world, targets),
            FaultKind::Stop => processes::stop(self.world, targets),
            FaultKind::RollingRestart => processes::rolling_restart(self.world, &self.record).await,
            FaultKind::Cut => network::cut(self.world, targets, spec.one_way),
            FaultKind::Weather => network::weather(self.world, spec, chance),
            FaultKind::ClockStep => clocks::step(self.world, targets, spec, chance),
            FaultKind::ClockDrift => clocks::drift(self.world, targets, spec, chance),
            FaultKind::DiskFull => disks::fill(self.world, targets).await,
            FaultKind::SyncFails => disks::fail(self.world, targets)?,
            FaultKind::SlowDisk => disks::slow(self.world, targets, spec, chance)?,
            FaultKind::PowerLoss => disks::lose_power(self.world, targets)?,
            FaultKind::FlipByte => disks::flip_byte(self.world, targets).await,
            FaultKind::PushRules => rules::push(self.world, &self.record, true, chance).await,
            FaultKind::Flood => {
                let (note, flood) = flood::begin(self.world, spec, planned.lasts, chance).await;
                task = Some(flood);
                note
            }
            FaultKind::GossipAttack => {
                let (note, attack) = gossip::begin(self.world, spec, planned.lasts, chance)?;
                task = Some(attack);
                note
            }
        };
        Ok((note, task))
    }

    async fn end(&mut self, spec: &FaultSpec, begun: &Begun, chance: &mut SmallRng) -> io::Result<()> {
        let targets = &begun.targets;
        if let Some(task) = &begun.task {
            task.abort();
        }
        let note = match spec.kind {
            FaultKind::Kill | FaultKind::PowerLoss => processes::start(self.world, targets),
            FaultKind::Stop => processes::resume(self.world, targets),
            FaultKind::Replace => processes::replace(self.world, targets),
            FaultKind::Cut => network::join(self.world),
            FaultKind::Weather => network::clear(self.world),
            FaultKind::ClockStep => clocks::step_back(self.world, targets),
            FaultKind::ClockDrift => clocks::set_right(self.world, targets),
            FaultKind::DiskFull => disks::empty(self.world, targets),
            FaultKind::SyncFails => disks::recover(self.world, targets).await?,
            FaultKind::SlowDisk => disks::leave(self.world, targets)?,
            FaultKind::FlipByte => disks::rejoin(self.world, targets)?,
            FaultKind::PushRules => rules::push(self.world, &self.record, false, chance).await,
            FaultKind::Flood => flood::end(),
            FaultKind::GossipAttack => gossip::end(self.world).await,
            FaultKind::RollingRestart => String::new(),
        };
        self.write(spec, targets, self.record.now_ns(), FaultPhase::End, None, &note);
        if spec.kind == FaultKind::FlipByte {
            // Whoever joins as a new node has nothing of what it had.
            let replaced = FaultSpec { kind: FaultKind::Replace, ..spec.clone() };
            self.write(&replaced, targets, self.record.now_ns(), FaultPhase::Once, None, &note);
        }
        Ok(())
    }

    fn write(
        &self,
        spec: &FaultSpec,
        targets: &[Place],
        at: u64,
        phase: FaultPhase,
        leader: Option<usize>,
        note: &str,
    ) {
        let nodes = targets.iter().filter(|place| matches!(place, Place::Node(_))).count();
        let fault = |target: String, isolates: bool, owner: bool| {
            Event::Fault(Fault {
                at,
                name: spec.kind.name().to_owned(),
                target,
                phase,
                isolates,
                owner,
                note: note.to_owned(),
            })
        };
        if targets.is_empty() {
            self.record.write(&fault("all".to_owned(), false, false));
        }
        for place in targets {
            let alone = nodes <= 1 && spec.kind == FaultKind::Cut && spec.one_way.is_none();
            let owner = matches!(place, Place::Node(node) if Some(*node) == leader);
            self.record.write(&fault(name(*place), alone, owner));
        }
    }

    /// Who leads the first counter, if that matters.
    async fn leader(&self, spec: &FaultSpec) -> Option<usize> {
        let hot = self.world.hot.filter(|_| spec.kind.has_target())?;
        let deadline = Deadline::after(LED_WITHIN);
        // Where most are down nobody leads: waiting would only keep them down.
        let can_lead = self.world.cluster.running().len() * 2 > self.world.scenario.topology.nodes;
        while can_lead && !deadline.passed() {
            let leader = self.world.cluster.leader_of(hot).await;
            if let Some(leader) = leader.filter(|leader| self.world.cluster.running().contains(leader)) {
                return Some(leader);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        None
    }

    /// Whom it is done to: only to those that run.
    fn targets(&self, spec: &FaultSpec, leader: Option<usize>, chance: &mut SmallRng) -> Vec<Place> {
        let Some(target) = &spec.target else { return Vec::new() };
        let nodes = self.world.cluster.running();
        let edges: Vec<usize> =
            (0..self.world.edges.len()).filter(|edge| self.world.edge(*edge).is_some()).collect();
        let one = |from: &[usize], chance: &mut SmallRng| {
            from.choose(chance).copied().into_iter().collect::<Vec<_>>()
        };
        let others: Vec<usize> = nodes.iter().copied().filter(|node| Some(*node) != leader).collect();
        let as_nodes = |nodes: Vec<usize>| nodes.into_iter().map(Place::Node).collect::<Vec<_>>();
        let as_edges = |edges: Vec<usize>| edges.into_iter().map(Place::Edge).collect::<Vec<_>>();
        match target {
            Target::Leader => as_nodes(leader.map_or_else(|| one(&nodes, chance), |leader| vec![leader])),
            Target::Follower => as_nodes(one(&others, chance)),
            Target::Node => as_nodes(one(&nodes, chance)),
            Target::ThisNode(node) => as_nodes(nodes.iter().copied().filter(|one| one == node).collect()),
            Target::AllNodes => as_nodes(nodes),
            Target::Edge => as_edges(one(&edges, chance)),
            Target::AllEdges => as_edges(edges),
            Target::Region(region) => {
                let places = self.world.places();
                places.into_iter().filter(|place| self.world.region(*place) == Some(region)).collect()
            }
        }
    }
}

/// Which ways are cut for a target, from whom to whom.
fn directions(one_way: Option<OneWay>) -> (bool, bool) {
    (one_way != Some(OneWay::Out), one_way != Some(OneWay::In))
}

/// The nodes among targets.
fn nodes(targets: &[Place]) -> impl Iterator<Item = usize> {
    targets.iter().filter_map(|place| match place {
        Place::Node(node) => Some(*node),
        Place::Tester | Place::Edge(_) => None,
    })
}
