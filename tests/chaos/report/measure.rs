//! Figures of a run that no promise is about, or that say by how much one was kept.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::charges::{charges, is_charged};
use crate::check::{Reach, reach, regrants, unserved_when_calm};
use crate::history::{Algorithm, Call, History, Limit, Name, Outcome, PhaseName, Source, State};

/// Who decided a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    Owner,
    Lease,
    DenyCache,
    Fallback,
    /// Nobody could: a declared failure behaviour, or no answer.
    Nobody,
}

/// All of them, in the order of their colours.
pub(crate) const BY: [By; 5] = [By::Lease, By::Owner, By::DenyCache, By::Fallback, By::Nobody];

impl By {
    pub(crate) fn of(call: &Call) -> Self {
        match (call.outcome, call.source) {
            (Outcome::Unavailable | Outcome::Unknown, _) | (_, None) => Self::Nobody,
            (_, Some(Source::Fallback)) => Self::Fallback,
            (_, Some(_)) if call.degraded => Self::Nobody,
            (_, Some(Source::Owner)) => Self::Owner,
            (_, Some(Source::Lease)) => Self::Lease,
            (_, Some(Source::DenyCache)) => Self::DenyCache,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Lease => "lease",
            Self::DenyCache => "known denial",
            Self::Fallback => "set-aside share",
            Self::Nobody => "nobody",
        }
    }
}

/// Latency of answers: half were faster than the first, 99 of 100 than the second, none was slower than the third.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Latency {
    /// Of these, in ns; `None` of none.
    pub(crate) fn of(mut ns: Vec<u64>) -> Option<Self> {
        ns.sort_unstable();
        let at = |percent: usize| ns.get(ns.len().saturating_sub(1) * percent / 100).copied();
        Some(Self { p50: at(50)?, p99: at(99)?, max: at(100)? })
    }
}

/// See the module. Times in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measures {
    pub(crate) length: u64,
    pub(crate) checks: usize,
    pub(crate) allowed: usize,
    pub(crate) over_limit: usize,
    pub(crate) by: BTreeMap<By, usize>,
    /// Units beyond the bound, of the counter with most.
    pub(crate) overshoot: u64,
    /// The counter that came nearest to its bound.
    pub(crate) fullest: Option<(Reach, String)>,
    /// Until the last of the keys that were asked for was decided by an owner again: of each kill, ascending.
    pub(crate) regrants: Vec<u64>,
    /// Kills after which some key never was.
    pub(crate) never: usize,
    /// The longest that a key was asked for and not decided.
    pub(crate) silence: u64,
    /// Units that exact limiters would have admitted of the same requests, and those of them that weren't.
    pub(crate) exact: u64,
    pub(crate) undershoot: u64,
    /// Units lent, and of those the ones never heard of again.
    pub(crate) lent: u64,
    pub(crate) stranded: u64,
    /// Calls to owners.
    pub(crate) hops: Option<u64>,
    /// Checks that weren't served though all was calm, and all that were asked then.
    pub(crate) unserved_when_calm: (usize, usize),
    /// Before the first fault, from then on, and when all is calm.
    pub(crate) latency: [Option<Latency>; 3],
}

impl Measures {
    pub(crate) fn of(history: &History) -> Self {
        let count = |outcome| history.calls.iter().filter(|call| call.outcome == outcome).count();
        let mut by = BTreeMap::new();
        for call in &history.calls {
            *by.entry(By::of(call)).or_default() += 1;
        }
        let reach = reach(history);
        let share = |reach: &&Reach| reach.most_at_once.saturating_mul(1_000_000) / reach.at_once_max.max(1);
        let fullest =
            reach.iter().max_by_key(share).map(|reach| (*reach, history.text(reach.key).to_owned()));
        let (exact, undershoot) = undershoot(history);
        let (regrants, never) = regrants_by_kill(history);
        Self {
            length: history.end(),
            checks: history.calls.len(),
            allowed: count(Outcome::Allowed),
            over_limit: count(Outcome::OverLimit),
            by,
            overshoot: reach.iter().map(|reach| reach.overshoot).max().unwrap_or(0),
            fullest,
            regrants,
            never,
            silence: longest_silence(history),
            exact,
            undershoot,
            lent: at_end(history, |state| state.lent.map(|lent| lent.granted)).unwrap_or(0),
            stranded: at_end(history, |state| state.lent.map(|lent| lent.stranded)).unwrap_or(0),
            hops: at_end(history, |state| state.hops),
            unserved_when_calm: unserved_when_calm(history),
            latency: latency(history),
        }
    }

