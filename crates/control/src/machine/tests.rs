//! What the control group promises.

use leasehold_placement::assign;

use super::*;
use crate::ClusterId;

const NOW: Stamp = Stamp(1_000);

fn node(id: u64) -> NodeRecord {
    NodeRecord {
        id: NodeId(id),
        name: format!("n{id}").into(),
        peer_address: format!("127.0.0.1:{}", 7_000 + id).into(),
        gossip_address: format!("127.0.0.1:{}", 9_000 + id).into(),
        client_address: format!("127.0.0.1:{}", 8_000 + id).into(),
        zone: "z".into(),
        region: "r".into(),
        weight: 100,
        standing: Standing::Active,
    }
}

fn cluster() -> Cluster {
    Cluster { id: ClusterId(7), secret: [1; 16], shards: 8, replicas: 3 }
}

fn created() -> Control {
    let nodes: Vec<NodeRecord> = (1..=3).map(node).collect();
    let members: Vec<Member> = nodes.iter().map(NodeRecord::member).collect();
    let layout = Layout { shards: Shards::new(8).expect("a power of two"), replicas: 3 };
    let map = assign(&layout, &members, &ShardMap::default()).expect("members");
    let mut control = Control::new();
    assert_eq!(control.apply(Command::Create { cluster: cluster(), nodes, map }, NOW), Reply::Done);
    control
}

fn rules(domain: &str, text: Option<&str>, expected: Option<u64>) -> Command {
    Command::Rules(RulesChange {
        domain: domain.into(),
        text: text.map(Into::into),
        expected: expected.map(RulesVersion),
        by: "somebody".into(),
    })
}

fn check(control: &mut Control, command: Command, expected: Reply) {
    control.line.advance(NOW);
    let before = control.clone();
    let reply = control.apply(command, NOW);
    assert_eq!(reply, expected);
    if matches!(reply, Reply::Refused(_)) {
        assert_eq!(*control, before, "a refusal changes nothing");
    }
}

#[test]
fn nothing_is_decided_before_the_cluster_is_created() {
    check(&mut Control::new(), rules("a", Some("x"), None), Reply::Refused(Refusal::NotCreated));
    check(&mut Control::new(), Command::Register(node(1)), Reply::Refused(Refusal::NotCreated));
}

#[test]
fn a_cluster_is_created_once() {
    let mut control = created();
    let again = |id| Command::Create {
        cluster: Cluster { id, ..cluster() },
        nodes: vec![],
        map: ShardMap::default(),
    };
    check(&mut control, again(ClusterId(7)), Reply::Done);
    check(&mut control, again(ClusterId(8)), Reply::Refused(Refusal::Exists));
    assert_eq!(control.nodes().len(), 3);
}

#[test]
fn rules_count_up_by_one_at_each_change_and_not_otherwise() {
    let mut control = created();
    check(&mut control, rules("a", Some("x"), None), Reply::Rules(RulesVersion(1)));
    check(&mut control, rules("a", Some("x"), None), Reply::Rules(RulesVersion(1)));
    check(&mut control, rules("b", Some("y"), Some(1)), Reply::Rules(RulesVersion(2)));
    check(&mut control, rules("a", None, Some(2)), Reply::Rules(RulesVersion(3)));
    assert_eq!(control.rules().keys().map(|domain| &**domain).collect::<Vec<_>>(), ["b"]);
    assert_eq!(control.audit().next_back().map(|entry| &*entry.by), Some("somebody"));
}

#[test]
fn rules_are_as_old_as_their_last_change() {
    let mut control = created();
    let mut since = |command, at, expected| {
        control.apply(command, Stamp(at));
        assert_eq!(control.rules_since(), Stamp(expected));
    };
    since(rules("a", Some("x"), None), 2_000, 2_000);
    since(rules("a", Some("x"), None), 3_000, 2_000);
    since(rules("a", Some("y"), Some(9)), 4_000, 2_000);
    since(Command::Register(node(4)), 5_000, 2_000);
    since(rules("a", Some("y"), None), 1_000, 5_000);
    since(rules("a", None, None), 6_000, 6_000);
    let restored = Control::restore(control.snapshot()).expect("its own snapshot");
    assert_eq!(restored.rules_since(), Stamp(6_000));
}

