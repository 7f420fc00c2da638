//! What goes wrong, of the kinds that a world has: one thing after the other, each for a while.
//!
//! Invariant: nothing begins once the world heals, and everything that began has ended then. More than a minority of disks
//! never loses what it synced; whole clusters go down, and come back with their disks.

use crate::clocks::{MILLI, SECOND, Time};
use crate::ctx::{Ctx, Event, Mend, What};
use crate::net::Place;
use crate::node::Cont;
use crate::plan::Class;
use crate::world::World;

impl World {
    /// Something goes wrong, and something else later.
    pub(crate) fn fault(&mut self) {
        if self.ctx.now >= self.ctx.plan.heal_at {
            return;
        }
        let next = self.ctx.now + self.ctx.chance.within(150, 2_500) * MILLI;
        self.ctx.at(next, Event::Fault);
        let classes: Vec<Class> = self.ctx.plan.classes.iter().copied().collect();
        if classes.is_empty() {
            return;
        }
        let class = *self.ctx.chance.pick(&classes);
        self.begin(class);
    }

    fn begin(&mut self, class: Class) {
        let left = self.ctx.plan.heal_at - self.ctx.now;
        let lasts = (self.ctx.chance.within(50, 8_000) * MILLI).min(left);
        let until = self.ctx.now + lasts;
        let nodes = self.nodes.len();
        let node = self.ctx.chance.place(nodes);
        let edge = self.ctx.chance.place(self.edges.len());
        match class {
            Class::Loss => {
                self.ctx.net.lost = self.ctx.chance.within(5, 300);
                self.ctx.at(until, Event::Mend(Mend::Net));
            }
            Class::Duplication => {
                self.ctx.net.doubled = self.ctx.chance.within(5, 300);
                self.ctx.at(until, Event::Mend(Mend::Net));
            }
            Class::Reordering => {
                self.ctx.net.reordered = self.ctx.chance.within(1, 300) * MILLI;
                self.ctx.at(until, Event::Mend(Mend::Net));
            }
            Class::Cuts => self.cut(node, edge, until),
            Class::Clogs => {
                let place =
                    if self.ctx.chance.per_mille(600) { Place::Node(node) } else { Place::Edge(edge) };
                self.ctx.tell(|| format!("what goes to {place} waits"));
                self.ctx.net.clog(place, until.min(self.ctx.now + 4 * SECOND));
            }
            Class::Crashes if self.ctx.plan.has(Class::Cuts) && self.ctx.chance.per_mille(400) => {
                self.doubt();
            }
            Class::Crashes => self.crash(node, until),
            Class::Outages => {
                if self.ctx.chance.per_mille(250) {
                    for node in 0..nodes {
                        let until = until.max(self.ctx.now + 1) + self.ctx.chance.below(SECOND);
                        self.crash(node, until);
                    }
                }
            }
            // A property of crashes.
            Class::TornWrites | Class::Flood => {}
            Class::FullDisks => {
                self.ctx.tell(|| format!("the disk of node {node} is full"));
                self.nodes[node].fill(true);
                self.ctx.at(until, Event::Mend(Mend::Disk(node)));
            }
            Class::SlowDisks => {
                self.nodes[node].disk.slow = self.ctx.chance.within(5, 400) * MILLI;
                self.ctx.at(until, Event::Mend(Mend::Disk(node)));
            }
            Class::EdgeDeaths => {
                if self.edges[edge].up {
                    self.edges[edge].die(&mut self.ctx);
                    self.ctx.at(until, Event::Mend(Mend::Edge(edge)));
                }
            }
            Class::Suspends => {
                let place =
                    if self.ctx.chance.per_mille(400) { Place::Node(node) } else { Place::Edge(edge) };
                self.suspend(place, until);
            }
            Class::WallSteps => self.step(node),
            Class::Drift => self.drift(node, edge, 1_000),
            Class::BrokenClocks => {
                let slow = i64::try_from(self.ctx.chance.within(10_000, 400_000)).unwrap_or(0);
                self.edges[edge].clocks.drift(self.ctx.now, -slow);
                self.ctx.tell(|| format!("the clocks of edge {edge} run {slow} ppm too slow"));
            }
            Class::Rules => {
                let set = self.ctx.chance.place(self.ctx.plan.rule_sets);
                self.change_rules(set);
            }
            Class::Moves => self.move_leader(node),
        }
    }

    fn crash(&mut self, node: usize, until: Time) {
        if !self.nodes[node].up {
            return;
        }
        let torn = self.ctx.plan.has(Class::TornWrites);
        self.forget_sleep(Place::Node(node));
        self.nodes[node].crash(torn, &mut self.ctx);
        self.ctx.at(until, Event::Mend(Mend::Start(node)));
    }

    /// A group's leader is killed and cut off, so that another stands; its voter has a slow disk.
    fn doubt(&mut self) {
        let group = self.ctx.chance.place(self.groups.len());
        let leads =
            |node: &crate::node::Node| node.seats.get(&group).is_some_and(|seat| seat.replica.is_leader());
        let Some(old) = self.nodes.iter().position(leads).filter(|_| self.groups[group].len() == 3) else {
            return;
        };
        let now = self.ctx.now;
        if now + 8 * SECOND >= self.ctx.plan.heal_at {
            return;
        }
        for &other in self.groups[group].iter().filter(|other| **other != old) {
            self.nodes[other].disk.slow = 400 * MILLI;
            self.ctx.at(now + 4 * SECOND, Event::Mend(Mend::Disk(other)));
            self.ctx.net.cut(Place::Node(other), Place::Node(old), now + 4 * SECOND);
            self.ctx.net.cut(Place::Node(old), Place::Node(other), now + 4 * SECOND);
        }
        self.crash(old, now + 50 * MILLI);
        self.ctx.at(now + 20 * MILLI, Event::Mend(Mend::Doubt(group, old, 200)));
    }