    /// Of the kills, the time that half of them were below.
    pub(crate) fn regrant_median(&self) -> Option<u64> {
        self.regrants.get(self.regrants.len().saturating_sub(1) / 2).copied()
    }

    pub(crate) fn count(&self, by: By) -> usize {
        self.by.get(&by).copied().unwrap_or(0)
    }
}

/// The sum over processes of what each said last.
fn at_end(history: &History, number: fn(&State) -> Option<u64>) -> Option<u64> {
    let mut last: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for state in &history.states {
        let Some(now) = number(state) else { continue };
        let known = last.entry(&state.node).or_insert((state.at, now));
        if state.at >= known.0 {
            *known = (state.at, now);
        }
    }
    (!last.is_empty()).then(|| last.values().map(|(_, now)| now).sum())
}

fn regrants_by_kill(history: &History) -> (Vec<u64>, usize) {
    let mut kills: BTreeMap<u64, Option<u64>> = BTreeMap::new();
    for regrant in regrants(history) {
        let slowest = kills.entry(regrant.at).or_insert(Some(0));
        *slowest = slowest.zip(regrant.after).map(|(before, after)| before.max(after));
    }
    let mut times: Vec<u64> = kills.values().flatten().copied().collect();
    times.sort_unstable();
    (times, kills.values().filter(|slowest| slowest.is_none()).count())
}

fn latency(history: &History) -> [Option<Latency>; 3] {
    let first_fault = history.faults.iter().map(|fault| fault.at).min().unwrap_or(u64::MAX);
    let calm = history.began(PhaseName::Calm).unwrap_or(u64::MAX);
    let between = |from: u64, to: u64| {
        let inside = history.calls.iter().filter(|call| (from..to).contains(&call.invoked));
        Latency::of(inside.filter_map(|call| Some(call.returned? - call.invoked)).collect())
    };
    [between(0, first_fault.min(calm)), between(first_fault, calm), between(calm, u64::MAX)]
}

/// The calls on each key, by when they were first sent.
fn by_key(history: &History) -> BTreeMap<Name, Vec<&Call>> {
    let mut keys: BTreeMap<Name, Vec<&Call>> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| call.cost > 0) {
        for key in history.keys(call.keys) {
            keys.entry(*key).or_default().push(call);
        }
    }
    for calls in keys.values_mut() {
        calls.sort_by_key(|call| call.invoked);
    }
    keys
}

/// The longest time in which a key was asked for and nobody decided.
fn longest_silence(history: &History) -> u64 {
    let mut longest = 0;
    for calls in by_key(history).into_values() {
        let decided = |call: &&&Call| By::of(call) != By::Nobody;
        let mut ends: Vec<u64> = calls.iter().filter(decided).filter_map(|call| call.returned).collect();
        ends.sort_unstable();
        for pair in ends.windows(2) {
            if pair[1] - pair[0] <= longest {
                continue;
            }
            let waited = |call: &&&Call| {
                let open =
                    By::of(call) == By::Nobody || call.returned.is_some_and(|returned| returned > pair[0]);
                open && call.invoked < pair[1] && call.returned.is_none_or(|returned| returned > pair[0])
            };
            let first = calls.iter().filter(waited).map(|call| call.invoked.max(pair[0])).min();
            longest = longest.max(pair[1] - first.unwrap_or(pair[1]));
        }
    }
    longest
}

