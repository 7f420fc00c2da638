//! Leader hints as texts: sixteen groups a key, so that a change of one leader is told in a few bytes and no text
//! grows with the number of groups. A hint is `group.term`, or `group.term.leader` when another node leads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use leasehold_model::NodeId;

use super::{GROUPS_MAX, HINTS_MAX, LeaderHint, digits};

const PREFIX: char = 'h';

/// Groups whose hints share a key. Sixteen of the longest hints stay below the bound on a value's length.
const GROUPS_PER_KEY: u32 = 16;

pub(super) fn encode(hints: &BTreeMap<u32, LeaderHint>, own: NodeId) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (group, hint) in hints.range(..GROUPS_MAX).take(HINTS_MAX) {
        let text = texts.entry(key_of(*group)).or_default();
        if !text.is_empty() {
            text.push(',');
        }
        let number = |number: u64| digits::write(number);
        write!(text, "{}.{}", number(u64::from(*group)), number(hint.term)).expect("a string takes all");
        if hint.leader != own {
            write!(text, ".{}", number(hint.leader.0)).expect("a string takes all");
        }
    }
    texts
}

/// Takes in one text; false if it was under a hints key and not entirely sound. Keys of another kind are none of ours.
pub(super) fn decode(key: &str, text: &str, of: NodeId, hints: &mut BTreeMap<u32, LeaderHint>) -> bool {
    if !key.starts_with(PREFIX) {
        return true;
    }
    let parsed: Option<Vec<(u32, LeaderHint)>> = text.split(',').map(|hint| read(hint, of)).collect();
    let Some(parsed) = parsed.filter(|parsed| parsed.iter().all(|(group, _)| key_of(*group) == key)) else {
        return false;
    };
    hints.extend(parsed);
    true
}

fn read(text: &str, of: NodeId) -> Option<(u32, LeaderHint)> {
    let mut parts = text.split('.');
    let group = u32::try_from(digits::read(parts.next()?)?).ok().filter(|group| *group < GROUPS_MAX)?;
    let term = digits::read(parts.next()?)?;
    let leader = match parts.next() {
        Some(leader) => NodeId(digits::read(leader)?),
        None => of,
    };
    parts.next().is_none().then_some((group, LeaderHint { leader, term }))
}

fn key_of(group: u32) -> String {
    format!("{PREFIX}{}", digits::write(u64::from(group / GROUPS_PER_KEY)))
}
