//! Snapshots as bytes, there and back, and bytes that are none.

use leasehold_lease::{EdgeId, LIFETIME_DEFAULT, LeaseAsk, LeaseId, MilliRate, Usage};
use leasehold_limit::{
    Algorithm, Ask, BucketState, CalendarUnit, Decision, LogState, RetryAfter, State, Window, Zone,
};
use leasehold_model::{Nanos, RequestId};
use leasehold_shard::{
    Acquire, Acquired, Batch, Bounds, Command, Demand, LeaseCommand, Refund, RefundItem, Refusal, Remembered,
    Reply, Shard, checksum,
};
use proptest::prelude::*;

use super::*;

const START: Stamp = Stamp(1_800_000_000_000_000_000);

fn spec(algorithm: Algorithm) -> LimitSpec {
    let limit = Limit::new(algorithm, 10, Nanos::from_secs(60)).unwrap();
    LimitSpec { tenant: TenantId(7), version: RulesVersion(3), since: Stamp(5), limit }
}

fn command(seq: u64, limit: u32, cost: u64) -> Command {
    let key = Key { high: seq.wrapping_mul(0x9e37_79b9_7f4a_7c15), low: seq };
    let demands = vec![Demand { key, limit, ask: Ask::exactly(cost), shadow: false }];
    Command::Acquire(Acquire {
        id: Some(RequestId { session: 1 << 100 | 5, seq }),
        remember_denial: true,
        demands,
    })
}

/// An edge asks for a part of a counter that nobody else does, and tells that it spent one of its first lease.
fn lease(seq: u64, limit: u32) -> Command {
    let usage = vec![Usage { lease: LeaseId(0), spent_total: 1, returned_total: 0 }];
    let key = Key { high: u64::from(limit) << 60, low: 0 };
    let (edge, rate) = (EdgeId(1 << 100 | u128::from(seq % 2)), MilliRate(7));
    let ask = LeaseAsk { edge, key, need: 1, want: 3, rate, lifetime: LIFETIME_DEFAULT, usage };
    Command::Lease(LeaseCommand { id: Some(RequestId { session: 3, seq }), limit, ask })
}

/// A shard that counted by every algorithm, admitted, refused for a while and for good, lent, and took back.
fn busy() -> Shard {
    let zone = Zone::new("America/New_York").unwrap();
    let limits: Vec<LimitSpec> = [
        Algorithm::TokenBucket { burst: 10 },
        Algorithm::LeakyBucket { burst: 20 },
        Algorithm::Shaper { queue: 5 },
        Algorithm::FixedWindow(Window::Epoch),
        Algorithm::FixedWindow(Window::Calendar { unit: CalendarUnit::Day, zone }),
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
    ]
    .map(spec)
    .into();
    let mut shard = Shard::new(Bounds::default());
    for second in 0..3 {
        let at = START.after(Nanos::from_secs(second));
        let commands = (0..7).map(|limit| command(u64::from(limit), limit, 2)).collect();
        shard.apply(&Batch { limits: limits.clone(), commands, ..Batch::default() }, at);
        let commands = (0..7).map(|limit| lease(second * 7 + u64::from(limit), limit)).collect();
        shard.apply(&Batch { limits: limits.clone(), commands, ..Batch::default() }, at);
        let commands =
            (0..7).map(|limit| command(100 * (second + 1) + u64::from(limit), limit, 1 + second * 8));
        shard.apply(&Batch { limits: limits.clone(), commands: commands.collect(), ..Batch::default() }, at);
        let key = Key { high: 0, low: 0 };
        let items = vec![RefundItem { key, cost: 1, charged_at: START }];
        let refund = Command::Refund(Refund { id: RequestId { session: 2, seq: second }, items });
        shard.apply(&Batch { limits: limits.clone(), commands: vec![refund], ..Batch::default() }, at);
    }
    shard
}

/// An envelope around a body as it should not be.
fn sealed(body: &storage::Snapshot) -> Vec<u8> {
    let body = body.encode_to_vec();
    storage::SnapshotEnvelope { format: SNAPSHOT_FORMAT, checksum: checksum(&body), body: body.into() }
        .encode_to_vec()
}

