//! P7, all or none: a request under several limits is charged to all of them or to none.

use std::collections::BTreeMap;

use super::Finding;
use super::quota::{Quota, quotas};
use crate::history::{History, KeySet, Name};

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let mut found = by_log(history);
    let quotas = quotas(history);
    let together = quotas.iter().filter(|quota| !quota.leased && quota.shared);
    found.extend(together.clone().filter(|quota| quota.used > quota.charged_max).map(|quota| {
        let (key, used, most) = (history.text(quota.key), quota.used, quota.charged_max);
        let what =
            format!("{key}: {used} units are used, though {most} at most were asked for and not refused");
        Finding::at(quota.at, what)
    }));
    found.extend(unequal(history, &together.copied().collect::<Vec<_>>()));
    found
}

/// Requests that the owners' logs know as charged to some of their counters.
fn by_log(history: &History) -> Vec<Finding> {
    let resolved = |call: &crate::history::Call| {
        let found = history.resolved.get(&call.id?)?;
        let keys = history.keys(call.keys);
        let charged = keys.iter().filter(|key| found.charged.contains(key)).count();
        (charged > 0 && charged < keys.len()).then(|| {
            let id = call.id.map_or("", |id| history.text(id));
            Finding::at(call.invoked, format!("{id}: charged to {charged} of {} counters", keys.len()))
        })
    };
    history.calls.iter().filter_map(resolved).collect()
}

/// Counters that every request on either counts on as well, and of which different amounts are used.
fn unequal(history: &History, quotas: &[Quota]) -> Vec<Finding> {
    let mut requests: BTreeMap<Name, Vec<KeySet>> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| call.cost > 0) {
        for key in history.keys(call.keys) {
            requests.entry(*key).or_default().push(call.keys);
        }
    }
    for sets in requests.values_mut() {
        sets.sort_unstable();
        sets.dedup();
    }
    // Nothing may have been asked between the peeks at them. Who was never answered was given up long before.
    let last =
        history.calls.iter().filter(|call| call.cost > 0).map(|call| call.returned.unwrap_or(call.invoked));
    let quiet_from = last.max().unwrap_or(0);
    let settled = quotas.iter().filter(|quota| quota.at >= quiet_from).collect::<Vec<_>>();
    let pairs = settled
        .iter()
        .enumerate()
        .flat_map(|(place, one)| settled[place + 1..].iter().map(move |other| (one, other)));
    pairs
        .filter(|(one, other)| requests.get(&one.key) == requests.get(&other.key) && one.used != other.used)
        .map(|(one, other)| {
            let (a, b) = (history.text(one.key), history.text(other.key));
            let what =
                format!("{} units are used of {a} and {} of {b}, charged together", one.used, other.used);
            Finding::at(one.at.max(other.at), what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::super::quota::tests::peek;
    use super::*;
    use crate::history::sample::{SECOND, allowed, limit, over_limit, unknown, with_limits};
    use crate::history::{Check, Event, Limit, Resolved};

    fn two_quotas() -> History {
        let daily = |name| Limit { period_ns: 86_400 * SECOND, leased: false, ..limit(name, 100) };
        with_limits(vec![daily("a"), daily("b"), limit("c", 5)])
    }

    fn on(keys: &[&str], check: Check) -> Check {
        Check { keys: keys.iter().map(|key| format!("shop/{key}")).collect(), ..check }
    }

    fn peeks(a: u64, b: u64) -> [Check; 2] {
        [on(&["a"], peek(SECOND, a)), on(&["b"], peek(SECOND, b))]
    }

    #[test]
    fn who_is_refused_by_one_limit_is_charged_to_none() {
        let asked = |a, b| {
            let checks = [on(&["a", "b", "c"], allowed(5, 5)), on(&["a", "b", "c"], over_limit(6, 5))];
            two_quotas().with_checks(checks).with_checks(peeks(a, b))
        };
        expect(&findings(&asked(95, 95)), 0, "");
        expect(&findings(&asked(90, 90)), 2, "10 units are used, though 5 at most");
    }

    #[test]
    fn counters_that_are_charged_together_are_used_alike_whatever_became_of_unknown_requests() {
        let asked = |a, b| {
            let checks = [on(&["a", "b"], allowed(5, 5)), on(&["a", "b"], unknown(6, 7, "lost"))];
            two_quotas().with_checks(checks).with_checks(peeks(a, b))
        };
        expect(&findings(&asked(95, 95)), 0, "");
        expect(&findings(&asked(88, 88)), 0, "");
        expect(&findings(&asked(95, 88)), 1, "5 units are used of shop/a and 12 of shop/b");
    }

    #[test]
    fn counters_that_are_also_charged_apart_may_differ() {
        let checks = [on(&["a", "b"], allowed(5, 5)), on(&["a"], allowed(6, 1))];
        expect(&findings(&two_quotas().with_checks(checks).with_checks(peeks(94, 95))), 0, "");
    }

    #[test]
    fn the_log_knows_a_request_whole_or_not_at_all() {
        let asked = |charged: &[&str]| {
            let charged = charged.iter().map(|key| format!("shop/{key}")).collect();
            let resolved = Event::Log(Resolved { at: 9, id: "r".to_owned(), charged });
            two_quotas().with_checks([on(&["a", "b"], unknown(5, 1, "r"))]).with(resolved)
        };
        expect(&findings(&asked(&[])), 0, "");
        expect(&findings(&asked(&["a", "b"])), 0, "");
        expect(&findings(&asked(&["b"])), 1, "r: charged to 1 of 2 counters");
    }
}
