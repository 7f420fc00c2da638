//! What is put together of the answers.

use leasehold_model::Key;

use super::*;

/// A lease with so many units out; its key tells them apart.
fn lease(key: u64, out: u64) -> LentLease {
    // An empty message: every field of it is 0.
    let nothing = LeasesReply::decode(&[0x12, 0][..]).expect("a lease").leases[0].1;
    LentLease { key: Key { high: key, low: 0 }, granted: out, ..nothing }
}

fn numbers(out: u64) -> LeaseNumbers {
    LeaseNumbers { leases: 1, out, ..LeaseNumbers::default() }
}

fn reply(shards: &[(u32, u64)], leases: &[(u32, LentLease)]) -> LeasesReply {
    LeasesReply {
        shards: shards.iter().map(|&(shard, out)| (ShardId(shard), numbers(out))).collect(),
        leases: leases.iter().map(|&(shard, lease)| (ShardId(shard), lease)).collect(),
        more: false,
    }
}

#[test]
fn a_shard_that_two_nodes_tell_of_counts_once() {
    let replies = vec![
        (NodeId(1), reply(&[(0, 7)], &[(0, lease(1, 7))])),
        (NodeId(2), reply(&[(0, 9), (1, 4)], &[(0, lease(2, 9)), (1, lease(3, 4))])),
    ];
    let lent = put_together(replies, 3, 10);
    assert_eq!(lent.leases, [(ShardId(0), lease(1, 7)), (ShardId(1), lease(3, 4))]);
    assert_eq!((lent.numbers.out, lent.numbers.leases, lent.unanswered, lent.more), (11, 2, 1, false));
}

#[test]
fn those_with_the_most_out_are_kept_and_the_rest_is_said_to_be_there() {
    let leases = [(0, lease(1, 3)), (0, lease(2, 8)), (0, lease(3, 5))];
    let lent = put_together(vec![(NodeId(1), reply(&[(0, 16)], &leases))], 1, 2);
    let out: Vec<_> = lent.leases.iter().map(|(_, lease)| lease.out()).collect();
    assert_eq!((out, lent.more), (vec![8, 5], true));
}
