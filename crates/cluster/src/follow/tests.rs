//! Which replicas a node founds, starts and gives up.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_consensus::types::GroupId;
use leasehold_control::{Cluster, ClusterId, Command, Control, NodeRecord, Reply};
use leasehold_model::{Epoch, Nanos, NodeId, ShardId, Stamp};
use leasehold_placement::{Move, Phase, ShardMap, Standing};
use leasehold_wire::peer::Founding;

use super::{Action, addresses, first_map, may_remove, wanted};

fn record(id: u64) -> NodeRecord {
    NodeRecord {
        id: NodeId(id),
        name: format!("n{id}").into(),
        peer_address: format!("h{id}:1").into(),
        gossip_address: format!("h{id}:2").into(),
        client_address: format!("h{id}:3").into(),
        zone: "".into(),
        region: "".into(),
        weight: 100,
        standing: Standing::Active,
    }
}

fn founding() -> Founding {
    let cluster = Cluster { id: ClusterId(1), secret: [0; 16], shards: 2, replicas: 3 };
    Founding { cluster, name: "main".to_owned(), founders: (1..=3).map(record).collect() }
}

fn first() -> ShardMap {
    first_map(&founding()).unwrap()
}

fn apply(control: &mut Control, command: Command) {
    let reply = control.apply(command, Stamp(1));
    assert!(!matches!(reply, Reply::Refused(_)), "{reply:?}");
}

/// A cluster of nodes 1 to 3 that all hold both shards, and of node 4 that holds nothing.
fn control() -> Control {
    let mut control = Control::new();
    let Founding { cluster, founders, .. } = founding();
    apply(&mut control, Command::Create { cluster, nodes: founders, map: first() });
    apply(&mut control, Command::Register(record(4)));
    control
}

fn moving(phase: Phase) -> Command {
    let moving = Move { to: Some(NodeId(4)), from: Some(NodeId(3)), phase };
    Command::Moving { shard: ShardId(0), moving }
}

/// Shard 0 has moved from node 3 to node 4.
fn moved(control: &mut Control) {
    let mut map = control.map().clone();
    map.epoch = Epoch(map.epoch.0 + 1);
    map.shards[0].replicas = [1, 2, 4].map(NodeId).to_vec();
    apply(control, Command::SetMap { map });
}

fn check(control: &Control, me: u64, here: &[u32], expected: &[Action]) {
    let here: BTreeSet<GroupId> = here.iter().copied().map(GroupId).collect();
    assert_eq!(wanted(control, Some(&first()), NodeId(me), &here), expected);
}

fn create(group: u32) -> Action {
    Action::Create(GroupId(group), [1, 2, 3].map(NodeId).into())
}

#[test]
fn those_that_the_first_map_names_found_what_they_lack() {
    check(&control(), 2, &[0], &[create(1), create(2)]);
    check(&control(), 2, &[0, 1], &[create(2)]);
    check(&control(), 2, &[0, 1, 2], &[]);
}

#[test]
fn who_is_named_nowhere_holds_nothing() {
    check(&control(), 4, &[0], &[]);
    check(&Control::new(), 1, &[0], &[]);
}

#[test]
fn who_a_move_brings_starts_empty_and_who_it_takes_stays_until_it_is_over() {
    let mut control = control();
    apply(&mut control, moving(Phase::Learning));
    check(&control, 4, &[0], &[Action::Join(GroupId(1))]);
    check(&control, 4, &[0, 1], &[]);
    apply(&mut control, moving(Phase::Retiring));
    moved(&mut control);
    check(&control, 3, &[0, 1, 2], &[]);
    apply(&mut control, Command::Moved { shard: ShardId(0) });
    check(&control, 3, &[0, 1, 2], &[Action::Remove(GroupId(1))]);
    check(&control, 4, &[0, 1], &[]);
}

#[test]
fn a_replica_is_not_removed_on_an_answer_from_before_a_suspend_or_once_it_is_wanted_again() {
    let mut control = control();
    moved(&mut control);
    let removed = |control: &Control, age| may_remove(control, Some(&first()), NodeId(3), GroupId(1), age);
    assert!(removed(&control, Nanos::from_millis(900)));
    assert!(!removed(&control, Nanos::from_secs(3_600)));
    let back = Move { to: Some(NodeId(3)), from: Some(NodeId(4)), phase: Phase::Learning };
    apply(&mut control, Command::Moving { shard: ShardId(0), moving: back });
    assert!(!removed(&control, Nanos::ZERO));
}

#[test]
fn a_founder_that_never_came_to_it_founds_under_a_later_map_too() {
    let mut control = control();
    moved(&mut control);
    check(&control, 1, &[0], &[create(1), create(2)]);
    check(&control, 3, &[0], &[create(2)]);
    check(&control, 4, &[0], &[Action::Join(GroupId(1))]);
}

#[test]
fn who_knows_no_founding_starts_empty_under_a_later_map() {
    let mut control = control();
    moved(&mut control);
    let here = BTreeSet::new();
    let expected = [Action::Join(GroupId(1)), Action::Join(GroupId(2))];
    assert_eq!(wanted(&control, None, NodeId(1), &here), expected);
}

#[test]
fn peers_are_all_others_that_live() {
    let mut control = control();
    let (node, standing) = (NodeId(3), Standing::Dead);
    apply(&mut control, Command::SetStanding { node, standing, by: "x".into() });
    let known = addresses(&control, NodeId(1));
    let expected = [(NodeId(2), Arc::from("h2:1")), (NodeId(4), Arc::from("h4:1"))];
    assert_eq!(known, expected.into());
}
