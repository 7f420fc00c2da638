//! P7: how a cluster comes to be, and what keeps one from coming to be wrongly.

use std::fs;
use std::time::Duration;

use leasehold_tests::cluster::{Plan, Status, TestCluster};
use serde_json::json;

use super::{RULES, SETTLES_WITHIN, assert_replicas_become_equal, remaining, settled, take, three};

/// Three founders would long have formed by then.
const WOULD_HAVE_FORMED: Duration = Duration::from_secs(5);

/// Three founders of which the last says something else than the others: each says for whom it waits and what of that it
/// doesn't agree to, and none ever stops waiting.
async fn check_that_none_forms(old: &str, new: &str, complaint: &str) {
    let mut cluster = TestCluster::prepare(Plan::of_three(RULES)).await;
    cluster.reconfigure(2, old, new);
    for node in 0..3 {
        cluster.restart(node);
    }
    let peers: Vec<String> = (0..3).map(|node| cluster.peers(node).to_string()).collect();
    // The agreeing two miss the third; the third misses both.
    for (node, missed) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        let said =
            cluster.wait_until_unready(node, &format!("{} (says", peers[missed]), SETTLES_WITHIN).await;
        assert!(said.contains("waiting for founders"), "n{node}: {said}");
    }
    cluster.wait_until_unready(0, complaint, SETTLES_WITHIN).await;
    tokio::time::sleep(WOULD_HAVE_FORMED).await;
    for node in 0..3 {
        cluster.wait_until_unready(node, "waiting for founders", Duration::from_secs(2)).await;
        assert!(!cluster.printed(node).contains("cluster founded"), "{}", cluster.printed(node));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn founders_that_name_different_clusters_form_none_and_say_for_whom_they_wait() {
    check_that_none_forms("name: test\n", "name: another\n", "says cluster name \"another\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn founders_that_name_different_seeds_form_none_and_say_for_whom_they_wait() {
    // One more, where nobody listens.
    check_that_none_forms("seeds: [", "seeds: ['127.0.0.1:9', ", "says seeds 127.0.0.1:").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_of_another_cluster_is_refused() {
    let mut cluster = TestCluster::start(Plan { founders: 1, ..Plan::of_three(RULES) }).await;
    assert!(cluster.stop(0).await.success());
    cluster.reconfigure(0, "name: test\n", "name: another\n");
    cluster.restart(0);
    let status = cluster.wait_until_ended(0).await;
    let printed = cluster.printed(0);
    assert!(matches!(status.code(), Some(1 | 2)), "{status}: {printed}");
    let data = cluster.data(0).display().to_string();
    for part in [data.as_str(), "belongs to the cluster \"test\", not to \"another\""] {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    // Nothing was done to it.
    cluster.reconfigure(0, "name: another\n", "name: test\n");
    cluster.restart(0);
    cluster.wait_until_ready(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_the_data_of_another_cluster_of_the_same_name_grants_nothing_and_harms_nobody() {
    let mut other = TestCluster::start(Plan::of_three(RULES)).await;
    for node in 0..3 {
        other.kill(node);
    }
    let mut cluster = three().await;
    for turn in 0..4 {
        assert!(take(&cluster, turn % 3, "ten", "a").await);
    }
    cluster.kill(2);
    fs::rename(cluster.data(2), cluster.data(2).with_extension("right")).expect("a folder can be moved");
    fs::rename(other.data(2), cluster.data(2)).expect("a folder can be moved");
    cluster.restart(2);
    tokio::time::sleep(WOULD_HAVE_FORMED).await;
    cluster.wait_until_unready(2, "", SETTLES_WITHIN).await;
    let body = json!({ "domain": "shop", "attributes": { "ten": "a" } });
    let reply = cluster.http(2).post("/v1/check", &body).await;
    assert!(reply.status.is_server_error(), "{}: {}", reply.status, reply.text());
    assert!(take(&cluster, 0, "ten", "a").await);

    cluster.kill(2);
    cluster.wipe(2);
    fs::rename(cluster.data(2).with_extension("right"), cluster.data(2)).expect("a folder can be moved");
    cluster.restart(2);
    cluster.wait_until_ready(2).await;
    assert_eq!(remaining(&cluster, 2, "ten", "a").await, 5);
    assert_replicas_become_equal(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_of_a_one_node_cluster_of_the_same_name_is_not_used_and_the_remedy_is_told() {
    let mut other = TestCluster::start(Plan { founders: 1, ..Plan::of_three(RULES) }).await;
    other.kill(0);
    let mut cluster = three().await;
    for turn in 0..4 {
        assert!(take(&cluster, turn % 3, "ten", "a").await);
    }
    cluster.kill(2);
    fs::rename(cluster.data(2), cluster.data(2).with_extension("right")).expect("a folder can be moved");
    fs::rename(other.data(0), cluster.data(2)).expect("a folder can be moved");
    cluster.restart(2);
    let said = cluster.wait_until_unready(2, "belongs to another cluster", SETTLES_WITHIN).await;
    let data = cluster.data(2).display().to_string();
    assert!(said.contains(&data) && said.contains("an empty one"), "{said}");
    let body = json!({ "domain": "shop", "attributes": { "ten": "a" } });
    let reply = cluster.http(2).post("/v1/check", &body).await;
    assert!(reply.status.is_server_error(), "{}: {}", reply.status, reply.text());

    cluster.kill(2);
    cluster.wipe(2);
    fs::rename(cluster.data(2).with_extension("right"), cluster.data(2)).expect("a folder can be moved");
    cluster.restart(2);
    cluster.wait_until_ready(2).await;
    assert_eq!(remaining(&cluster, 2, "ten", "a").await, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_alone_forms_a_cluster_of_one_and_two_that_join_make_it_three_replicas_of_every_shard() {
    let mut cluster = TestCluster::start(Plan { founders: 1, ..Plan::of_three(RULES) }).await;
    for _ in 0..4 {
        assert!(take(&cluster, 0, "ten", "a").await);
    }
    let members = |status: &Status| status.members.len();
    assert_eq!(cluster.status().await.as_ref().map(members), Some(1));
    for _ in 0..2 {
        cluster.add_node().await;
    }
    // Not before all vote, in the control group too, can any of them be missed.
    let whole = |status: &Status| {
        let vote = status.members.len() == 3 && status.members.iter().all(|member| member.votes);
        settled(status).filter(|held| vote && held.len() == 3).map(drop)
    };
    cluster.wait_for("three nodes hold and decide everything", SETTLES_WITHIN, whole).await;
    assert_replicas_become_equal(&cluster).await;
    // What the first one knew, all know: of three, any two go on.
    cluster.kill(0);
    cluster.wait_until_led(SETTLES_WITHIN).await;
    let mut admitted = 0;
    for turn in 0..12 {
        admitted += u32::from(take(&cluster, 1 + turn % 2, "ten", "a").await);
    }
    assert_eq!(admitted, 6);
}
