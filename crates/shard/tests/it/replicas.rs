//! Equal commands, equal state: whatever the batches, with and without a restore on the way.

use proptest::prelude::*;

use super::traffic::{Rules, limits, trace};
use super::*;

/// Applies the trace in batches: a command joins the one before it when their stamps allow and `joined` says so.
fn run(bounds: Bounds, trace: &[(Stamp, Command)], joined: &[bool], restart: &[bool]) -> (Shard, Vec<Reply>) {
    let mut bench = Bench::within(bounds, limits());
    let mut replies = Vec::new();
    let mut batch: Vec<Command> = Vec::new();
    for (i, (at, command)) in trace.iter().enumerate() {
        batch.push(command.clone());
        let more = trace.get(i + 1).is_some_and(|(next, _)| next == at);
        if more && joined[i % joined.len()] {
            continue;
        }
        let commands = std::mem::take(&mut batch);
        replies.extend(bench.shard.apply(&Batch { limits: limits(), commands, ..Batch::default() }, *at));
        if restart[i % restart.len()] {
            bench.restart();
        }
    }
    (bench.shard, replies)
}

/// Bounds that random traffic reaches.
const TIGHT: Bounds = Bounds {
    keys_per_tenant_max: 4,
    keys_max: 7,
    replies_per_tenant_max: 5,
    retry_window: Nanos::from_secs(60),
    items_max: 4,
    leases_max: 6,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn equal_commands_give_equal_states_whatever_the_batches_and_restores(
        trace in trace(Rules::Changing, 150),
        joined in prop::collection::vec(any::<bool>(), 1..20),
        restart in prop::collection::vec(prop::bool::weighted(0.1), 1..40),
        tight in any::<bool>(),
    ) {
        let bounds = if tight { TIGHT } else { Bounds::default() };
        let (plain, answers) = run(bounds, &trace, &[false], &[false]);
        let (other, others) = run(bounds, &trace, &joined, &restart);
        prop_assert_eq!(answers, others);
        prop_assert_eq!(plain.snapshot(), other.snapshot());
        prop_assert_eq!(plain.state_hash(), other.state_hash());
    }

    #[test]
    fn a_preview_says_what_applying_answers(trace in trace(Rules::Changing, 150), tight in any::<bool>()) {
        let bounds = if tight { TIGHT } else { Bounds::default() };
        let mut bench = Bench::within(bounds, limits());
        for (at, command) in trace {
            let Command::Acquire(ask) = &command else { continue };
            let preview = bench.shard.preview(&bench.limits, ask, at);
            let settled = bench.shard.settled(&bench.limits, ask, at);
            let before = bench.shard.snapshot();
            let batch = Batch { limits: limits(), commands: vec![command], ..Batch::default() };
            let reply = bench.shard.apply(&batch, at).remove(0);
            if settled.is_some() {
                prop_assert_eq!(settled.as_ref(), Some(&reply));
                let after = bench.shard.snapshot();
                prop_assert!(after.counters.len() <= before.counters.len());
            }
            // Before it answers, applying drops replies whose window is over, which may make room for one more.
            if !matches!(preview, Reply::Refused(leasehold_shard::Refusal::RepliesFull(_))) {
                prop_assert_eq!(preview, reply);
            }
        }
    }

    #[test]
    fn bounds_hold_and_no_command_panics(
        commands in prop::collection::vec((extreme_stamp(), extreme_command()), 1..100),
        wide in any::<bool>(),
    ) {
        let bounds = if wide { Bounds::default() } else { TIGHT };
        let mut bench = Bench::within(bounds, limits());
        for (at, command) in commands {
            let batch = Batch { limits: limits(), commands: vec![command], ..Batch::default() };
            prop_assert_eq!(bench.shard.apply(&batch, at).len(), 1);
            prop_assert!(bench.shard.keys() <= usize::try_from(bounds.keys_max).expect("small"));
        }
        let hash = bench.shard.state_hash();
        bench.restart();
        prop_assert_eq!(bench.shard.state_hash(), hash);
    }
}

fn extreme_u64() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..4,
        (0u64..4).prop_map(|n| u64::MAX - n),
        any::<u64>(),
        (0u32..64, 0u64..3).prop_map(|(bit, n)| (1u64 << bit).wrapping_sub(1).wrapping_add(n)),
    ]
}

fn extreme_stamp() -> impl Strategy<Value = Stamp> {
    prop_oneof![
        8 => (0u64..200_000_000_000).prop_map(|nanos| Stamp(START.0 + nanos)),
        1 => extreme_u64().prop_map(Stamp),
    ]
}

fn extreme_command() -> impl Strategy<Value = Command> {
    let demand = (0u64..12, 0u32..14, extreme_u64(), extreme_u64(), any::<bool>()).prop_map(
        |(n, limit, min, max, shadow)| Demand {
            key: key(n),
            limit,
            ask: Ask { min: min.min(max), max },
            shadow,
        },
    );
    let wild = (any::<[u64; 2]>(), any::<u32>(), extreme_u64(), extreme_u64()).prop_map(
        |([high, low], limit, min, max)| Demand {
            key: Key { high, low },
            limit,
            ask: Ask { min, max },
            shadow: false,
        },
    );
    let demands = prop::collection::vec(prop_oneof![8 => demand, 1 => wild], 0..6);
    let item = (0u64..12, extreme_u64(), extreme_stamp()).prop_map(|(n, cost, charged_at)| RefundItem {
        key: key(n),
        cost,
        charged_at,
    });
    prop_oneof![
        6 => (prop::option::of(0u64..9), demands)
            .prop_map(|(seq, demands)| Command::Acquire(Acquire { id: seq.map(id), demands, remember_denial: true })),
        2 => (0u64..9, prop::collection::vec(item, 0..6))
            .prop_map(|(seq, items)| Command::Refund(Refund { id: id(seq), items })),
        1 => prop::collection::vec(0u64..12, 0..6).prop_map(reset),
    ]
}
