//! What was charged to each counter, and between which moments: the calls of a history as operations.
//!
//! Calls under one id are one operation, charged between the first call and the first answer that admits it. What was let
//! pass by a declared failure behaviour was charged to nobody; an edge's share for when it is cut off is part of the limit.

use std::collections::BTreeMap;

use leasehold_tests::bound::Operation;

use crate::history::{Call, History, Name, Outcome, Source};

/// Every operation of each counter, by the moments at which they were first sent.
pub(crate) fn charges(history: &History) -> BTreeMap<Name, Vec<Operation>> {
    let mut charged: BTreeMap<Name, Vec<Operation>> = BTreeMap::new();
    let mut under_id: BTreeMap<(Name, Name), Operation> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| call.cost > 0) {
        for key in history.keys(call.keys) {
            let Some(operation) = operation(history, call, *key) else { continue };
            match call.id {
                None => charged.entry(*key).or_default().push(operation),
                Some(id) => {
                    let known = under_id.entry((*key, id)).or_insert(operation);
                    known.returned = known.returned.min(operation.returned);
                }
            }
        }
    }
    // The first call under an id may be one without an answer.
    for call in &history.calls {
        for key in history.keys(call.keys) {
            if let Some(operation) = call.id.and_then(|id| under_id.get_mut(&(*key, id))) {
                operation.invoked = operation.invoked.min(call.invoked);
            }
        }
    }
    for ((key, _), operation) in under_id {
        charged.entry(key).or_default().push(operation);
    }
    for operations in charged.values_mut() {
        operations.sort_unstable_by_key(|operation| operation.invoked);
    }
    charged
}

/// What a call charged to a counter for sure, if anything.
fn operation(history: &History, call: &Call, key: Name) -> Option<Operation> {
    let returned = match call.outcome {
        Outcome::Allowed if is_charged(call) => call.returned,
        Outcome::Allowed | Outcome::OverLimit => None,
        Outcome::Unavailable | Outcome::Unknown => {
            let found = history.resolved.get(&call.id?)?;
            found.charged.contains(&key).then_some(found.at.max(call.invoked))
        }
    };
    returned.map(|returned| Operation { invoked: call.invoked, returned, cost: call.cost })
}

/// Whether what was allowed was charged to the counter: not what passed because nobody could be asked.
pub(crate) fn is_charged(call: &Call) -> bool {
    call.outcome == Outcome::Allowed && (!call.degraded || call.source == Some(Source::Fallback))
}

/// Whether it may have been charged, and nobody knows.
pub(crate) fn is_open(history: &History, call: &Call) -> bool {
    let unknown = matches!(call.outcome, Outcome::Unavailable | Outcome::Unknown)
        || call.outcome == Outcome::Allowed && !is_charged(call);
    unknown && call.id.is_none_or(|id| !history.resolved.contains_key(&id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample::{allowed, history, over_limit, unknown};
    use crate::history::{Check, Event, Resolved};

    #[track_caller]
    fn check(history: &History, expected: &[(u64, u64, u64)]) {
        let key = history.name("shop/a=x").expect("it was asked for");
        let found: Vec<(u64, u64, u64)> = charges(history)
            .remove(&key)
            .unwrap_or_default()
            .iter()
            .map(|operation| (operation.invoked, operation.returned, operation.cost))
            .collect();
        assert_eq!(found, expected);
    }

    fn resolved(charged: &[&str]) -> Event {
        let charged = charged.iter().map(|key| (*key).to_owned()).collect();
        Event::Log(Resolved { at: 90, id: "r".to_owned(), charged })
    }

    #[test]
    fn only_what_was_admitted_is_charged() {
        let checks = [allowed(5, 2), over_limit(6, 1), unknown(7, 1, "r"), allowed(8, 0)];
        check(&history().with_checks(checks), &[(5, 5, 2)]);
    }

    #[test]
    fn an_unknown_outcome_is_charged_when_the_log_says_so() {
        let asked = || history().with_checks([unknown(7, 3, "r")]);
        check(&asked(), &[]);
        check(&asked().with(resolved(&[])), &[]);
        check(&asked().with(resolved(&["shop/a=x"])), &[(7, 90, 3)]);
    }

    #[test]
    fn what_is_asked_again_under_its_id_is_charged_once_from_the_first_call_on() {
        let again = |at| Check { id: Some("r".to_owned()), ..allowed(at, 3) };
        let asked = history().with_checks([unknown(7, 3, "r"), again(20), again(30)]);
        check(&asked.with(resolved(&["shop/a=x"])), &[(7, 20, 3)]);
    }

    #[test]
    fn what_passes_because_nobody_can_be_asked_is_not_charged_but_an_edges_share_is() {
        let passed = Check { degraded: true, source: None, ..allowed(5, 1) };
        let share = Check { degraded: true, source: Some(Source::Fallback), ..allowed(6, 1) };
        check(&history().with_checks([passed, share]), &[(6, 6, 1)]);
    }
}
