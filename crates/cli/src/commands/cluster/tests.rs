//! A cluster as operators see it.

use super::*;

fn member(id: u64, name: &str, standing: pb::Standing, answers: bool) -> pb::Member {
    pb::Member {
        id,
        name: name.to_owned(),
        client_address: format!("10.0.0.{}:7600", id % 10),
        zone: "zone-1".to_owned(),
        standing: standing.into(),
        answers,
        replicas: 32,
        leads: 11,
        keys: answers.then_some(1_234_567),
        rules_version: answers.then_some(4),
        ..pb::Member::default()
    }
}

fn replica(node: u64, role: pb::Role, hash: u64) -> pb::ReplicaStatus {
    let hash = Some(pb::StateHash { applied: Some(9), hash });
    pb::ReplicaStatus { node, role: role.into(), behind: Some(node % 10), hash, ..Default::default() }
}

/// Three nodes, one of them away, and one that is dead; one shard that moves and one without a leader.
fn cluster() -> pb::ClusterResponse {
    use pb::{Role, Standing};
    let moving = pb::ReplicaMove { to: 104, from: 103, phase: "learning".to_owned() };
    let led = pb::ShardStatus {
        shard: 0,
        leader: 101,
        preferred: 102,
        keys: Some(12),
        replicas: vec![
            replica(101, Role::Leader, 7),
            replica(102, Role::Follower, 7),
            replica(103, Role::Unspecified, 7),
            replica(104, Role::Learner, 7),
        ],
        r#move: Some(moving),
        home: String::new(),
    };
    let unled = pb::ShardStatus {
        shard: 1,
        preferred: 101,
        replicas: vec![replica(101, Role::Follower, 7), replica(102, Role::Follower, 8)],
        ..Default::default()
    };
    pb::ClusterResponse {
        id: "00ff".repeat(8),
        name: "example".to_owned(),
        node: 101,
        epoch: 3,
        rules_version: 4,
        replicas: 3,
        control: Some(pb::ShardStatus { leader: 102, ..Default::default() }),
        members: vec![
            member(101, "node-1", Standing::Active, true),
            member(102, "node-2", Standing::Draining, true),
            member(103, "node-3", Standing::Active, false),
            member(104, "node-3", Standing::Dead, false),
        ],
        shards: vec![led, unled],
    }
}

#[test]
fn members_are_told_by_name_and_state() {
    assert_eq!(
        show::members_text(&cluster()),
        "\
NODE          STATE     ZONE    REPLICAS  LEADS       KEYS  RULES  CLIENTS
node-1        active    zone-1        32     11  1,234,567      4  10.0.0.1:7600
node-2        draining  zone-1        32     11  1,234,567      4  10.0.0.2:7600
node-3        away      zone-1        32     11          ?      ?  10.0.0.3:7600
node-3 (104)  dead      zone-1        32     11          ?      ?  10.0.0.4:7600
node-2 can't become empty: that takes 3 active nodes, there are 2
add nodes, or end it: leasehold members activate NODE
"
    );
}

#[test]
fn shards_are_told_by_leader_replicas_and_moves() {
    assert_eq!(
        show::shards_text(&cluster(), false),
        "\
SHARD  LEADER  WANTED  KEYS  REPLICAS                             BEHIND  MOVE
    0  node-1  node-2    12  node-1 node-2 node-3 (104)+ node-3?       4  node-3 to node-3 (104), learning
    1  nobody  node-1     ?  node-1 node-2                             2  -
1 shard without a leader that answers
"
    );
    let compared = show::shards_text(&cluster(), true);
    let states: Vec<_> = compared.lines().take(3).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(states, ["STATES", "agree", "DIFFER"]);
}

