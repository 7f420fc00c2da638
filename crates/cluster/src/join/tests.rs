//! Whom the leader lets in.

use leasehold_control::{Cluster, ClusterId, Command, Control, NodeRecord};
use leasehold_model::{NodeId, Stamp};
use leasehold_placement::{ShardMap, Standing};

use super::{Admission, consider};

fn record(id: u64, name: &str) -> NodeRecord {
    NodeRecord {
        id: NodeId(id),
        name: name.into(),
        peer_address: format!("h{id}:1").into(),
        gossip_address: format!("h{id}:2").into(),
        client_address: format!("h{id}:3").into(),
        zone: "".into(),
        region: "".into(),
        weight: 100,
        standing: Standing::Active,
    }
}

fn control() -> Control {
    let cluster = Cluster { id: ClusterId(1), secret: [0; 16], shards: 1, replicas: 3 };
    let mut control = Control::new();
    let nodes = vec![record(1, "a"), record(2, "b")];
    control.apply(Command::Create { cluster, nodes, map: ShardMap::default() }, Stamp(1));
    control
        .apply(Command::SetStanding { node: NodeId(2), standing: Standing::Dead, by: "x".into() }, Stamp(1));
    control
}

fn considered(name: &str, record: &NodeRecord) -> Admission {
    consider("main", &control(), name, record)
}

#[test]
fn a_new_name_is_registered() {
    assert_eq!(considered("main", &record(3, "c")), Admission::Register);
}

#[test]
fn a_node_that_asks_again_is_registered_again() {
    assert_eq!(considered("main", &record(1, "a")), Admission::Register);
}

#[test]
fn the_name_of_a_dead_node_is_free() {
    assert_eq!(considered("main", &record(3, "b")), Admission::Register);
}

#[test]
fn a_namesake_is_looked_up_first() {
    assert_eq!(considered("main", &record(3, "a")), Admission::Namesake(record(1, "a")));
}

#[test]
fn another_clusters_node_is_told_so() {
    let expected = "this cluster is named \"main\", not \"other\"";
    assert_eq!(considered("other", &record(3, "c")), Admission::Refuse(expected.to_owned()));
}

#[test]
fn a_name_that_cant_be_shown_is_refused() {
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert!(matches!(considered("main", &record(3, name)), Admission::Refuse(_)), "{name:?}");
    }
}
