//! Finding each other, missing each other, telling each other.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_gossip::{Boot, Change, Gossip, GossipConfig, KeyRing, LeaderHint, Load, Reason};
use leasehold_model::{NodeId, RulesVersion};
use tokio::time::Instant;

use crate::support::{config, key, live, ring, start, turn, until, until_live};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_find_each_other_and_tell_what_they_are() {
    let _turn = turn().await;
    let nodes = start(3).await;
    println!("3 nodes converged in {:?}", until_live(&nodes, &[1, 2, 3]).await);
    let load = Load { cpu_millicores: 250, keys: 7, decisions_per_second: 1_000, leading: 2 };
    let hint = LeaderHint { leader: NodeId(3), term: 5 };
    nodes[1].set_load(load);
    nodes[1].set_rules(RulesVersion(4));
    nodes[1].set_hints(BTreeMap::from([(9, hint)]));
    let told = until("what node 2 tells is heard", || {
        nodes.iter().all(|node| {
            let members = node.members();
            let of = members.get(NodeId(2)).map(|member| (member.profile.load, member.profile.rules));
            of == Some((load, RulesVersion(4))) && members.leader_hint(9) == Some(hint)
        })
    });
    println!("a change was told to 3 nodes in {:?}", told.await);
    let members = nodes[0].members();
    let third = members.get(NodeId(3)).unwrap();
    assert_eq!((&*third.profile.name, &*third.profile.peer_address), ("node-3", "10.0.0.3:7400"));
    assert_eq!(third.gossip_address, nodes[2].local_address());
    for node in nodes {
        let counts = node.counts();
        assert_eq!(counts.dropped.iter().sum::<u64>(), 0, "{counts:?}");
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_is_seen_within_three_seconds_and_a_return_too() {
    let _turn = turn().await;
    let mut nodes = start(3).await;
    until_live(&nodes, &[1, 2, 3]).await;
    for boot in 2..=3 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let seed = nodes[0].local_address();
        drop(nodes.pop());
        let silent = Instant::now();
        until("first sees it", || nodes.iter().any(|node| live(node).len() == 2)).await;
        let first = silent.elapsed();
        until_live(&nodes, &[1, 2]).await;
        println!("death of one of 3: first saw it after {first:?}, all after {:?}", silent.elapsed());
        assert!(silent.elapsed() < Duration::from_secs(3), "{:?}", silent.elapsed());
        let back = GossipConfig { boot: Boot(boot), ..config(3, &[seed]) };
        nodes.push(Gossip::start(back).await.unwrap());
        println!("its return was seen by all after {:?}", until_live(&nodes, &[1, 2, 3]).await);
        assert_eq!(nodes[0].members().get(NodeId(3)).unwrap().boot, Boot(boot));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_is_missed_at_once_and_can_be_forgotten() {
    let _turn = turn().await;
    let mut nodes = start(3).await;
    until_live(&nodes, &[1, 2, 3]).await;
    let leaving = nodes.pop().unwrap();
    let said = Instant::now();
    leaving.shutdown().await;
    until_live(&nodes, &[1, 2]).await;
    println!("a goodbye was heard by all after {:?}", said.elapsed());
    assert_eq!(nodes[0].members().len(), 3, "the dead stay in the table");
    assert!(nodes[0].forget(NodeId(3)));
    assert!(!nodes[0].forget(NodeId(2)), "it is live");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((nodes[0].members().len(), nodes[1].members().len()), (2, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_is_rotated_while_running_and_nobody_is_missed() {
    let _turn = turn().await;
    let nodes = start(3).await;
    until_live(&nodes, &[1, 2, 3]).await;
    let mut watched = nodes[0].watch();
    let mut before = watched.borrow_and_update().clone();
    let mut changes: Vec<Change> = Vec::new();
    for keys in [ring(1, Some(2)), ring(2, Some(1)), ring(2, None)] {
        for node in &nodes {
            node.set_keys(keys.clone());
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = watched.borrow_and_update().clone();
            changes.extend(now.changes_since(&before));
            before = now;
        }
    }
    assert_eq!(changes, []);
    assert!(
        nodes.iter().all(|node| live(node) == [1, 2, 3] && node.counts().dropped_for(Reason::Forged) == 0)
    );
    let late = Gossip::start(config(4, &[nodes[0].local_address()])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((live(&late), nodes[0].members().len()), (vec![4], 3), "the old key is not heard");
    late.set_keys(ring(2, None));
    until("the new key is heard", || live(&late) == [1, 2, 3, 4]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_heals_by_itself() {
    let _turn = turn().await;
    let nodes = start(3).await;
    until_live(&nodes, &[1, 2, 3]).await;
    nodes[2].set_keys(ring(7, None));
    let apart = |ids: [&[u64]; 3]| nodes.iter().zip(ids).all(|(node, ids)| live(node) == ids);
    until("both sides miss each other", || apart([&[1, 2], &[1, 2], &[3]])).await;
    nodes[2].set_keys(ring(1, None));
    println!("a split of 3 healed in {:?}", until_live(&nodes, &[1, 2, 3]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latecomer_learns_more_than_fits_a_datagram() {
    let _turn = turn().await;
    let mut nodes = start(6).await;
    for (id, node) in (1..).zip(&nodes) {
        let hint = |group: u32| LeaderHint { leader: NodeId((1 << 50) | (u64::from(group) * id)), term: id };
        node.set_hints((0..200).map(|group| (group, hint(group * 7_919))).collect());
    }
    until_live(&nodes, &[1, 2, 3, 4, 5, 6]).await;
    nodes.push(Gossip::start(config(7, &[nodes[0].local_address()])).await.unwrap());
    let told =
        |node: &Gossip| node.members().iter().filter(|member| member.profile.hints.len() == 200).count();
    let took = until("everything is told to all", || nodes.iter().all(|node| told(node) == 6)).await;
    let trimmed: u64 = nodes.iter().map(|node| node.counts().trimmed).sum();
    println!("a latecomer knew 1200 hints in {took:?}; {trimmed} messages were cut to fit");
    assert!(trimmed > 0);
    assert!(nodes.iter().all(|node| node.counts().dropped.iter().sum::<u64>() == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_clusters_key_is_not_heard() {
    let _turn = turn().await;
    let nodes = start(2).await;
    until_live(&nodes, &[1, 2]).await;
    let other_key = GossipConfig { keys: ring(9, None), ..config(3, &[nodes[0].local_address()]) };
    let other_key = Gossip::start(other_key).await.unwrap();
    let other_name =
        GossipConfig { keys: KeyRing::new("test", &key(1), None), ..config(4, &[nodes[0].local_address()]) };
    let other_name = Gossip::start(other_name).await.unwrap();
    until("both knocked", || nodes[0].counts().dropped_for(Reason::Forged) > 10).await;
    assert_eq!((live(&other_key), live(&other_name)), (vec![3], vec![4]));
    assert!(nodes.iter().all(|node| node.members().len() == 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_nodes_find_each_other_and_see_a_death() {
    let _turn = turn().await;
    let began = Instant::now();
    let mut nodes = start(20).await;
    let hints =
        |leader| (0..8).map(|group| (group, LeaderHint { leader: NodeId(leader), term: 3 })).collect();
    for (id, node) in (1..).zip(&nodes) {
        node.set_hints(hints(id));
    }
    let all: Vec<u64> = (1..=20).collect();
    until_live(&nodes, &all).await;
    println!("20 nodes converged in {:?}", began.elapsed());
    until("everything is told", || {
        let told = |node: &Gossip| node.members().iter().all(|member| member.profile.hints.len() == 8);
        nodes.iter().all(told)
    })
    .await;
    println!("20 nodes had told all in {:?}", began.elapsed());
    let steady: Vec<_> = nodes.iter().map(Gossip::counts).collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let heard = |node: usize| (nodes[node].counts().heard - steady[node].heard) / 2;
    println!("node 1 heard {} datagrams a second, node 20 {}", heard(0), heard(19));
    drop(nodes.pop());
    let silent = Instant::now();
    until("first sees it", || nodes.iter().any(|node| live(node).len() == 19)).await;
    let first = silent.elapsed();
    until_live(&nodes, &all[..19]).await;
    println!("death of one of 20: first saw it after {first:?}, all after {:?}", silent.elapsed());
    let trimmed: u64 = nodes.iter().map(|node| node.counts().trimmed).sum();
    let dropped: u64 = nodes.iter().map(|node| node.counts().dropped.iter().sum::<u64>()).sum();
    println!("{trimmed} messages were cut to fit, {dropped} datagrams dropped");
    assert_eq!(dropped, 0);
}
