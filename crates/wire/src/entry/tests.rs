//! Entries and replies as bytes, there and back, and bytes that are none.

use leasehold_limit::{Algorithm, Ask};
use leasehold_model::{Key, Nanos, RequestId};
use leasehold_shard::{Acquire, Command, Demand};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::arbitrary;

#[track_caller]
fn check_refused(proto: &storage::Batch, expected: &str) {
    let error = decode_batch(&*proto.encode_to_vec()).expect_err("it should be refused").to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

fn one(command: storage::command::Command) -> storage::Batch {
    let commands = vec![storage::Command { command: Some(command) }];
    storage::Batch { commands, ..storage::Batch::default() }
}

#[test]
fn an_entry_has_a_stamp_and_an_ask_has_none() {
    let batch = Batch::default();
    assert_eq!(decode_entry(encode_entry(Stamp(0), &batch)), Ok((Stamp(0), Batch::default())));
    assert_eq!(decode_entry(encode_batch(&batch)), Err(EntryError::NoStamp));
    assert_eq!(decode_batch(encode_entry(Stamp(7), &batch)), Ok(batch));
}

#[test]
fn parts_that_are_absent_are_named() {
    check_refused(
        &storage::Batch { commands: vec![storage::Command::default(); 2], ..storage::Batch::default() },
        "commands[0].command: it is absent",
    );
    check_refused(
        &one(storage::command::Command::Refund(storage::Refund::default())),
        "commands[0].refund.id",
    );
    check_refused(
        &storage::Batch { limits: vec![storage::LimitSpec::default()], ..storage::Batch::default() },
        "limits[0].limit: it is absent",
    );
    let uneven = storage::ResetKeys { key_high: vec![1, 2], key_low: vec![1] };
    check_refused(
        &one(storage::command::Command::Reset(uneven)),
        "commands[0].reset: 2 upper halves of keys for 1 lower ones",
    );
    let absent = storage::Replies { replies: vec![storage::Reply::default()] };
    assert_eq!(decode_replies(&*absent.encode_to_vec()), Err(RepliesError::Absent { index: 0 }));
}

#[test]
fn wrong_enums_are_refused() {
    let limit = Some(v1::Limit { algorithm: 99, n: 1, ..v1::Limit::default() });
    let limits = vec![storage::LimitSpec { limit, ..storage::LimitSpec::default() }];
    check_refused(
        &storage::Batch { limits, ..storage::Batch::default() },
        "limits[0].limit: algorithm: 99 is none",
    );
    for number in [0, 5, -1] {
        let refused = storage::reply::Reply::Refused(storage::Refused { refusal: number, tenant: 1 });
        let replies = vec![storage::Reply { reply: Some(refused) }];
        let bytes = storage::Replies { replies }.encode_to_vec();
        assert_eq!(decode_replies(&*bytes), Err(RepliesError::Refusal { index: 0, number }));
    }
}

#[test]
fn an_ask_of_one_counter_takes_few_bytes() {
    let limit = Limit::new(Algorithm::TokenBucket { burst: 10 }, 10, Nanos::from_secs(1)).unwrap();
    let spec =
        LimitSpec { tenant: TenantId(u64::MAX), version: RulesVersion(9), since: Stamp(1 << 60), limit };
    let command = |seq| {
        let key = Key { high: u64::MAX, low: seq };
        let demands = vec![Demand { key, limit: 0, ask: Ask::exactly(1), shadow: false }];
        let id = Some(RequestId { session: u128::MAX, seq });
        Command::Acquire(Acquire { id, remember_denial: false, demands })
    };
    let sized = |asks: u64| {
        let commands = (0..asks).map(command).collect();
        encode_entry(
            Stamp(1 << 60),
            &Batch { limits: vec![spec.clone()], commands, settled: vec![], bounds: None },
        )
        .len()
    };
    assert!(sized(101) - sized(1) <= 100 * 56, "{} bytes an ask", (sized(101) - sized(1)) / 100);
}

proptest! {
    #[test]
    fn an_entry_survives_the_way_through_bytes(at in any::<u64>(), batch in arbitrary::batch()) {
        prop_assert_eq!(decode_batch(encode_batch(&batch)), Ok(batch.clone()));
        prop_assert_eq!(decode_entry(encode_entry(Stamp(at), &batch)), Ok((Stamp(at), batch)));
    }

    #[test]
    fn replies_survive_the_way_through_bytes(replies in vec(arbitrary::reply(), 0..6)) {
        prop_assert_eq!(decode_replies(encode_replies(&replies)), Ok(replies));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode_entry(&*bytes);
        let _ = decode_batch(&*bytes);
        let _ = decode_replies(&*bytes);
    }

    /// Nearly right bytes get further than arbitrary ones.
    #[test]
    fn damaged_entries_never_panic(batch in arbitrary::batch(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = encode_entry(Stamp(1), &batch).to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = decode_entry(&*bytes);
        let _ = decode_entry(&bytes[..at]);
    }
}
