//! A cluster whose gossip is cut or forged, and a node that is cut off.

use std::net::UdpSocket;
use std::time::Duration;

use leasehold_control::{Command, Reply, RulesChange};
use tokio::time::{Instant, sleep};

use super::support::{Spot, healthy, member, spots, start_all, stop_all, turn, until};
use crate::{Cluster, GossipKey};

fn rules(text: &str) -> Command {
    Command::Rules(RulesChange {
        domain: "extra".into(),
        text: Some(text.into()),
        expected: None,
        by: "a test".into(),
    })
}

/// Every node gets a rule change through, and every shard has a leader.
async fn check_serves(nodes: &[Cluster]) {
    for (place, node) in nodes.iter().enumerate() {
        let text = format!("domain: extra # {place}\n");
        let deadline = Instant::now() + Duration::from_secs(10);
        let reply = node.command(rules(&text), deadline).await.unwrap();
        assert!(matches!(reply, Reply::Rules(_)), "{reply:?}");
        for other in nodes {
            let has = |control: &leasehold_control::Control| {
                control.rules().get("extra").is_some_and(|rules| *rules.text == *text)
            };
            member(other, "the new rules", has).await;
        }
    }
    until("all shards are led", async || {
        let report = nodes[0].report(false).await.unwrap();
        report.shards.iter().all(|shard| shard.leader.is_some())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_hear_no_gossip_form_and_serve_all_the_same() {
    let _turn = turn().await;
    let mut spots = spots(3, 0);
    for (place, spot) in spots.iter_mut().enumerate() {
        // Each seals with a key of its own: nobody hears anybody.
        spot.config.gossip_key = GossipKey::from_bytes([u8::try_from(place).unwrap(); 32]);
    }
    let nodes = start_all(&spots).await;
    healthy(&nodes).await;
    check_serves(&nodes).await;
    assert!(nodes.iter().all(|node| node.gossip_counts().heard == 0));
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_and_random_datagrams_change_nothing() {
    let _turn = turn().await;
    let spots = spots(3, 0);
    let nodes = start_all(&spots).await;
    healthy(&nodes).await;
    let flood = tokio::task::spawn_blocking({
        let targets: Vec<_> = nodes.iter().map(|node| node.addresses().gossip).collect();
        move || flood(&targets)
    });
    check_serves(&nodes).await;
    flood.await.unwrap();
    healthy(&nodes).await;
    let dropped = |node: &Cluster| node.gossip_counts().dropped.iter().sum::<u64>();
    assert!(nodes.iter().all(|node| dropped(node) > 100));
    stop_all(&nodes).await;
}

/// Garbage of all lengths, for a second.
fn flood(targets: &[std::net::SocketAddr]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for round in 0..1_000_usize {
        let datagram: Vec<u8> = (0..round % 1_400).map(|at| (at * 31 + round).to_le_bytes()[0]).collect();
        for target in targets {
            let _ = socket.send_to(&datagram, target);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_others_says_so_and_is_ready_again_when_they_are_back() {
    let _turn = turn().await;
    let spots = spots(3, 0);
    let nodes = start_all(&spots).await;
    healthy(&nodes).await;
    nodes[1].0.kill().await;
    nodes[2].0.kill().await;
    until("it says so", async || {
        nodes[0].health().is_err_and(|why| why.starts_with("no leader of the control group is heard"))
    })
    .await;
    let back = start_all(&spots[1..]).await;
    let nodes = vec![nodes[0].clone(), back[0].clone(), back[1].clone()];
    healthy(&nodes).await;
    check_serves(&nodes).await;
    stop_all(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_killed_at_once_come_back_with_what_was_acknowledged() {
    let _turn = turn().await;
    let spots: Vec<Spot> = spots(3, 0);
    let nodes = start_all(&spots).await;
    healthy(&nodes).await;
    check_serves(&nodes).await;
    for node in &nodes {
        node.0.kill().await;
    }
    sleep(Duration::from_millis(50)).await;
    let nodes = start_all(&spots).await;
    for node in &nodes {
        member(node, "the last rules", |control| {
            control.rules().get("extra").is_some_and(|rules| *rules.text == *"domain: extra # 2\n")
        })
        .await;
    }
    stop_all(&nodes).await;
}
