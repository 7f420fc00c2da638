//! Random commands for the property tests: few counters, all algorithms, stamps that also run backwards.

use leasehold_lease::{EdgeId, LeaseAsk, LeaseId, MilliRate, Usage};
use leasehold_limit::{CalendarUnit, Window, Zone};
use proptest::prelude::*;

use super::*;

/// Distinct counters: few, so that commands meet.
const KEYS: u64 = 12;

/// Units for a bucket of 127 years: a tenth of them takes more bits than a table entry has.
const HUGE: u64 = 4_000_000_000;

/// Limits of every algorithm: version 1 at even indexes, and the next one, in force for a different time, at the odd index
/// after it.
pub(crate) fn limits() -> Vec<LimitSpec> {
    let zone = Zone::new("Europe/Berlin").expect("a zone");
    let calendar = Window::Calendar { unit: CalendarUnit::Minute, zone };
    let kinds = [
        (Algorithm::TokenBucket { burst: 7 }, Algorithm::TokenBucket { burst: 3 }, 5, 9),
        // Large costs over a long period make states that don't fit a table entry.
        (Algorithm::LeakyBucket { burst: HUGE }, Algorithm::LeakyBucket { burst: 2 * HUGE }, HUGE, 2 * HUGE),
        (Algorithm::Shaper { queue: 4 }, Algorithm::Shaper { queue: 9 }, 3, 2),
        (Algorithm::FixedWindow(Window::Epoch), Algorithm::FixedWindow(calendar), 6, 4),
        (Algorithm::SlidingLog, Algorithm::SlidingLog, 8, 12),
        (Algorithm::SlidingCounter, Algorithm::SlidingCounter, 8, 5),
    ];
    let limit = |algorithm: Algorithm, n| {
        let period =
            if matches!(algorithm, Algorithm::LeakyBucket { .. }) { secs(4_000_000_000) } else { secs(60) };
        Limit::new(algorithm, n, period).expect("valid")
    };
    let both = |(kind, (old, new, n, m)): (u64, (Algorithm, Algorithm, u64, u64))| {
        let (tenant, since) = (TenantId(kind % 2), START.after(secs(20 * kind)));
        [
            LimitSpec { tenant, version: RulesVersion(1), since: Stamp::ZERO, limit: limit(old, n) },
            LimitSpec { tenant, version: RulesVersion(2), since, limit: limit(new, m) },
        ]
    };
    (0..).zip(kinds).flat_map(both).collect()
}

/// Which limits a counter is asked under.
#[derive(Clone, Copy)]
pub(crate) enum Rules {
    /// One for each counter, always.
    Constant,
    /// Any at any time.
    Changing,
}

fn demand(rules: Rules) -> impl Strategy<Value = Demand> {
    let ask = prop_oneof![
        6 => (1u64..5).prop_map(Ask::exactly),
        1 => Just(Ask::PEEK),
        2 => (0u64..4, 0u64..9).prop_map(|(min, more)| Ask { min, max: min + more }),
        1 => (HUGE / 20..HUGE / 4).prop_map(Ask::exactly),
        1 => any::<u64>().prop_map(Ask::exactly),
    ];
    (0..KEYS, 0..12u32, ask, prop::bool::weighted(0.2)).prop_map(move |(n, limit, ask, shadow)| {
        let limit = match rules {
            Rules::Constant => u32::try_from(n).expect("small"),
            Rules::Changing => limit,
        };
        Demand { key: key(n), limit, ask, shadow }
    })
}

/// An edge's ask, with word of whatever leases it may have on the counter.
fn lease(rules: Rules) -> impl Strategy<Value = LeaseCommand> {
    let ids = prop::option::weighted(0.5, 100u64..120).prop_map(|seq| seq.map(id));
    let units = prop_oneof![4 => 0u64..6, 1 => HUGE / 20..HUGE / 4, 1 => any::<u64>()];
    let usage = prop::option::weighted(0.5, (0u64..4, 0u64..3));
    let ask = (0..KEYS, 1..4u128, 0u64..3, units, 0u64..9_000_000_000, usage);
    (ids, 0..12u32, ask).prop_map(move |(id, limit, (n, edge, need, more, lifetime, usage))| {
        let told = |(spent_total, returned_total)| {
            (0..60).map(move |lease| Usage { lease: LeaseId(lease), spent_total, returned_total }).collect()
        };
        let ask = LeaseAsk {
            edge: EdgeId(edge),
            key: key(n),
            need,
            want: need.saturating_add(more),
            rate: MilliRate(more % 5_000),
            lifetime: Nanos(lifetime),
            usage: usage.map(told).unwrap_or_default(),
        };
        let limit = match rules {
            Rules::Constant => u32::try_from(n).expect("small"),
            Rules::Changing => limit,
        };
        LeaseCommand { id, limit, ask }
    })
}

/// A command, and how much later than the one before it comes (or earlier).
pub(crate) fn step(rules: Rules) -> impl Strategy<Value = (i64, Command)> {
    let ids = prop::option::weighted(0.3, 0u64..40).prop_map(|seq| seq.map(id));
    let demands = prop::collection::vec(demand(rules), 0..5);
    let item = (0..KEYS, 0u64..6, 0u64..90).prop_map(|(n, cost, ago)| (n, cost, ago));
    let command = prop_oneof![
        12 => (ids, demands).prop_map(|(id, demands)| Command::Acquire(Acquire { id, demands, remember_denial: true })),
        2 => (0u64..40, prop::collection::vec(item, 0..3)).prop_map(|(seq, items)| {
            // `charged_at` is how long ago, until the trace is laid out.
            let item = |(n, cost, ago)| RefundItem { key: key(n), cost, charged_at: Stamp(ago) };
            Command::Refund(Refund { id: id(seq), items: items.into_iter().map(item).collect() })
        }),
        1 => prop::collection::vec(0..KEYS, 0..3).prop_map(reset),
        8 => lease(rules).prop_map(Command::Lease),
    ];
    let nanos = prop_oneof![
        4 => Just(0i64),
        6 => 0..3_000_000_000i64,
        2 => 0..90_000_000_000i64,
        1 => -5_000_000_000..0i64,
        1 => 0..1_000_000_000_000_000i64,
    ];
    (nanos, command)
}

/// Commands at their stamps.
pub(crate) fn trace(rules: Rules, most: usize) -> impl Strategy<Value = Vec<(Stamp, Command)>> {
    prop::collection::vec(step(rules), 1..most).prop_map(|steps| {
        let mut at = START.0;
        let lay_out = |(nanos, mut command): (i64, Command)| {
            at = at.saturating_add_signed(nanos);
            if let Command::Refund(refund) = &mut command {
                for item in &mut refund.items {
                    item.charged_at = Stamp(at).before(secs(item.charged_at.0));
                }
            }
            (Stamp(at), command)
        };
        steps.into_iter().map(lay_out).collect()
    })
}
