//! A whole cluster in one thread: its machines, who sleeps and who is down, and what happens to whom.
//!
//! Invariant: what happens is a function of the seed. A suspended machine does nothing; what came for it meanwhile waits.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use leasehold_control::{Cluster, ClusterId, NodeRecord};
use leasehold_model::NodeId;
use leasehold_placement::{Layout, Member, ShardMap, Standing, first_map};

use crate::client::Client;
use crate::clocks::{Clocks, MILLI, SECOND, Time};
use crate::ctx::{Ctx, Event, Mend, Message};
use crate::edge::Edge;
use crate::invariants::Finding;
use crate::net::Place;
use crate::node::Node;
use crate::plan::{Class, Plan};
use crate::reached::{Reached, State};

/// Ten times as many as there are in a busy world: somebody calls himself again and again.
const EVENTS_A_SECOND_MAX: u64 = 50_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ctx: Ctx,
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
    clients: Vec<Client>,
    /// Replicas of each group.
    pub(crate) groups: Rc<Vec<Vec<usize>>>,
    /// What came for machines that are suspended.
    asleep: BTreeMap<Place, Vec<Event>>,
    map: ShardMap,
}

/// What came of a world.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What doesn't hold.
    pub findings: Vec<Finding>,
    /// States visited.
    pub reached: Reached,
    /// A hash of all that happened.
    pub hash: u64,
    /// How many things happened.
    pub events: u64,
    /// Units admitted.
    pub units: u64,
    /// The largest overshoot, in thousandths of a limit.
    pub overshoot_per_mille: u64,
    /// What happened, if it was to be told.
    pub story: Vec<(Time, String)>,
}

impl World {
    /// The world of a plan.
    #[must_use]
    pub(crate) fn new(plan: Plan, story: bool) -> Self {
        let plan = Rc::new(plan);
        let mut ctx = Ctx::new(Rc::clone(&plan), story);
        let map = first_map_of(&plan);
        let groups = Rc::new(groups(&plan, &map));
        let nodes = (0..plan.nodes).map(|id| Node::new(id, Rc::clone(&groups), clocks(&mut ctx))).collect();
        let edges = (0..plan.edges).map(|id| Edge::new(id, clocks(&mut ctx))).collect();
        let clients = (0..plan.clients).map(|id| Client::new(id, ctx.chance.session())).collect();
        Self { ctx, nodes, edges, clients, groups, asleep: BTreeMap::new(), map }
    }

    /// Runs it to its end.
    #[must_use]
    pub(crate) fn run(mut self) -> Outcome {
        self.begin_all();
        let end = self.ctx.plan.end_at;
        let events_max = EVENTS_A_SECOND_MAX * end / SECOND;
        while let Some(event) = self.ctx.next(end) {
            self.happen(event);
            if self.ctx.events() > events_max {
                self.ctx.watch.found_endless(self.ctx.now);
                break;
            }
        }
        self.finish()
    }

    fn begin_all(&mut self) {
        let classes: Vec<Class> = self.ctx.plan.classes.iter().copied().collect();
        self.ctx.tell(|| format!("a world with {classes:?}"));
        for node in 0..self.nodes.len() {
            self.nodes[node].start(&mut self.ctx);
        }
        for edge in 0..self.edges.len() {
            self.edges[edge].start(&mut self.ctx);
            self.ctx.at(SECOND + self.ctx.chance.clone().below(SECOND), Event::Poll { edge });
            for key in 0..self.ctx.plan.keys.len() {
                let first = SECOND + self.ctx.chance.below(SECOND);
                self.ctx.at(first, Event::Arrive { edge, key });
            }
        }
        for client in 0..self.clients.len() {
            let first = SECOND + self.ctx.chance.below(SECOND);
            self.ctx.at(first, Event::Think { client });
        }
        let plan = Rc::clone(&self.ctx.plan);
        self.ctx.at(3 * SECOND, Event::Look);
        self.ctx.at(5 * SECOND, Event::Fault);
        self.ctx.at(plan.heal_at, Event::Heal);
        self.ctx.at(plan.calm_at, Event::Probe);
    }

