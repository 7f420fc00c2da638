//! Killed and cut-off leaders: how soon the next one serves.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::*;
use super::cluster::{Cluster, until};

const GROUPS: u32 = 16;

fn all() -> impl Iterator<Item = GroupId> {
    (0..GROUPS).map(GroupId)
}

async fn settled(cluster: &Cluster) -> BTreeMap<GroupId, u64> {
    let mut leaders = BTreeMap::new();
    for group in all() {
        leaders.insert(group, cluster.leader(group).await);
    }
    leaders
}

fn terms(cluster: &Cluster, id: u64) -> Vec<u64> {
    all().map(|group| cluster.runner(id).leadership(group).unwrap().borrow().term).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_group_of_a_killed_leader_is_served_again_within_the_promise() {
    let mut times_ms = Vec::new();
    let mut cluster = Cluster::of_three(GROUPS, |_| {}).await;
    for victim in 1..=3 {
        let leaders = settled(&cluster).await;
        let mut orphans: Vec<GroupId> = all().filter(|group| leaders[group] == victim).collect();
        let killed = Instant::now();
        cluster.kill(victim).await;
        until("every group has a leader", || {
            orphans.retain(|group| {
                let served = cluster.nodes.values().any(|node| node.runner.is_leader(*group));
                if served {
                    times_ms.push(killed.elapsed().as_millis());
                }
                !served
            });
            orphans.is_empty()
        })
        .await;
        cluster.start(victim).await;
        until("it follows", || all().all(|group| cluster.runner(victim).leader(group).is_some())).await;
    }
    times_ms.sort_unstable();
    let at = |part: usize| times_ms[(times_ms.len() - 1) * part / 100];
    println!(
        "failover of {} groups, ms: least {} p50 {} p90 {} most {}",
        times_ms.len(),
        at(0),
        at(50),
        at(90),
        at(100)
    );
    assert!(at(50) < 1000 && at(100) < 2000, "{times_ms:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_cut_off_and_comes_back_deposes_no_leader() {
    let cluster = Cluster::of_three(GROUPS, |_| {}).await;
    settled(&cluster).await;
    // Its own groups move away first, then it is cut off as a follower of all.
    cluster.nodes[&3].transport.isolate(true);
    until("the others serve all", || {
        all().all(|group| [1, 2].iter().any(|id| cluster.runner(*id).is_leader(group)))
    })
    .await;
    let before = settled(&cluster).await;
    let terms_before = terms(&cluster, 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.nodes[&3].transport.isolate(false);
    until("it follows again", || {
        all().all(|group| cluster.runner(3).leader(group) == Some(NodeId(before[&group])))
    })
    .await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(settled(&cluster).await, before);
    assert_eq!(terms(&cluster, 1), terms_before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_serving_before_another_starts() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let group = GroupId(0);
    for _ in 0..3 {
        let old = cluster.leader(group).await;
        cluster.nodes[&old].transport.isolate(true);
        until("another serves", || {
            // Asked in this order: the old one first, so that both at once can't be missed.
            let still = cluster.runner(old).is_leader(group);
            let other = cluster.nodes.iter().any(|(id, node)| *id != old && node.runner.is_leader(group));
            assert!(!(still && other), "two serve at once");
            other
        })
        .await;
        assert!(!cluster.runner(old).is_leader(group));
        cluster.nodes[&old].transport.isolate(false);
        until("it follows", || {
            let now = cluster.runner(old).leadership(group).map(|known| *known.borrow());
            now.is_some_and(|now| !now.serving && now.leader.is_some_and(|leader| leader.0 != old))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_hands_over_when_asked() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let group = GroupId(0);
    cluster.propose(group, "before").await;
    let old = cluster.leader(group).await;
    let new = old % 3 + 1;
    cluster.runner(old).transfer(group, NodeId(new), Duration::from_secs(5)).await.unwrap();
    until("the other serves", || cluster.runner(new).is_leader(group)).await;
    cluster.propose(group, "after").await;
    cluster.agree(group, &[1, 2, 3]).await;
    assert_eq!(cluster.tape(new, group), ["before", "after"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handover_to_a_node_that_is_gone_ends_and_the_leader_goes_on() {
    let mut cluster = Cluster::of_three(1, |_| {}).await;
    let group = GroupId(0);
    let old = cluster.leader(group).await;
    let gone = old % 3 + 1;
    cluster.kill(gone).await;
    let refused = cluster.runner(old).transfer(group, NodeId(gone), Duration::from_millis(900)).await;
    // The third may lead by then.
    assert!(matches!(refused, Err(TransferError::Deadline | TransferError::NotLeader { .. })), "{refused:?}");
    let nobody = cluster.runner(old).transfer(group, NodeId(9), Duration::from_secs(1)).await;
    assert!(matches!(nobody, Err(TransferError::NotVoter | TransferError::NotLeader { .. })), "{nobody:?}");
    cluster.propose(group, "on").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_falls_silent_on_a_standing_connection_is_replaced() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let group = GroupId(0);
    let old = cluster.leader(group).await;
    let silent = Instant::now();
    // As if it were stopped: no heartbeats, no service, connections stand.
    assert!(cluster.runner(old).0.group(group).unwrap().hand_over(Some(NodeId(99))));
    until("another serves", || {
        cluster.nodes.iter().any(|(id, node)| *id != old && node.runner.is_leader(group))
    })
    .await;
    println!("a silent leader was replaced after {} ms", silent.elapsed().as_millis());
    assert!(silent.elapsed() < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_heartbeats_of_all_groups_leave_together() {
    let cluster = Cluster::of_three(GROUPS, |_| {}).await;
    settled(&cluster).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let traffic = || cluster.nodes.values().map(|node| node.transport.traffic()).collect::<Vec<_>>();
    let before = traffic();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut frames, mut writes, mut bytes) = (0, 0, 0);
    for (now, then) in traffic().iter().zip(before) {
        frames += now.frames - then.frames;
        writes += now.writes - then.writes;
        bytes += now.bytes - then.bytes;
    }
    println!("{GROUPS} idle groups, 3 nodes, 1 s: {frames} messages in {writes} writes, {bytes} bytes");
    assert!(writes * 2 < frames, "{frames} messages took {writes} writes");
}
