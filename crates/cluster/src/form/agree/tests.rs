//! One node's judgement, case by case; what many of them come to is in `model`.

mod model;

use std::collections::BTreeMap;

use leasehold_control::{Cluster, ClusterId, NodeRecord};
use leasehold_model::NodeId;
use leasehold_placement::Standing;
use leasehold_wire::peer::{FormReply, FormRequest, Founding};

use super::{Heard, Step, next};

/// The node behind `place`, with the id `id`.
pub(in crate::form) fn request(place: usize, id: u64, founders: usize) -> FormRequest {
    let record = NodeRecord {
        id: NodeId(id),
        name: format!("n{place}").into(),
        peer_address: seed(place).into(),
        gossip_address: format!("h{place}:2").into(),
        client_address: format!("h{place}:3").into(),
        zone: "".into(),
        region: "".into(),
        weight: 100,
        standing: Standing::Active,
    };
    FormRequest {
        cluster: "main".to_owned(),
        seeds: (0..founders).map(seed).collect(),
        shards: 8,
        replicas: 3,
        record,
        nonce: u128::from(id),
    }
}

pub(super) fn seed(place: usize) -> String {
    format!("h{place}:1")
}

pub(super) fn founding(id: u128, founders: Vec<NodeRecord>) -> Founding {
    let cluster = Cluster { id: ClusterId(id), secret: [1; 16], shards: 8, replicas: 3 };
    Founding { cluster, name: "main".to_owned(), founders }
}

/// Three founders; what the one at `place` hears when all are there, changed by `change`.
fn judged(place: usize, change: impl FnOnce(&mut BTreeMap<String, Heard>)) -> Step {
    let mut heard: BTreeMap<String, Heard> = (0..3)
        .map(|other| (seed(other), Heard::Said(FormReply::Forming(request(other, other as u64 + 1, 3)))))
        .collect();
    change(&mut heard);
    next(&request(place, place as u64 + 1, 3), &heard)
}

fn check_waits(place: usize, change: impl FnOnce(&mut BTreeMap<String, Heard>), expected: &str) {
    assert_eq!(judged(place, change), Step::Wait(expected.to_owned()));
}

/// As heard from the third founder, with a difference.
fn third(change: impl FnOnce(&mut FormRequest)) -> impl FnOnce(&mut BTreeMap<String, Heard>) {
    let mut other = request(2, 3, 3);
    change(&mut other);
    move |heard| {
        heard.insert(seed(2), Heard::Said(FormReply::Forming(other)));
    }
}

fn says(place: usize, reply: FormReply) -> impl FnOnce(&mut BTreeMap<String, Heard>) {
    move |heard| {
        heard.insert(seed(place), Heard::Said(reply));
    }
}

#[test]
fn the_smallest_seed_founds_when_all_agree() {
    let records = (0..3).map(|place| request(place, place as u64 + 1, 3).record).collect();
    assert_eq!(judged(0, |_| {}), Step::Found(records));
}

#[test]
fn the_others_leave_it_to_the_smallest() {
    check_waits(1, |_| {}, "waiting for h0:1 to found the cluster");
}

#[test]
fn who_is_missing_is_said() {
    let missing = |heard: &mut BTreeMap<String, Heard>| {
        heard.insert(seed(1), Heard::Nothing("unreachable".to_owned()));
        heard.remove(&seed(2));
    };
    check_waits(0, missing, "waiting for founders: h1:1 (unreachable), h2:1 (not asked yet)");
}

#[test]
fn another_name_is_said() {
    let change = third(|other| other.cluster = "x".to_owned());
    check_waits(0, change, "waiting for founders: h2:1 (says cluster name \"x\")");
}

#[test]
fn other_seeds_are_said() {
    let change = third(|other| {
        other.seeds.pop_first();
    });
    check_waits(0, change, "waiting for founders: h2:1 (says seeds h1:1,h2:1)");
}

#[test]
fn another_shape_is_said() {
    let change = third(|other| (other.shards, other.replicas) = (16, 5));
    check_waits(1, change, "waiting for founders: h2:1 (says 16 shards and 5 replicas)");
}

#[test]
fn one_node_behind_two_seeds_never_founds() {
    let change = says(2, FormReply::Forming(request(1, 2, 3)));
    let expected = "waiting: h1:1 and h2:1 are the same node; name each founder once in `cluster.seeds`";
    check_waits(0, change, expected);
}

#[test]
fn a_copied_data_directory_is_said() {
    let change = third(|other| other.record.id = NodeId(2));
    let expected = "waiting: h1:1 and h2:1 have the same node id 2: one data directory was copied from the other; \
                    empty one of them";
    check_waits(0, change, expected);
}

#[test]
fn two_nodes_of_one_name_never_found() {
    let change = third(|other| other.record.name = "n1".into());
    check_waits(0, change, "waiting: h1:1 and h2:1 are both named \"n1\"; give each node a name of its own");
}

#[test]
fn two_nodes_at_one_address_never_found() {
    let change = third(|other| other.record.peer_address = "h1:1".into());
    let expected = "waiting: h1:1 and h2:1 both tell others to reach them at h1:1; \
                    let each advertise its own address";
    check_waits(0, change, expected);
}

#[test]
fn who_is_no_seed_waits_for_them() {
    let me = FormRequest { nonce: 9, ..request(3, 9, 3) };
    let heard = (0..3)
        .map(|place| (seed(place), Heard::Said(FormReply::Forming(request(place, place as u64 + 1, 3)))))
        .collect();
    let expected = "waiting for the seeds to form the cluster; this node isn't one of them and joins it then";
    assert_eq!(next(&me, &heard), Step::Wait(expected.to_owned()));
}

#[test]
fn a_cluster_that_is_there_is_joined_although_founders_are_missing() {
    let change = |heard: &mut BTreeMap<String, Heard>| {
        heard.clear();
        heard.insert(seed(1), Heard::Said(FormReply::Formed(ClusterId(5))));
    };
    assert_eq!(judged(0, change), Step::Join { seed: seed(1), cluster: ClusterId(5) });
}

#[test]
fn seeds_of_two_clusters_are_said() {
    let change = |heard: &mut BTreeMap<String, Heard>| {
        heard.insert(seed(1), Heard::Said(FormReply::Formed(ClusterId(5))));
        heard.insert(seed(2), Heard::Said(FormReply::Formed(ClusterId(6))));
    };
    let expected = "waiting: the seeds belong to different clusters: \
                    h1:1 (00000000000000000000000000000005), h2:1 (00000000000000000000000000000006); \
                    correct `cluster.seeds`";
    check_waits(0, change, expected);
}

#[test]
fn a_founding_that_counts_on_the_node_goes_before_all() {
    let founding = founding(5, vec![request(0, 1, 3).record]);
    let change = |heard: &mut BTreeMap<String, Heard>| {
        heard.insert(seed(1), Heard::Said(FormReply::Formed(ClusterId(6))));
        heard.insert(seed(2), Heard::Said(FormReply::Founding(founding.clone())));
    };
    assert_eq!(judged(0, change), Step::Agree(founding.clone()));
}

#[test]
fn a_founding_of_others_is_a_cluster_to_join() {
    let change = says(2, FormReply::Founding(founding(5, vec![request(0, 77, 3).record])));
    assert_eq!(judged(0, change), Step::Join { seed: seed(2), cluster: ClusterId(5) });
}
