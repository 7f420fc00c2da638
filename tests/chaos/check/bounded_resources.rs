//! P9, bounded: memory and connections of every process stay within what the run said they may be.

use std::collections::BTreeMap;

use super::Finding;
use crate::history::{History, State};

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let run = &history.run;
    let mut found = above(history, "bytes resident", run.memory_max, |state| state.memory);
    found.extend(above(history, "connections", run.connections_max, |state| state.connections));
    found
}

/// The most that each process had above what it may.
fn above(
    history: &History,
    what: &str,
    most: Option<u64>,
    number: fn(&State) -> Option<u64>,
) -> Vec<Finding> {
    let mut worst: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for state in &history.states {
        let (Some(most), Some(now)) = (most, number(state)) else { continue };
        if now > most && worst.get(state.node.as_str()).is_none_or(|(_, before)| now > *before) {
            worst.insert(&state.node, (state.at, now));
        }
    }
    let finding = |(node, (at, now)): (&str, (u64, u64))| {
        Finding::at(at, format!("{node}: {now} {what}, {} are the most", most.unwrap_or(0)))
    };
    worst.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;
    use crate::history::Event;
    use crate::history::sample::history;

    #[test]
    fn each_process_keeps_its_bounds_or_is_named_once_with_its_worst() {
        let told = |at, memory, connections| {
            let (memory, connections) = (Some(memory), Some(connections));
            Event::State(State { at, node: "n1".to_owned(), memory, connections, ..State::default() })
        };
        let mut sound = history().with(told(1, 100, 10));
        expect(&findings(&sound), 0, "");
        sound.run.memory_max = Some(100);
        sound.run.connections_max = Some(10);
        expect(&findings(&sound), 0, "");
        let flooded = sound.with(told(2, 150, 5)).with(told(3, 170, 5)).with(told(4, 160, 5));
        expect(&findings(&flooded), 1, "at 0.000 s: n1: 170 bytes resident, 100 are the most");
    }
}
