//! P2, debit first: of each shard one replica grants at a time. A leader that can't reach a quorum stops before another can
//! begin, and no term has two leaders.

use std::collections::BTreeMap;

use super::Finding;
use super::charges::is_charged;
use super::isolation::isolations;
use crate::history::{History, Source};

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let mut found = two_leaders(history);
    for alone in isolations(history) {
        let until = alone.from.saturating_add(history.run.leader_lease_ns);
        let granted = history.calls.iter().filter(|call| {
            call.door == alone.door
                && call.cost > 0
                && call.source == Some(Source::Owner)
                && is_charged(call)
                && call.invoked > until
                && call.returned.is_some_and(|returned| returned < alone.to)
        });
        found.extend(granted.map(|call| {
            let what = format!(
                "{} granted as owner though it could reach nobody since {}",
                history.text(alone.door),
                super::seconds(alone.from)
            );
            Finding::at(call.invoked, what)
        }));
    }
    found
}

fn two_leaders(history: &History) -> Vec<Finding> {
    let mut first: BTreeMap<(u32, u64), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for state in &history.states {
        for shard in state.shards.iter().filter(|shard| shard.leader) {
            let Some(term) = shard.term else { continue };
            let before = *first.entry((shard.shard, term)).or_insert(&state.node);
            if before != state.node {
                let what = format!("shard {}: {before} and {} both led term {term}", shard.shard, state.node);
                found.push(Finding::at(state.at, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::super::isolation::cut;
    use super::*;
    use crate::history::sample::{SECOND, allowed, history};
    use crate::history::{Check, Event, FaultPhase, Shard, State};

    fn leads(node: &str, shard: u32, term: u64) -> Event {
        let shard = Shard { shard, applied: 1, leader: true, term: Some(term), ..Shard::default() };
        Event::State(State { at: 9, node: node.to_owned(), shards: vec![shard], ..State::default() })
    }

    #[test]
    fn a_term_has_one_leader() {
        let sound = || history().with(leads("n1", 1, 5)).with(leads("n2", 2, 5)).with(leads("n2", 1, 6));
        expect(&findings(&sound().with(leads("n1", 1, 5))), 0, "");
        expect(&findings(&sound().with(leads("n3", 1, 6))), 1, "n2 and n3 both led term 6");
    }

    #[test]
    fn who_can_reach_nobody_stops_to_grant_within_a_leaders_lease() {
        let cut_off = || {
            history()
                .with_checks([allowed(0, 1)])
                .with(cut(10 * SECOND, "node-1", FaultPhase::Begin))
                .with(cut(20 * SECOND, "node-1", FaultPhase::End))
        };
        let still = allowed(11 * SECOND, 1);
        let elsewhere = Check { door: "node-2".to_owned(), ..allowed(15 * SECOND, 1) };
        let across = Check { returned: Some(20 * SECOND), ..allowed(19 * SECOND, 1) };
        let lent = Check { source: Some(Source::Lease), ..allowed(13 * SECOND, 1) };
        expect(&findings(&cut_off().with_checks([still, elsewhere, across, lent])), 0, "");
        expect(&findings(&cut_off().with_checks([allowed(13 * SECOND, 1)])), 1, "node-1 granted as owner");
    }
}