#[test]
fn regions_are_told_where_there_are_any() {
    let mut cluster = cluster();
    cluster.members.truncate(2);
    for (member, round_trip) in cluster.members.iter_mut().zip([None, Some(80_350)]) {
        (member.region, member.round_trip_micros) = ("eu".to_owned(), round_trip);
    }
    cluster.shards[1].home = "eu".to_owned();
    cluster.shards.remove(0);
    let told = show::members_text(&cluster);
    let told: Vec<_> = told
        .lines()
        .take(3)
        .map(|line| line.split("  ").filter(|word| !word.is_empty()).map(str::trim).nth(4).unwrap())
        .collect();
    assert_eq!(told, ["ROUND TRIP", "-", "80.3 ms"]);
    let shards = show::shards_text(&cluster, false);
    assert!(shards.starts_with("SHARD  HOME  LEADER") && shards.contains("1  eu    nobody"), "{shards}");
}

#[test]
fn usual_names_fit_a_terminal_of_80_columns() {
    let mut cluster = cluster();
    cluster.members.truncate(3);
    cluster.shards[0].replicas.truncate(3);
    cluster.shards[0].r#move = None;
    for told in [show::members_text(&cluster), show::shards_text(&cluster, true)] {
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    }
}

#[test]
fn a_status_tells_the_cluster_or_that_there_is_none() {
    let status =
        pb::StatusResponse { version: "0.1.0".to_owned(), ready: true, keys: 7, ..Default::default() };
    let told = show::status_text(&status, Some(&cluster()));
    for line in [
        "traffic    ready\n",
        "cluster    example, id 00ff",
        "node       node-1\n",
        "members    1 active, 1 away, 1 dead, 1 draining\n",
        "drain      node-2 can't become empty: that takes 3 active nodes, there are 2\n",
        "shards     1 of 2 led, 3 replicas each, 1 moving, map 3\n",
        "control    led by node-2\n",
    ] {
        assert!(told.contains(line), "{line} in\n{told}");
    }
    assert!(show::status_text(&status, None).ends_with("cluster    none: this node runs alone\n"));
    let waiting = pb::StatusResponse { ready: false, not_ready_reason: "waiting for b".to_owned(), ..status };
    let told = show::status_text(&waiting, None);
    assert!(told.contains("not ready: waiting for b") && !told.contains("alone"), "{told}");
}

/// What is said of the drain of node-2 with so many replicas to place and so many active nodes.
fn check_drain(replicas: u32, active: usize, held: u32, stalled: bool) {
    let mut cluster = pb::ClusterResponse { replicas, ..cluster() };
    cluster.members = vec![pb::Member { replicas: held, ..cluster.members[1].clone() }];
    let more =
        (0..active).map(|id| member(200 + u64::try_from(id).unwrap(), "x", pb::Standing::Active, true));
    cluster.members.extend(more);
    for told in
        [show::status_text(&pb::StatusResponse::default(), Some(&cluster)), show::members_text(&cluster)]
    {
        assert_eq!(told.contains("node-2 can't become empty"), stalled, "{told}");
    }
}

#[test]
fn a_drain_that_too_few_others_could_take_over_from_is_told() {
    check_drain(3, 2, 16, true);
    check_drain(3, 3, 16, false);
    check_drain(3, 2, 0, false);
    check_drain(1, 0, 16, true);
}

#[test]
fn json_has_the_shape_of_the_operators_port() {
    let status = pb::StatusResponse { ready: true, ..Default::default() };
    let json = show::status_json(&status, Some(&cluster()));
    let shard = &json["cluster"]["shards"][0];
    assert_eq!((&shard["leader"], &shard["move"]["phase"]), (&101.into(), &"learning".into()));
    assert_eq!(shard["replicas"][2]["role"], serde_json::Value::Null);
    assert_eq!(shard["replicas"][0]["hash"]["hash"], "0000000000000007");
    assert_eq!(json["cluster"]["members"][1]["standing"], "draining");
    assert_eq!(json["cluster"]["shards"][1]["leader"], serde_json::Value::Null);
}
