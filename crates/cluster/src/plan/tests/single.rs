//! Single decisions: one cluster of four nodes and two shards, and what is done about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_control::{Command, Control};
use leasehold_model::{NodeId, ShardId, Stamp};
use leasehold_placement::{Move, Phase, Standing};
use leasehold_wire::peer::Change;

use super::super::*;
use super::world::founding;

const ME: NodeId = NodeId(2);
const SHARD: ShardId = ShardId(0);

/// All well: four nodes of which the map uses three for each shard, and everything is as the map says.
struct Case {
    control: Control,
    groups: BTreeMap<GroupId, GroupView>,
    seen: BTreeMap<NodeId, Seen>,
}

fn ids(ids: &[u64]) -> BTreeSet<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

impl Case {
    fn new() -> Self {
        let mut control = Control::new();
        let made = Self { control: control.clone(), groups: BTreeMap::new(), seen: BTreeMap::new() }.decide();
        let [Action::Propose(create)] = made.as_slice() else { panic!("{made:?}") };
        control.apply(create.clone(), Stamp(1));
        let view = |voters: BTreeSet<NodeId>, learners| GroupView {
            leader: *voters.first().unwrap(),
            term: 1,
            committed: 100,
            matched: (1..=4).map(|node| (NodeId(node), 100)).collect(),
            voters: vec![voters],
            learners,
        };
        let mut groups = BTreeMap::from([(GroupId::CONTROL, view(ids(&[1, 2, 3]), ids(&[4])))]);
        for (group, placement) in (1..).map(GroupId).zip(&control.map().shards) {
            groups.insert(group, view(placement.replicas.iter().copied().collect(), BTreeSet::new()));
        }
        let well = Seen { connected: true, silent: Duration::ZERO };
        Self { control, groups, seen: (1..=4).map(|node| (NodeId(node), well)).collect() }
    }

    fn decide(&self) -> Vec<Action> {
        decide(&View {
            control: &self.control,
            me: ME,
            groups: &self.groups,
            seen: &self.seen,
            founding: Some(&founding(4, 2, 1)),
            rules: &[],
            replace_after: Duration::from_secs(15),
            leaders_stale: false,
        })
    }

    fn group(&mut self) -> &mut GroupView {
        self.groups.get_mut(&GroupId::of_shard(SHARD)).unwrap()
    }

    fn replicas(&self) -> Vec<NodeId> {
        self.control.map().shards[0].replicas.clone()
    }

    /// The one node that holds nothing of the shard.
    fn spare(&self) -> NodeId {
        (1..=4).map(NodeId).find(|node| !self.replicas().contains(node)).unwrap()
    }

    fn moving(&mut self, to: NodeId, from: NodeId, phase: Phase) {
        let moving = Move { to: Some(to), from: Some(from), phase };
        self.control.apply(Command::Moving { shard: SHARD, moving }, Stamp(1));
    }

    fn lose(&mut self, node: NodeId, silent: Duration) {
        self.seen.insert(node, Seen { connected: false, silent });
    }

    fn check(&self, expected: &[Action]) {
        assert_eq!(self.decide(), expected);
    }

    fn asked(&self, change: Change) -> Action {
        let group = GroupId::of_shard(SHARD);
        Action::Ask { group, leader: self.groups[&group].leader, change }
    }
}

#[test]
fn where_all_is_well_nothing_is_done() {
    Case::new().check(&[]);
}

#[test]
fn a_node_that_a_move_brings_is_made_a_learner() {
    let mut case = Case::new();
    case.moving(case.spare(), case.replicas()[2], Phase::Learning);
    case.check(&[case.asked(Change::AddLearner(case.spare()))]);
}

#[test]
fn a_learner_that_lags_is_waited_for() {
    let mut case = Case::new();
    let spare = case.spare();
    case.moving(spare, case.replicas()[2], Phase::Learning);
    case.group().learners.insert(spare);
    case.group().matched.insert(spare, 3);
    case.check(&[]);
}

#[test]
fn a_learner_that_has_all_takes_the_place_of_the_one_that_leaves() {
    let mut case = Case::new();
    let (spare, replicas) = (case.spare(), case.replicas());
    case.moving(spare, replicas[2], Phase::Changing);
    case.group().learners.insert(spare);
    let next = BTreeSet::from([replicas[0], replicas[1], spare]);
    case.check(&[case.asked(Change::Voters(next))]);
}

#[test]
fn a_leader_that_leaves_hands_over_first() {
    let mut case = Case::new();
    let (spare, replicas) = (case.spare(), case.replicas());
    case.moving(spare, replicas[0], Phase::Changing);
    case.group().learners.insert(spare);
    let expected = case.asked(Change::Transfer(replicas[2]));
    case.check(&[expected]);
}

