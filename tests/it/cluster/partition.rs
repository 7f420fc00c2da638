//! P1, P5, P8: a node is cut off from the others, and leaders are paused.

use std::time::Duration;

use leasehold_tests::binary::is_release;
use leasehold_tests::clock::Timeline;
use leasehold_tests::cluster::{Plan, TestCluster};
use leasehold_tests::load::{Fate, Load};

use super::{HOT, RULES, SETTLES_WITHIN, assert_replicas_become_equal, busy_shard, hot_load, three};

/// What was on its way when the link was cut may still be answered.
const IN_FLIGHT: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_grants_nothing_and_the_majority_notices_no_longer_than_an_election() {
    let mut cluster = TestCluster::start(Plan { links: true, ..Plan::of_three(RULES) }).await;
    let clock = Timeline::start();
    let alone = |value| Load { give_up_within: Duration::from_secs(1), ..hot_load(value) };
    let all = hot_load("a").start(cluster.all_clients(), clock);
    tokio::time::sleep(IN_FLIGHT).await;
    let shard = cluster.wait_for("the counter is somewhere", SETTLES_WITHIN, busy_shard).await;
    let minority = cluster.leader_of(shard).await.expect("every shard is led");
    let majority: Vec<_> =
        (0..3).filter(|node| *node != minority).map(|node| cluster.clients(node)).collect();
    let cut_at = clock.now_ns();
    cluster.links().isolate(&[minority]);
    all.set_nodes(majority);
    tokio::time::sleep(IN_FLIGHT).await;
    // The same counter, asked of the side that must not grant.
    let cut_off = alone("a").start(vec![cluster.clients(minority)], clock);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cut_off = cut_off.stop().await;
    assert!(!cluster.is_ready(minority).await, "a node without a majority says that it is ready");
    cluster.links().heal();
    cluster.wait_until_all_ready().await;
    cluster.wait_until_led(SETTLES_WITHIN).await;
    let all = all.stop().await;
    println!("majority: {all}\nminority: {cut_off}");
    assert_eq!(cut_off.count(Fate::Admitted), 0, "the minority granted");
    all.assert_within(HOT);
    let healed = all.granted_after(cut_at).expect("the majority grants");
    println!("granted again {healed:?} after the cut");
    // Three unoptimised nodes and their tester share two cores with the other tests.
    let most = Duration::from_secs(if is_release() { 2 } else { 4 });
    assert!(healed < most, "{healed:?}");
    assert_replicas_become_equal(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stopped_and_resumes_grants_nothing_beyond_the_limit() {
    let mut cluster = three().await;
    let clock = Timeline::start();
    let load = hot_load("a").start(cluster.all_clients(), clock);
    tokio::time::sleep(IN_FLIGHT).await;
    let shard = cluster.wait_for("the counter is somewhere", SETTLES_WITHIN, busy_shard).await;
    for _ in 0..3 {
        cluster.wait_until_led(SETTLES_WITHIN).await;
        let leader = cluster.leader_of(shard).await.expect("every shard is led");
        cluster.pause(leader);
        tokio::time::sleep(Duration::from_secs(3)).await;
        cluster.resume(leader);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let recording = load.stop().await;
    println!("{recording}");
    recording.assert_within(HOT);
    assert!(recording.longest_silence() < Duration::from_secs(4), "{recording}");
    assert_replicas_become_equal(&cluster).await;
}
