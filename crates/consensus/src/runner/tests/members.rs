//! Members that join, change and leave.

use std::collections::BTreeSet;

use super::super::*;
use super::cluster::{Cluster, SOON, until};

const GROUP: GroupId = GroupId(0);

fn nodes(ids: &[u64]) -> BTreeSet<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

async fn with_learner() -> Cluster {
    let mut cluster = Cluster::of_three(1, |_| {}).await;
    cluster.propose(GROUP, "early").await;
    cluster.start(4).await;
    cluster.runner(4).join_group(GROUP).await.unwrap();
    let leader = cluster.runner(cluster.leader(GROUP).await);
    leader.add_learner(GROUP, NodeId(4), SOON).await.unwrap();
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_catches_up_and_its_progress_is_seen() {
    let cluster = with_learner().await;
    until("it has all", || cluster.tape(4, GROUP) == ["early"]).await;
    let leader = cluster.runner(cluster.leader(GROUP).await);
    let status = leader.status(GROUP).await.unwrap();
    assert_eq!(status.learners, nodes(&[4]));
    assert_eq!(status.voters, [nodes(&[1, 2, 3])]);
    assert!(status.matched.contains_key(&NodeId(4)));
    assert_eq!(cluster.runner(4).status(GROUP).await.unwrap().role, Role::Learner);
    leader.remove_learner(GROUP, NodeId(4), SOON).await.unwrap();
    assert!(leader.status(GROUP).await.unwrap().learners.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_replaced_by_another_and_the_group_goes_on() {
    let mut cluster = with_learner().await;
    let leader = cluster.leader(GROUP).await;
    let out = leader % 3 + 1;
    let voters: Vec<u64> = (1..=4).filter(|id| *id != out).collect();
    cluster.runner(leader).change_voters(GROUP, &nodes(&voters), SOON).await.unwrap();
    let status = cluster.runner(leader).status(GROUP).await.unwrap();
    assert_eq!((status.voters, status.learners), (vec![nodes(&voters)], nodes(&[])));
    cluster.runner(out).remove_group(GROUP).await.unwrap();
    assert!(cluster.runner(out).groups().is_empty());
    // The new voter counts: without the old leader it makes a majority with the third.
    cluster.kill(leader).await;
    cluster.propose(GROUP, "late").await;
    let left: Vec<u64> = voters.iter().copied().filter(|id| *id != leader).collect();
    cluster.agree(GROUP, &left).await;
    assert_eq!(cluster.tape(4, GROUP), ["early", "late"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_can_be_replaced_too() {
    let cluster = with_learner().await;
    let leader = cluster.leader(GROUP).await;
    let voters: Vec<u64> = (1..=4).filter(|id| *id != leader).collect();
    cluster.runner(leader).change_voters(GROUP, &nodes(&voters), SOON).await.unwrap();
    until("another serves", || voters.iter().any(|id| cluster.runner(*id).is_leader(GROUP))).await;
    cluster.runner(leader).remove_group(GROUP).await.unwrap();
    cluster.propose(GROUP, "late").await;
    cluster.agree(GROUP, &voters).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_removed_can_come_back_empty() {
    let cluster = with_learner().await;
    let leader = cluster.runner(cluster.leader(GROUP).await);
    until("it has all", || cluster.tape(4, GROUP) == ["early"]).await;
    leader.remove_learner(GROUP, NodeId(4), SOON).await.unwrap();
    cluster.runner(4).remove_group(GROUP).await.unwrap();
    cluster.propose(GROUP, "meanwhile").await;
    cluster.runner(4).join_group(GROUP).await.unwrap();
    assert!(cluster.tape(4, GROUP).is_empty());
    leader.add_learner(GROUP, NodeId(4), SOON).await.unwrap();
    until("it has all again", || cluster.tape(4, GROUP) == ["early", "meanwhile"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_that_is_no_learner_yet_is_refused() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.runner(cluster.leader(GROUP).await);
    let refused = leader.change_voters(GROUP, &nodes(&[1, 2, 9]), SOON).await;
    assert!(matches!(refused, Err(MemberError::Refused(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_leader_changes_members() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.leader(GROUP).await;
    let refused = cluster.runner(leader % 3 + 1).add_learner(GROUP, NodeId(4), SOON).await;
    assert!(matches!(refused, Err(MemberError::NotLeader { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_founded_once_and_by_its_founders_only() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let again = cluster.runner(1).create_group(GROUP, &nodes(&[1, 2, 3])).await;
    assert!(matches!(again, Err(CreateError::Exists)), "{again:?}");
    let stranger = cluster.runner(1).create_group(GroupId(5), &nodes(&[2, 3])).await;
    assert!(matches!(stranger, Err(CreateError::NotFounder)), "{stranger:?}");
}
