//! What is out on leases, in a snapshot.

use leasehold_lease::ledger::{HolderRecord, LeaseRecord, SlotRecord, Totals};
use leasehold_lease::{EdgeId, LeaseId, MilliRate};
use leasehold_model::{Key, Stamp};

use super::SnapshotError;
use super::counter::{halves, join};
use crate::proto::leasehold::storage::v1 as storage;

pub(super) fn lease_to_proto(lease: &LeaseRecord) -> storage::LiveLease {
    let (edge_high, edge_low) = halves(lease.edge.0);
    storage::LiveLease {
        key_high: lease.key.high,
        key_low: lease.key.low,
        lease: lease.id.0,
        edge_high,
        edge_low,
        granted: lease.granted,
        spent: lease.spent,
        returned: lease.returned,
        granted_at: lease.granted_at.0,
        expires: lease.expires.0,
    }
}

pub(super) fn lease_from_proto(proto: &storage::LiveLease) -> LeaseRecord {
    LeaseRecord {
        key: Key { high: proto.key_high, low: proto.key_low },
        id: LeaseId(proto.lease),
        edge: EdgeId(join(proto.edge_high, proto.edge_low)),
        granted: proto.granted,
        spent: proto.spent,
        returned: proto.returned,
        granted_at: Stamp(proto.granted_at),
        expires: Stamp(proto.expires),
    }
}

pub(super) fn holder_to_proto(holder: &HolderRecord) -> storage::LeaseHolder {
    let (edge_high, edge_low) = halves(holder.edge.0);
    storage::LeaseHolder {
        key_high: holder.key.high,
        key_low: holder.key.low,
        edge_high,
        edge_low,
        rate: holder.rate.0,
        until: holder.until.0,
    }
}

pub(super) fn holder_from_proto(proto: &storage::LeaseHolder) -> HolderRecord {
    HolderRecord {
        key: Key { high: proto.key_high, low: proto.key_low },
        edge: EdgeId(join(proto.edge_high, proto.edge_low)),
        rate: MilliRate(proto.rate),
        until: Stamp(proto.until),
    }
}

pub(super) fn slot_to_proto(slot: &SlotRecord) -> storage::EdgeSlot {
    let (edge_high, edge_low) = halves(slot.edge.0);
    storage::EdgeSlot { edge_high, edge_low, slot: u32::from(slot.slot), until: slot.until.0 }
}

pub(super) fn slot_from_proto(index: usize, proto: &storage::EdgeSlot) -> Result<SlotRecord, SnapshotError> {
    let slot = u16::try_from(proto.slot).map_err(|_| SnapshotError::Slot { list: "slots", index })?;
    Ok(SlotRecord { edge: EdgeId(join(proto.edge_high, proto.edge_low)), slot, until: Stamp(proto.until) })
}

pub(super) fn totals_to_proto(totals: &Totals) -> storage::LeaseTotals {
    let (granted_high, granted_low) = halves(totals.granted);
    let (spent_high, spent_low) = halves(totals.spent);
    let (returned_high, returned_low) = halves(totals.returned);
    let (lapsed_high, lapsed_low) = halves(totals.lapsed);
    let (live_high, live_low) = halves(totals.live);
    storage::LeaseTotals {
        granted_low,
        granted_high,
        spent_low,
        spent_high,
        returned_low,
        returned_high,
        lapsed_low,
        lapsed_high,
        live_low,
        live_high,
        gates: totals.gates,
    }
}

pub(super) fn totals_from_proto(proto: &storage::LeaseTotals) -> Totals {
    Totals {
        granted: join(proto.granted_high, proto.granted_low),
        spent: join(proto.spent_high, proto.spent_low),
        returned: join(proto.returned_high, proto.returned_low),
        lapsed: join(proto.lapsed_high, proto.lapsed_low),
        live: join(proto.live_high, proto.live_low),
        gates: proto.gates,
    }
}
