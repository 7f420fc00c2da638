//! P3, once: under one id an ask is carried out once and answered the same, on any leader, after any snapshot.
//!
//! As long as replies are remembered, and until the asker says that it has its answers.

use std::collections::BTreeMap;

use leasehold_model::{Nanos, RequestId, Stamp};
use leasehold_shard::{Reply, Settled};

use super::Findings;
use crate::clocks::Time;
use crate::ctx::Verdict;

/// What was done under an id.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// At which entry.
    pub(crate) index: u64,
    /// When, on the shard's line.
    pub(crate) at: Stamp,
    /// What was answered.
    pub(crate) reply: Reply,
    /// Who led, in which of its lives.
    pub(crate) by: (usize, u64),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LeaseOnce {
    records: BTreeMap<(usize, RequestId), Record>,
    /// Answers before the last, of asks that were settled or forgotten and came once more.
    earlier: BTreeMap<(usize, RequestId), Vec<Reply>>,
    settled: BTreeMap<(usize, u128), u64>,
    verdicts: BTreeMap<RequestId, Verdict>,
}

impl LeaseOnce {
    /// What was done under an id.
    #[must_use]
    pub(crate) fn record(&self, group: usize, id: RequestId) -> Option<&Record> {
        self.records.get(&(group, id))
    }

    /// A session has its answers.
    pub(crate) fn settled(&mut self, group: usize, settled: &Settled) {
        let below = self.settled.entry((group, settled.session)).or_default();
        *below = (*below).max(settled.below);
    }

    /// An entry answered an ask. True: for the first time.
    pub(crate) fn answered(
        &mut self,
        (group, id): (usize, RequestId),
        record: Record,
        window: Nanos,
        now: Time,
        findings: &mut Findings,
    ) -> bool {
        let Some(known) = self.records.get(&(group, id)) else {
            self.records.insert((group, id), record);
            return true;
        };
        if known.reply == record.reply {
            return false;
        }
        let settled = self.settled.get(&(group, id.session)).is_some_and(|below| id.seq < *below);
        if record.at.since(known.at) < window && !settled && !matches!(record.reply, Reply::Refused(_)) {
            findings.add("lease_once", now, || {
                format!(
                    "{id:?} was answered {:?} by entry {} and {:?} by entry {}",
                    known.reply, known.index, record.reply, record.index
                )
            });
        }
        let earlier = self.records.insert((group, id), record);
        self.earlier.entry((group, id)).or_default().extend(earlier.map(|record| record.reply));
        true
    }

    /// Whether an entry ever answered an ask so.
    pub(crate) fn is_in_log(&self, group: usize, id: RequestId, reply: &Reply) -> bool {
        let last = self.records.get(&(group, id)).is_some_and(|record| record.reply == *reply);
        last || self.earlier.get(&(group, id)).is_some_and(|earlier| earlier.contains(reply))
    }

    /// A client was answered.
    pub(crate) fn told(&mut self, id: RequestId, verdict: Verdict, now: Time, findings: &mut Findings) {
        if matches!(verdict, Verdict::Unknown | Verdict::Full) {
            return;
        }
        let known = *self.verdicts.entry(id).or_insert(verdict);
        if known != verdict {
            findings.add("lease_once", now, || format!("{id:?} was told {known:?} and {verdict:?}"));
        }
    }
}
