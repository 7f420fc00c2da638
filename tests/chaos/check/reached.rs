//! States that a run must have been in to prove anything: without them the promises were never in danger.
//!
//! Some are seen in the history; of the others whoever ran it says so, by the same names.

use std::collections::{BTreeMap, BTreeSet};

use super::charges::{charges, is_charged};
use super::isolation::isolations;
use crate::history::{Fault, FaultPhase, History, Name, Outcome};

/// A request got no answer, and the log later had it.
pub(crate) const UNKNOWN_FOUND_COMMITTED: &str = "unknown_found_committed";
/// A request got no answer, and the log never had it.
pub(crate) const UNKNOWN_FOUND_ABSENT: &str = "unknown_found_absent";
/// A request was asked again under its id after it had been charged, and got its answer.
pub(crate) const RETRY_ANSWERED_FROM_CACHE: &str = "retry_answered_from_cache";
/// A limit was lowered of which units were used.
pub(crate) const RULE_LOWERED_WITH_USAGE: &str = "rule_lowered_with_usage";
/// A node was asked when it could reach nobody, and its lease as a leader was over.
pub(crate) const DEPOSED_LEADER_ASKED: &str = "deposed_leader_asked";
/// An edge was stopped for longer than a lease lasts, and asked afterwards.
pub(crate) const EDGE_RESUMED_PAST_EXPIRY: &str = "edge_resumed_past_expiry";

/// All states that a run was in.
pub(crate) fn reached(history: &History) -> BTreeSet<String> {
    let seen = [
        (UNKNOWN_FOUND_COMMITTED, history.resolved.values().any(|found| !found.charged.is_empty())),
        (UNKNOWN_FOUND_ABSENT, history.resolved.values().any(|found| found.charged.is_empty())),
        (RETRY_ANSWERED_FROM_CACHE, has_repeated_answer(history)),
        (RULE_LOWERED_WITH_USAGE, has_lowered_rule(history)),
        (DEPOSED_LEADER_ASKED, has_asked_who_is_alone(history)),
        (EDGE_RESUMED_PAST_EXPIRY, has_resumed_late(history)),
    ];
    let seen = seen.into_iter().filter(|(_, seen)| *seen).map(|(name, _)| name.to_owned());
    seen.chain(history.reached.iter().map(|reached| reached.name.clone())).collect()
}

/// What the run was for and wasn't in.
pub(crate) fn missed(history: &History) -> Vec<String> {
    let reached = reached(history);
    history.run.must_reach.iter().filter(|name| !reached.contains(*name)).cloned().collect()
}

fn has_repeated_answer(history: &History) -> bool {
    let mut answers: BTreeMap<Name, usize> = BTreeMap::new();
    for id in history.calls.iter().filter(|call| is_charged(call)).filter_map(|call| call.id) {
        *answers.entry(id).or_default() += 1;
    }
    answers.values().any(|count| *count > 1)
}

fn has_lowered_rule(history: &History) -> bool {
    let charges = charges(history);
    history.rules.windows(2).any(|pair| {
        charges.iter().any(|(key, operations)| {
            let (Some(before), Some(after)) = (history.limit(*key, &pair[0]), history.limit(*key, &pair[1]))
            else {
                return false;
            };
            let lower = after.amount < before.amount || after.burst < before.burst;
            lower && operations.iter().any(|operation| operation.returned < pair[1].pushed)
        })
    })
}

fn has_asked_who_is_alone(history: &History) -> bool {
    let leader_lease = history.run.leader_lease_ns;
    isolations(history).iter().filter(|alone| !history.text(alone.door).starts_with("edge")).any(|alone| {
        let after = alone.from.saturating_add(leader_lease)..alone.to;
        history.calls.iter().any(|call| call.door == alone.door && after.contains(&call.invoked))
    })
}

