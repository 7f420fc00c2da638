//! P5, heals: the keys of an owner that was killed are granted again in time, and once the faults are over and the cluster had
//! its time to heal, everything is served with no operator.

use std::collections::BTreeMap;

use super::{Finding, seconds};
use crate::history::{Call, FaultPhase, History, Name, Outcome, PhaseName, Source};

/// A key that isn't asked for so soon after a kill tells nothing about it.
const ASKED_WITHIN: u64 = 200_000_000;

/// A key after its owner was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Regrant {
    /// When it was killed.
    pub(crate) at: u64,
    pub(crate) key: Name,
    /// Until an owner decided a check of it that was sent after the kill. `None`: none ever did.
    pub(crate) after: Option<u64>,
    /// Whether nothing else was wrong meanwhile.
    pub(crate) alone: bool,
}

/// Every key that was asked for just after an owner was killed, for every kill. Which keys an owner had the history doesn't
/// know: those of others are decided at once.
pub(crate) fn regrants(history: &History) -> Vec<Regrant> {
    let kills = history.faults.iter().filter(|fault| fault.owner && fault.phase != FaultPhase::End);
    let mut found = Vec::new();
    for kill in kills {
        let mut keys: BTreeMap<Name, Option<u64>> = BTreeMap::new();
        for call in history.calls.iter().filter(|call| call.invoked >= kill.at) {
            for key in history.keys(call.keys) {
                if call.invoked <= kill.at.saturating_add(ASKED_WITHIN) {
                    keys.entry(*key).or_insert(None);
                }
                if let Some(first) = keys.get_mut(key).filter(|_| is_by_owner(call)) {
                    let after = call.returned.map(|returned| returned - kill.at);
                    *first = [*first, after].into_iter().flatten().min();
                }
            }
        }
        found.extend(keys.into_iter().map(|(key, after)| {
            let to = kill.at.saturating_add(after.unwrap_or(history.run.regrant_ns));
            Regrant { at: kill.at, key, after, alone: !is_troubled(history, kill.at, to) }
        }));
    }
    found
}

fn is_by_owner(call: &Call) -> bool {
    !call.degraded
        && call.source == Some(Source::Owner)
        && matches!(call.outcome, Outcome::Allowed | Outcome::OverLimit)
}

/// Whether something else than the one kill was wrong in a stretch of time.
fn is_troubled(history: &History, from: u64, to: u64) -> bool {
    history.faults.iter().filter(|fault| fault.phase != FaultPhase::End && fault.at <= to).any(|fault| {
        let same = fault.at == from && fault.owner;
        let ended = history.faults.iter().any(|end| {
            end.phase == FaultPhase::End
                && (&end.name, &end.target) == (&fault.name, &fault.target)
                && (fault.at..from).contains(&end.at)
        });
        !same && !ended && (fault.phase == FaultPhase::Begin || fault.at >= from)
    })
}

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let late = regrants(history).into_iter().filter(|regrant| {
        // Faults that overlap have their own time.
        regrant.alone && regrant.after.is_none_or(|after| after > history.run.regrant_ns)
    });
    let mut found: Vec<Finding> = late
        .map(|regrant| {
            let after =
                regrant.after.map_or_else(|| "never".to_owned(), |ns| format!("after {}", seconds(ns)));
            let key = history.text(regrant.key);
            Finding::at(regrant.at, format!("{key}: granted again {after} when its owner was killed"))
        })
        .collect();
    found.extend(unserved(history));
    found
}

