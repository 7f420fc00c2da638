//! Records read back as they were written, and nothing else is read.

use super::*;

fn check(payload: EntryPayload<RaftTypes>) {
    let given = openraft::Entry { log_id: log_id(EntryId { term: 3, node: 2, index: 17 }), payload };
    assert_eq!(decode(encode(&given)), Ok(given));
}

fn members<const N: usize>(ids: [u64; N]) -> BTreeSet<u64> {
    BTreeSet::from(ids)
}

#[test]
fn a_blank_entry_comes_back() {
    check(EntryPayload::Blank);
}

#[test]
fn a_proposal_comes_back() {
    check(EntryPayload::Normal(Proposal(Bytes::from_static(b"charge 4"))));
    check(EntryPayload::Normal(Proposal(Bytes::new())));
}

#[test]
fn a_membership_comes_back_with_its_learners() {
    let nodes: BTreeMap<u64, EmptyNode> = (1..=5).map(|node| (node, EmptyNode::new())).collect();
    check(EntryPayload::Membership(Membership::new(vec![members([1, 2, 3])], nodes)));
}

#[test]
fn a_joint_membership_comes_back() {
    let configs = vec![members([1, 2, 3]), members([2, 3, 4])];
    check(EntryPayload::Membership(Membership::new(configs, None)));
}

#[test]
fn other_bytes_are_no_entry() {
    for bytes in [&b""[..], b"\x07", b"\x00\x00", b"\x02", b"\x02\xff\xff\xff\xff", b"\x02\x01\x00\x00\x00"] {
        assert_eq!(decode_payload(Bytes::copy_from_slice(bytes)), Err(DecodeError), "{bytes:?}");
    }
}
