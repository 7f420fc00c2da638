//! What a report says of nodes that answered and of those that didn't.

use std::collections::BTreeSet;

use leasehold_control::{ClusterId, Command};
use leasehold_model::Stamp;
use leasehold_placement::{Placement, ShardMap, Standing};

use super::*;

const SHARD: u32 = 1;

fn record(id: u64) -> NodeRecord {
    NodeRecord {
        id: NodeId(id),
        name: format!("n{id}").into(),
        peer_address: "p".into(),
        gossip_address: "g".into(),
        client_address: "c".into(),
        zone: "z".into(),
        region: "r".into(),
        weight: 100,
        standing: Standing::Active,
    }
}

/// Three nodes and one shard, which the first should lead.
fn control() -> Control {
    let mut control = Control::new();
    let cluster = Cluster { id: ClusterId(1), secret: [0; 16], shards: 1, replicas: 3 };
    let replicas = [1, 2, 3].map(NodeId).to_vec();
    let shards = vec![Placement { home: None, replicas, leader: Some(NodeId(1)) }];
    let nodes = (1..=3).map(record).collect();
    let map = ShardMap { epoch: Epoch(1), shards };
    control.apply(Command::Create { cluster, nodes, map }, Stamp(1));
    control
}

fn replica(role: Role, term: u64, hash: u64) -> ReplicaStatus {
    ReplicaStatus {
        group: SHARD,
        role,
        term,
        leader: None,
        serving: role == Role::Leader,
        last_log: Some(10),
        committed: Some(10),
        applied: Some(10),
        snapshot: None,
        purged: None,
        voters: vec![BTreeSet::from([1, 2, 3].map(NodeId))],
        learners: BTreeSet::new(),
        matched: BTreeMap::from([(NodeId(2), Some(10)), (NodeId(3), Some(4))]),
        hash: Some(StateHash { applied: Some(10), hash }),
        keys: Some(7),
    }
}

fn report(statuses: &[(u64, ReplicaStatus)]) -> Report {
    let statuses = statuses.iter().map(|(node, status)| (NodeId(*node), vec![status.clone()])).collect();
    assemble("test".to_owned(), &control(), &statuses, &Members::default())
}

#[test]
fn a_shard_is_as_its_leader_says() {
    let report = report(&[(1, replica(Role::Leader, 2, 5)), (2, replica(Role::Follower, 2, 5))]);
    let [shard] = report.shards.as_slice() else { panic!("{report:?}") };
    assert_eq!((shard.leader, shard.term, shard.keys), (Some(NodeId(1)), 2, Some(7)));
    let behind: Vec<_> = shard.replicas.iter().map(|replica| (replica.node.0, replica.behind)).collect();
    assert_eq!(behind, [(1, Some(0)), (2, Some(0)), (3, Some(6))]);
    assert_eq!(report.members.iter().map(|member| member.leads).collect::<Vec<_>>(), [1, 0, 0]);
}

#[test]
fn who_does_not_answer_is_shown_as_such() {
    let report = report(&[(1, replica(Role::Leader, 2, 5))]);
    assert_eq!(report.members.iter().map(|member| member.answered).collect::<Vec<_>>(), [true, false, false]);
    let roles: Vec<_> = report.shards[0].replicas.iter().map(|replica| replica.role).collect();
    assert_eq!(roles, [Some(Role::Leader), None, None]);
}

#[test]
fn a_shard_that_no_leader_answers_for_has_none() {
    let report = report(&[(2, replica(Role::Follower, 2, 5))]);
    assert_eq!((report.shards[0].leader, report.shards[0].keys), (None, None));
    assert_eq!(report.shards[0].preferred, Some(NodeId(1)));
}

#[test]
fn of_two_that_think_they_lead_the_later_term_counts() {
    let report = report(&[(1, replica(Role::Leader, 2, 5)), (2, replica(Role::Leader, 3, 5))]);
    assert_eq!((report.shards[0].leader, report.shards[0].term), (Some(NodeId(2)), 3));
}

#[test]
fn replicas_with_different_states_at_one_place_are_told() {
    let same = report(&[(1, replica(Role::Leader, 2, 5)), (2, replica(Role::Follower, 2, 5))]);
    assert!(same.shards[0].agrees());
    let other = report(&[(1, replica(Role::Leader, 2, 5)), (2, replica(Role::Follower, 2, 6))]);
    assert!(!other.shards[0].agrees());
    let mut late = replica(Role::Follower, 2, 6);
    late.hash = Some(StateHash { applied: Some(9), hash: 6 });
    assert!(report(&[(1, replica(Role::Leader, 2, 5)), (2, late)]).shards[0].agrees());
}
