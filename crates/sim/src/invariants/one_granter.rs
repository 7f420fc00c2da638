//! P2: one replica grants at a time. A term has one leader; whoever was deposed answers nothing from its own state once its
//! successor does; and no grant is told to anybody that isn't in the log.

use std::collections::BTreeMap;

use super::Findings;
use crate::clocks::Time;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct OneGranter {
    leaders: BTreeMap<(usize, u64), usize>,
    serving: BTreeMap<usize, (u64, usize)>,
}

impl OneGranter {
    /// A replica leads.
    pub(crate) fn leads(&mut self, group: usize, term: u64, node: usize, now: Time, findings: &mut Findings) {
        let known = *self.leaders.entry((group, term)).or_insert(node);
        if known != node {
            findings.add("one_granter", now, || {
                format!("nodes {known} and {node} lead group {group} in term {term}")
            });
        }
    }

    /// The newest term that anybody leads a group in.
    #[must_use]
    pub(crate) fn newest(&self, group: usize) -> u64 {
        self.leaders.range((group, 0)..(group + 1, 0)).next_back().map_or(0, |((_, term), _)| *term)
    }

    /// A leader answered, or stamped an answer, from its own state.
    pub(crate) fn served(
        &mut self,
        group: usize,
        term: u64,
        node: usize,
        now: Time,
        findings: &mut Findings,
    ) {
        let (newest, by) = self.serving.entry(group).or_insert((term, node));
        if term < *newest {
            findings.add("one_granter", now, || {
                format!("node {node} answers for group {group} in term {term}, after node {by} did in term {newest}")
            });
        } else {
            (*newest, *by) = (term, node);
        }
    }

    /// A grant was told to somebody.
    pub(crate) fn told(
        &mut self,
        in_log: bool,
        group: usize,
        node: usize,
        now: Time,
        findings: &mut Findings,
    ) {
        if !in_log {
            findings.add("one_granter", now, || {
                format!("node {node} told somebody of a grant of group {group} that is in no log")
            });
        }
    }
}