fn has_resumed_late(history: &History) -> bool {
    let resumes = |stop: &Fault| {
        let ends = history.faults.iter().filter(|end| {
            end.phase == FaultPhase::End && (&end.name, &end.target) == (&stop.name, &stop.target)
        });
        ends.map(|end| end.at).filter(|at| *at >= stop.at).min()
    };
    let stops = history.faults.iter().filter(|fault| {
        fault.phase == FaultPhase::Begin && fault.name == "stop" && fault.target.starts_with("edge")
    });
    stops.into_iter().any(|stop| {
        let Some(resumed) = resumes(stop).filter(|at| at - stop.at >= history.run.lease_ns) else {
            return false;
        };
        let door = history.name(&stop.target);
        history.calls.iter().any(|call| {
            Some(call.door) == door && call.invoked >= resumed && call.outcome != Outcome::Unknown
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample::{SECOND, allowed, fault, history, limit, unknown};
    use crate::history::{Check, Event, Reached, Resolved, Rules};

    #[track_caller]
    fn check(history: &History, expected: &[&str]) {
        assert_eq!(reached(history).iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    fn under(id: &str, check: Check) -> Check {
        Check { id: Some(id.to_owned()), ..check }
    }

    #[test]
    fn an_uneventful_run_reached_nothing() {
        check(&history().with_checks([under("r", allowed(5, 1)), under("s", allowed(6, 1))]), &[]);
    }

    #[test]
    fn unknown_outcomes_are_found_in_the_log_or_not() {
        let resolved = |id: &str, charged: &[&str]| {
            let charged = charged.iter().map(|key| (*key).to_owned()).collect();
            Event::Log(Resolved { at: 9, id: id.to_owned(), charged })
        };
        let asked = || history().with_checks([unknown(5, 1, "r"), unknown(6, 1, "s")]);
        check(&asked().with(resolved("r", &["shop/a=x"])), &[UNKNOWN_FOUND_COMMITTED]);
        check(&asked().with(resolved("s", &[])), &[UNKNOWN_FOUND_ABSENT]);
    }

    #[test]
    fn an_answer_that_came_twice_came_from_the_cache() {
        let twice = [under("r", allowed(5, 1)), under("r", allowed(6, 1))];
        check(&history().with_checks(twice), &[RETRY_ANSWERED_FROM_CACHE]);
    }

    #[test]
    fn a_rule_is_lowered_above_what_is_used_or_before_anything_is() {
        let lowered = |pushed| {
            let limits = vec![limit("a", 5)];
            let rules = Rules { version: 2, pushed, in_force: None, limits };
            history().with_checks([allowed(50, 1)]).with(Event::Rules(rules))
        };
        check(&lowered(60), &[RULE_LOWERED_WITH_USAGE]);
        check(&lowered(40), &[]);
    }

    #[test]
    fn a_node_that_is_alone_is_asked_past_its_lease() {
        let alone = |at| {
            history()
                .with_checks([allowed(at, 1)])
                .with(super::super::isolation::cut(SECOND, "node-1", FaultPhase::Begin))
                .with(super::super::isolation::cut(9 * SECOND, "node-1", FaultPhase::End))
        };
        check(&alone(4 * SECOND), &[DEPOSED_LEADER_ASKED]);
        check(&alone(2 * SECOND), &[]);
    }

    #[test]
    fn an_edge_is_resumed_past_the_end_of_its_lease() {
        let resumed = |at| {
            let asked = Check { door: "edge-1".to_owned(), ..allowed(at + 1, 1) };
            history()
                .with(fault(SECOND, "stop", "edge-1", FaultPhase::Begin))
                .with(fault(at, "stop", "edge-1", FaultPhase::End))
                .with_checks([asked])
        };
        check(&resumed(7 * SECOND), &[EDGE_RESUMED_PAST_EXPIRY]);
        check(&resumed(5 * SECOND), &[]);
    }

    #[test]
    fn a_run_that_never_was_where_it_had_to_be_says_so() {
        let mut run = history();
        run.run.must_reach = vec!["split_brain".to_owned(), UNKNOWN_FOUND_ABSENT.to_owned()];
        let name = "split_brain".to_owned();
        let run = run.with(Event::Reached(Reached { at: 1, name, ..Reached::default() }));
        assert_eq!(missed(&run), [UNKNOWN_FOUND_ABSENT]);
    }
}
