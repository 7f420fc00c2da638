//! Nodes that come later, come back, or come back as others.

use std::collections::BTreeSet;

use leasehold_consensus::types::GroupId;
use leasehold_control::Control;
use leasehold_model::{NodeId, ShardId};
use leasehold_placement::Standing;

use super::support::{healthy, member, spots, start_all, stop_all, turn, until, waits};
use crate::{Cluster, Phase};

async fn formed(nodes: &[Cluster]) {
    for node in nodes {
        member(node, "a cluster with rules", |control| control.rules().len() == 1).await;
    }
}

fn standing(control: &Control, node: NodeId) -> Option<Standing> {
    control.nodes().get(&node).map(|node| node.standing)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fourth_node_joins_and_gets_rules_and_map() {
    let _turn = turn().await;
    let spots = spots(3, 1);
    let mut nodes = start_all(&spots[..3]).await;
    formed(&nodes).await;
    let fourth = spots[3].start().await;
    let control = member(&fourth, "rules and map", |control| control.nodes().len() == 4).await;
    assert_eq!(control.rules().len(), 1);
    assert_eq!(control.map().shards.len(), 4);
    for node in &nodes {
        member(node, "four nodes", |control| control.nodes().contains_key(&fourth.node())).await;
    }
    nodes.push(fourth);
    healthy(&nodes).await;
    stop_all(&nodes).await;
}

/// The shards' groups that the map gives to a node.
fn given(control: &Control, node: NodeId) -> BTreeSet<GroupId> {
    let shards = (0..).map(ShardId).zip(&control.map().shards);
    let given = shards.filter(|(_, placement)| placement.replicas.contains(&node));
    given.map(|(shard, _)| GroupId::of_shard(shard)).chain([GroupId::CONTROL]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fourth_node_takes_its_share_and_the_others_give_it_up() {
    let _turn = turn().await;
    let spots = spots(3, 1);
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    let fourth = nodes[3].node();
    for node in &nodes {
        member(node, "a settled map in which the fourth node has its share", |control| {
            control.moves().is_empty() && given(control, fourth).len() == 4
        })
        .await;
        until("it has the replicas that the map gives it", async || {
            let Phase::Member(control) = node.phase().borrow().clone() else { return false };
            let here = node.0.part().unwrap().runner.groups().into_iter().collect();
            control.moves().is_empty() && given(&control, node.node()) == here
        })
        .await;
    }
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_no_seed_waits_until_there_is_a_cluster() {
    let _turn = turn().await;
    let spots = spots(3, 1);
    let fourth = spots[3].start().await;
    waits(&fourth, "waiting for founders").await;
    let mut nodes = start_all(&spots[..3]).await;
    nodes.push(fourth);
    formed(&nodes).await;
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_restarted_with_their_directories_are_who_they_were() {
    let _turn = turn().await;
    let spots = spots(3, 0);
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    let before: Vec<NodeId> = nodes.iter().map(Cluster::node).collect();
    stop_all(&nodes).await;
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    assert_eq!(nodes.iter().map(Cluster::node).collect::<Vec<_>>(), before);
    healthy(&nodes).await;
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_alone_after_a_restart_says_whom_it_misses() {
    let _turn = turn().await;
    let spots = spots(3, 0);
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    stop_all(&nodes).await;
    let alone = spots[0].start().await;
    waits(&alone, "waiting for a leader of the control group; not reached: ").await;
    let Err(why) = alone.health() else { panic!("ready") };
    assert!(why.contains(&spots[1].peers()) && why.contains(&spots[2].peers()), "{why}");
    stop_all(&[alone]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_back_at_another_port_is_found_again() {
    let _turn = turn().await;
    let mut spots = spots(3, 0);
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    let id = nodes[2].node();
    nodes[2].0.kill().await;
    let elsewhere = super::support::spots(1, 0).remove(0).config;
    spots[2].config.peers_listen = elsewhere.peers_listen;
    spots[2].config.gossip_listen = elsewhere.gossip_listen;
    let back = spots[2].start().await;
    let moved = |control: &Control| *control.nodes()[&id].peer_address == *spots[2].peers();
    for node in [&nodes[0], &nodes[1], &back] {
        member(node, "the new address", moved).await;
    }
    until("it is healthy", async || back.health().is_ok()).await;
    stop_all(&[nodes[0].clone(), nodes[1].clone(), back]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_an_empty_directory_comes_back_as_another_and_the_old_one_is_dead() {
    let _turn = turn().await;
    let mut spots = spots(3, 0);
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    let old = nodes[1].node();
    nodes[1].0.kill().await;
    spots[1].empty();
    let back = spots[1].start().await;
    assert_ne!(back.node(), old);
    let replaced = |control: &Control| {
        standing(control, old) == Some(Standing::Dead)
            && standing(control, back.node()) == Some(Standing::Active)
    };
    for node in [&nodes[0], &nodes[2], &back] {
        member(node, "the old one dead, the new one in", replaced).await;
    }
    stop_all(&[nodes[0].clone(), nodes[2].clone(), back]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_replaced_is_told_so_and_ends() {
    let _turn = turn().await;
    let mut spots = spots(3, 0);
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    nodes[2].0.kill().await;
    let old = spots[2].config.clone();
    spots[2].empty();
    let heir = spots[2].start().await;
    member(&heir, "its place in the cluster", |control| control.nodes().contains_key(&heir.node())).await;
    heir.0.kill().await;
    spots[2].config = old;
    let back = spots[2].start().await;
    until("it is told", async || spots[2].fatal().is_some_and(|why| why.contains("was declared dead"))).await;
    stop_all(&[nodes[0].clone(), nodes[1].clone(), back]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_a_living_node_has_is_refused() {
    let _turn = turn().await;
    let mut spots = spots(3, 1);
    let nodes = start_all(&spots[..3]).await;
    formed(&nodes).await;
    spots[3].config.node = "n1".to_owned();
    let twin = spots[3].start().await;
    waits(&twin, &format!("another node, at {}, is named \"n1\"", spots[1].peers())).await;
    stop_all(&[nodes, vec![twin]].concat()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_name_is_never_let_in() {
    let _turn = turn().await;
    let mut spots = spots(3, 1);
    let nodes = start_all(&spots[..3]).await;
    formed(&nodes).await;
    spots[3].config.name = "other".to_owned();
    let stranger = spots[3].start().await;
    waits(&stranger, "this cluster is named \"main\", not \"other\"").await;
    stop_all(&[nodes, vec![stranger]].concat()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_one_node_clusters_directory_under_a_node_of_a_cluster_of_its_name_decides_nothing() {
    let _turn = turn().await;
    let lone = spots(1, 0);
    let nodes = start_all(&lone).await;
    healthy(&nodes).await;
    stop_all(&nodes).await;
    let mut spots = spots(3, 0);
    let mut nodes = start_all(&spots).await;
    formed(&nodes).await;
    nodes.remove(2).0.kill().await;
    let own = std::mem::replace(&mut spots[2].config.data, lone[0].config.data.clone());
    let misplaced = spots[2].start().await;
    waits(&misplaced, &format!("at {}, {}", spots[0].peers(), spots[1].peers())).await;
    let Phase::Waiting(why) = misplaced.phase().borrow().clone() else { panic!("a member") };
    assert!(
        why.contains(&lone[0].config.data.display().to_string()) && why.contains("an empty one"),
        "{why}"
    );
    assert!(misplaced.health().is_err() && misplaced.0.part().is_err());
    misplaced.shutdown().await;
    spots[2].config.data = own;
    nodes.push(spots[2].start().await);
    healthy(&nodes).await;
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_misplaced_directory_whose_neighbours_come_up_later_is_found_out() {
    let _turn = turn().await;
    let lone = spots(1, 0);
    let nodes = start_all(&lone).await;
    healthy(&nodes).await;
    stop_all(&nodes).await;
    let mut spots = spots(3, 0);
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    stop_all(&nodes).await;
    spots[2].config.data = lone[0].config.data.clone();
    let misplaced = spots[2].start().await;
    until("it knows no better", async || misplaced.health().is_ok()).await;
    let others = start_all(&spots[..2]).await;
    until("it is found out", async || misplaced.health().is_err_and(|why| why.contains("an empty one")))
        .await;
    healthy(&others).await;
    stop_all(&[others, vec![misplaced]].concat()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_cluster_is_refused() {
    let _turn = turn().await;
    let mut spots = spots(1, 0);
    let nodes = start_all(&spots).await;
    formed(&nodes).await;
    stop_all(&nodes).await;
    spots[0].config.name = "other".to_owned();
    let refused = spots[0].try_start().await.unwrap_err().to_string();
    assert!(refused.contains("belongs to the cluster \"main\", not to \"other\""), "{refused}");
}
