//! What is read of a cluster's status, and what is written for its nodes.

use serde_json::{Value, json};

use super::*;

fn status() -> Status {
    let member = |id: u64, name: &str| {
        json!({
            "id": id, "name": name, "peer_address": "127.0.0.1:1", "client_address": "127.0.0.1:2", "zone": "",
            "region": "", "weight": 100, "standing": "active", "answers": true, "live": true, "votes": true,
            "replicas": 2, "leads": 1, "keys": 3, "rules_version": null
        })
    };
    let replica = |node: u64, applied: u64, hash: Option<&str>| {
        let hash = hash.map(|hash| json!({ "applied": applied, "hash": hash }));
        json!({ "node": node, "role": "follower", "applied": applied, "behind": 0, "hash": hash })
    };
    let shard = |number: u32, replicas: Vec<Value>| {
        json!({
            "shard": number, "leader": null, "preferred": 70, "keys": 1, "replicas": replicas, "move": null
        })
    };
    let text = json!({
        "id": "00", "name": "test", "node": 70, "epoch": 3, "rules_version": 2, "replicas": 2,
        "members": [member(70, "n0"), member(90, "n1"), member(80, "another")],
        "shards": [
            shard(0, vec![replica(90, 5, Some("a")), replica(70, 5, Some("a"))]),
            shard(1, vec![replica(90, 5, Some("a")), replica(70, 5, Some("b"))]),
            shard(2, vec![replica(90, 5, Some("a")), replica(70, 6, Some("a"))]),
            shard(3, vec![replica(90, 5, None), replica(70, 5, None)]),
            shard(4, vec![]),
        ],
        "control": { "leader": 90, "preferred": null, "keys": null, "replicas": [], "move": null },
    });
    serde_json::from_value(text).expect("it is what a node answers")
}

#[test]
fn nodes_are_known_by_their_places() {
    let status = status();
    assert_eq!([70, 90, 80, 7].map(|id| status.place(id)), [Some(0), Some(1), None, None]);
    assert_eq!(status.replicas_of(0), [1, 0]);
    assert_eq!(status.replicas_of(9), [0; 0]);
}

#[test]
fn replicas_are_equal_when_they_applied_the_same_and_have_the_same_hash() {
    assert_eq!(status().unequal(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn every_node_has_a_configuration_with_the_founders_as_seeds() {
    let plan = Plan {
        config: "drain_seconds: 3".to_owned(),
        cluster_config: "  zone: z\n  replace_after_seconds: 5".to_owned(),
        links: true,
        ..Plan::of_three("domain: a\nlimits: []\n")
    };
    let cluster = TestCluster::prepare(plan).await;
    assert_eq!(cluster.running(), [0; 0]);
    let texts: Vec<String> =
        (0..3).map(|place| fs::read_to_string(cluster.config(place)).expect("it was written")).collect();
    let seeds = |text: &str| text.lines().find(|line| line.contains("seeds:")).map(str::to_owned);
    assert_eq!(seeds(&texts[0]), seeds(&texts[2]));
    for (place, text) in texts.iter().enumerate() {
        let advertised = cluster.nodes[place].peers_advertised;
        assert_ne!(advertised, cluster.nodes[place].seat.peers, "others come through the proxy");
        assert!(seeds(text).is_some_and(|line| line.contains(&format!("'{advertised}'"))), "{text}");
        assert!(text.contains(&format!("node: n{place}\n")), "{text}");
        assert!(text.contains("\n  zone: z\n") && text.contains("\ndrain_seconds: 3\n"), "{text}");
    }
}
