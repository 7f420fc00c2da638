//! Messages written byte by byte, well and badly, compared with what chitchat itself reads.

use chitchat::{ChitchatMessage, Deserializable, Serializable};
use proptest::prelude::*;

use super::*;

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn id(bytes: &mut Vec<u8>, name: &str) {
    text(bytes, name);
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend([4, 127, 0, 0, 1, 0, 80]);
}

fn node(name: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    id(&mut bytes, name);
    bytes.extend([0; 16]);
    bytes
}

fn value(key: &str, value: &str, version: u64) -> Vec<u8> {
    let mut bytes = vec![1];
    text(&mut bytes, key);
    text(&mut bytes, value);
    bytes.extend(version.to_le_bytes());
    bytes.push(0);
    bytes
}

fn bare(version: u64) -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend(version.to_le_bytes());
    bytes
}

fn digest(ids: usize, version: u64) -> Vec<u8> {
    let mut bytes = u16::try_from(ids).unwrap().to_le_bytes().to_vec();
    for number in 0..ids {
        id(&mut bytes, &format!("{number:x}"));
        for _ in 0..3 {
            bytes.extend(version.to_le_bytes());
        }
    }
    bytes
}

fn message(kind: u8, body: &[&[u8]]) -> Vec<u8> {
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend([VERSION, kind]);
    bytes.extend(body.concat());
    bytes
}

fn ack(operations: &[Vec<u8>]) -> Vec<u8> {
    message(2, &[&blocks(&operations.concat())])
}

fn syn_ack(ids: usize, operations: &[Vec<u8>]) -> Vec<u8> {
    message(1, &[&digest(ids, 1), &blocks(&operations.concat())])
}

#[track_caller]
fn check(message: &[u8], expected: Result<(), &'static str>) {
    assert_eq!(Checker::default().check(message), expected.map_err(Malformed));
    if expected.is_ok() {
        assert!(ChitchatMessage::deserialize(&mut &message[..]).is_ok(), "chitchat reads it too");
    }
}

#[test]
fn well_formed_messages_pass() {
    let mut name = Vec::new();
    text(&mut name, "main");
    check(&message(0, &[&digest(3, 9), &name]), Ok(()));
    check(&message(3, &[]), Ok(()));
    check(&ack(&[]), Ok(()));
    check(&ack(&[node("a"), value("k", "v", 3), value("l", "w", 4), node("b"), bare(7)]), Ok(()));
    check(&syn_ack(IDS_MAX, &[node("a"), value("k", "v", 3)]), Ok(()));
}

#[test]
fn a_bare_version_beside_values_is_refused() {
    // Chitchat asserts that the bare version is not below the values': ninety bytes ended its task.
    let wrong = Err("a bare version beside values");
    check(&ack(&[node("a"), value("k", "v", 9), bare(1)]), wrong);
    check(&ack(&[node("a"), bare(1), bare(2)]), wrong);
    check(&ack(&[bare(1)]), wrong);
}

#[test]
fn values_out_of_order_are_refused() {
    let wrong = Err("a value out of order");
    check(&ack(&[node("a"), value("k", "v", 2), value("l", "v", 2)]), wrong);
    check(&ack(&[node("a"), value("k", "v", 0)]), wrong);
    check(&ack(&[value("k", "v", 1)]), wrong);
    check(&ack(&[node("a"), bare(1), value("k", "v", 2)]), wrong);
}

#[test]
fn versions_that_would_overflow_are_refused() {
    let wrong = Err("a version beyond the bound");
    check(&ack(&[node("a"), value("k", "v", u64::MAX)]), wrong);
    check(&ack(&[node("a"), bare(u64::MAX)]), wrong);
    check(&message(1, &[&digest(1, u64::MAX), &[0]]), wrong);
}

