//! P7, all or none: a request under several limits that was admitted is charged to all of them and nothing came back; one that
//! was refused is charged to none in the end, unless the node that was to return what it took died over it.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_model::RequestId;
use leasehold_shard::Reply;

use super::Findings;
use super::lease_once::LeaseOnce;
use crate::clocks::Time;
use crate::ctx::Verdict;

/// Makes the id of a return from its request's.
pub(crate) const RETURN_SALT: u128 = 0x7265_7475_726e_2d6f_662d_7265_7175_6573;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct AllOrNone {
    told: BTreeMap<RequestId, (Verdict, BTreeSet<usize>)>,
    /// Requests whose returns may have got lost with a node.
    excused: BTreeSet<RequestId>,
}

impl AllOrNone {
    /// A client was told, of a request over these groups.
    pub(crate) fn told(&mut self, id: RequestId, verdict: Verdict, groups: BTreeSet<usize>) {
        if !matches!(verdict, Verdict::Unknown | Verdict::Full) {
            self.told.insert(id, (verdict, groups));
        }
    }

    /// Whoever was to return what a request took no longer does.
    pub(crate) fn lost_return(&mut self, id: RequestId) {
        self.excused.insert(id);
    }

    /// At the end.
    pub(crate) fn finish(&self, records: &LeaseOnce, now: Time, findings: &mut Findings) {
        for (id, (verdict, groups)) in &self.told {
            let charged = |group: &usize| {
                let record = records.record(*group, *id);
                record.is_some_and(
                    |record| matches!(&record.reply, Reply::Acquired(acquired) if acquired.admitted),
                )
            };
            let back = RequestId { session: id.session ^ RETURN_SALT, ..*id };
            let returned = |group: &usize| records.record(*group, back).is_some();
            let broken = match verdict {
                Verdict::Allowed => groups.iter().find(|group| !charged(group) || returned(group)),
                Verdict::OverLimit if !self.excused.contains(id) => {
                    groups.iter().find(|group| charged(group) && !returned(group))
                }
                Verdict::OverLimit | Verdict::Unknown | Verdict::Full => None,
            };
            if let Some(group) = broken {
                findings.add("all_or_none", now, || {
                    format!("{id:?} was told {verdict:?}; group {group} has it otherwise")
                });
            }
        }
    }
}