    fn happen(&mut self, event: Event) {
        if let Some(asleep) = whose(&event).and_then(|place| self.asleep.get_mut(&place)) {
            return asleep.push(event);
        }
        let (nodes, edges, ctx) = (&mut self.nodes, &mut self.edges, &mut self.ctx);
        match event {
            Event::Deliver { from, to, message } => self.deliver(from, to, message),
            Event::Tick { node, life } => alive(nodes, node, life, |node| node.tick(ctx)),
            Event::Synced { node, life } => alive(nodes, node, life, |node| node.synced(ctx)),
            Event::Job { node, life, job, attempt } => {
                alive(nodes, node, life, |node| node.job_due(job, attempt, ctx));
            }
            Event::Wake { place: Place::Node(node), life } => {
                alive(nodes, node, life, |node| node.wake_broker(ctx));
            }
            Event::Wake { place: Place::Edge(edge), life } => {
                if edges[edge].up && edges[edge].life == life {
                    edges[edge].wake(ctx);
                }
            }
            Event::Wake { place: Place::Client(_), .. } => {}
            Event::Arrive { edge, key } => self.arrive(edge, key),
            Event::Poll { edge } => {
                ctx.at(ctx.now + SECOND / 2, Event::Poll { edge });
                if edges[edge].up {
                    edges[edge].poll(ctx);
                }
            }
            Event::Think { client } => {
                if ctx.now < ctx.plan.quiet_at {
                    self.clients[client].think(ctx);
                }
            }
            Event::Probe => self.probe(),
            Event::Patience { client, id, attempt } => self.clients[client].patience(id, attempt, ctx),
            Event::Fault => self.fault(),
            Event::Mend(mend) => self.mend(mend),
            Event::Heal => self.heal(),
            Event::Look => self.create(),
        }
    }

    fn deliver(&mut self, from: Place, to: Place, message: Message) {
        let ctx = &mut self.ctx;
        match (to, from, message) {
            (Place::Node(to), from, message) => {
                let Some(node) = self.nodes.get_mut(to).filter(|node| node.up) else { return };
                match (from, message) {
                    (Place::Node(from), Message::Log { group, speech }) => node.log(group, from, speech, ctx),
                    (Place::Node(from), Message::Route { call, group, asked }) => {
                        node.serve(group, asked, crate::node::Back::There(from, call), ctx);
                    }
                    (Place::Node(_), Message::Routed { call: (job, attempt, life), outcome }) => {
                        if life == node.life {
                            node.job_answered(job, attempt, outcome, ctx);
                        }
                    }
                    (Place::Client(client), Message::Check { id, costs }) => {
                        node.check(client, id, &costs, ctx)
                    }
                    (Place::Edge(edge), Message::Ask { id, ask, spec, settled }) => {
                        node.asked(edge, id, &ask, &spec, settled, ctx);
                    }
                    (Place::Edge(_), Message::WantRules) => {
                        let message = Message::Rules(node.rules);
                        ctx.send(Place::Node(to), from, message);
                    }
                    _ => unreachable!("nobody sends that to a node"),
                }
            }
            (Place::Edge(to), Place::Node(from), message) => {
                let Some(edge) = self.edges.get_mut(to).filter(|edge| edge.up) else { return };
                match message {
                    Message::Leased { id, leased } => edge.leased(from, id, leased.as_ref(), ctx),
                    Message::Rules(rules) => edge.adopt(rules, ctx),
                    Message::Log { .. }
                    | Message::Route { .. }
                    | Message::Routed { .. }
                    | Message::Check { .. }
                    | Message::Checked { .. }
                    | Message::Ask { .. }
                    | Message::WantRules => unreachable!("nobody sends that to an edge"),
                }
            }
            (Place::Client(to), _, Message::Checked { id, verdict }) => {
                self.clients[to].answered(id, verdict, ctx);
            }
            _ => unreachable!("nobody sends that"),
        }
    }

    fn arrive(&mut self, edge: usize, key: usize) {
        let ctx = &mut self.ctx;
        let rate = ctx.plan.keys[key].milli_rate;
        if rate == 0 || ctx.now >= ctx.plan.quiet_at {
            return;
        }
        // Bursts of half a second, now and then.
        let hot = (ctx.now / (SECOND / 2) + u64::try_from(key).unwrap_or(0)) % 7 < 2;
        let mean = SECOND * 1_000 / (rate * if hot { 3 } else { 1 });
        let wait = ctx.chance.within(mean / 5, mean * 9 / 5);
        ctx.at(ctx.now + wait, Event::Arrive { edge, key });
        let cost = if ctx.chance.per_mille(100) { ctx.chance.within(2, 3) } else { 1 };
        if self.edges[edge].up {
            self.edges[edge].arrive(key, cost, ctx);
        }
    }

