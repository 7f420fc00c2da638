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
    /// Until an owner decided a check of it that was sent after the kill, without the time in which nobody asked. `None`: none
    /// ever did.
    pub(crate) after: Option<u64>,
    /// How long somebody waited for one in vain.
    pub(crate) waited: u64,
    /// Whether nothing else was wrong meanwhile.
    pub(crate) alone: bool,
}

/// Every key that was asked for just after an owner was killed, for every kill. Which keys an owner had the history doesn't
/// know: those of others are decided at once.
pub(crate) fn regrants(history: &History) -> Vec<Regrant> {
    let kills = history.faults.iter().filter(|fault| fault.owner && fault.phase != FaultPhase::End);
    let kills: Vec<u64> = kills.map(|kill| kill.at).collect();
    if kills.is_empty() {
        return Vec::new();
    }
    let mut calls: Vec<&Call> = history.calls.iter().collect();
    calls.sort_by_key(|call| call.invoked);
    let of_kill = |at: &u64| {
        let later = &calls[calls.partition_point(|call| call.invoked < *at)..];
        after_kill(history, *at, later)
    };
    kills.iter().flat_map(of_kill).collect()
}

/// What is known of a key that was asked for after a kill.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// Until when somebody waited for an answer, in one go since the kill but for `idle`.
    until: u64,
    /// Time in which nobody asked.
    idle: u64,
    /// Until an owner decided.
    after: Option<u64>,
}

/// `later` are all calls from the kill on, by when they were first sent.
fn after_kill(history: &History, kill: u64, later: &[&Call]) -> Vec<Regrant> {
    let mut keys: BTreeMap<Name, Asked> = BTreeMap::new();
    let mut open = 0;
    for call in later {
        let soon = call.invoked <= kill.saturating_add(ASKED_WITHIN);
        if !soon && open == 0 {
            break;
        }
        for key in history.keys(call.keys) {
            if soon && !keys.contains_key(key) {
                keys.insert(*key, Asked { until: kill, ..Asked::default() });
                open += 1;
            }
            let Some(asked) = keys.get_mut(key) else { continue };
            if asked.after.is_some_and(|after| kill + after <= call.invoked) {
                continue;
            }
            asked.idle += call.invoked.saturating_sub(asked.until);
            asked.until = asked.until.max(call.returned.unwrap_or(call.invoked));
            if let Some(returned) = call.returned.filter(|_| is_by_owner(call)) {
                open -= usize::from(asked.after.is_none());
                let after = returned - kill - asked.idle.min(returned - kill);
                asked.after = Some(asked.after.map_or(after, |first| first.min(after)));
            }
        }
    }
    let regrant = |(key, asked): (Name, Asked)| {
        let to = kill.saturating_add(asked.after.unwrap_or(history.run.regrant_ns));
        let waited = (asked.until - kill).saturating_sub(asked.idle);
        Regrant { at: kill, key, after: asked.after, waited, alone: !is_troubled(history, kill, to) }
    };
    keys.into_iter().map(regrant).collect()
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
        regrant.alone && regrant.after.unwrap_or(regrant.waited) > history.run.regrant_ns
    });
    let mut found: Vec<Finding> = late
        .map(|regrant| {
            let (key, waited) = (history.text(regrant.key), seconds(regrant.after.unwrap_or(regrant.waited)));
            let when = if regrant.after.is_some() { "after" } else { "not within" };
            Finding::at(regrant.at, format!("{key}: granted again {when} {waited} when its owner was killed"))
        })
        .collect();
    found.extend(unserved(history));
    found
}

/// Of so many checks of a key one may go wrong though all is calm: the machine may be busy with something else.
const UNSERVED_ONE_IN: usize = 10;

/// What happens to a key that nobody asks for so long isn't known.
const IDLE: u64 = 1_000_000_000;

/// How a key was served though all was calm.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    checks: usize,
    unserved: usize,
    /// Since when nobody was served.
    since: Option<u64>,
    /// The longest that nobody was, and when that began.
    longest: (u64, u64),
    /// When somebody last waited for an answer.
    last: u64,
}

/// Keys that weren't served for longer than a failover takes, or again and again, although everything has to be.
fn unserved(history: &History) -> Vec<Finding> {
    let mut found = Vec::new();
    for (key, served) in calm(history) {
        let (key, (longest, at)) = (history.text(key), served.longest);
        if longest > history.run.regrant_ns {
            found.push(Finding::at(
                at,
                format!("{key}: not served for {} though all was calm", seconds(longest)),
            ));
        } else if served.unserved * UNSERVED_ONE_IN > served.checks {
            let what = format!(
                "{key}: {} of {} checks weren't served though all was calm",
                served.unserved, served.checks
            );
            found.push(Finding::at(at, what));
        }
    }
    found
}

