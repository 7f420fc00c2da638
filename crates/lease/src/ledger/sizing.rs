//! How much an ask gets: the numbers of a grant, from what is left and who else wants it. Integers, no state.
//!
//! None of it matters to the bound, which holds for leases of any size: it decides who waits and what ends unspent.

use leasehold_limit::{Algorithm, Limit};
use leasehold_model::Nanos;

use crate::MilliRate;
use crate::fair::max_min;

/// The share of a counter's capacity that may be out on leases: three quarters. The rest serves exact checks and edges
/// that have nothing yet, and is what remains exact should an edge's clock be broken.
const OUT_MAX: (u64, u64) = (3, 4);
/// A counter is short when it has less left than its edges spend in this part of a second: 0.1 s.
const SHORT_PER_SECOND: u128 = 10;
/// When short, an edge gets the part of what is left that this many times its fair share is of the rate.
const SHARE_TIMES: u128 = 4;
/// An edge that is refused for want of its share comes back when this many units of it have come.
const GATE_UNITS: u128 = 2;
/// No gate is shorter, or gated edges would ask for every unit.
const GATE_MIN: Nanos = Nanos::from_millis(100);
/// No gate is longer than this part of the time in which the counter fills: 0.2 of it.
const GATE_PER_FILL: u128 = 5;
/// Leases pay where an edge can hold at least this many units. Below it everything is consumed where it is asked.
const UNITS_PER_EDGE_MIN: u64 = 2;

const NANOS_PER_SECOND: u128 = 1_000_000_000;
const MILLI: u128 = 1_000;

/// What there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    /// Whole units left.
    pub(super) left: u64,
    /// Units out on leases.
    pub(super) out: u64,
}

/// What is wanted of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Units that requests wait for.
    pub(super) need: u64,
    /// Those and what to hold; not below `need`.
    pub(super) want: u64,
    /// What the edge may expect of the rate.
    pub(super) fair: MilliRate,
    /// What all edges together spend, this one among them, in thousandths of a unit a second.
    pub(super) total: u128,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Consumed at once.
    pub(super) sync: u64,
    /// Lent.
    pub(super) granted: u64,
    /// Whether units are short and some that were wanted were not given for it.
    pub(super) cut: bool,
}

/// How `demand` is met from `supply`; `lends` says whether anything may be lent.
pub(super) fn share(limit: &Limit, supply: Supply, demand: Demand, lends: bool) -> Share {
    let Demand { need, want, .. } = demand;
    if !lends {
        return Share { sync: need.min(supply.left), granted: 0, cut: false };
    }
    let short = supply.left == 0 || u128::from(supply.left) * MILLI * SHORT_PER_SECOND < demand.total;
    let most = if short { fair_part(limit, supply.left, demand.fair) } else { supply.left };
    let sync = need.min(most);
    let room = out_max(limit).saturating_sub(supply.out);
    let granted = (want - sync).min(most - sync).min(room);
    // What may not be lent is there for requests that wait, so an edge that got all it may hold goes on asking.
    Share { sync, granted, cut: short && most < want && sync.saturating_add(granted) == most }
}

/// Whether edges that many get enough each for leases to pay.
pub(super) fn pays(limit: &Limit, edges: usize) -> bool {
    let edges = u64::try_from(edges).unwrap_or(u64::MAX);
    limit.cap() >= edges.saturating_mul(UNITS_PER_EDGE_MIN)
}

/// The max-min fair share of the limit's rate for an edge that wants `own`, beside `others`: nobody gets more than it
/// asks for, and nobody who gets less than another could have more of what that one gets.
pub(super) fn fair(limit: &Limit, own: MilliRate, others: impl Iterator<Item = MilliRate>) -> MilliRate {
    MilliRate(max_min(rate(limit), own.0, others.map(|MilliRate(rate)| rate)))
}

/// How long an edge that was cut refuses by itself. Units of a bucket come one by one, so it waits for its share of them;
/// those of a window come together, so it waits no longer than until then (`next_unit_after`).
pub(super) fn gate(limit: &Limit, fair: MilliRate, next_unit_after: Nanos) -> Nanos {
    let fill = u128::from(limit.cap()) * u128::from(limit.period().0) / u128::from(limit.n().max(1));
    let longest = match limit.algorithm() {
        Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => length(fill / GATE_PER_FILL),
        Algorithm::Shaper { .. }
        | Algorithm::FixedWindow(_)
        | Algorithm::SlidingLog
        | Algorithm::SlidingCounter => length(fill / GATE_PER_FILL).min(next_unit_after),
    };
    let share = match fair {
        MilliRate(0) => Nanos::MAX,
        MilliRate(fair) => length(GATE_UNITS * MILLI * NANOS_PER_SECOND / u128::from(fair)),
    };
    share.min(longest).max(GATE_MIN)
}