#[track_caller]
fn check_refused(bytes: &[u8], expected: &str) {
    let error = decode_snapshot(bytes).expect_err("it should be refused").to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

#[test]
fn a_shard_survives_the_way_through_bytes_with_equal_hash_and_equal_answers() {
    let mut shard = busy();
    let snapshot = shard.snapshot();
    assert!(snapshot.counters.len() >= 14 && snapshot.replies.len() >= 20, "there is something to lose");
    let ledger = &snapshot.ledger;
    assert!(ledger.leases.len() >= 6 && ledger.holders.len() >= 6 && ledger.slots.len() == 2);
    assert!(ledger.totals.spent > 0 && ledger.totals.live > 0);
    let decoded = decode_snapshot(&encode_snapshot(&snapshot)).unwrap();
    assert_eq!(decoded, snapshot);
    let mut restored = Shard::restore(decoded, Bounds::default()).unwrap();
    assert_eq!(restored.state_hash(), shard.state_hash());
    let batch = Batch {
        limits: vec![spec(Algorithm::SlidingLog)],
        commands: vec![command(205, 0, 9)],
        ..Batch::default()
    };
    assert_eq!(restored.apply(&batch, START), shard.apply(&batch, START), "a retry is answered from memory");
    assert_eq!(restored.state_hash(), shard.state_hash());
}

#[test]
fn what_a_shard_rarely_holds_survives_too() {
    let decision = |retry_after, wait| Decision {
        allowed: false,
        granted: 1,
        remaining: u64::MAX,
        retry_after,
        reset_after: Nanos::MAX,
        next_unit_after: Nanos(2),
        wait,
    };
    let decisions = vec![
        decision(None, Some(Nanos::ZERO)),
        decision(Some(RetryAfter::Never), None),
        decision(Some(RetryAfter::In(Nanos::ZERO)), None),
    ];
    let replies = [
        Reply::Acquired(Acquired { admitted: true, at: Stamp(4), decisions }),
        Reply::Refunded(vec![]),
        Reply::Refunded(vec![0, u64::MAX]),
        Reply::Reset(5),
        Reply::Refused(Refusal::KeysFull(TenantId(u64::MAX))),
        Reply::Refused(Refusal::RepliesFull(TenantId(1))),
        Reply::Refused(Refusal::RequestIdReused),
        Reply::Refused(Refusal::Malformed),
    ];
    let remembered = |(seq, reply)| Remembered {
        id: RequestId { session: u128::MAX - 1, seq },
        at: Stamp(seq),
        fingerprint: u64::MAX,
        tenant: TenantId(0),
        reply,
    };
    let mut snapshot = busy().snapshot();
    snapshot.replies = (0..).zip(replies).map(remembered).collect();
    snapshot.limits[0].carried = Stamp(u64::MAX);
    snapshot.counters[0].state = State::Bucket(BucketState { used: u128::MAX - 1, at: Stamp(0) });
    snapshot.counters[1].state = State::Log(LogState::default());
    assert_eq!(decode_snapshot(&encode_snapshot(&snapshot)), Ok(snapshot));
}

#[test]
fn more_than_one_chunk_stays_in_order() {
    let mut shard = Shard::new(Bounds::default());
    let limits = vec![spec(Algorithm::SlidingCounter)];
    let commands = (0..3_000).map(|seq| command(seq, 0, 1)).collect();
    shard.apply(&Batch { limits, commands, ..Batch::default() }, START);
    let decoded = decode_snapshot(&encode_snapshot(&shard.snapshot())).unwrap();
    assert_eq!(decoded, shard.snapshot());
}

#[test]
fn a_snapshot_from_before_there_were_leases_is_read() {
    let mut shard = Shard::new(Bounds::default());
    let batch = Batch {
        limits: vec![spec(Algorithm::SlidingLog)],
        commands: vec![command(1, 0, 1)],
        ..Batch::default()
    };
    shard.apply(&batch, START);
    let envelope = storage::SnapshotEnvelope::decode(&*encode_snapshot(&shard.snapshot())).unwrap();
    let mut body = storage::Snapshot::decode(envelope.body).unwrap();
    body.lease_totals = None;
    let body = body.encode_to_vec();
    let old = storage::SnapshotEnvelope { format: 1, checksum: checksum(&body), body: body.into() };
    assert_eq!(decode_snapshot(&old.encode_to_vec()), Ok(shard.snapshot()));
}

#[test]
fn a_newer_format_is_refused_and_says_so() {
    let envelope = storage::SnapshotEnvelope { format: 3, ..storage::SnapshotEnvelope::default() };
    check_refused(&envelope.encode_to_vec(), "format 3 is unknown, this version reads up to 2");
    check_refused(&[], "format 0 is unknown");
}

#[test]
fn any_flipped_bit_is_noticed() {
    let bytes = encode_snapshot(&busy().snapshot());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(decode_snapshot(&damaged).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn any_cut_is_noticed() {
    let bytes = encode_snapshot(&busy().snapshot());
    for len in 0..bytes.len() {
        assert!(decode_snapshot(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn parts_that_are_absent_or_unknown_are_named() {
    let with = |change: fn(&mut storage::Snapshot)| {
        let mut body = storage::Snapshot::default();
        change(&mut body);
        sealed(&body)
    };
    let counter = |body: &mut storage::Snapshot| body.counters.push(storage::Counter::default());
    check_refused(&with(counter), "counters[0]: state is absent");
    check_refused(&with(|body| body.limits.push(storage::Under::default())), "limits[0]: limit is absent");
    check_refused(&with(|body| body.replies.push(storage::Remembered::default())), "replies[0]: reply");
    let log = |body: &mut storage::Snapshot| {
        let state = Some(storage::counter::State::Log(storage::Log { at: vec![1, 2], units: vec![1] }));
        body.counters.push(storage::Counter { state, ..storage::Counter::default() });
    };
    check_refused(&with(log), "counters[0]: the log has 2 stamps for 1 units");
    let refusal = |body: &mut storage::Snapshot| {
        let reply = storage::remembered::Reply::Refused(storage::Refused { refusal: 9, tenant: 0 });
        body.replies.push(storage::Remembered { reply: Some(reply), ..storage::Remembered::default() });
    };
    check_refused(&with(refusal), "replies[0]: refusal 9 is unknown");
    let limit = |body: &mut storage::Snapshot| {
        let limit = Some(v1::Limit::default());
        body.limits.push(storage::Under { limit, ..storage::Under::default() });
    };
    let slot = |body: &mut storage::Snapshot| {
        body.slots.push(storage::EdgeSlot { slot: 1 << 16, ..storage::EdgeSlot::default() });
    };
    check_refused(&with(slot), "slots[0]: 65535 is the largest slot");
    check_refused(&with(limit), "limits[0]: algorithm: 0 is none");
}

#[test]
fn a_length_beyond_the_bytes_allocates_nothing() {
    // Field 3 (body), said to be 2^63 - 1 bytes long.
    let bytes = [0x08, 1, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    check_refused(&bytes, "not a snapshot");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_snapshot(&bytes);
    }

    /// Past the checksum, where only a peer's mistake gets: what decodes is also restored or refused without a panic.
    #[test]
    fn arbitrary_bodies_never_panic(
        at in 0usize..2_000,
        bytes in prop::collection::vec(any::<u8>(), 0..12),
        cut in prop::option::of(0usize..2_000),
    ) {
        let envelope = storage::SnapshotEnvelope::decode(&*encode_snapshot(&busy().snapshot())).unwrap();
        let mut body = envelope.body.to_vec();
        let at = at % body.len();
        let end = body.len().min(at + bytes.len());
        body.splice(at..end, bytes);
        if let Some(cut) = cut {
            body.truncate(cut);
        }
        let checksum = checksum(&body);
        let envelope = storage::SnapshotEnvelope { format: SNAPSHOT_FORMAT, checksum, body: body.into() };
        if let Ok(snapshot) = decode_snapshot(&envelope.encode_to_vec())
            && let Ok(mut shard) = Shard::restore(snapshot, Bounds::default())
        {
            let limits = vec![spec(Algorithm::SlidingLog)];
            let commands = (0..7).map(|seq| command(seq, 0, 1)).collect();
            prop_assert_eq!(shard.apply(&Batch { limits, commands, ..Batch::default() }, START).len(), 7);
            let _ = shard.state_hash();
        }
    }
}
