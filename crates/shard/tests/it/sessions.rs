//! A session that keeps count of its answers: it needs few remembered, and says when it needs them no more.

use leasehold_shard::Settled;
use proptest::prelude::*;

use super::traffic::{Rules, limits, trace};
use super::*;

const SESSION: u128 = 9;

fn counted(seq: u64, n: u64, cost: u64) -> Acquire {
    let id = Some(RequestId { session: SESSION, seq });
    Acquire { id, demands: vec![take(n, cost)], remember_denial: false }
}

fn settled(below: u64) -> Vec<Settled> {
    vec![Settled { session: SESSION, below }]
}

impl Bench {
    fn settle(&mut self, after: Nanos, below: u64, commands: impl Into<Vec<Command>>) -> Vec<Reply> {
        let (limits, commands) = (self.limits.clone(), commands.into());
        self.shard
            .apply(&Batch { limits, commands, settled: settled(below), bounds: None }, START.after(after))
    }

    fn remembered(&self) -> Vec<u64> {
        self.shard.snapshot().replies.iter().map(|reply| reply.id.seq).collect()
    }
}

#[test]
fn a_denial_that_need_not_be_remembered_needs_no_log_and_leaves_no_trace() {
    let mut bench = Bench::new([bucket(10)]);
    bench.acquire(secs(0), [take(1, 10)]);
    let (ask, before) = (counted(1, 1, 5), bench.shard.state_hash());
    let denied = bench.shard.settled(&bench.limits, &ask, START).expect("a denial changes nothing");
    assert!(!acquired(denied.clone()).admitted);
    assert_eq!(bench.one(secs(0), Command::Acquire(ask.clone())), denied);
    assert_eq!((bench.remembered(), bench.shard.state_hash()), (vec![], before));
    assert!(acquired(bench.one(secs(30), Command::Acquire(ask))).admitted, "its id isn't used up");
}

#[test]
fn an_admission_is_remembered_even_so() {
    let mut bench = Bench::new([bucket(10)]);
    let ask = counted(1, 1, 4);
    assert_eq!(bench.shard.settled(&bench.limits, &ask, START), None, "it needs the log");
    let first = bench.one(secs(0), Command::Acquire(ask.clone()));
    assert_eq!(bench.remembered(), [1]);
    assert_eq!(bench.shard.settled(&bench.limits, &ask, START), Some(first.clone()), "and then no more");
    assert_eq!(bench.one(secs(2), Command::Acquire(ask)), first);
    assert_eq!(bench.left(secs(0), 1), 6);
}

#[test]
fn what_is_settled_is_dropped_and_nothing_else() {
    let mut bench = Bench::new([bucket(100)]);
    bench.one(secs(0), acquire_as(2, [take(1, 1)]));
    for seq in 1..=4 {
        bench.one(secs(0), Command::Acquire(counted(seq, 1, 1)));
    }
    bench.settle(secs(0), 3, []);
    assert_eq!(bench.remembered(), [2, 3, 4], "2 is another session's");
    bench.settle(secs(0), 3, [Command::Acquire(counted(3, 1, 1))]);
    assert_eq!(bench.left(secs(0), 1), 95, "3 was a retry");
    bench.settle(secs(0), 5, [Command::Acquire(counted(5, 1, 1))]);
    assert_eq!(bench.remembered(), [2, 5], "it is settled before the commands of its batch");
    assert_eq!(
        bench.one(secs(0), acquire_as(2, [take(1, 1)])),
        bench.one(secs(0), acquire_as(2, [take(1, 1)]))
    );
    assert_eq!(bench.left(secs(0), 1), 94);
}

#[test]
fn a_session_that_settles_has_no_part_in_its_tenants_bound() {
    let bounds = Bounds { replies_per_tenant_max: 3, ..Bounds::default() };
    let mut bench = Bench::within(bounds, [bucket(100)]);
    bench.one(secs(0), acquire_as(1, [take(1, 1)]));
    for seq in 1..=50 {
        let replies = bench.settle(secs(0), seq, [Command::Acquire(counted(seq, 1, 1))]);
        assert!(replies.into_iter().all(|reply| acquired(reply).admitted));
    }
    assert_eq!(bench.left(secs(0), 1), 49);
    assert_eq!(bench.remembered(), [1, 50]);
}

#[test]
fn a_restored_shard_expires_replies_as_the_one_it_was_taken_from() {
    let mut bench = Bench::new([bucket(1_000)]);
    for seq in 0..60 {
        bench.one(secs(0), acquire_as(seq, [take(1, 1)]));
        bench.one(secs(0), Command::Acquire(counted(seq, 1, 1)));
    }
    bench.settle(secs(1), 50, []);
    let mut restored = Bench::new([bucket(1_000)]);
    restored.shard = Shard::restore(bench.shard.snapshot(), bench.bounds).expect("its own snapshot");
    for second in 60..70 {
        let peek = [acquire([take(1, 0)])];
        assert_eq!(bench.batch(secs(second), peek.clone()), restored.batch(secs(second), peek));
        assert_eq!(bench.remembered(), restored.remembered());
        assert_eq!(bench.shard.state_hash(), restored.shard.state_hash());
    }
    assert_eq!(bench.remembered(), [0; 0]);
}

/// Gives every other acquire to the session that keeps count, by its place in the trace.
fn as_counted(place: usize, command: &Command) -> Command {
    match command {
        Command::Acquire(acquire) if place.is_multiple_of(2) => {
            let seq = u64::try_from(place).expect("small");
            let id = Some(RequestId { session: SESSION, seq });
            Command::Acquire(Acquire { id, remember_denial: false, ..acquire.clone() })
        }
        Command::Acquire(_) | Command::Refund(_) | Command::Reset(_) | Command::Lease(_) => command.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn replicas_and_snapshots_agree_on_what_is_settled(
        trace in trace(Rules::Changing, 150),
        lag in 0usize..60,
        told in prop::collection::vec(prop::bool::weighted(0.3), 1..20),
        restart in prop::collection::vec(prop::bool::weighted(0.1), 1..40),
    ) {
        let mut plain = Bench::new(limits());
        let mut other = Bench::new(limits());
        for (place, (at, command)) in trace.iter().enumerate() {
            let below = u64::try_from(place.saturating_sub(lag)).expect("small");
            let settled = if told[place % told.len()] { settled(below) } else { vec![] };
            let commands = vec![as_counted(place, command)];
            let batch = Batch { limits: limits(), commands, settled, bounds: None };
            prop_assert_eq!(plain.shard.apply(&batch, *at), other.shard.apply(&batch, *at));
            if restart[place % restart.len()] {
                other.restart();
            }
            prop_assert_eq!(plain.shard.state_hash(), other.shard.state_hash());
        }
        prop_assert_eq!(plain.shard.snapshot(), other.shard.snapshot());
    }
}
