//! P4 and P5: every node is rolled, and all are killed at once.

use std::time::Duration;

use leasehold_tests::binary::is_release;
use leasehold_tests::clock::Timeline;
use leasehold_tests::load::{Fate, Load};

use super::{QUOTA, SETTLES_WITHIN, assert_replicas_become_equal, quota_load, remaining, take, three};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_10_four_are_spent_every_node_is_rolled_and_exactly_six_more_can_be_spent() {
    let mut cluster = three().await;
    for turn in 0..4 {
        assert!(take(&cluster, turn % 3, "ten", "a").await);
    }
    for node in 0..3 {
        let status = cluster.stop(node).await;
        assert!(status.success(), "{status}: {}", cluster.printed(node));
        cluster.restart(node);
        cluster.wait_until_ready(node).await;
    }
    let mut admitted = 0;
    for turn in 0..20 {
        admitted += u32::from(take(&cluster, turn % 3, "ten", "a").await);
    }
    assert_eq!(admitted, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_every_node_under_load_fails_no_check() {
    let mut cluster = three().await;
    let clock = Timeline::start();
    // Three unoptimised nodes and their tester share two cores with the other tests.
    let try_within = Duration::from_millis(if is_release() { 500 } else { 2_000 });
    let load = Load { try_within, ..quota_load("a") }.start(cluster.all_clients(), clock);
    for node in 0..3 {
        // As behind a load balancer: a node that isn't ready gets no new checks.
        let others: Vec<_> =
            (0..3).filter(|other| *other != node).map(|other| cluster.clients(other)).collect();
        load.set_nodes(others);
        cluster.stop(node).await;
        cluster.restart(node);
        cluster.wait_until_ready(node).await;
        load.set_nodes(cluster.all_clients());
    }
    let recording = load.stop().await;
    println!("{recording}");
    assert_eq!(recording.count(Fate::Unknown), 0);
    assert_eq!(recording.retried(), 0, "a check failed and had to be retried by its caller");
    assert_eq!(QUOTA - remaining(&cluster, 1, "quota", "a").await, recording.admitted_units());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_all_nodes_are_killed_at_once_nothing_acknowledged_is_lost() {
    let mut cluster = three().await;
    let load = quota_load("a").start(cluster.all_clients(), Timeline::start());
    while load.begun() < 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for node in 0..3 {
        cluster.kill(node);
    }
    for node in 0..3 {
        cluster.restart(node);
    }
    cluster.wait_until_all_ready().await;
    cluster.wait_until_led(SETTLES_WITHIN).await;
    let recording = load.stop().await;
    println!("{recording}");
    let charged = QUOTA - remaining(&cluster, 2, "quota", "a").await;
    let (admitted, unknown) = (recording.admitted_units(), recording.count(Fate::Unknown) as u64);
    assert!(charged >= admitted, "{} acknowledged charges are lost", admitted - charged);
    assert!(charged <= admitted + unknown, "{} units were charged twice", charged - admitted - unknown);
    assert_replicas_become_equal(&cluster).await;
}