/// Checks that weren't served though all was calm, and all that were asked then.
pub(crate) fn unserved_when_calm(history: &History) -> (usize, usize) {
    calm(history).values().fold((0, 0), |sum, key| (sum.0 + key.unserved, sum.1 + key.checks))
}

fn calm(history: &History) -> BTreeMap<Name, Served> {
    let Some(calm) = history.began(PhaseName::Calm) else { return BTreeMap::new() };
    let end = history.began(PhaseName::End).unwrap_or_else(|| history.end());
    let mut calls: Vec<&Call> =
        history.calls.iter().filter(|call| (calm..end).contains(&call.invoked)).collect();
    calls.sort_by_key(|call| call.returned.unwrap_or(call.invoked));
    let mut keys: BTreeMap<Name, Served> = BTreeMap::new();
    for call in calls {
        // Who was asked when the run ended is no witness.
        if call.returned.is_none() && call.invoked >= end.saturating_sub(ASKED_WITHIN) {
            continue;
        }
        let unserved = call.degraded || matches!(call.outcome, Outcome::Unavailable | Outcome::Unknown);
        for key in history.keys(call.keys) {
            keys.entry(*key).or_default().add(call, unserved);
        }
    }
    for served in keys.values_mut() {
        // Afterwards nobody asked.
        served.until(served.last);
    }
    keys
}

impl Served {
    fn add(&mut self, call: &Call, unserved: bool) {
        self.checks += 1;
        if call.invoked > self.last.saturating_add(IDLE) {
            self.until(self.last);
            self.since = None;
        }
        self.last = self.last.max(call.returned.unwrap_or(call.invoked));
        self.unserved += usize::from(unserved);
        if unserved {
            self.since = Some(self.since.unwrap_or(call.invoked).min(call.invoked));
        } else {
            self.until(call.returned.unwrap_or(call.invoked));
            self.since = None;
        }
    }

    /// Nobody was served until then.
    fn until(&mut self, at: u64) {
        if let Some(since) = self.since {
            self.longest = self.longest.max((at.saturating_sub(since), since));
        }
    }
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
        let given_up = |ns| Check { returned: Some(SECOND + ns), ..unknown(SECOND, 1, "r") };
        let never = |waited| history().with(killed(SECOND)).with_checks([given_up(waited)]);
        expect(&findings(&never(3 * SECOND)), 1, "not within 3.000 s");
        expect(&findings(&never(SECOND)), 0, "");
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
    fn the_time_in_which_nobody_asks_for_a_key_is_not_counted() {
        let given_up =
            Check { returned: Some(SECOND + 500 * MS), outcome: Outcome::Unavailable, ..allowed(SECOND, 1) };
        let later = Check { returned: Some(8 * SECOND + 30 * MS), ..allowed(8 * SECOND, 1) };
        let history = history().with(killed(SECOND)).with_checks([later, given_up]);
        let after: Vec<_> = regrants(&history).iter().map(|regrant| regrant.after).collect();
        assert_eq!(after, [Some(530 * MS)]);
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
        let unavailable = Check { outcome: Outcome::Unavailable, ..allowed(6 * SECOND + MS, 1) };
        let again = calm().with_checks([degraded.clone(), unavailable.clone(), allowed(7 * SECOND, 1)]);
        expect(&findings(&again), 1, "2 of 3 checks weren't served");
        let given_up = Check { returned: Some(8 * SECOND + MS), ..unavailable };
        let never = calm().with_checks([allowed(5 * SECOND, 1), degraded, given_up]);
        expect(&findings(&never), 1, "at 6.000 s: shop/a=x: not served for 2.001 s though all was calm");
    }

    #[test]
    fn a_key_that_nobody_asks_for_is_not_unserved() {
        let calm =
            history().with(phase(5 * SECOND, PhaseName::Calm)).with(phase(60 * SECOND, PhaseName::End));
        let late = Check { outcome: Outcome::Unavailable, ..allowed(6 * SECOND, 1) };
        let served = (0..30).map(|second| over_limit((20 + second) * SECOND, 1));
        expect(&findings(&calm.with_checks([late]).with_checks(served)), 0, "");
    }

    #[test]
    fn a_busy_machine_may_cost_one_check_of_many() {
        let calm =
            || history().with(phase(5 * SECOND, PhaseName::Calm)).with(phase(9 * SECOND, PhaseName::End));
        let late = Check { outcome: Outcome::Unavailable, ..allowed(6 * SECOND, 1) };
        let served = (0..30).map(|tenth| over_limit(5 * SECOND + tenth * 100 * MS, 1));
        let history = calm().with_checks(served).with_checks([late]);
        expect(&findings(&history), 0, "");
        assert_eq!(unserved_when_calm(&history), (1, 31));
    }
}
