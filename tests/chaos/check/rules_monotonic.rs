//! P8, declared failure, and every limit besides: processes swap whole rule sets in the order of their versions, never back.

use super::Finding;
use super::monotonic::falls;
use crate::history::History;

pub(super) fn findings(history: &History) -> Vec<Finding> {
    falls(history, "rules", |state| state.rules_version)
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;
    use crate::history::sample::{fault, history};
    use crate::history::{Event, FaultPhase, State};

    fn told(at: u64, node: &str, rules_version: u64) -> Event {
        let node = node.to_owned();
        Event::State(State { at, node, rules_version: Some(rules_version), ..State::default() })
    }

    #[test]
    fn versions_only_rise_at_each_process_by_itself() {
        let risen = || history().with(told(1, "n1", 3)).with(told(2, "n2", 2)).with(told(3, "n1", 3));
        expect(&findings(&risen().with(told(4, "n1", 7))), 0, "");
        expect(&findings(&risen().with(told(4, "n1", 2))), 1, "n1: rules 2 after 3");
    }

    #[test]
    fn what_was_said_is_compared_in_the_order_of_time() {
        expect(&findings(&history().with(told(4, "n1", 7)).with(told(3, "n1", 3))), 0, "");
    }

    #[test]
    fn who_knows_none_yet_has_not_gone_back() {
        let started = || history().with(told(1, "n1", 3)).with(told(2, "n1", 0));
        expect(&findings(&started().with(told(3, "n1", 3))), 0, "");
        expect(&findings(&started().with(told(3, "n1", 2))), 1, "2 after 3");
    }

    #[test]
    fn a_process_that_was_replaced_begins_anew() {
        let replaced = fault(2, "replace", "n1", FaultPhase::Once);
        expect(&findings(&history().with(told(1, "n1", 3)).with(replaced).with(told(3, "n1", 1))), 0, "");
    }
}
