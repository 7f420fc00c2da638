//! P4, durable: what was acknowledged survives. Rules that were acknowledged stay, entries that were applied are applied again,
//! and answers that were given are not taken back: that admitted units stay used is looked at under `conservation`.

use std::collections::BTreeMap;

use super::Finding;
use crate::history::{History, PhaseName, State};

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let mut found = lost_rules(history);
    found.extend(lost_entries(history));
    found
}

/// What each process said last, if that was when everything must be served.
fn last_states(history: &History) -> Vec<&State> {
    let Some(calm) = history.began(PhaseName::Calm) else { return Vec::new() };
    let mut last: BTreeMap<&str, &State> = BTreeMap::new();
    for state in history.states.iter().filter(|state| state.at >= calm) {
        let latest = last.entry(&state.node).or_insert(state);
        if latest.at <= state.at {
            *latest = state;
        }
    }
    last.into_values().collect()
}

fn lost_rules(history: &History) -> Vec<Finding> {
    let acknowledged = history.rules.iter().filter(|rules| rules.in_force.is_some());
    let newest = acknowledged.map(|rules| rules.version).max().unwrap_or(0);
    let older = |state: &&State| state.rules_version.is_some_and(|version| version < newest);
    let at_end = last_states(history).into_iter().filter(older);
    at_end
        .map(|state| {
            let version = state.rules_version.unwrap_or(0);
            let what = format!("{}: rules {version}, though {newest} had been acknowledged", state.node);
            Finding::at(state.at, what)
        })
        .collect()
}

/// Shards of which nobody has the entries any more that somebody had applied.
fn lost_entries(history: &History) -> Vec<Finding> {
    let highest = |states: &mut dyn Iterator<Item = &State>| {
        let mut applied: BTreeMap<u32, u64> = BTreeMap::new();
        for shard in states.flat_map(|state| &state.shards) {
            let most = applied.entry(shard.shard).or_insert(0);
            *most = shard.applied.max(*most);
        }
        applied
    };
    let ever = highest(&mut history.states.iter());
    let at_end = highest(&mut last_states(history).into_iter());
    let lost = at_end.iter().filter_map(|(shard, now)| {
        let before = ever.get(shard)?;
        (now < before).then(|| {
            Finding::anywhen(format!(
                "shard {shard}: entry {before} had been applied, {now} is the last one now"
            ))
        })
    });
    lost.collect()
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;
    use crate::history::sample::{history, limit, phase};
    use crate::history::{Event, Rules, Shard};

    fn told(at: u64, rules: u64, applied: u64) -> Event {
        let shards = vec![Shard { shard: 3, applied, ..Shard::default() }];
        let rules_version = Some(rules);
        Event::State(State { at, node: "n1".to_owned(), rules_version, shards, ..State::default() })
    }

    fn pushed(version: u64, in_force: Option<u64>) -> Event {
        Event::Rules(Rules { version, pushed: 5, in_force, limits: vec![limit("a", 10)] })
    }

    #[test]
    fn rules_that_were_acknowledged_are_in_force_at_the_end() {
        let ended = |in_force, rules| {
            history().with(pushed(2, in_force)).with(phase(50, PhaseName::Calm)).with(told(60, rules, 1))
        };
        expect(&findings(&ended(Some(9), 2)), 0, "");
        expect(&findings(&ended(None, 1)), 0, "");
        expect(&findings(&ended(Some(9), 1)), 1, "n1: rules 1, though 2 had been acknowledged");
    }

    #[test]
    fn entries_that_were_applied_are_there_at_the_end() {
        let ended = |applied| {
            history()
                .with(told(5, 1, 7))
                .with(phase(50, PhaseName::Calm))
                .with(told(55, 1, 1))
                .with(told(60, 1, applied))
        };
        expect(&findings(&ended(7)), 0, "");
        expect(&findings(&ended(6)), 1, "shard 3: entry 7 had been applied, 6 is the last one now");
    }

    #[test]
    fn a_run_that_never_became_calm_says_nothing_about_the_end() {
        expect(&findings(&history().with(told(5, 1, 7)).with(told(60, 1, 3))), 0, "");
    }
}