/// What exact buckets would have admitted of the requests on one key each, and what of it wasn't admitted.
fn undershoot(history: &History) -> (u64, u64) {
    let (mut exact_sum, mut missing) = (0, 0);
    let charged = charges(history);
    let [rules] = history.rules.as_slice() else { return (0, 0) };
    for (key, calls) in by_key(history) {
        let Some(limit) = history.limit(key, rules) else { continue };
        let bucket = matches!(limit.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
        if !bucket || calls.iter().any(|call| history.keys(call.keys).len() > 1) {
            continue;
        }
        let exact = exactly(limit, &calls);
        let passed = calls.iter().filter(|call| call.outcome == Outcome::Allowed && !is_charged(call));
        let charged = charged.get(&key).into_iter().flatten().map(|operation| operation.cost).sum::<u64>();
        let admitted = charged + passed.map(|call| call.cost).sum::<u64>();
        exact_sum += exact;
        missing += exact.saturating_sub(admitted);
    }
    (exact_sum, missing)
}

/// Units that an exact bucket admits of these calls, each at the moment when it was sent.
fn exactly(limit: &Limit, calls: &[&Call]) -> u64 {
    let period = u128::from(limit.period_ns);
    let (mut used, mut at, mut admitted) = (0_u128, 0, 0);
    let mut ids = BTreeSet::new();
    for call in calls.iter().filter(|call| call.id.is_none_or(|id| ids.insert(id))) {
        used = used.saturating_sub(u128::from(call.invoked - at) * u128::from(limit.amount));
        at = call.invoked;
        let with = used + u128::from(call.cost) * period;
        if with <= u128::from(limit.burst) * period {
            used = with;
            admitted += call.cost;
        }
    }
    admitted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample::{MS, SECOND, allowed, fault, history, over_limit, phase, unknown};
    use crate::history::{Check, Event, Fault, FaultPhase, Lent};

    #[test]
    fn what_an_exact_limiter_would_have_admitted_and_was_not_is_undershoot() {
        let refused = (0..4).map(|_| over_limit(5, 1));
        let history = history().with_checks((0..8).map(|_| allowed(5, 1))).with_checks(refused);
        let measures = Measures::of(&history);
        assert_eq!((measures.exact, measures.undershoot, measures.overshoot), (10, 2, 0));
    }

    #[test]
    fn a_key_is_silent_while_it_is_asked_for_and_nobody_decides() {
        let idle = history().with_checks([allowed(0, 1), allowed(9 * SECOND, 1)]);
        assert_eq!(Measures::of(&idle).silence, 0);
        let waited = Check { returned: Some(3 * SECOND), ..allowed(SECOND, 1) };
        assert_eq!(Measures::of(&history().with_checks([allowed(0, 1), waited])).silence, 2 * SECOND);
        let lost = history().with_checks([allowed(0, 1), unknown(SECOND, 1, "r"), allowed(5 * SECOND, 1)]);
        assert_eq!(Measures::of(&lost).silence, 4 * SECOND);
    }

    #[test]
    fn a_kill_takes_as_long_as_its_slowest_key() {
        let kill = Fault { at: SECOND, owner: true, phase: FaultPhase::Once, ..Fault::default() };
        let on = |key: &str, after| Check {
            keys: vec![format!("shop/a={key}")],
            returned: Some(SECOND + after),
            ..allowed(SECOND, 1)
        };
        let history = history().with(Event::Fault(kill)).with_checks([on("x", 5 * MS), on("y", 700 * MS)]);
        let measures = Measures::of(&history);
        assert_eq!((measures.regrants.as_slice(), measures.never), (&[700 * MS][..], 0));
        assert_eq!(measures.regrant_median(), Some(700 * MS));
    }

    #[test]
    fn latency_is_told_apart_before_through_and_after_the_trouble() {
        let took = |at, ns| Check { returned: Some(at + ns), ..allowed(at, 1) };
        let history = history()
            .with(fault(10, "kill", "n", FaultPhase::Once))
            .with(phase(20, PhaseName::Calm))
            .with_checks([took(5, 1), took(12, 7), took(13, 9), took(30, 2)]);
        let latency = Measures::of(&history).latency.map(|latency| latency.map(|latency| latency.max));
        assert_eq!(latency, [Some(1), Some(9), Some(2)]);
    }

    #[test]
    fn what_processes_said_last_is_summed_up() {
        let lent = |at, node: &str, granted| {
            let lent = Some(Lent { granted, stranded: 1, ..Lent::default() });
            Event::State(State { at, node: node.to_owned(), lent, ..State::default() })
        };
        let history = history().with(lent(1, "n1", 5)).with(lent(2, "n1", 7)).with(lent(2, "n2", 1));
        let measures = Measures::of(&history.with_checks([allowed(1, 1)]));
        assert_eq!((measures.lent, measures.stranded, measures.hops), (8, 2, None));
    }
}
