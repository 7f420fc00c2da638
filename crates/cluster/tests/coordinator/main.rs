//! Whole clusters in one process: real logs, real connections over loopback. Replicas and leaders go where they should be,
//! while clients are served.

#[cfg(test)]
mod load;
#[cfg(test)]
mod testbed;

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_cluster::{Report, Role};
use leasehold_control::{Command, Reply};
use leasehold_model::{NodeId, ShardId};
use leasehold_placement::Standing;

use load::Load;
use testbed::{Testbed, settled};

fn by_test(node: NodeId, standing: Standing) -> Command {
    Command::SetStanding { node, standing, by: "a test".into() }
}

/// Replicas of the fullest node over the mean of those that should hold any, in hundredths.
fn imbalance(report: &Report) -> usize {
    let active = report.members.iter().filter(|member| member.record.standing == Standing::Active);
    let loads: Vec<usize> = active.map(|member| member.replicas).collect();
    loads.iter().max().copied().unwrap_or_default() * 100 * loads.len() / loads.iter().sum::<usize>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_become_five_become_three_under_load() {
    let mut bed = Testbed::start(3, |_| {}).await;
    bed.until("three are at rest", settled).await;
    let load = Load::start(&bed);
    bed.add(4).await;
    bed.add(5).await;
    let five = bed.until("five are at rest", |report| settled(report) && report.members.len() == 5).await;
    assert!(imbalance(&five) <= 125, "{:?}", five.members);
    let pause = load.pause().await;
    bed.states_agree().await;
    drop(pause);
    for id in [4, 5] {
        bed.command(by_test(bed.id(id), Standing::Draining)).await;
    }
    let empty = |report: &Report| {
        report.members.iter().all(|member| {
            member.record.standing == Standing::Active || (member.replicas == 0 && !member.votes)
        })
    };
    let three = bed.until("three hold all again", |report| settled(report) && empty(report)).await;
    assert!(imbalance(&three) <= 125, "{:?}", three.members);
    for id in [4, 5] {
        let node = bed.id(id);
        load.leave(node);
        bed.stop(id).await;
        assert_eq!(bed.command(Command::Forget { node, by: "a test".into() }).await, Reply::Done);
    }
    bed.until("two are forgotten", |report| settled(report) && report.members.len() == 3).await;
    load.finish().await.check();
    bed.states_agree().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planner_that_dies_amid_moves_is_followed_by_one_that_goes_on() {
    let mut bed = Testbed::start(3, |config| config.shards = 16).await;
    bed.until("three are at rest", settled).await;
    let load = Load::start(&bed);
    bed.add(4).await;
    bed.add(5).await;
    for _ in 0..2 {
        let moves = |report: &Report| report.shards.iter().any(|shard| shard.moving.is_some());
        let report = bed
            .until("moves are under way", |report| {
                report.control.leader.is_some() && (moves(report) || settled(report))
            })
            .await;
        let planner = bed.number(report.control.leader.unwrap());
        load.leave(bed.id(planner));
        bed.stop_at_once(planner).await;
        bed.add(planner).await;
        load.join(&bed, planner);
    }
    bed.until("five are at rest", |report| settled(report) && report.members.len() == 5).await;
    load.finish().await.check();
    bed.states_agree().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_nodes_replicas_are_replaced_after_the_grace() {
    let mut bed = Testbed::start(4, |config| config.replace_after = Duration::from_secs(4)).await;
    bed.until("four are at rest", settled).await;
    let load = Load::start(&bed);
    let gone = bed.id(2);
    load.leave(gone);
    bed.stop_at_once(2).await;
    let report = bed
        .until("three hold all", |report| {
            let dead = report.members.iter().find(|member| member.record.id == gone);
            dead.is_some_and(|member| member.record.standing == Standing::Dead && member.replicas == 0)
                && settled(report)
        })
        .await;
    assert!(report.shards.iter().all(|shard| shard.replicas.len() == 3), "{report:?}");
    load.finish().await.check();
    bed.states_agree().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_replica_of_an_idle_shard_with_a_purged_log_catches_up() {
    let mut bed = Testbed::start(3, |config| {
        config.snapshot_every = 20;
        config.keep_entries = 5;
    })
    .await;
    bed.until("three are at rest", settled).await;
    let load = Load::start(&bed);
    tokio::time::sleep(Duration::from_secs(4)).await;
    load.finish().await.check();
    let fresh = bed.add(4).await;
    let report =
        bed.until("the fourth has its share", |report| settled(report) && report.members.len() == 4).await;
    let held = report.members.iter().find(|member| member.record.id == fresh).unwrap().replicas;
    assert!(held >= 5, "{held} of 24 replicas");
    assert!(report.shards.iter().any(|shard| shard.keys > Some(0)), "the shards hold something");
    bed.states_agree().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_come_back_to_the_nodes_that_the_map_prefers() {
    let mut bed = Testbed::start(3, |_| {}).await;
    let led_as_preferred =
        |report: &Report| report.shards.iter().all(|shard| shard.leader == shard.preferred);
    bed.until("leaders are where they should be", |report| settled(report) && led_as_preferred(report)).await;
    let load = Load::start(&bed);
    let node = bed.id(1);
    load.leave(node);
    bed.stop(1).await;
    let others =
        |report: &Report| report.shards.iter().all(|shard| shard.leader.is_some_and(|leader| leader != node));
    bed.until("the others lead", others).await;
    let back = bed.add(1).await;
    assert_eq!(back, node, "it comes back as itself");
    load.join(&bed, 1);
    bed.until("leaders are back", |report| settled(report) && led_as_preferred(report)).await;
    load.finish().await.check();
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_is_restarted_in_turn_and_clients_hardly_notice() {
    let mut bed = Testbed::start(3, |config| config.shards = 32).await;
    bed.until("three are at rest", settled).await;
    let load = Load::start(&bed);
    for id in 1..=3 {
        load.leave(bed.id(id));
        let took = bed.stop(id).await;
        println!("node {id} handed over in {took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        bed.until("the others lead all", |report| report.shards.iter().all(|shard| shard.leader.is_some()))
            .await;
        bed.add(id).await;
        load.join(&bed, id);
        bed.until("it holds its share again", settled).await;
    }
    load.finish().await.check();
    bed.states_agree().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_moved_by_hand_stays() {
    let bed = Testbed::start(3, |_| {}).await;
    let report = bed.until("three are at rest", settled).await;
    let shard = &report.shards[3];
    let to =
        shard.replicas.iter().map(|replica| replica.node).find(|node| Some(*node) != shard.leader).unwrap();
    // Asked of a node that is neither the one nor the other.
    let asked = bed.nodes().find(|node| node.node() != to && Some(node.node()) != shard.leader).unwrap();
    asked.move_leader(ShardId(3), to).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let report = bed.report(false).await.unwrap();
    assert_eq!((report.shards[3].leader, report.shards[3].preferred), (Some(to), Some(to)));
    let stranger = asked.move_leader(ShardId(3), NodeId(1)).await.unwrap_err();
    assert!(stranger.contains("choose one of"), "{stranger}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_follows_the_control_group_and_three_vote() {
    let bed = Testbed::start(5, |_| {}).await;
    let report = bed.until("five are at rest", settled).await;
    let learners = report.control.replicas.iter().filter(|replica| replica.role == Some(Role::Learner));
    assert_eq!((report.control.replicas.len(), learners.count()), (5, 2), "{:?}", report.control);
    let zones: BTreeSet<_> = report.members.iter().map(|member| member.record.name.clone()).collect();
    assert_eq!(zones.len(), 5);
    bed.end().await;
}
