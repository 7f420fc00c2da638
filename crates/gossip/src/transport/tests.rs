//! What gets past the wire, without a network.

use super::*;
use crate::seal::{KEY_LEN, Key};

const STRANGER: ([u8; 4], u16) = ([192, 0, 2, 1], 9);
const MEMBER: ([u8; 4], u16) = ([192, 0, 2, 2], 9);

fn ring() -> KeyRing {
    KeyRing::new("main", &Key::from_bytes([1; KEY_LEN]), None)
}

async fn wire() -> Wire {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    Wire::new(NodeId(1), Boot(1), socket, ring(), Arc::default())
}

fn sealed(sender: u64, message: &[u8]) -> Vec<u8> {
    Sealer::new(NodeId(sender), Boot(1)).seal(&ring(), [0; NONCE_LEN], message).unwrap()
}

fn goodbye() -> Vec<u8> {
    ChitchatMessage::BadCluster.serialize_to_vec()
}

#[tokio::test]
async fn a_members_message_is_admitted_once() {
    let (wire, datagram) = (wire().await, sealed(2, &goodbye()));
    assert_eq!(wire.admit(&datagram, MEMBER.into()), Ok(ChitchatMessage::BadCluster));
    assert_eq!(wire.admit(&datagram, MEMBER.into()), Err(Reason::Replayed));
}

#[tokio::test]
async fn what_chitchat_would_trip_over_and_the_own_voice_are_refused() {
    let wire = wire().await;
    assert_eq!(wire.admit(&sealed(2, b"not a message"), MEMBER.into()), Err(Reason::Malformed));
    assert_eq!(wire.admit(&sealed(1, &goodbye()), MEMBER.into()), Err(Reason::Echo));
    assert_eq!(wire.admit(&goodbye(), MEMBER.into()), Err(Reason::Short));
}

#[tokio::test]
async fn a_flood_from_one_address_is_not_opened_and_costs_no_other() {
    let wire = wire().await;
    let refusals: Vec<Reason> =
        (0..10_000).filter_map(|_| wire.admit(b"flood", STRANGER.into()).err()).collect();
    let opened = refusals.iter().filter(|reason| **reason == Reason::Short).count();
    let dropped = refusals.iter().filter(|reason| **reason == Reason::Budget).count();
    assert!(opened >= 2_000 && dropped > 0 && opened + dropped == 10_000, "{opened} {dropped}");
    assert!(wire.admit(&sealed(2, &goodbye()), MEMBER.into()).is_ok());
}