    /// As soon as the other leads, its voter is killed and it is cut off itself, and the old one is heard again.
    pub(crate) fn doubt_again(&mut self, group: usize, old: usize, rounds: u64) {
        let now = self.ctx.now;
        let (leads, voters): (Vec<usize>, Vec<usize>) =
            self.groups[group].iter().filter(|node| **node != old).partition(|node| {
                self.nodes[**node].seats.get(&group).is_some_and(|seat| seat.replica.is_leader())
            });
        let (&[new], &[voter]) = (&leads[..], &voters[..]) else {
            if rounds > 0 && now + 4 * SECOND < self.ctx.plan.heal_at {
                let next = Event::Mend(Mend::Doubt(group, old, rounds - 1));
                self.ctx.at(now + 10 * MILLI, next);
            }
            return;
        };
        self.crash(voter, now + 5 * MILLI);
        self.ctx.net.join(Place::Node(old), Place::Node(voter));
        for other in [old, voter] {
            self.ctx.net.cut(Place::Node(new), Place::Node(other), now + 3 * SECOND);
            self.ctx.net.cut(Place::Node(other), Place::Node(new), now + 3 * SECOND);
        }
    }

    fn cut(&mut self, node: usize, edge: usize, until: Time) {
        let (one_way, inwards) = (self.ctx.chance.per_mille(400), self.ctx.chance.per_mille(500));
        let nodes = (0..self.nodes.len()).filter(|other| *other != node).map(Place::Node);
        let mut others: Vec<Place> = nodes.collect();
        let mut place = Place::Node(node);
        match self.ctx.chance.below(3) {
            0 => {
                place = Place::Edge(edge);
                others.push(Place::Node(node));
            }
            1 => others.truncate(1),
            _ => others.extend((0..self.edges.len()).map(Place::Edge)),
        }
        self.ctx.tell(|| format!("{place} is cut off{}", if one_way { " one way" } else { "" }));
        for other in others {
            if !one_way || inwards {
                self.ctx.net.cut(other, place, until);
            }
            if !one_way || !inwards {
                self.ctx.net.cut(place, other, until);
            }
        }
    }

    fn step(&mut self, node: usize) {
        let by = i64::try_from(self.ctx.chance.within(1, 7_200) * SECOND).unwrap_or(0);
        let by = if self.ctx.chance.per_mille(500) { -by } else { by };
        self.nodes[node].clocks.step(by);
        self.ctx.tell(|| format!("the wall clock of node {node} steps by {} s", by / 1_000_000_000));
    }

    fn drift(&mut self, node: usize, edge: usize, most_ppm: u64) {
        let now = self.ctx.now;
        let rate = |ctx: &mut Ctx| {
            let most = i64::try_from(most_ppm).unwrap_or(0);
            i64::try_from(ctx.chance.below(2 * most_ppm + 1)).unwrap_or(0) - most
        };
        let of_node = rate(&mut self.ctx);
        self.nodes[node].clocks.drift(now, of_node);
        if !self.ctx.plan.has(Class::BrokenClocks) {
            let of_edge = rate(&mut self.ctx);
            self.edges[edge].clocks.drift(now, of_edge);
        }
    }

    /// Somebody pushes a rule set through a node.
    pub(crate) fn change_rules(&mut self, set: usize) {
        self.ctx.tell(|| format!("rule set {set} is pushed"));
        let change = leasehold_control::RulesChange {
            domain: "sim".into(),
            text: Some(set.to_string().into()),
            expected: None,
            by: "operator".into(),
        };
        self.operate(leasehold_control::Command::Rules(change));
    }

    fn move_leader(&mut self, node: usize) {
        let group = self.ctx.chance.place(self.groups.len());
        let Some(leader) = self
            .nodes
            .iter()
            .position(|node| node.up && node.seats.get(&group).is_some_and(|seat| seat.replica.is_leader()))
        else {
            return;
        };
        if self.ctx.chance.per_mille(500) && group > 0 {
            let control = self.nodes[leader].seats.get(&0).and_then(|seat| seat.machine.control());
            let Some(mut map) = control.map(|control| control.map().clone()) else { return };
            let Some(placement) = map.shards.get_mut(group - 1) else { return };
            let ids = &placement.replicas;
            placement.leader = Some(*self.ctx.chance.pick(ids));
            map.epoch.0 += 1;
            return self.operate(leasehold_control::Command::SetMap { map });
        }
        self.nodes[leader].hand_over(group, node, &mut self.ctx);
    }

    /// An operator wants something of the control group.
    pub(crate) fn operate(&mut self, command: leasehold_control::Command) {
        let running: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].up).collect();
        if running.is_empty() {
            return;
        }
        let node = *self.ctx.chance.pick(&running);
        let asked = crate::ctx::Asked { what: What::Control(command), limits: Vec::new(), settled: None };
        self.nodes[node].job(0, asked, 3 * SECOND, Cont::Operator, &mut self.ctx);
    }
}