#[test]
fn no_change_leaves_voters_that_could_not_go_on() {
    let mut case = Case::new();
    let replicas = case.replicas();
    let moving = Move { to: None, from: Some(replicas[2]), phase: Phase::Changing };
    case.control.apply(Command::Moving { shard: SHARD, moving }, Stamp(1));
    case.check(&[case.asked(Change::Voters(BTreeSet::from([replicas[0], replicas[1]])))]);
    case.group().matched.insert(replicas[1], 3);
    case.check(&[]);
}

#[test]
fn what_a_leader_confirmed_goes_into_the_map_before_the_move_ends() {
    let mut case = Case::new();
    let (spare, replicas) = (case.spare(), case.replicas());
    case.moving(spare, replicas[2], Phase::Changing);
    let next = BTreeSet::from([replicas[0], replicas[1], spare]);
    case.group().voters = vec![next.clone()];
    let decided = case.decide();
    let [Action::Propose(set @ Command::SetMap { map })] = decided.as_slice() else { panic!("{decided:?}") };
    assert!(map.shards[0].replicas.iter().eq(&next));
    case.control.apply(set.clone(), Stamp(1));
    case.check(&[Action::Propose(Command::Moved { shard: SHARD })]);
}

#[test]
fn a_change_that_its_leader_left_is_ended() {
    let mut case = Case::new();
    let (spare, replicas) = (case.spare(), case.replicas());
    case.moving(spare, replicas[2], Phase::Changing);
    let next = BTreeSet::from([replicas[0], replicas[1], spare]);
    case.group().voters.push(next.clone());
    case.check(&[case.asked(Change::Voters(next))]);
}

#[test]
fn a_move_whose_target_is_gone_is_given_up_learner_first() {
    let mut case = Case::new();
    let spare = case.spare();
    case.moving(spare, case.replicas()[2], Phase::Learning);
    case.lose(spare, Duration::from_secs(11));
    case.group().learners.insert(spare);
    case.check(&[case.asked(Change::RemoveLearner(spare))]);
    case.group().learners.clear();
    case.check(&[Action::Propose(Command::Moved { shard: SHARD })]);
}

#[test]
fn a_node_is_declared_dead_after_the_grace_and_not_before() {
    let mut case = Case::new();
    case.lose(NodeId(3), Duration::from_secs(14));
    case.check(&[]);
    case.lose(NodeId(3), Duration::from_secs(15));
    let dead = Command::SetStanding { node: NodeId(3), standing: Standing::Dead, by: "the planner".into() };
    assert_eq!(case.decide().first(), Some(&Action::Propose(dead)));
}

#[test]
fn of_two_silent_nodes_none_is_declared_dead_where_a_shard_would_lose_its_majority() {
    let mut case = Case::new();
    for node in [3, 4].map(NodeId) {
        case.lose(node, Duration::from_secs(60));
    }
    case.check(&[]);
}

#[test]
fn a_node_that_drains_is_preferred_nowhere() {
    let mut case = Case::new();
    let node = case.control.map().shards[0].leader.unwrap();
    let drain = Command::SetStanding { node, standing: Standing::Draining, by: "a test".into() };
    case.control.apply(drain, Stamp(1));
    let decided = case.decide();
    let map = decided.iter().find_map(|action| match action {
        Action::Propose(Command::SetMap { map }) => Some(map),
        Action::Propose(_) | Action::Ask { .. } => None,
    });
    let map = map.unwrap_or_else(|| panic!("{decided:?}"));
    assert!(map.shards.iter().all(|placement| placement.leader.is_some_and(|leader| leader != node)));
}

#[test]
fn nothing_moves_while_a_shard_has_no_leader() {
    let mut case = Case::new();
    let drain = Command::SetStanding { node: NodeId(2), standing: Standing::Draining, by: "a test".into() };
    case.control.apply(drain, Stamp(1));
    let starts = |case: &Case| {
        case.decide().iter().any(|action| matches!(action, Action::Propose(Command::Moving { .. })))
    };
    // Its leaders go first.
    for action in case.decide() {
        if let Action::Propose(command @ Command::SetMap { .. }) = action {
            case.control.apply(command, Stamp(1));
        }
    }
    assert!(starts(&case));
    case.groups.remove(&GroupId::of_shard(ShardId(1)));
    assert!(!starts(&case));
}

#[test]
fn a_planner_that_reaches_few_nodes_holds_still() {
    let mut case = Case::new();
    let (spare, replicas) = (case.spare(), case.replicas());
    case.moving(spare, replicas[2], Phase::Learning);
    case.lose(NodeId(4), Duration::ZERO);
    case.lose(NodeId(3), Duration::ZERO);
    case.check(&[]);
}
