//! Numbers that a process never tells lower than before, restarts included. 0 is none: who has just started knows none yet, and
//! serves nothing. One that was replaced by another with an empty directory begins anew.

use std::collections::BTreeMap;

use super::Finding;
use crate::history::{History, State};

/// Every time that a process told a lower number than before.
pub(super) fn falls(history: &History, what: &str, number: fn(&State) -> Option<u64>) -> Vec<Finding> {
    let mut states: Vec<&State> = history.states.iter().collect();
    states.sort_by_key(|state| state.at);
    let mut last: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut found = Vec::new();
    for state in states {
        let Some(now) = number(state).filter(|now| *now > 0) else { continue };
        if let Some((at, before)) = last.insert(&state.node, (state.at, now))
            && now < before
            && !is_replaced(history, &state.node, at, state.at)
        {
            found.push(Finding::at(state.at, format!("{}: {what} {now} after {before}", state.node)));
        }
    }
    found
}

fn is_replaced(history: &History, node: &str, from: u64, to: u64) -> bool {
    let emptied = |name: &str| name.contains("replace") || name.contains("wipe");
    history
        .faults
        .iter()
        .any(|fault| fault.target == node && emptied(&fault.name) && (from..=to).contains(&fault.at))
}
