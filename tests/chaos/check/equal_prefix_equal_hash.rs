//! P4, durable: replicas that have applied the same entries have the same state.

use std::collections::BTreeMap;

use super::Finding;
use crate::history::History;

pub(super) fn findings(history: &History) -> Vec<Finding> {
    let mut first: BTreeMap<(u32, u64), (&str, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for state in &history.states {
        for shard in &state.shards {
            let Some(hash) = shard.hash.as_deref() else { continue };
            let at = (shard.shard, shard.applied);
            let (node, before) = *first.entry(at).or_insert((&state.node, hash));
            if before != hash {
                let what = format!(
                    "shard {}, entry {}: {before} at {node}, {hash} at {}",
                    shard.shard, shard.applied, state.node
                );
                found.push(Finding::at(state.at, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;
    use crate::history::sample::history;
    use crate::history::{Event, Shard, State};

    fn told(node: &str, applied: u64, hash: Option<&str>) -> Event {
        let shard = Shard { shard: 3, applied, hash: hash.map(str::to_owned), ..Shard::default() };
        Event::State(State { at: applied, node: node.to_owned(), shards: vec![shard], ..State::default() })
    }

    #[test]
    fn only_the_same_entries_of_the_same_shard_are_compared() {
        let sound = || history().with(told("n1", 7, Some("aa"))).with(told("n2", 8, Some("bb")));
        expect(&findings(&sound().with(told("n2", 7, Some("aa"))).with(told("n3", 7, None))), 0, "");
        expect(&findings(&sound().with(told("n3", 8, Some("cc")))), 1, "entry 8: bb at n2, cc at n3");
    }
}
