//! A cluster without code of its own: groups that obey, nodes that follow the map, and chance. It checks what no plan may do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_control::{Cluster, ClusterId, Command, Control, NodeRecord, Reply};
use leasehold_model::{NodeId, Stamp};
use leasehold_placement::{MoveBounds, Standing};
use leasehold_wire::peer::{Change, Founding};
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};

use super::super::*;

/// The time between two passes.
const TICK: Duration = Duration::from_millis(500);
const REPLACE_AFTER: Duration = Duration::from_secs(15);
/// Passes after which everything has to have come to rest.
const SETTLES: usize = 2_000;

/// One group.
struct Group {
    voters: Vec<BTreeSet<NodeId>>,
    learners: BTreeSet<NodeId>,
    /// Nodes whose replica has everything.
    full: BTreeSet<NodeId>,
    leader: Option<NodeId>,
    /// Who is carrying a change through, while it leads.
    changing: Option<NodeId>,
}

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) control: Control,
    /// In a hundred: how many actions are lost, and how many planners stop after one.
    pub(super) losses: u32,
    groups: BTreeMap<GroupId, Group>,
    nodes: BTreeSet<NodeId>,
    up: BTreeSet<NodeId>,
    silent: BTreeMap<NodeId, u32>,
    standings: BTreeMap<NodeId, Standing>,
    rng: SmallRng,
    founding: Founding,
    zones: u64,
    next: u64,
}

fn record(id: NodeId, zones: u64) -> NodeRecord {
    NodeRecord {
        id,
        name: format!("n{id}").into(),
        peer_address: "p".into(),
        gossip_address: "g".into(),
        client_address: "c".into(),
        zone: format!("z{}", id.0 % zones).into(),
        region: "r".into(),
        weight: 100,
        standing: Standing::Active,
    }
}

/// A cluster of the first so many node ids.
pub(super) fn founding(nodes: u64, shards: u32, zones: u64) -> Founding {
    let cluster = Cluster { id: ClusterId(7), secret: [1; 16], shards, replicas: 3 };
    Founding {
        cluster,
        name: "test".into(),
        founders: (1..=nodes).map(|node| record(NodeId(node), zones)).collect(),
    }
}

fn majority(set: &BTreeSet<NodeId>, of: impl Fn(&NodeId) -> bool) -> bool {
    set.iter().filter(|node| of(node)).count() * 2 > set.len()
}

impl World {
    pub(super) fn new(seed: u64, nodes: u64, shards: u32, zones: u64) -> Self {
        let founding = founding(nodes, shards, zones);
        let nodes: BTreeSet<NodeId> = (1..=nodes).map(NodeId).collect();
        let group = Group::founded(&nodes);
        Self {
            seed,
            control: Control::new(),
            losses: 0,
            groups: BTreeMap::from([(GroupId::CONTROL, group)]),
            up: nodes.clone(),
            silent: BTreeMap::new(),
            standings: BTreeMap::new(),
            next: nodes.len() as u64 + 1,
            nodes,
            rng: SmallRng::seed_from_u64(seed),
            founding,
            zones,
        }
    }

