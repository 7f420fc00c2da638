//! Nothing opens but what was sealed, and that once.

use proptest::prelude::*;

use super::*;

const NONCE: [u8; NONCE_LEN] = [7; NONCE_LEN];

fn key(byte: u8) -> Key {
    Key::from_bytes([byte; KEY_LEN])
}

fn ring(sealing: u8, other: Option<u8>) -> KeyRing {
    KeyRing::new("main", &key(sealing), other.map(key).as_ref())
}

fn sealer(boot: u64) -> Sealer {
    Sealer::new(NodeId(5), Boot(boot))
}

fn sealed(message: &[u8]) -> Vec<u8> {
    sealer(1).seal(&ring(1, None), NONCE, message).unwrap()
}

fn check(datagram: &[u8], with: &KeyRing, expected: Result<&[u8], Reason>) {
    let opened = Opener::default().open(with, datagram).map(|opened| opened.message);
    assert_eq!(opened.as_deref().map_err(|reason| *reason), expected);
}

#[test]
fn what_was_sealed_opens_and_names_its_sender() {
    let opened = Opener::default().open(&ring(1, None), &sealed(b"hello")).unwrap();
    assert_eq!(opened, Opened { sender: NodeId(5), boot: Boot(1), counter: 1, message: b"hello".to_vec() });
}

#[test]
fn another_key_or_another_cluster_does_not_open() {
    check(&sealed(b"hello"), &ring(2, Some(3)), Err(Reason::Forged));
    check(&sealed(b"hello"), &KeyRing::new("test", &key(1), None), Err(Reason::Forged));
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let good = sealed(b"three nodes, one of them slow");
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let expected = if bit < 8 { Reason::Version } else { Reason::Forged };
        check(&bad, &ring(1, None), Err(expected));
    }
}

#[test]
fn a_cut_datagram_is_refused_at_every_length() {
    let good = sealed(b"hello");
    for len in 0..good.len() {
        let expected = if len < OVERHEAD { Reason::Short } else { Reason::Forged };
        check(&good[..len], &ring(1, None), Err(expected));
    }
}

#[test]
fn the_bound_on_length_holds_on_both_sides() {
    let (most, more) = (vec![1; PLAIN_MAX], vec![1; PLAIN_MAX + 1]);
    check(&sealed(&most), &ring(1, None), Ok(&most));
    let refused = sealer(1).seal(&ring(1, None), NONCE, &more);
    assert_eq!(refused, Err(SealError::TooLong { len: PLAIN_MAX + 1 }));
    check(&vec![VERSION; PLAIN_MAX + OVERHEAD + 1], &ring(1, None), Err(Reason::Long));
}

#[test]
fn a_datagram_is_heard_once_also_out_of_order() {
    let (ring, mut sealer, mut opener) = (ring(1, None), sealer(1), Opener::default());
    let datagrams: Vec<Vec<u8>> = (0..20).map(|_| sealer.seal(&ring, NONCE, b"x").unwrap()).collect();
    for datagram in datagrams.iter().rev() {
        assert!(opener.open(&ring, datagram).is_ok());
    }
    for datagram in &datagrams {
        assert_eq!(opener.open(&ring, datagram), Err(Reason::Replayed));
    }
}

#[test]
fn a_newer_boot_is_heard_and_the_older_no_more() {
    let (ring, mut opener) = (ring(1, None), Opener::default());
    let old = sealer(1).seal(&ring, NONCE, b"old").unwrap();
    let new = sealer(2).seal(&ring, NONCE, b"new").unwrap();
    assert!(opener.open(&ring, &new).is_ok());
    assert_eq!(opener.open(&ring, &old), Err(Reason::OldBoot));
}

#[test]
fn a_forged_datagram_moves_no_window() {
    let (ring, mut sealer, mut opener) = (ring(1, None), sealer(1), Opener::default());
    let genuine = sealer.seal(&ring, NONCE, b"x").unwrap();
    let mut forged = genuine.clone();
    forged[17..25].copy_from_slice(&u64::MAX.to_be_bytes());
    assert_eq!(opener.open(&ring, &forged), Err(Reason::Forged));
    assert!(opener.open(&ring, &genuine).is_ok());
}

#[test]
fn rotation_is_heard_both_ways_in_every_round() {
    let rounds = [ring(1, None), ring(1, Some(2)), ring(2, Some(1)), ring(2, None)];
    for pair in rounds.windows(2) {
        for (from, to) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
            check(&sealer(1).seal(from, NONCE, b"x").unwrap(), to, Ok(b"x"));
        }
    }
}

#[test]
fn a_dropped_key_is_heard_no_more() {
    check(&sealer(1).seal(&ring(1, Some(2)), NONCE, b"x").unwrap(), &ring(2, None), Err(Reason::Forged));
}

#[test]
fn beyond_the_bound_the_sender_not_heard_for_longest_is_forgotten() {
    let (ring, mut opener) = (ring(1, None), Opener::default());
    let datagrams: Vec<Vec<u8>> = (0..=u64::try_from(SENDERS_MAX).unwrap())
        .map(|id| Sealer::new(NodeId(id), Boot(1)).seal(&ring, NONCE, b"x").unwrap())
        .collect();
    for datagram in &datagrams {
        opener.open(&ring, datagram).unwrap();
    }
    assert_eq!(opener.senders(), SENDERS_MAX);
    assert_eq!(opener.open(&ring, &datagrams[1]), Err(Reason::Replayed), "still remembered");
    assert!(opener.open(&ring, &datagrams[0]).is_ok(), "forgotten, as the bound says");
}

#[test]
fn keys_are_never_shown() {
    let shown = format!("{:?} {:?}", key(0xab), ring(0xab, Some(0xcd)));
    assert_eq!(shown, "Key(..) KeyRing { cluster: \"main\", keys: 2, .. }");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_open(bytes in prop::collection::vec(any::<u8>(), 0..300), version in any::<bool>()) {
        let mut bytes = bytes;
        if let (true, Some(first)) = (version, bytes.first_mut()) {
            *first = VERSION;
        }
        let mut opener = Opener::default();
        prop_assert!(opener.open(&ring(1, Some(2)), &bytes).is_err());
        prop_assert_eq!(opener.senders(), 0);
    }

    #[test]
    fn any_message_comes_back_as_it_was(
        message in prop::collection::vec(any::<u8>(), 0..2_000),
        nonce in any::<[u8; NONCE_LEN]>(),
    ) {
        let datagram = sealer(9).seal(&ring(1, None), nonce, &message).unwrap();
        prop_assert_eq!(datagram.len(), message.len() + OVERHEAD);
        check(&datagram, &ring(2, Some(1)), Ok(&message));
    }
}
