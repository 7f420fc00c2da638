//! P9, bounded: nothing that is held passes its bound, and a flood of keys is refused to its own tenant alone.

use leasehold_model::TenantId;
use leasehold_shard::{Bounds, Refusal, Shard};

use super::Findings;
use crate::clocks::Time;
use crate::plan::TENANT;

/// Entries of a log beside its snapshot: as many as are written between two, and what followers may lack.
const ENTRIES_MAX: usize = 2_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BoundedResources;

impl BoundedResources {
    /// Looks at a replica: its shard, and the entries of its log.
    pub(crate) fn look(
        &self,
        shard: &Shard,
        entries: usize,
        bounds: &Bounds,
        now: Time,
        findings: &mut Findings,
    ) {
        let most = |bound: u32| usize::try_from(bound).unwrap_or(usize::MAX);
        self.bounded("counters", shard.keys(), most(bounds.keys_max), now, findings);
        self.bounded("replies", shard.replies(), 2 * most(bounds.replies_per_tenant_max), now, findings);
        self.bounded("leases", shard.leases_held(), most(bounds.leases_max), now, findings);
        self.bounded("entries of a log", entries, ENTRIES_MAX, now, findings);
    }

    /// Something is held, and so much may be.
    pub(crate) fn bounded(&self, what: &str, held: usize, most: usize, now: Time, findings: &mut Findings) {
        if held > most {
            findings.add("bounded_resources", now, || format!("{held} {what} are held, of {most}"));
        }
    }

    /// An ask was refused. `TENANT`'s few counters have room, whatever others do.
    pub(crate) fn refused(&self, refusal: Refusal, asker: TenantId, now: Time, findings: &mut Findings) {
        if asker == TENANT && matches!(refusal, Refusal::KeysFull(_)) {
            findings.add("bounded_resources", now, || {
                "a flood of another tenant's keys took up all room".to_owned()
            });
        }
    }
}