    pub(super) fn run(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.tick();
        }
    }

    /// Runs until nothing is left to do, and checks that all is as it should be.
    pub(super) fn settle(&mut self) {
        let mut still = 0;
        for _ in 0..SETTLES {
            still = if self.tick() == 0 { still + 1 } else { 0 };
            if still > 40 {
                self.check_settled();
                return;
            }
        }
        panic!("seed {}: it doesn't come to rest: {:?}", self.seed, self.control.moves());
    }

    /// One pass of everybody; how much the planner wanted done.
    fn tick(&mut self) -> usize {
        self.found_groups();
        self.elect();
        self.carry_changes_through();
        self.follow();
        self.catch_up();
        for node in &self.nodes {
            let silent = self.silent.entry(*node).or_default();
            *silent = if self.up.contains(node) { 0 } else { *silent + 1 };
        }
        let actions = self.plan();
        let wanted = actions.len();
        for action in actions {
            if self.rng.random_ratio(self.losses, 100) {
                continue;
            }
            self.carry_out(action);
            if self.rng.random_ratio(self.losses, 400) {
                self.depose(GroupId::CONTROL);
                break;
            }
        }
        self.check_bounds();
        wanted
    }

    fn plan(&mut self) -> Vec<Action> {
        let Some(me) = self.groups[&GroupId::CONTROL].leader else { return Vec::new() };
        let groups = self.groups.iter().filter_map(|(id, group)| Some((*id, group.view()?))).collect();
        let seen = |node: &NodeId| Seen {
            connected: self.up.contains(node),
            silent: TICK * self.silent.get(node).copied().unwrap_or_default(),
        };
        let seen = self.nodes.iter().map(|node| (*node, seen(node))).collect();
        let standings = self.control.nodes().iter().map(|(id, node)| (*id, node.standing)).collect();
        let leaders_stale = standings != self.standings;
        self.standings = standings;
        decide(&View {
            control: &self.control,
            me,
            groups: &groups,
            seen: &seen,
            founding: Some(&self.founding),
            rules: &[("a".into(), "text a".into()), ("b".into(), "text b".into())],
            replace_after: REPLACE_AFTER,
            leaders_stale,
        })
    }

    fn carry_out(&mut self, action: Action) {
        let seed = self.seed;
        match action {
            Action::Propose(command) => {
                let reply = self.control.apply(command.clone(), Stamp(1));
                // Of several rules in a row one may have been lost.
                let refused = matches!(reply, Reply::Refused(_)) && !matches!(command, Command::Rules(_));
                assert!(!refused, "seed {seed}: {command:?} is {reply:?}");
            }
            Action::Ask { group: id, leader, change } => {
                let group = self.groups.get_mut(&id).unwrap();
                if group.leader == Some(leader) {
                    group.change(change, &self.up, &format!("seed {seed}: group {id}"));
                }
            }
        }
    }

    /// Shards come into being at the first map.
    fn found_groups(&mut self) {
        if self.control.epoch().0 != 1 {
            return;
        }
        for (group, placement) in (1..).map(GroupId).zip(&self.control.map().shards) {
            let voters = placement.replicas.iter().copied().collect();
            self.groups.entry(group).or_insert_with(|| Group::founded(&voters));
        }
    }

    fn elect(&mut self) {
        for group in self.groups.values_mut() {
            let stands = |node: &NodeId| self.up.contains(node) && group.full.contains(node);
            let wins = group.voters.iter().all(|set| majority(set, |node| self.up.contains(node)));
            let keeps =
                |leader: &NodeId| stands(leader) && group.voters.iter().any(|set| set.contains(leader));
            group.leader = group.leader.filter(|leader| wins && keeps(leader));
            if group.leader.is_none() && wins {
                let candidates = group.voters.iter().flatten().filter(|node| stands(node));
                group.leader = candidates.choose(&mut self.rng).copied();
            }
        }
    }

    /// Whoever leads a change ends it, unless it was another that began it.
    fn carry_changes_through(&mut self) {
        for group in self.groups.values_mut() {
            if group.voters.len() == 2 && group.leader == group.changing && self.rng.random_ratio(1, 2) {
                group.voters.remove(0);
                group.changing = None;
            }
        }
    }

    /// Nodes hold what the map or a move names them for, and drop the rest.
    fn follow(&mut self) {
        for (id, group) in &mut self.groups {
            let Some(shard) = id.shard() else { continue };
            let mapped = &self.control.map().shards[usize::try_from(shard.0).unwrap()].replicas;
            let moving = self.control.moves().get(&shard);
            let named = |node: &NodeId| {
                mapped.contains(node)
                    || moving.is_some_and(|moving| moving.to == Some(*node) || moving.from == Some(*node))
            };
            for node in self.up.iter().filter(|node| !named(node)) {
                let votes = group.voters.iter().any(|set| set.contains(node));
                assert!(!votes, "seed {}: {node} drops its replica of group {id} and votes in it", self.seed);
                group.full.remove(node);
            }
        }
    }

    fn catch_up(&mut self) {
        for group in self.groups.values_mut().filter(|group| group.leader.is_some()) {
            for node in group.learners.iter().chain(group.voters.iter().flatten()) {
                if self.up.contains(node) && self.rng.random_ratio(1, 2) {
                    group.full.insert(*node);
                }
            }
        }
    }

    fn depose(&mut self, group: GroupId) {
        self.groups.get_mut(&group).unwrap().leader = None;
    }

    fn check_bounds(&self) {
        let moves = self.control.moves();
        let bounds = MoveBounds::default();
        assert!(moves.len() <= bounds.cluster_max, "seed {}: {moves:?}", self.seed);
        for node in &self.nodes {
            let into = moves.values().filter(|moving| moving.to == Some(*node)).count();
            assert!(into <= bounds.node_max, "seed {}: {moves:?}", self.seed);
        }
    }

    fn check_settled(&self) {
        let seed = self.seed;
        assert!(self.control.moves().is_empty(), "seed {seed}");
        assert_eq!(self.control.rules().len(), 2, "seed {seed}");
        let active: BTreeSet<NodeId> = self
            .control
            .nodes()
            .values()
            .filter(|node| node.member().eligible())
            .map(|node| node.id)
            .collect();
        for (id, group) in &self.groups {
            let [voters] = group.voters.as_slice() else { panic!("seed {seed}: group {id} still changes") };
            let zone = |node: &NodeId| node.0 % self.zones;
            if active.len() >= 3 {
                assert!(voters.is_subset(&active), "seed {seed}: group {id}: {voters:?} of {active:?}");
                assert_eq!(voters.len(), 3, "seed {seed}: group {id}");
                let spread = voters.iter().map(zone).collect::<BTreeSet<_>>().len();
                let zones = active.iter().map(zone).collect::<BTreeSet<_>>().len();
                assert_eq!(spread, zones.min(3), "seed {seed}: group {id} over zones: {voters:?}");
            }
            if let Some(shard) = id.shard() {
                let placement = &self.control.map().shards[usize::try_from(shard.0).unwrap()];
                assert!(placement.replicas.iter().eq(voters), "seed {seed}: {placement:?} isn't {voters:?}");
                assert!(group.learners.is_empty(), "seed {seed}: group {id} has learners");
                assert!(placement.leader.is_some(), "seed {seed}: {placement:?}");
            } else {
                let all: BTreeSet<NodeId> = voters.union(&group.learners).copied().collect();
                let living = self.control.nodes().values().filter(|node| node.standing != Standing::Dead);
                assert!(living.map(|node| node.id).eq(all), "seed {seed}: everybody follows");
            }
        }
        self.check_balance(&active);
    }

    fn check_balance(&self, active: &BTreeSet<NodeId>) {
        let loads = self.control.map().loads();
        let loads: Vec<usize> =
            active.iter().map(|node| loads.get(node).copied().unwrap_or_default()).collect();
        let (most, sum) = (loads.iter().max().unwrap(), loads.iter().sum::<usize>());
        if self.zones == 1 && active.len() >= 3 {
            assert!(most * loads.len() * 4 <= sum * 5 + 4 * loads.len(), "seed {}: {loads:?}", self.seed);
        }
    }

    pub(super) fn join(&mut self, id: u64) {
        let node = NodeId(id);
        self.run(1);
        self.control.apply(Command::Register(record(node, self.zones)), Stamp(1));
        self.nodes.insert(node);
        self.up.insert(node);
        self.next = self.next.max(id + 1);
    }

    pub(super) fn drain(&mut self, id: u64) {
        let command =
            Command::SetStanding { node: NodeId(id), standing: Standing::Draining, by: "a test".into() };
        self.control.apply(command, Stamp(1));
    }

    pub(super) fn forget(&mut self, id: u64) {
        let reply = self.control.apply(Command::Forget { node: NodeId(id), by: "a test".into() }, Stamp(1));
        assert_eq!(reply, Reply::Done, "seed {}", self.seed);
    }

    pub(super) fn down(&mut self, id: u64) {
        self.up.remove(&NodeId(id));
        for group in self.groups.values_mut() {
            group.full.remove(&NodeId(id));
        }
    }

    pub(super) fn up(&mut self, id: u64) {
        self.up.insert(NodeId(id));
    }

    /// Something happens to some node, never so much that a group loses its majority for it.
    pub(super) fn misfortune(&mut self) {
        let bears = |world: &Self, gone: NodeId| {
            let stays = |node: &NodeId| *node != gone && world.up.contains(node);
            world.groups.values().all(|group| {
                group.voters.iter().all(|set| majority(set, |node| stays(node) && group.full.contains(node)))
            })
        };
        let node = self.nodes.iter().copied().choose(&mut self.rng).unwrap();
        match self.rng.random_range(0..30) {
            0 | 1 if self.up.contains(&node) && bears(self, node) => self.down(node.0),
            2..8 if self.control.nodes().get(&node).is_some_and(|it| it.standing != Standing::Dead) => {
                self.up.insert(node);
            }
            8 if self.nodes.len() < 9 => self.join(self.next),
            9 if self.active() > 4 => self.drain(node.0),
            10 | 11 => {
                let group = self.groups.keys().copied().choose(&mut self.rng).unwrap();
                self.depose(group);
            }
            _ => {}
        }
    }

    /// Everybody who isn't dead comes back.
    pub(super) fn recover(&mut self) {
        let living = self.control.nodes().values().filter(|node| node.standing != Standing::Dead);
        self.up = living.map(|node| node.id).collect();
    }

    fn active(&self) -> usize {
        self.control
            .nodes()
            .values()
            .filter(|node| node.member().eligible() && self.up.contains(&node.id))
            .count()
    }

    pub(super) fn standing(&self, id: u64) -> Standing {
        self.control.nodes()[&NodeId(id)].standing
    }

    pub(super) fn votes_anywhere(&self, id: u64) -> bool {
        self.groups.values().any(|group| group.voters.iter().any(|set| set.contains(&NodeId(id))))
    }

    pub(super) fn follows(&self, id: u64) -> bool {
        self.groups[&GroupId::CONTROL].learners.contains(&NodeId(id))
    }
}

