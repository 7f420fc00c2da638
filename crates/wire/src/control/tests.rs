//! Commands, replies and snapshots of the control group as bytes, there and back, and bytes that are none.

use std::sync::Arc;

use leasehold_control::{AuditEntry, Control, RulesText, Snapshot};
use leasehold_model::RulesVersion;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::envelope;
use crate::testing::arbitrary_control as arbitrary;

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let rules = (arbitrary::text(), arbitrary::text(), any::<u64>())
        .prop_map(|(domain, text, version)| (domain, RulesText { text, version: RulesVersion(version) }));
    let audit = (any::<u64>(), arbitrary::text(), arbitrary::text()).prop_map(|(at, by, what)| AuditEntry {
        at: Stamp(at),
        by,
        what,
    });
    (
        any::<(u64, u64, u64)>(),
        option::of(arbitrary::cluster()),
        vec(arbitrary::record(), 0..4),
        vec(rules, 0..4),
        arbitrary::map(),
        vec(arbitrary::moving(), 0..4),
        vec(audit, 0..4),
    )
        .prop_map(|((last, version, since), cluster, nodes, rules, map, moves, audit)| Snapshot {
            last: Stamp(last),
            cluster,
            nodes,
            rules,
            rules_version: RulesVersion(version),
            rules_since: Stamp(since),
            map,
            moves,
            audit,
        })
}

#[track_caller]
fn check_refused(command: storage::control_command::Command, expected: &str) {
    let command = Some(storage::ControlCommand { command: Some(command) });
    let bytes = storage::ControlEntry { at: Some(1), command }.encode_to_vec();
    let error = decode_command(&*bytes).expect_err("it should be refused").to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

fn record(standing: i32) -> storage::NodeRecord {
    storage::NodeRecord { id: 1, standing, ..storage::NodeRecord::default() }
}

#[test]
fn parts_that_are_absent_or_unknown_are_named() {
    use storage::control_command::Command as Proto;
    let cluster = |secret: &[u8]| {
        let secret = secret.to_vec().into();
        Some(storage::ClusterConstants { secret, ..storage::ClusterConstants::default() })
    };
    let create = storage::CreateCluster::default;
    check_refused(Proto::Create(create()), "create.cluster: it is absent");
    let short = storage::CreateCluster { cluster: cluster(&[1; 15]), ..create() };
    check_refused(Proto::Create(short), "create.cluster.secret: it has 15 bytes, not 16");
    let no_map = storage::CreateCluster { cluster: cluster(&[1; 16]), ..create() };
    check_refused(Proto::Create(no_map.clone()), "create.map: it is absent");
    let nodes = vec![record(1), record(4)];
    let unknown = storage::CreateCluster { nodes, ..no_map };
    check_refused(Proto::Create(unknown), "create.nodes[1].standing: 4 is unknown");
    check_refused(Proto::Register(record(0)), "register.standing: 0 is unknown");
    check_refused(Proto::SetStanding(storage::SetStanding::default()), "set_standing.standing: 0 is unknown");
    check_refused(Proto::Moving(storage::ShardMove::default()), "moving.phase: 0 is unknown");
}

#[test]
fn an_entry_needs_a_stamp_and_a_command() {
    let error =
        |entry: storage::ControlEntry| decode_command(&*entry.encode_to_vec()).unwrap_err().to_string();
    assert!(error(storage::ControlEntry::default()).starts_with("at: it is absent"));
    let stamped = storage::ControlEntry { at: Some(1), command: None };
    assert!(error(stamped).starts_with("command: it is absent"));
}

#[test]
fn unknown_refusals_are_refused() {
    for number in [0, 10, -1] {
        let refused = storage::ControlRefused { refusal: number, number: 1 };
        let reply = storage::ControlReply { reply: Some(storage::control_reply::Reply::Refused(refused)) };
        let error = decode_reply(&*reply.encode_to_vec()).unwrap_err().to_string();
        assert!(error.contains(&format!("refused.refusal: {number} is unknown")), "{error}");
    }
    assert!(decode_reply(&[][..]).is_err(), "an empty message is no reply");
}

#[test]
fn a_damaged_snapshot_is_noticed() {
    let bytes = encode_snapshot(&Control::new().snapshot());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(decode_snapshot(&damaged).is_err(), "bit {bit} of byte {at}");
        }
        assert!(decode_snapshot(&bytes[..at]).is_err(), "{at} bytes");
    }
}

#[test]
fn the_rules_age_survives_a_snapshot() {
    let text: Arc<str> = "domain: a".into();
    let rules = RulesText { text, version: RulesVersion(4) };
    let snapshot = Snapshot {
        rules: vec![("a".into(), rules)],
        rules_version: RulesVersion(4),
        rules_since: Stamp(77),
        last: Stamp(99),
        ..Snapshot::default()
    };
    let control = Control::restore(decode_snapshot(&encode_snapshot(&snapshot)).unwrap()).unwrap();
    assert_eq!((control.rules_version(), control.rules_since()), (RulesVersion(4), Stamp(77)));
}

proptest! {
    #[test]
    fn a_command_survives_the_way_through_bytes(at in any::<u64>(), command in arbitrary::command()) {
        prop_assert_eq!(decode_command(encode_command(Stamp(at), &command)), Ok((Stamp(at), command)));
    }

    #[test]
    fn a_reply_survives_the_way_through_bytes(reply in arbitrary::reply()) {
        prop_assert_eq!(decode_reply(encode_reply(reply)), Ok(reply));
    }

    #[test]
    fn a_snapshot_survives_the_way_through_bytes(snapshot in snapshot()) {
        prop_assert_eq!(decode_snapshot(&encode_snapshot(&snapshot)), Ok(snapshot));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode_command(&*bytes);
        let _ = decode_reply(&*bytes);
        let _ = decode_snapshot(&bytes);
        let _ = decode_snapshot(&envelope::seal(bytes));
    }

    /// Nearly right bytes get further than arbitrary ones; what decodes is restored or refused without a panic.
    #[test]
    fn damaged_states_never_panic(snapshot in snapshot(), at in any::<usize>(), byte in any::<u8>()) {
        let mut body = envelope::open(&encode_snapshot(&snapshot)).unwrap().to_vec();
        let at = at % body.len();
        body[at] = byte;
        if let Ok(snapshot) = decode_snapshot(&envelope::seal(body)) {
            let _ = Control::restore(snapshot);
        }
    }
}
