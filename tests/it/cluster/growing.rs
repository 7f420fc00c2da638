//! Nodes join and leave under load, die for good, and come back with nothing.

use std::time::Duration;

use leasehold_tests::clock::Timeline;
use leasehold_tests::cluster::{Plan, Status, TestCluster};
use leasehold_tests::load::{Fate, Load};

use http::Method;

use super::{
    HOT, QUOTA, RULES, SETTLES_WITHIN, assert_replicas_become_equal, hot_load, quota_load, remaining,
    settled, three,
};

/// Moving half of all replicas, unoptimised and under load.
const MOVED_WITHIN: Duration = Duration::from_secs(120);

/// Waits until exactly so many nodes hold replicas, none more than a quarter above the mean.
async fn wait_until_spread(cluster: &TestCluster, nodes: usize) {
    let spread = |status: &Status| {
        let held = settled(status)?;
        let (most, all) = (held.values().max()?, held.values().sum::<usize>());
        (held.len() == nodes && most * nodes * 4 <= all * 5).then_some(())
    };
    cluster.wait_for("replicas are spread evenly", MOVED_WITHIN, spread).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_become_five_and_three_again_under_load_without_a_failed_check_or_overshoot() {
    let plan = Plan { shards: 16, ..Plan::of_three(RULES) };
    let mut cluster = TestCluster::start(plan).await;
    let clock = Timeline::start();
    let patient = |load| Load { try_within: Duration::from_secs(2), ..load };
    let hot = patient(hot_load("a")).start(cluster.all_clients(), clock);
    let quota = patient(quota_load("b")).start(cluster.all_clients(), clock);
    let added = [cluster.add_node().await, cluster.add_node().await];
    wait_until_spread(&cluster, 5).await;
    for node in added {
        let drain = format!("/v1/members/n{node}");
        let json = [("content-type", "application/json")];
        let body = bytes::Bytes::from_static(br#"{"standing":"draining"}"#);
        let reply = cluster.admin_http(0).send(Method::POST, &drain, &json, body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    wait_until_spread(&cluster, 3).await;
    for node in added {
        cluster.stop(node).await;
        let reply = cluster
            .admin_http(0)
            .send(Method::DELETE, &format!("/v1/members/n{node}"), &[], bytes::Bytes::new())
            .await;
        assert!(reply.status.is_success(), "{}: {}", reply.status, reply.text());
    }
    let (hot, quota) = (hot.stop().await, quota.stop().await);
    println!("hot: {hot}\nquota: {quota}");
    hot.assert_within(HOT);
    // A caller with two seconds was never left waiting.
    assert_eq!(hot.count(Fate::Unknown) + quota.count(Fate::Unknown), 0);
    assert_eq!(hot.retried() + quota.retried(), 0, "a check failed and had to be retried by its caller");
    assert_eq!(QUOTA - remaining(&cluster, 0, "quota", "b").await, quota.admitted_units());
    assert_replicas_become_equal(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stays_dead_is_replaced_after_the_grace() {
    let plan = Plan { cluster_config: "  replace_after_seconds: 10".to_owned(), ..Plan::of_three(RULES) };
    let mut cluster = TestCluster::start(plan).await;
    let fourth = cluster.add_node().await;
    wait_until_spread(&cluster, 4).await;
    cluster.kill(fourth);
    wait_until_spread(&cluster, 3).await;
    let status = cluster.status().await.expect("a cluster says how it is");
    let dead = status.members.iter().find(|member| member.name == format!("n{fourth}"));
    assert_eq!(dead.map(|member| member.standing.as_str()), Some("dead"));
    assert_replicas_become_equal(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_disk_comes_back_as_a_new_one_and_holds_everything_again() {
    let mut cluster = three().await;
    for turn in 0..7 {
        assert!(super::take(&cluster, turn % 3, "ten", "a").await);
    }
    let id = |status: &Status| {
        status.members.iter().find(|member| member.name == "n1" && member.standing == "active").map(|m| m.id)
    };
    let before = cluster.wait_for("n1 is a member", SETTLES_WITHIN, id).await;
    cluster.kill(1);
    cluster.wipe(1);
    cluster.restart(1);
    let another = |status: &Status| id(status).filter(|now| *now != before);
    cluster.wait_for("n1 has another id", SETTLES_WITHIN, another).await;
    wait_until_spread(&cluster, 3).await;
    cluster.wait_until_ready(1).await;
    let mut admitted = 0;
    for turn in 0..10 {
        admitted += u32::from(super::take(&cluster, turn % 3, "ten", "a").await);
    }
    assert_eq!(admitted, 3);
    assert_replicas_become_equal(&cluster).await;
}