/// Keys that somebody wasn't served although everything has to be, with the first such check.
fn unserved(history: &History) -> Vec<Finding> {
    let Some(calm) = history.began(PhaseName::Calm) else { return Vec::new() };
    let end = history.began(PhaseName::End).unwrap_or(u64::MAX);
    let mut keys: BTreeMap<Name, (u64, usize, Name)> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| (calm..end).contains(&call.invoked)) {
        // Who was asked when the run ended is no witness.
        let answered = call.returned.is_some() || call.invoked < end.saturating_sub(ASKED_WITHIN);
        if answered && (call.degraded || matches!(call.outcome, Outcome::Unavailable | Outcome::Unknown)) {
            for key in history.keys(call.keys) {
                let (first, count, _) = keys.entry(*key).or_insert((call.invoked, 0, call.door));
                *first = call.invoked.min(*first);
                *count += 1;
            }
        }
    }
    let finding = |(key, (first, count, door)): (Name, (u64, usize, Name))| {
        let (key, door) = (history.text(key), history.text(door));
        Finding::at(
            first,
            format!("{key}: {count} checks weren't served though all was calm, the first by {door}"),
        )
    };
    keys.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;
    use crate::history::sample::{MS, SECOND, allowed, fault, history, over_limit, phase, unknown};
    use crate::history::{Check, Event, Fault};

    fn killed(at: u64) -> Event {
        let (name, target) = ("kill".to_owned(), "node-1".to_owned());
        Event::Fault(Fault { at, name, target, owner: true, phase: FaultPhase::Once, ..Fault::default() })
    }

    /// Asked at the kill, and answered so much later.
    fn granted_after(ns: u64) -> Check {
        Check { returned: Some(SECOND + ns), ..allowed(SECOND, 1) }
    }

    #[test]
    fn the_keys_of_a_killed_owner_are_granted_again_in_time() {
        let kill = |after| history().with(killed(SECOND)).with_checks([granted_after(after)]);
        expect(&findings(&kill(2 * SECOND)), 0, "");
        expect(&findings(&kill(2 * SECOND + MS)), 1, "shop/a=x: granted again after 2.001 s");
        let never = history().with(killed(SECOND)).with_checks([unknown(SECOND, 1, "r")]);
        expect(&findings(&never), 1, "granted again never");
    }

    #[test]
    fn a_refusal_by_the_new_owner_is_a_decision_and_a_lease_is_none() {
        let refused = Check { returned: Some(2 * SECOND), ..over_limit(SECOND, 1) };
        let lent = Check { source: Some(Source::Lease), ..granted_after(MS) };
        let history = history().with(killed(SECOND)).with_checks([lent, refused]);
        let after: Vec<_> = regrants(&history).iter().map(|regrant| regrant.after).collect();
        assert_eq!(after, [Some(SECOND)]);
    }

    #[test]
    fn a_key_that_nobody_asked_for_then_tells_nothing() {
        expect(&findings(&history().with(killed(SECOND)).with_checks([allowed(9 * SECOND, 1)])), 0, "");
    }

    #[test]
    fn faults_that_overlap_have_their_own_time() {
        let cut = |at, phase| fault(at, "cut", "node-2", phase);
        let late = || history().with(killed(SECOND)).with_checks([granted_after(3 * SECOND)]);
        expect(&findings(&late().with(cut(2 * SECOND, FaultPhase::Begin))), 0, "");
        expect(&findings(&late().with(cut(5, FaultPhase::Begin))), 0, "");
        let before = late().with(cut(5, FaultPhase::Begin)).with(cut(9, FaultPhase::End));
        expect(&findings(&before), 1, "after 3.000 s");
        expect(&findings(&late().with(cut(9 * SECOND, FaultPhase::Begin))), 1, "after 3.000 s");
    }

    #[test]
    fn once_all_is_calm_everything_is_served() {
        let calm =
            || history().with(phase(5 * SECOND, PhaseName::Calm)).with(phase(9 * SECOND, PhaseName::End));
        let sound = [unknown(4 * SECOND, 1, "r"), over_limit(6 * SECOND, 1), allowed(7 * SECOND, 1)];
        let cut_short = unknown(9 * SECOND - MS, 1, "last");
        expect(&findings(&calm().with_checks(sound).with_checks([cut_short])), 0, "");
        let degraded = Check { degraded: true, ..allowed(6 * SECOND, 1) };
        let unavailable = Check { outcome: Outcome::Unavailable, ..allowed(7 * SECOND, 1) };
        let checks = [degraded, unavailable, unknown(8 * SECOND, 1, "s")];
        expect(&findings(&calm().with_checks(checks)), 1, "at 6.000 s: shop/a=x: 3 checks weren't served");
    }
}
