//! Purged logs, and replicas that start from a snapshot.

use super::super::*;
use super::cluster::{Cluster, SOON, until};

const GROUP: GroupId = GroupId(0);

/// Snapshots often, keeps nothing a snapshot has.
fn eager(config: &mut RunnerConfig) {
    config.snapshot_every = 20;
    config.keep_entries = 0;
}

async fn with_purged_log(entries: usize, bytes: usize) -> Cluster {
    let cluster = Cluster::of_three(1, eager).await;
    let filler = "x".repeat(bytes);
    for number in 0..entries {
        cluster.propose(GROUP, &format!("{number} {filler}")).await;
    }
    for id in 1..=3 {
        let mut status = cluster.runner(id).status(GROUP).await.unwrap();
        while status.purged.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            status = cluster.runner(id).status(GROUP).await.unwrap();
        }
    }
    cluster
}

async fn join(cluster: &mut Cluster, id: u64) {
    cluster.start(id).await;
    cluster.runner(id).join_group(GROUP).await.unwrap();
    let leader = cluster.runner(cluster.leader(GROUP).await);
    leader.add_learner(GROUP, NodeId(id), SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_replica_of_an_idle_group_with_a_purged_log_catches_up() {
    let mut cluster = with_purged_log(50, 10).await;
    join(&mut cluster, 4).await;
    until("it has all", || cluster.tape(4, GROUP).len() >= 50).await;
    cluster.agree(GROUP, &[1, 2, 3, 4]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_replica_catches_up_though_every_entry_is_purged() {
    let mut cluster = Cluster::of_three(1, eager).await;
    for number in 0..30 {
        cluster.propose(GROUP, &format!("{number}")).await;
    }
    // The log is emptied on every node: nothing but the snapshot is left.
    for id in 1..=3 {
        let group = cluster.runner(id).0.group(GROUP).unwrap();
        let last = group.last_log().unwrap().index;
        until("all is applied", || {
            group.machine.read(|state| state.applied.is_some_and(|at| at.index >= last))
        })
        .await;
        group.raft.trigger().snapshot().await.unwrap();
        let metrics = group.raft.metrics();
        until("the snapshot has all", || metrics.borrow().snapshot.is_some_and(|at| at.index >= last)).await;
        group.raft.trigger().purge_log(last).await.unwrap();
        until("all is purged", || metrics.borrow().purged.is_some_and(|at| at.index >= last)).await;
    }
    join(&mut cluster, 4).await;
    until("it has all", || cluster.tape(4, GROUP).len() >= 30).await;
    cluster.agree(GROUP, &[1, 2, 3, 4]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_of_many_pieces_arrives_whole() {
    let mut cluster = with_purged_log(45, 40_000).await;
    join(&mut cluster, 4).await;
    until("it has all", || cluster.tape(4, GROUP).len() >= 45).await;
    cluster.agree(GROUP, &[1, 2, 3, 4]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_come_back_from_their_snapshots() {
    let mut cluster = with_purged_log(50, 10).await;
    let before = cluster.tape(cluster.leader(GROUP).await, GROUP);
    for id in 1..=3 {
        cluster.kill(id).await;
    }
    for id in 1..=3 {
        cluster.start(id).await;
    }
    let leader = cluster.leader(GROUP).await;
    assert_eq!(cluster.tape(leader, GROUP), before);
    cluster.agree(GROUP, &[1, 2, 3]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_missed_more_than_the_log_keeps_is_brought_back_by_a_snapshot() {
    let mut cluster = with_purged_log(30, 10).await;
    let out = cluster.leader(GROUP).await % 3 + 1;
    cluster.kill(out).await;
    for number in 0..80 {
        cluster.propose(GROUP, &format!("missed {number}")).await;
    }
    cluster.start(out).await;
    cluster.agree(GROUP, &[1, 2, 3]).await;
    assert!(cluster.tape(out, GROUP).len() >= 110);
    assert!(cluster.fatal.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposal_of_a_deposed_leader_is_never_answered_by_anothers_entry() {
    let cluster = Cluster::of_three(1, eager).await;
    cluster.propose(GROUP, "first").await;
    let old = cluster.leader(GROUP).await;
    let runner = cluster.runner(old).clone();
    cluster.nodes[&old].transport.isolate(true);
    let deadline = Instant::now() + std::time::Duration::from_secs(4);
    let orphan = tokio::spawn(async move { runner.propose(GROUP, "orphan".into(), deadline).await });
    // The others move on past its place in the log, and purge what is there.
    until("another serves", || {
        cluster.nodes.iter().any(|(id, node)| *id != old && node.runner.is_leader(GROUP))
    })
    .await;
    for number in 0..60 {
        cluster.propose(GROUP, &format!("{number}")).await;
    }
    cluster.nodes[&old].transport.isolate(false);
    cluster.agree(GROUP, &[1, 2, 3]).await;
    let outcome = orphan.await.unwrap();
    assert!(matches!(outcome, Err(ProposeError::Unknown { .. })), "{outcome:?}");
    assert!(!cluster.tape(old, GROUP).contains(&"orphan".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lost_its_snapshot_but_not_its_log_does_not_start_with_half_of_the_state() {
    let mut cluster = with_purged_log(50, 10).await;
    cluster.kill(1).await;
    cluster.lose(1, "groups");
    cluster.start(1).await;
    let refused = cluster.runner(1).join_group(GROUP).await;
    assert!(matches!(refused, Err(CreateError::SnapshotGone { group: GROUP, .. })), "{refused:?}");
    // The others go on without it.
    cluster.propose(GROUP, "after it").await;
}
