//! P3, once: what is asked again under one id is charged once and gets the same answer, on any leader, after any snapshot.

use std::collections::BTreeMap;

use super::Finding;
use super::quota::quotas;
use crate::history::{Call, History, Name, Outcome};

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let mut found = differing(history);
    // Of counters that stand alone in every request. Others may also have been charged by halves: see `all_or_none`.
    let alone = quotas(history).into_iter().filter(|quota| !quota.leased && !quota.shared);
    found.extend(alone.filter(|quota| quota.used > quota.charged_max).map(|quota| {
        let (key, used, most) = (history.text(quota.key), quota.used, quota.charged_max);
        Finding::at(
            quota.at,
            format!("{key}: {used} units are used, {most} at most were asked for and not refused"),
        )
    }));
    found
}

/// Answers under one id that aren't the same.
fn differing(history: &History) -> Vec<Finding> {
    let mut first: BTreeMap<Name, &Call> = BTreeMap::new();
    let mut found = Vec::new();
    for call in history.calls.iter().filter(|call| is_decided(call)) {
        let Some(id) = call.id else { continue };
        let before = *first.entry(id).or_insert(call);
        if before.outcome != call.outcome {
            let what = format!(
                "{}: {:?} by {}, {:?} by {} under the same id",
                history.text(id),
                before.outcome,
                history.text(before.door),
                call.outcome,
                history.text(call.door)
            );
            found.push(Finding::at(call.invoked, what));
        }
    }
    found
}

fn is_decided(call: &Call) -> bool {
    !call.degraded && matches!(call.outcome, Outcome::Allowed | Outcome::OverLimit)
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::super::quota::tests::{peek, quota_history};
    use super::*;
    use crate::history::Check;
    use crate::history::sample::{SECOND, allowed, history, over_limit, unknown};

    fn under(id: &str, check: Check) -> Check {
        Check { id: Some(id.to_owned()), ..check }
    }

    #[test]
    fn the_same_answer_comes_under_the_same_id() {
        let twice = |second| history().with_checks([under("r", allowed(5, 1)), under("r", second)]);
        expect(&findings(&twice(allowed(9, 1))), 0, "");
        expect(&findings(&twice(over_limit(9, 1))), 1, "r: Allowed by node-1, OverLimit by node-1");
        expect(&findings(&twice(unknown(9, 1, "r"))), 0, "");
        let passed = Check { degraded: true, source: None, ..allowed(9, 1) };
        let refused = history().with_checks([under("r", over_limit(5, 1)), under("r", passed)]);
        expect(&findings(&refused), 0, "");
    }

    #[test]
    fn a_retry_is_charged_once() {
        let asked = |left| {
            let retried = under("r", Check { tries: 3, ..allowed(5, 10) });
            quota_history().with_checks([retried, under("r", allowed(9, 10)), peek(SECOND, left)])
        };
        expect(&findings(&asked(90)), 0, "");
        expect(&findings(&asked(80)), 1, "20 units are used, 10 at most");
    }

    #[test]
    fn what_nobody_knows_may_have_been_charged() {
        let asked = |left| quota_history().with_checks([unknown(5, 10, "r"), peek(SECOND, left)]);
        expect(&findings(&asked(100)), 0, "");
        expect(&findings(&asked(90)), 0, "");
        expect(&findings(&asked(89)), 1, "11 units are used");
    }
}