impl Group {
    fn founded(voters: &BTreeSet<NodeId>) -> Self {
        Self {
            voters: vec![voters.clone()],
            learners: BTreeSet::new(),
            full: voters.clone(),
            leader: None,
            changing: None,
        }
    }

    fn view(&self) -> Option<GroupView> {
        Some(GroupView {
            leader: self.leader?,
            term: 1,
            committed: 1_000,
            voters: self.voters.clone(),
            learners: self.learners.clone(),
            matched: self.full.iter().map(|node| (*node, 1_000)).collect(),
        })
    }

    /// Does as it is told, as openraft would; what a planner may never ask for fails the test.
    fn change(&mut self, change: Change, up: &BTreeSet<NodeId>, context: &str) {
        let votes = |node: &NodeId| self.voters.iter().any(|set| set.contains(node));
        match change {
            Change::AddLearner(node) if !votes(&node) => drop(self.learners.insert(node)),
            Change::RemoveLearner(node) => drop(self.learners.remove(&node)),
            Change::Voters(next) => {
                assert!(!next.is_empty(), "{context}: nobody would vote");
                let ready = |node: &NodeId| up.contains(node) && self.full.contains(node);
                assert!(majority(&next, ready), "{context}: {next:?} couldn't go on");
                if self.voters.contains(&next) {
                    self.voters = vec![next];
                } else if next.iter().all(|node| votes(node) || self.learners.contains(node)) {
                    self.learners.retain(|node| !next.contains(node));
                    self.voters.push(next);
                    self.changing = self.leader;
                }
            }
            Change::Transfer(node) => {
                assert!(votes(&node) && up.contains(&node), "{context}: {node} can't lead");
                self.leader = Some(node);
            }
            Change::AddLearner(_) => {}
        }
    }
}
