//! Commands of an entry.

use leasehold_lease::{EdgeId, LeaseAsk, LeaseId, MilliRate, Usage};
use leasehold_limit::Ask;
use leasehold_model::{Key, Nanos, RequestId, Stamp};
use leasehold_shard::{Acquire, Command, Demand, LeaseCommand, Refund, RefundItem, Reset, Settled};

use super::EntryError;
use crate::proto::leasehold::storage::v1 as storage;
use storage::command::Command as Proto;

pub(super) fn to_proto(command: &Command) -> storage::Command {
    let command = match command {
        Command::Acquire(acquire) => Proto::Acquire(acquire_to_proto(acquire)),
        Command::Refund(refund) => Proto::Refund(storage::Refund {
            id: Some(id_to_proto(refund.id)),
            items: refund.items.iter().map(item_to_proto).collect(),
        }),
        Command::Reset(reset) => Proto::Reset(storage::ResetKeys {
            key_high: reset.keys.iter().map(|key| key.high).collect(),
            key_low: reset.keys.iter().map(|key| key.low).collect(),
        }),
        Command::Lease(lease) => Proto::Lease(lease_to_proto(lease)),
    };
    storage::Command { command: Some(command) }
}

pub(super) fn from_proto(index: usize, proto: storage::Command) -> Result<Command, EntryError> {
    let absent = |field| EntryError::Absent { list: "commands", index, field };
    Ok(match proto.command.ok_or(absent("command"))? {
        Proto::Acquire(acquire) => Command::Acquire(acquire_from_proto(acquire)),
        Proto::Refund(refund) => Command::Refund(Refund {
            id: id_from_proto(refund.id.ok_or(absent("refund.id"))?),
            items: refund.items.into_iter().map(item_from_proto).collect(),
        }),
        Proto::Reset(reset) => {
            let (high, low) = (reset.key_high.len(), reset.key_low.len());
            if high != low {
                return Err(EntryError::KeyColumns { index, high, low });
            }
            let keys = reset.key_high.into_iter().zip(reset.key_low);
            Command::Reset(Reset { keys: keys.map(|(high, low)| Key { high, low }).collect() })
        }
        Proto::Lease(lease) => Command::Lease(lease_from_proto(lease)),
    })
}

pub(crate) fn acquire_to_proto(acquire: &Acquire) -> storage::Acquire {
    storage::Acquire {
        id: acquire.id.map(id_to_proto),
        remember_denial: acquire.remember_denial,
        demands: acquire.demands.iter().map(demand_to_proto).collect(),
    }
}

pub(crate) fn acquire_from_proto(proto: storage::Acquire) -> Acquire {
    Acquire {
        id: proto.id.map(id_from_proto),
        remember_denial: proto.remember_denial,
        demands: proto.demands.into_iter().map(demand_from_proto).collect(),
    }
}

fn lease_to_proto(lease: &LeaseCommand) -> storage::Lease {
    let LeaseAsk { edge, key, need, want, rate, lifetime, usage } = &lease.ask;
    let Key { high: edge_high, low: edge_low } = Key::from_u128(edge.0);
    let usage = usage.iter().map(|&Usage { lease, spent_total, returned_total }| storage::LeaseUsage {
        lease: lease.0,
        spent_total,
        returned_total,
    });
    storage::Lease {
        id: lease.id.map(id_to_proto),
        limit: lease.limit,
        edge_high,
        edge_low,
        key_high: key.high,
        key_low: key.low,
        need: *need,
        want: *want,
        rate: rate.0,
        lifetime: lifetime.0,
        usage: usage.collect(),
    }
}

fn lease_from_proto(proto: storage::Lease) -> LeaseCommand {
    let usage = proto.usage.iter().map(|usage| Usage {
        lease: LeaseId(usage.lease),
        spent_total: usage.spent_total,
        returned_total: usage.returned_total,
    });
    let ask = LeaseAsk {
        edge: EdgeId(Key { high: proto.edge_high, low: proto.edge_low }.to_u128()),
        key: Key { high: proto.key_high, low: proto.key_low },
        need: proto.need,
        want: proto.want,
        rate: MilliRate(proto.rate),
        lifetime: Nanos(proto.lifetime),
        usage: usage.collect(),
    };
    LeaseCommand { id: proto.id.map(id_from_proto), limit: proto.limit, ask }
}

pub(super) fn settled_to_proto(settled: &Settled) -> storage::Settled {
    let Key { high: session_high, low: session_low } = Key::from_u128(settled.session);
    storage::Settled { session_high, session_low, below: settled.below }
}

pub(super) fn settled_from_proto(proto: &storage::Settled) -> Settled {
    let session = Key { high: proto.session_high, low: proto.session_low }.to_u128();
    Settled { session, below: proto.below }
}

fn id_to_proto(id: RequestId) -> storage::RequestId {
    let Key { high: session_high, low: session_low } = Key::from_u128(id.session);
    storage::RequestId { session_high, session_low, seq: id.seq }
}

fn id_from_proto(proto: storage::RequestId) -> RequestId {
    let session = Key { high: proto.session_high, low: proto.session_low }.to_u128();
    RequestId { session, seq: proto.seq }
}

fn demand_to_proto(demand: &Demand) -> storage::Demand {
    storage::Demand {
        key_high: demand.key.high,
        key_low: demand.key.low,
        limit: demand.limit,
        min: demand.ask.min,
        max: demand.ask.max,
        shadow: demand.shadow,
    }
}

fn demand_from_proto(proto: storage::Demand) -> Demand {
    Demand {
        key: Key { high: proto.key_high, low: proto.key_low },
        limit: proto.limit,
        ask: Ask { min: proto.min, max: proto.max },
        shadow: proto.shadow,
    }
}

fn item_to_proto(item: &RefundItem) -> storage::RefundItem {
    storage::RefundItem {
        key_high: item.key.high,
        key_low: item.key.low,
        cost: item.cost,
        charged_at: item.charged_at.0,
    }
}

fn item_from_proto(proto: storage::RefundItem) -> RefundItem {
    RefundItem {
        key: Key { high: proto.key_high, low: proto.key_low },
        cost: proto.cost,
        charged_at: Stamp(proto.charged_at),
    }
}
