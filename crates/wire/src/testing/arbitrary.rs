//! Random values of the pure crates, for round trips.

use leasehold_lease::{EdgeId, LeaseAsk, LeaseId, Leased, MilliRate, Usage};
use leasehold_limit::{Algorithm, Ask, CalendarUnit, Decision, Limit, RetryAfter, Window, Zone};
use leasehold_model::{Key, Nanos, RequestId, RulesVersion, Stamp, TenantId};
use leasehold_shard::{
    Acquire, Acquired, Batch, Bounds, Command, Demand, LeaseCommand, LimitSpec, Refund, RefundItem, Refusal,
    Reply, Reset, Settled,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) fn key() -> impl Strategy<Value = Key> + Clone {
    any::<u128>().prop_map(Key::from_u128)
}

pub(crate) fn id() -> impl Strategy<Value = RequestId> {
    any::<(u128, u64)>().prop_map(|(session, seq)| RequestId { session, seq })
}

fn limit() -> impl Strategy<Value = Limit> {
    let zone = prop::sample::select(vec!["UTC", "America/New_York", "Europe/Berlin"]);
    let calendar = (prop::sample::select(vec![CalendarUnit::Minute, CalendarUnit::Week]), zone)
        .prop_map(|(unit, zone)| Window::Calendar { unit, zone: Zone::new(zone).unwrap() });
    let window = prop_oneof![Just(Window::Epoch), calendar];
    let algorithm = prop_oneof![
        (1..1_000u64).prop_map(|burst| Algorithm::TokenBucket { burst }),
        (1..1_000u64).prop_map(|burst| Algorithm::LeakyBucket { burst }),
        (1..1_000u64).prop_map(|queue| Algorithm::Shaper { queue }),
        window.prop_map(Algorithm::FixedWindow),
        Just(Algorithm::SlidingLog),
        Just(Algorithm::SlidingCounter),
    ];
    (algorithm, 1..1_000_000u64, 1..1_000_000_000_000u64)
        .prop_map(|(algorithm, n, period)| Limit::new(algorithm, n, Nanos(period)).unwrap())
}

pub(crate) fn spec() -> impl Strategy<Value = LimitSpec> {
    (any::<(u64, u64, u64)>(), limit()).prop_map(|((tenant, version, since), limit)| LimitSpec {
        tenant: TenantId(tenant),
        version: RulesVersion(version),
        since: Stamp(since),
        limit,
    })
}

/// A demand under a limit at one of these positions.
pub(crate) fn demand(limits: impl Strategy<Value = u32> + Clone) -> impl Strategy<Value = Demand> + Clone {
    (key(), limits, any::<(u64, u64, bool)>()).prop_map(|(key, limit, (min, max, shadow))| Demand {
        key,
        limit,
        ask: Ask { min, max },
        shadow,
    })
}

pub(crate) fn acquire() -> impl Strategy<Value = Acquire> {
    (option::of(id()), any::<bool>(), vec(demand(any::<u32>()), 0..4))
        .prop_map(|(id, remember_denial, demands)| Acquire { id, remember_denial, demands })
}

fn lease() -> impl Strategy<Value = LeaseCommand> {
    let usage = any::<(u64, u64, u64)>().prop_map(|(lease, spent_total, returned_total)| Usage {
        lease: LeaseId(lease),
        spent_total,
        returned_total,
    });
    let numbers = any::<(u128, u64, u64, u64, u64, u32)>();
    (option::of(id()), key(), numbers, vec(usage, 0..4)).prop_map(
        |(id, key, (edge, need, want, rate, lifetime, limit), usage)| {
            let (edge, rate, lifetime) = (EdgeId(edge), MilliRate(rate), Nanos(lifetime));
            LeaseCommand { id, limit, ask: LeaseAsk { edge, key, need, want, rate, lifetime, usage } }
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    let item = (key(), any::<(u64, u64)>()).prop_map(|(key, (cost, charged_at))| RefundItem {
        key,
        cost,
        charged_at: Stamp(charged_at),
    });
    prop_oneof![
        acquire().prop_map(Command::Acquire),
        (id(), vec(item, 0..4)).prop_map(|(id, items)| Command::Refund(Refund { id, items })),
        vec(key(), 0..4).prop_map(|keys| Command::Reset(Reset { keys })),
        lease().prop_map(Command::Lease),
    ]
}

pub(crate) fn batch() -> impl Strategy<Value = Batch> {
    let settled = any::<(u128, u64)>().prop_map(|(session, below)| Settled { session, below });
    (vec(spec(), 0..4), vec(command(), 0..6), vec(settled, 0..3)).prop_map(|(limits, commands, settled)| {
        Batch {
            // Any of them may have come with the batch.
            bounds: (settled.len() % 2 == 1).then(Bounds::default),
            limits,
            commands,
            settled,
        }
    })
}

fn retry() -> impl Strategy<Value = Option<RetryAfter>> {
    prop_oneof![
        Just(None),
        Just(Some(RetryAfter::Never)),
        any::<u64>().prop_map(|wait| Some(RetryAfter::In(Nanos(wait)))),
    ]
}

fn leased() -> impl Strategy<Value = Leased> {
    let optional = any::<(Option<u64>, Option<u64>, Option<u16>)>();
    let numbers = any::<(u64, u64, u64, u64, u64, u64)>();
    (optional, numbers, retry()).prop_map(
        |((lease, gate, slot), (granted, sync, lifetime, remaining, reset_after, at), retry_after)| Leased {
            lease: lease.map(LeaseId),
            granted,
            sync,
            lifetime: Nanos(lifetime),
            gate: gate.map(Nanos),
            retry_after,
            remaining,
            reset_after: Nanos(reset_after),
            slot,
            at: Stamp(at),
        },
    )
}

pub(crate) fn decision() -> impl Strategy<Value = Decision> {
    (any::<(bool, u64, u64, u64, u64, Option<u64>)>(), retry()).prop_map(
        |((allowed, granted, remaining, reset_after, next_unit_after, wait), retry_after)| Decision {
            allowed,
            granted,
            remaining,
            retry_after,
            reset_after: Nanos(reset_after),
            next_unit_after: Nanos(next_unit_after),
            wait: wait.map(Nanos),
        },
    )
}

pub(crate) fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        any::<u64>().prop_map(|tenant| Refusal::KeysFull(TenantId(tenant))),
        any::<u64>().prop_map(|tenant| Refusal::RepliesFull(TenantId(tenant))),
        Just(Refusal::RequestIdReused),
        Just(Refusal::Malformed),
    ]
}

pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (any::<(bool, u64)>(), vec(decision(), 0..4)).prop_map(|((admitted, at), decisions)| {
            Reply::Acquired(Acquired { admitted, at: Stamp(at), decisions })
        }),
        vec(any::<u64>(), 0..4).prop_map(Reply::Refunded),
        any::<u32>().prop_map(Reply::Reset),
        refusal().prop_map(Reply::Refused),
        leased().prop_map(Reply::Leased),
    ]
}