#[test]
fn a_delta_that_inflates_beyond_the_bound_is_refused() {
    let bomb = zstd::bulk::compress(&vec![0; 64 * 1024], 19).unwrap();
    let mut delta = Vec::new();
    for _ in 0..3 {
        delta.push(BLOCK_COMPRESSED);
        delta.extend(u16::try_from(bomb.len()).unwrap().to_le_bytes());
        delta.extend(&bomb);
    }
    delta.push(BLOCK_END);
    let message = message(2, &[&delta]);
    assert!(message.len() < 200);
    check(&message, Err("a block does not inflate within the bound"));
}

#[test]
fn more_ids_than_the_bound_are_refused() {
    check(&message(1, &[&digest(IDS_MAX + 1, 1), &[0]]), Err("more ids than the bound"));
    let nodes: Vec<Vec<u8>> = (0..=IDS_MAX).map(|number| node(&format!("{number:x}"))).collect();
    check(&ack(&nodes), Err("more ids than the bound"));
}

#[test]
fn long_texts_and_trailing_bytes_are_refused() {
    let long = "x".repeat(VALUE_MAX + 1);
    check(&ack(&[node("a"), value("k", &long, 1)]), Err("a text longer than its bound"));
    check(&message(3, &[&[0]]), Err("bytes after the end"));
    check(&message(2, &[]), Err("cut short"));
    check(&message(9, &[]), Err("unknown type of message"));
}

fn news(nodes: usize) -> Vec<Vec<u8>> {
    let mut noise = 1_u64;
    let mut operations = Vec::new();
    for number in 0..nodes {
        operations.push(node(&format!("{number:x}")));
        for version in 1..=8 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            operations.push(value("k", &format!("{noise:x}"), version));
        }
    }
    operations
}

fn fit(message: &[u8]) -> Fitted {
    Checker::default().fit(message.to_vec()).unwrap()
}

#[test]
fn a_short_message_is_sent_whole() {
    let short = syn_ack(5, &news(2));
    assert_eq!(fit(&short), Fitted::Whole(short));
}

#[test]
fn a_long_message_is_cut_to_one_frame_and_keeps_its_first_news() {
    let long = syn_ack(5, &news(40));
    let Fitted::Cut(cut) = fit(&long) else { panic!("{} bytes were not cut", long.len()) };
    assert!(cut.len() <= DATAGRAM_TARGET - OVERHEAD && cut.len() > 1_200, "{}", cut.len());
    check(&cut, Ok(()));
    let (mut whole, mut part) = (Checker::default(), Checker::default());
    whole.check(&long).unwrap();
    part.check(&cut).unwrap();
    assert!(whole.operations.starts_with(&part.operations) && !part.operations.is_empty());
}

#[test]
fn a_digest_longer_than_a_frame_leaves_room_for_news() {
    let Fitted::Cut(cut) = fit(&syn_ack(200, &news(40))) else { panic!("was not cut") };
    let digest_len = digest(200, 1).len();
    assert!(cut.len() > digest_len + NEWS_MIN - 200 && cut.len() <= digest_len + NEWS_MIN + 4);
}

#[test]
fn the_longest_value_always_fits() {
    let mut noise = 1_u64;
    let mut incompressible = || -> String {
        let next = |_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + u8::try_from((noise >> 33) & 63).unwrap())
        };
        (0..VALUE_MAX).map(next).collect()
    };
    let operations: Vec<Vec<u8>> = (1..9)
        .flat_map(|number| [node(&"n".repeat(16 + number)), value("k", &incompressible(), 1)])
        .collect();
    let Fitted::Cut(cut) = fit(&syn_ack(200, &operations)) else { panic!("was not cut") };
    let mut checker = Checker::default();
    checker.check(&cut).unwrap();
    assert!(!checker.ends.is_empty());
}

proptest! {
    #[test]
    fn what_passes_after_damage_is_read_by_chitchat(
        nodes in 0_usize..6,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = syn_ack(nodes, &news(nodes));
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if Checker::default().check(&bytes).is_ok()
            && let Ok(message) = ChitchatMessage::deserialize(&mut &bytes[..])
        {
            prop_assert!(message.serialized_len() > 0);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0_u8..4) {
        let _ = Checker::default().check(&bytes);
        let _ = Checker::default().check(&message(kind, &[&bytes]));
    }
}