    fn probe(&mut self) {
        let ctx = &mut self.ctx;
        if ctx.now >= ctx.plan.quiet_at {
            return;
        }
        let set = self.nodes[0].rules.set;
        let n = ctx.plan.keys.last().map_or(1, |key| key.limits[set].n());
        ctx.at(ctx.now + SECOND / (2 * n), Event::Probe);
        self.clients[0].probe(ctx);
    }

    fn mend(&mut self, mend: Mend) {
        match mend {
            Mend::Start(node) => {
                if !self.nodes[node].up {
                    self.nodes[node].start(&mut self.ctx);
                }
            }
            Mend::Resume(place) => self.resume(place),
            Mend::Disk(node) => {
                self.nodes[node].fill(false);
                self.nodes[node].disk.slow = 0;
            }
            Mend::Doubt(group, old, rounds) => self.doubt_again(group, old, rounds),
            Mend::Net => {
                let net = &mut self.ctx.net;
                (net.lost, net.doubled, net.reordered) = (0, 0, 0);
            }
            Mend::Edge(edge) => {
                if !self.edges[edge].up {
                    self.edges[edge].start(&mut self.ctx);
                }
            }
        }
    }

    fn heal(&mut self) {
        self.ctx.tell(|| "all heals".to_owned());
        self.ctx.net.heal();
        let asleep: Vec<Place> = self.asleep.keys().copied().collect();
        asleep.into_iter().for_each(|place| self.resume(place));
        for node in 0..self.nodes.len() {
            self.mend(Mend::Disk(node));
            self.mend(Mend::Start(node));
        }
        for edge in 0..self.edges.len() {
            self.mend(Mend::Edge(edge));
        }
    }

    /// The cluster is created, until it is; a majority lives at the latest when all heals.
    fn create(&mut self) {
        let created = self.nodes.iter().any(|node| {
            node.seats.get(&0).and_then(|seat| seat.machine.control()).is_some_and(|c| c.cluster().is_some())
        });
        if created {
            return;
        }
        self.ctx.at(self.ctx.now + SECOND, Event::Look);
        let plan = &self.ctx.plan;
        let cluster = Cluster { id: ClusterId(1), secret: [7; 16], shards: plan.shards.count(), replicas: 3 };
        let nodes = (0..plan.nodes).map(|node| record(node, plan)).collect();
        let map = self.map.clone();
        self.operate(leasehold_control::Command::Create { cluster, nodes, map });
    }

    pub(crate) fn suspend(&mut self, place: Place, until: Time) {
        let up = match place {
            Place::Node(node) => self.nodes[node].up,
            Place::Edge(edge) => self.edges[edge].up,
            Place::Client(_) => false,
        };
        if !up || self.asleep.contains_key(&place) {
            return;
        }
        self.ctx.tell(|| format!("{place} is suspended"));
        self.asleep.insert(place, Vec::new());
        let now = self.ctx.now;
        self.clocks(place, |clocks| clocks.sleep(now));
        let keys: Vec<_> = self.ctx.plan.keys.iter().map(|key| key.key).collect();
        if let Place::Edge(edge) = place {
            let edge = &self.edges[edge];
            if edge.holds_past(&keys, edge.boot(now), edge.boot(until)) {
                self.ctx.watch.reached.note(State::ResumedPastExpiry);
            }
        }
        self.ctx.at(until, Event::Mend(Mend::Resume(place)));
    }

    fn resume(&mut self, place: Place) {
        let Some(waiting) = self.asleep.remove(&place) else { return };
        let now = self.ctx.now;
        self.clocks(place, |clocks| clocks.wake(now));
        self.ctx.tell(|| format!("{place} goes on"));
        for event in waiting {
            // Applications sleep with their edge; of what would have come, the first comes now.
            self.ctx.at(now, event);
        }
    }

