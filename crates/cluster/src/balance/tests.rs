//! When a shard goes to its preferred leader.

use leasehold_control::{Cluster, ClusterId};
use leasehold_model::Stamp;
use leasehold_placement::{Move, Phase, Placement, ShardMap};

use super::*;

const OTHER: NodeId = NodeId(2);
const SHARD: ShardId = ShardId(0);

/// A shard that should be led by the other, and that this node has led for long.
struct Case {
    control: Control,
    memory: Memory,
    now: Instant,
}

impl Case {
    fn new() -> Self {
        let mut control = Control::new();
        let cluster = Cluster { id: ClusterId(1), secret: [0; 16], shards: 1, replicas: 3 };
        let replicas = [1, 2, 3].map(NodeId).to_vec();
        let shards = vec![Placement { home: None, replicas, leader: Some(OTHER) }];
        let map = ShardMap { epoch: Epoch(1), shards };
        control.apply(Command::Create { cluster, nodes: Vec::new(), map }, Stamp(1));
        let start = Instant::now();
        let mut memory = Memory::default();
        memory.connected.insert(OTHER, start);
        memory.led.insert(GroupId::of_shard(SHARD), start);
        Self { control, memory, now: start + Duration::from_secs(60) }
    }

    fn check(&self, due: bool) {
        let expected = due.then_some((GroupId::of_shard(SHARD), OTHER));
        assert_eq!(self.memory.due(&self.control, self.now), expected);
    }
}

#[test]
fn a_shard_goes_to_the_leader_that_the_map_prefers() {
    Case::new().check(true);
}

#[test]
fn a_node_that_has_just_come_waits() {
    let mut case = Case::new();
    case.memory.connected.insert(OTHER, case.now - Duration::from_secs(4));
    case.check(false);
    case.memory.connected.clear();
    case.check(false);
}

#[test]
fn what_was_just_handed_over_stays() {
    let mut case = Case::new();
    case.memory.led.insert(GroupId::of_shard(SHARD), case.now - Duration::from_secs(7));
    case.check(false);
}

#[test]
fn a_shard_that_moves_keeps_its_leader() {
    let mut case = Case::new();
    let moving = Move { to: Some(NodeId(4)), from: Some(NodeId(3)), phase: Phase::Learning };
    case.control.apply(Command::Moving { shard: SHARD, moving }, Stamp(2));
    case.check(false);
}

#[test]
fn a_handover_that_failed_rests() {
    let mut case = Case::new();
    case.memory.tried.insert(GroupId::of_shard(SHARD), case.now - Duration::from_secs(9));
    case.check(false);
    case.memory.tried.insert(GroupId::of_shard(SHARD), case.now - Duration::from_secs(10));
    case.check(true);
}
