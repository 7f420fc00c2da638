//! P4: replicas that applied the same entries answered the same and are in the same state, restored or not.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Findings;
use crate::clocks::Time;
use crate::machine::{Machine, Replies};

/// States are compared after every so many entries: hashing walks everything.
const EVERY: u64 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct EqualPrefixEqualHash {
    answers: BTreeMap<(usize, u64), u64>,
    states: BTreeMap<(usize, u64), (u128, usize)>,
}

impl EqualPrefixEqualHash {
    /// A replica applied an entry.
    pub(crate) fn applied(
        &mut self,
        (group, index, node): (usize, u64, usize),
        replies: &Replies,
        machine: &Machine,
        now: Time,
        findings: &mut Findings,
    ) {
        let answer = digest(replies);
        if *self.answers.entry((group, index)).or_insert(answer) != answer {
            findings.add("equal_prefix_equal_hash", now, || {
                format!("node {node} answers entry {index} of group {group} otherwise: {replies:?}")
            });
        }
        if index.is_multiple_of(EVERY) {
            self.state((group, index, node), machine, now, findings);
        }
    }

    /// A replica is in a state.
    pub(crate) fn state(
        &mut self,
        (group, index, node): (usize, u64, usize),
        machine: &Machine,
        now: Time,
        findings: &mut Findings,
    ) {
        let hash = machine.state_hash();
        let (known, other) = *self.states.entry((group, index)).or_insert((hash, node));
        if known != hash {
            findings.add("equal_prefix_equal_hash", now, || {
                format!("nodes {other} and {node} differ after entry {index} of group {group}")
            });
        }
    }
}

/// Cheap to make, and different for different answers.
fn digest(replies: &Replies) -> u64 {
    use leasehold_shard::Reply;
    let mut hasher = DefaultHasher::new();
    match replies {
        Replies::None => 0.hash(&mut hasher),
        Replies::Control(reply) => format!("{reply:?}").hash(&mut hasher),
        Replies::Shard(replies) => {
            for reply in replies {
                match reply {
                    Reply::Acquired(acquired) => {
                        (acquired.admitted, acquired.at).hash(&mut hasher);
                        for decision in &acquired.decisions {
                            (decision.allowed, decision.granted, decision.remaining).hash(&mut hasher);
                            (decision.reset_after, decision.next_unit_after).hash(&mut hasher);
                        }
                    }
                    Reply::Refunded(units) => units.hash(&mut hasher),
                    Reply::Leased(leased) => leased.hash(&mut hasher),
                    Reply::Reset(held) => held.hash(&mut hasher),
                    Reply::Refused(refusal) => format!("{refusal:?}").hash(&mut hasher),
                }
            }
        }
    }
    hasher.finish()
}