    /// A machine that is down doesn't sleep.
    pub(crate) fn forget_sleep(&mut self, place: Place) {
        self.resume(place);
    }

    fn clocks(&mut self, place: Place, change: impl FnOnce(&mut Clocks)) {
        match place {
            Place::Node(node) => change(&mut self.nodes[node].clocks),
            Place::Edge(edge) => change(&mut self.edges[edge].clocks),
            Place::Client(_) => {}
        }
    }

    fn finish(mut self) -> Outcome {
        let end = self.ctx.plan.end_at;
        let set = self.nodes[0].rules.set;
        let replicas = self.nodes.iter().flat_map(|node| {
            node.seats.iter().map(|(group, seat)| {
                let replica = &seat.replica;
                (*group, node.id, replica.applied(), replica.serves(), &seat.machine)
            })
        });
        self.ctx.watch.finish(replicas, set, end);
        let watch = &self.ctx.watch;
        Outcome {
            seed: self.ctx.plan.seed,
            findings: watch.findings().to_vec(),
            reached: watch.reached,
            hash: self.ctx.hash(),
            events: self.ctx.events(),
            units: watch.units,
            overshoot_per_mille: watch.overshoot_per_mille(),
            story: self.ctx.take_story(),
        }
    }
}

fn alive(nodes: &mut [Node], node: usize, life: u64, act: impl FnOnce(&mut Node)) {
    let node = &mut nodes[node];
    if node.up && node.life == life {
        act(node);
    }
}

/// Whose machine has to run for something to happen.
fn whose(event: &Event) -> Option<Place> {
    match event {
        Event::Deliver { to, .. } => Some(*to),
        Event::Tick { node, .. } | Event::Synced { node, .. } | Event::Job { node, .. } => {
            Some(Place::Node(*node))
        }
        Event::Wake { place, .. } => Some(*place),
        Event::Arrive { edge, .. } | Event::Poll { edge } => Some(Place::Edge(*edge)),
        Event::Think { .. }
        | Event::Probe
        | Event::Patience { .. }
        | Event::Fault
        | Event::Mend(_)
        | Event::Heal
        | Event::Look => None,
    }
}

fn clocks(ctx: &mut Ctx) -> Clocks {
    let boot = ctx.chance.within(1, 1_000_000) * SECOND;
    let (rate, off) = if ctx.plan.has(Class::Drift) {
        (i64::try_from(ctx.chance.below(2_001)).unwrap_or(0) - 1_000, ctx.chance.below(200 * MILLI))
    } else {
        (0, 0)
    };
    Clocks::new(boot, rate, i64::try_from(off).unwrap_or(0))
}

fn member(node: usize, plan: &Plan) -> Member {
    Member {
        id: NodeId(u64::try_from(node).unwrap_or(u64::MAX) + 1),
        weight: 100,
        zone: Arc::from(format!("zone {node}")),
        region: Arc::from(format!("region {}", node % plan.regions)),
        standing: Standing::Active,
    }
}

fn record(node: usize, plan: &Plan) -> NodeRecord {
    let Member { id, weight, zone, region, standing } = member(node, plan);
    let address: Arc<str> = Arc::from(format!("node{node}:1"));
    NodeRecord {
        id,
        name: Arc::from(format!("node {node}")),
        peer_address: Arc::clone(&address),
        gossip_address: Arc::clone(&address),
        client_address: address,
        zone,
        region,
        weight,
        standing,
    }
}

fn first_map_of(plan: &Plan) -> ShardMap {
    let members: Vec<Member> = (0..plan.nodes).map(|node| member(node, plan)).collect();
    let layout = Layout { shards: plan.shards, replicas: 3 };
    first_map(&layout, &members)
        .unwrap_or_else(|error| unreachable!("three nodes hold three replicas: {error}"))
}

/// Replicas of each group: all nodes have the control state, shards are where the map says.
fn groups(plan: &Plan, map: &ShardMap) -> Vec<Vec<usize>> {
    let place = |id: &NodeId| usize::try_from(id.0 - 1).unwrap_or(0);
    let shards = map.shards.iter().map(|placement| placement.replicas.iter().map(place).collect());
    std::iter::once((0..plan.nodes).collect()).chain(shards).collect()
}
