//! P6, stops first: an edge stops spending a lease before its owner may count it as over. Whoever could ask nobody for the
//! length of a lease has none left.

use super::Finding;
use super::charges::is_charged;
use super::isolation::isolations;
use crate::history::{History, Source};

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let mut found = Vec::new();
    for alone in isolations(history) {
        let until = alone.from.saturating_add(history.run.lease_ns);
        let spent = history.calls.iter().filter(|call| {
            call.door == alone.door
                && call.cost > 0
                && call.source == Some(Source::Lease)
                && is_charged(call)
                && call.invoked > until
                && call.returned.is_some_and(|returned| returned < alone.to)
        });
        found.extend(spent.map(|call| {
            let since = super::seconds(call.invoked - alone.from);
            let door = history.text(alone.door);
            Finding::at(
                call.invoked,
                format!("{door} spent from a lease {since} after it could last ask for one"),
            )
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::super::isolation::cut;
    use super::*;
    use crate::history::sample::{SECOND, allowed, history};
    use crate::history::{Check, FaultPhase};

    fn lent(at: u64) -> Check {
        Check { source: Some(Source::Lease), door: "edge-1".to_owned(), ..allowed(at, 1) }
    }

    fn cut_off() -> History {
        history().with_checks([lent(0)]).with(cut(10 * SECOND, "edge-1", FaultPhase::Begin)).with(cut(
            30 * SECOND,
            "edge-1",
            FaultPhase::End,
        ))
    }

    #[test]
    fn an_edge_that_is_cut_off_spends_what_it_has_and_then_stops() {
        let own = Check { source: Some(Source::Fallback), degraded: true, ..lent(20 * SECOND) };
        let others = Check { door: "edge-2".to_owned(), ..lent(20 * SECOND) };
        let back = Check { returned: Some(30 * SECOND + 1), ..lent(29 * SECOND) };
        expect(&findings(&cut_off().with_checks([lent(15 * SECOND), own, others, back])), 0, "");
        expect(
            &findings(&cut_off().with_checks([lent(16 * SECOND)])),
            1,
            "edge-1 spent from a lease 6.000 s after",
        );
    }
}