#[test]
fn a_change_that_expects_another_version_is_refused() {
    let mut control = created();
    check(
        &mut control,
        rules("a", Some("x"), Some(1)),
        Reply::Refused(Refusal::RulesConflict(RulesVersion(0))),
    );
}

#[test]
fn a_node_that_was_declared_dead_never_comes_back_under_its_id() {
    let mut control = created();
    let standing = |standing| Command::SetStanding { node: NodeId(2), standing, by: "grace".into() };
    check(&mut control, standing(Standing::Dead), Reply::Done);
    check(&mut control, standing(Standing::Active), Reply::Refused(Refusal::Replaced(NodeId(2))));
    check(&mut control, Command::Register(node(2)), Reply::Refused(Refusal::Replaced(NodeId(2))));
    let heir = NodeRecord { name: "n2".into(), ..node(9) };
    check(&mut control, Command::Register(heir), Reply::Done);
    // Nor is it told that the name is its successor's.
    check(&mut control, Command::Register(node(2)), Reply::Refused(Refusal::Replaced(NodeId(2))));
}

#[test]
fn registering_again_changes_addresses_and_keeps_the_standing() {
    let mut control = created();
    let drain = Command::SetStanding { node: NodeId(1), standing: Standing::Draining, by: "me".into() };
    check(&mut control, drain, Reply::Done);
    let moved = NodeRecord { peer_address: "127.0.0.1:9999".into(), ..node(1) };
    check(&mut control, Command::Register(moved), Reply::Done);
    let known = &control.nodes()[&NodeId(1)];
    assert_eq!((&*known.peer_address, known.standing), ("127.0.0.1:9999", Standing::Draining));
}

#[test]
fn two_nodes_never_share_a_name() {
    let twin = NodeRecord { name: "n1".into(), ..node(4) };
    check(&mut created(), Command::Register(twin), Reply::Refused(Refusal::NameTaken(NodeId(1))));
}

#[test]
fn a_node_that_holds_replicas_is_not_forgotten() {
    let mut control = created();
    let forget = |id| Command::Forget { node: NodeId(id), by: "me".into() };
    check(&mut control, forget(1), Reply::Refused(Refusal::StillHolds(NodeId(1))));
    check(&mut control, Command::Register(node(4)), Reply::Done);
    check(&mut control, forget(4), Reply::Done);
    check(&mut control, forget(4), Reply::Refused(Refusal::NoSuchNode(NodeId(4))));
}

#[test]
fn a_map_only_ever_continues_the_one_in_force() {
    let mut control = created();
    let mut next = control.map().clone();
    next.epoch = Epoch(2);
    next.shards[0].leader = None;
    check(&mut control, Command::SetMap { map: next.clone() }, Reply::Map(Epoch(2)));
    check(&mut control, Command::SetMap { map: next.clone() }, Reply::Map(Epoch(2)));
    next.epoch = Epoch(4);
    check(
        &mut control,
        Command::SetMap { map: next.clone() },
        Reply::Refused(Refusal::MapConflict(Epoch(2))),
    );
    next.epoch = Epoch(3);
    next.shards.pop();
    check(&mut control, Command::SetMap { map: next }, Reply::Refused(Refusal::MapConflict(Epoch(2))));
}

#[test]
fn the_audit_keeps_the_latest_and_is_bounded() {
    let mut control = created();
    for round in 0..Control::AUDIT_MAX + 5 {
        control.apply(rules("a", Some(&round.to_string()), None), Stamp(2_000));
    }
    assert_eq!(control.audit().count(), Control::AUDIT_MAX);
    assert!(control.audit().next_back().is_some_and(|entry| entry.what.contains("1005")));
}

#[test]
fn a_restored_machine_is_the_same() {
    let mut control = created();
    control.apply(rules("a", Some("x"), None), NOW);
    assert_eq!(Control::restore(control.snapshot()), Ok(control));
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let good = created().snapshot();
    let twice = crate::Snapshot { nodes: vec![node(1), node(1)], ..good.clone() };
    assert_eq!(Control::restore(twice), Err(crate::RestoreError::Twice(NodeId(1))));
    let short = crate::Snapshot { map: ShardMap::default(), ..good };
    assert_eq!(Control::restore(short), Err(crate::RestoreError::MapLength { map: 0, cluster: 8 }));
}

#[test]
fn the_secret_is_not_shown() {
    assert!(!format!("{:?}", created()).contains("secret"));
}