/// The part of `left` that an edge gets when units are short; at least one of them.
fn fair_part(limit: &Limit, left: u64, fair: MilliRate) -> u64 {
    // A limit of less than a thousandth of a unit a second has no rate to share; whoever asks first gets what is left.
    let (times, whole) = (SHARE_TIMES * u128::from(fair.0), rate(limit));
    let part = if times >= whole { u128::from(left) } else { u128::from(left) * times / whole };
    u64::try_from(part).unwrap_or(left).max(1).min(left)
}

fn out_max(limit: &Limit) -> u64 {
    let (part, of) = OUT_MAX;
    let most = u128::from(limit.cap()) * u128::from(part) / u128::from(of);
    u64::try_from(most).unwrap_or(u64::MAX)
}

/// The limit's rate in thousandths of a unit a second.
fn rate(limit: &Limit) -> u128 {
    u128::from(limit.n()) * MILLI * NANOS_PER_SECOND / u128::from(limit.period().0)
}

fn length(nanos: u128) -> Nanos {
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 a second, 100 at once.
    fn hundred() -> Limit {
        Limit::new(Algorithm::TokenBucket { burst: 100 }, 100, Nanos::from_secs(1)).expect("valid")
    }

    fn fair_of(own: u64, others: &[u64]) -> u64 {
        let units = |rate: u64| MilliRate(rate * 1_000);
        fair(&hundred(), units(own), others.iter().map(|&rate| units(rate))).0 / 1_000
    }

    #[test]
    fn shares_are_max_min_fair() {
        assert_eq!(fair_of(10, &[20, 30]), 10, "everybody gets what it asks for");
        assert_eq!(fair_of(10, &[500, 500]), 10, "who asks for little gets it");
        assert_eq!(fair_of(500, &[10, 500]), 45, "the rest is cut evenly");
        assert_eq!(fair_of(500, &[]), 100);
        assert_eq!(fair_of(50, &[50, 50, 50]), 25);
        assert_eq!(fair_of(0, &[7]), 0);
    }

    #[track_caller]
    fn check(left: u64, out: u64, need: u64, want: u64, total: u64, expected: (u64, u64, bool)) {
        let fair = MilliRate(10_000);
        let demand = Demand { need, want, fair, total: u128::from(total) * 1_000 };
        let share = share(&hundred(), Supply { left, out }, demand, true);
        assert_eq!((share.sync, share.granted, share.cut), expected);
    }

    #[test]
    fn what_is_needed_is_consumed_and_only_the_rest_is_lent() {
        check(100, 0, 3, 20, 50, (3, 17, false));
        check(100, 0, 20, 20, 50, (20, 0, false));
    }

    #[test]
    fn no_more_than_three_quarters_of_the_capacity_is_out() {
        check(100, 0, 0, 100, 50, (0, 75, false));
        check(30, 70, 0, 30, 50, (0, 5, false));
    }

    #[test]
    fn when_units_are_short_an_edge_gets_its_part_and_is_gated() {
        check(50, 0, 1, 40, 600, (1, 19, true));
        check(1, 0, 1, 40, 600, (1, 0, true));
        check(0, 0, 1, 40, 600, (0, 0, true));
    }

    #[test]
    fn a_gate_waits_for_two_units_of_the_share_within_its_bounds() {
        let milli = |rate| gate(&hundred(), MilliRate(rate), Nanos::ZERO).0 / 1_000_000;
        assert_eq!((milli(12_500), milli(1), milli(0), milli(1_000_000)), (160, 200, 200, 100));
        let window =
            Limit::new(Algorithm::FixedWindow(leasehold_limit::Window::Epoch), 100, Nanos::from_secs(60));
        let window = window.expect("valid");
        assert_eq!(
            gate(&window, MilliRate(1), Nanos::from_secs(3)),
            Nanos::from_secs(3),
            "units come together"
        );
    }
}
