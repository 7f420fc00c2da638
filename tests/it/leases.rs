//! Limits whose units are lent to sidecars, over real processes: never exceeded, whoever dies, stops or is cut off, and
//! reached again when it is calm.
//!
//! What was admitted is judged from outside, on this process's clock. `LEASEHOLD_LEASES_MINUTES` has the trouble go on for
//! so long.

mod away;
mod fleet;
mod stopped;
mod traffic;
mod trouble;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use leasehold_tests::bound::{Bound, Operation, worst_excess};

use traffic::{Fate, Sent};

/// How long an owner takes to be sure that a lease is over: the five seconds that edges ask for, and what clocks may differ.
const LEASE_IS_OVER: Duration = Duration::from_millis(5_500);

/// What one counter, or some of one kind, were granted.
#[derive(Debug)]
struct Judged {
    admitted: u64,
    denied: usize,
    undecided: usize,
    /// The most that any interval was granted beyond what came back meanwhile, of any counter: b at most.
    most_beyond_refill: u64,
    /// Units beyond the bound: of the worst counter in its worst interval.
    overshoot: u64,
    longest_without_grant: Duration,
}

/// Holds every counter of a recording against the bound.
fn judge(sent: &[Sent], bound: Bound) -> Judged {
    let mut counters: BTreeMap<usize, Vec<Operation>> = BTreeMap::new();
    for one in sent.iter().filter(|one| one.is_admitted()) {
        counters.entry(one.value).or_default().push(one.operation());
    }
    // With nothing at once, the excess of the worst interval is all that was there at once.
    let at_once = Bound { burst: 0, ..bound };
    let beyond = |operations: &Vec<Operation>, bound| {
        worst_excess(operations, bound).map_or(0, |excess| excess.beyond)
    };
    let mut grants: Vec<u64> = counters.values().flatten().map(|operation| operation.returned).collect();
    grants.sort_unstable();
    let longest = grants.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let count = |wanted: fn(&Fate) -> bool| sent.iter().filter(|one| wanted(&one.fate)).count();
    Judged {
        admitted: counters.values().flatten().map(|operation| operation.cost).sum(),
        denied: count(|fate| matches!(fate, Fate::Denied)),
        undecided: count(|fate| matches!(fate, Fate::Undecided)),
        most_beyond_refill: counters.values().map(|counter| beyond(counter, at_once)).max().unwrap_or(0),
        overshoot: counters.values().map(|counter| beyond(counter, bound)).max().unwrap_or(0),
        longest_without_grant: Duration::from_nanos(longest),
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admitted, denied, undecided, most_beyond_refill, overshoot, longest_without_grant } = self;
        write!(
            f,
            "{admitted} admitted, {denied} denied, {undecided} undecided; overshoot {overshoot}, at most \
             {most_beyond_refill} units beyond the refill of any interval; longest without a grant \
             {longest_without_grant:?}"
        )
    }
}

#[test]
fn one_token_too_many_is_an_overshoot_of_one() {
    let bound = Bound::bucket(10, Duration::from_secs(1));
    let at = |value, at_ms: u64| Sent {
        value,
        invoked_ns: at_ms * 1_000_000,
        returned_ns: at_ms * 1_000_000,
        fate: Fate::Admitted(traffic::Source::Lease),
    };
    // Ten at once and one each tenth of a second: exactly the bound, of either counter.
    let exact =
        |value| (0..10).map(move |_| at(value, 0)).chain((1..20).map(move |tenth| at(value, tenth * 100)));
    let mut sent: Vec<Sent> = exact(0).chain(exact(1)).collect();
    let judged = judge(&sent, bound);
    assert_eq!((judged.overshoot, judged.most_beyond_refill), (0, 10), "{judged}");
    sent.push(at(1, 1_900));
    assert_eq!(judge(&sent, bound).overshoot, 1);
}
