//! P4: what somebody was told of stays in the log, whatever is killed and whatever a minority of disks loses.

use std::collections::BTreeMap;

use super::Findings;
use crate::clocks::Time;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct AckedSurvives {
    /// Entries that somebody was told of, with their terms.
    acked: BTreeMap<(usize, u64), u64>,
}

impl AckedSurvives {
    /// Somebody is told what an entry was answered.
    pub(crate) fn acked(&mut self, group: usize, index: u64, term: u64) {
        self.acked.entry((group, index)).or_insert(term);
    }

    /// A replica applied an entry.
    pub(crate) fn applied(&self, group: usize, index: u64, term: u64, now: Time, findings: &mut Findings) {
        if let Some(acked) = self.acked.get(&(group, index)).filter(|acked| **acked != term) {
            findings.add("acked_survives", now, || {
                format!("entry {index} of group {group} was acknowledged in term {acked}, and is of term {term} now")
            });
        }
    }

    /// At the end a group has come so far.
    pub(crate) fn finish(&self, group: usize, applied: u64, now: Time, findings: &mut Findings) {
        let last = self.acked.range((group, 0)..(group + 1, 0)).next_back();
        if let Some(((_, index), _)) = last.filter(|((_, index), _)| *index > applied) {
            findings.add("acked_survives", now, || {
                format!("entry {index} of group {group} was acknowledged; the group ends at {applied}")
            });
        }
    }
}
