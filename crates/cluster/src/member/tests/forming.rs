//! Clusters that come to be, and those that don't.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_control::ClusterId;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;

use super::support::{Spot, healthy, member, spots, start_all, stop_all, turn, waits};
use crate::Cluster;

/// The cluster that a node belongs to, once it has its first rules.
async fn formed(node: &Cluster) -> ClusterId {
    let control = member(node, "a cluster with rules", |control| control.rules().len() == 1).await;
    control.cluster().unwrap().id
}

async fn all_formed(nodes: &[Cluster]) -> BTreeSet<ClusterId> {
    let mut clusters = BTreeSet::new();
    for node in nodes {
        clusters.insert(formed(node).await);
    }
    clusters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_founders_form_one_cluster_in_whatever_order_they_start() {
    let _turn = turn().await;
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let spots = spots(3, 0);
        let mut nodes = Vec::new();
        for place in order {
            nodes.push(spots[place].start().await);
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(all_formed(&nodes).await.len(), 1, "{order:?}");
        healthy(&nodes).await;
        stop_all(&nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_alone_in_its_list_forms_a_cluster_of_one() {
    let _turn = turn().await;
    let spots = spots(1, 0);
    let nodes = start_all(&spots).await;
    let control = member(&nodes[0], "a map", |control| control.epoch().0 == 1).await;
    assert!(control.map().shards.iter().all(|placement| placement.replicas == [nodes[0].node()]));
    healthy(&nodes).await;
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_founder_missing_the_others_wait_and_say_for_whom() {
    let _turn = turn().await;
    let spots = spots(3, 0);
    let mut nodes = vec![spots[0].start().await, spots[1].start().await];
    let missing = format!("waiting for founders: {} (unreachable)", spots[2].peers());
    for node in &nodes {
        waits(node, &missing).await;
        assert_eq!(node.health(), Err(missing.clone()));
    }
    nodes.push(spots[2].start().await);
    assert_eq!(all_formed(&nodes).await.len(), 1);
    stop_all(&nodes).await;
}

/// The third founder differs, says so, hears so, and no cluster forms until it doesn't differ any more.
async fn check_differs(differ: impl FnOnce(&mut Spot), others_say: &str, it_says: &str) {
    let _turn = turn().await;
    let mut spots = spots(3, 0);
    let right = spots[2].config.clone();
    differ(&mut spots[2]);
    let mut nodes = start_all(&spots).await;
    waits(&nodes[0], &format!("{} (says {others_say})", spots[2].peers())).await;
    waits(&nodes[1], &format!("{} (says {others_say})", spots[2].peers())).await;
    waits(&nodes[2], &format!("{} (says {it_says})", spots[0].peers())).await;
    nodes.pop().unwrap().shutdown().await;
    spots[2].config = right;
    nodes.push(spots[2].start().await);
    assert_eq!(all_formed(&nodes).await.len(), 1);
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn founders_of_different_names_never_form_and_say_so() {
    let differ = |spot: &mut Spot| spot.config.name = "mian".to_owned();
    check_differs(differ, "cluster name \"mian\"", "cluster name \"main\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn founders_with_different_shapes_never_form_and_say_so() {
    let differ = |spot: &mut Spot| (spot.config.shards, spot.config.replicas) = (8, 1);
    check_differs(differ, "8 shards and 1 replicas", "4 shards and 3 replicas").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn founders_with_different_seeds_never_form_and_say_so() {
    let _turn = turn().await;
    let mut spots = spots(3, 0);
    spots[2].config.seeds.remove(1);
    let nodes = start_all(&spots).await;
    let two = [spots[0].peers(), spots[2].peers()].into_iter().collect::<BTreeSet<_>>();
    let two = two.into_iter().collect::<Vec<_>>().join(",");
    waits(&nodes[0], &format!("{} (says seeds {two})", spots[2].peers())).await;
    waits(&nodes[2], &format!("{} (says seeds", spots[0].peers())).await;
    stop_all(&nodes).await;
}

/// Founders that are killed and started again at random moments while they form.
async fn check_killed_while_forming(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let spots = spots(3, 0);
    let mut nodes: Vec<Option<Cluster>> = (0..3).map(|_| None).collect();
    let mut order = [0, 1, 2];
    order.shuffle(&mut rng);
    for place in order {
        nodes[place] = Some(spots[place].start().await);
    }
    for _ in 0..6 {
        sleep(Duration::from_millis(rng.random_range(0..250))).await;
        let place = rng.random_range(0..3);
        nodes[place].take().unwrap().0.kill().await;
        nodes[place] = Some(spots[place].start().await);
    }
    let nodes: Vec<Cluster> = nodes.into_iter().flatten().collect();
    let clusters = all_formed(&nodes).await;
    assert_eq!(clusters.len(), 1, "seed {seed}: {clusters:?}");
    healthy(&nodes).await;
    for spot in &spots {
        assert_eq!(spot.fatal(), None, "seed {seed}");
    }
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn founders_killed_at_random_moments_come_to_one_cluster() {
    let _turn = turn().await;
    for seed in 0..6 {
        check_killed_while_forming(seed).await;
    }
}
