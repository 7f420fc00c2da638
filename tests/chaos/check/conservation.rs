//! P2, debit first: every unit that was lent is spent, returned, stranded or still out, whatever happened meanwhile; and
//! nothing that was admitted is missing from what is used.

use super::Finding;
use super::quota::quotas;
use crate::history::History;

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let lent = history.states.iter().filter_map(|state| Some((state, state.lent?)));
    let unequal = lent.clone().filter_map(|(state, lent)| {
        let known = [lent.spent, lent.returned, lent.stranded, lent.outstanding];
        let sum = known.iter().map(|units| u128::from(*units)).sum::<u128>();
        (sum != u128::from(lent.granted)).then(|| {
            let what =
                format!("{}: {} units were lent, and {sum} are accounted for", state.node, lent.granted);
            Finding::at(state.at, what)
        })
    });
    let told = lent.filter(|(_, lent)| lent.violations > 0).map(|(state, lent)| {
        Finding::at(state.at, format!("{}: owners counted {} violations", state.node, lent.violations))
    });
    let minted =
        quotas(history).into_iter().filter(|quota| quota.used < quota.admitted_before).map(|quota| {
            let (key, used, admitted) = (history.text(quota.key), quota.used, quota.admitted_before);
            Finding::at(quota.at, format!("{key}: {admitted} units were admitted, {used} are used"))
        });
    unequal.chain(told).chain(minted).collect()
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::super::quota::tests::{peek, quota_history};
    use super::*;
    use crate::history::sample::{SECOND, allowed, history};
    use crate::history::{Event, Lent, State};

    fn lent(lent: Lent) -> History {
        let lent = Some(lent);
        history().with(Event::State(State { at: 5, node: "node-1".to_owned(), lent, ..State::default() }))
    }

    #[test]
    fn what_was_lent_is_accounted_for() {
        let sound = Lent { granted: 10, spent: 4, returned: 3, stranded: 2, outstanding: 1, violations: 0 };
        expect(&findings(&lent(sound)), 0, "");
        expect(&findings(&lent(Lent { returned: 4, ..sound })), 1, "10 units were lent, and 11");
        expect(&findings(&lent(Lent { stranded: 1, ..sound })), 1, "10 units were lent, and 9");
        expect(&findings(&lent(Lent { violations: 2, ..sound })), 1, "2 violations");
    }

    #[test]
    fn what_was_admitted_is_used() {
        let admitted = || quota_history().with_checks([allowed(5, 40), allowed(6, 2)]);
        expect(&findings(&admitted().with_checks([peek(SECOND, 58)])), 0, "");
        expect(&findings(&admitted().with_checks([peek(SECOND, 57)])), 0, "");
        expect(
            &findings(&admitted().with_checks([peek(SECOND, 59)])),
            1,
            "42 units were admitted, 41 are used",
        );
    }
}
