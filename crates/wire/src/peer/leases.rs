//! What is out on leases of the shards that a node leads, for operators.

use bytes::{Buf, Bytes};
use leasehold_lease::EdgeId;
use leasehold_model::{Key, Nanos, ShardId, TenantId};
use leasehold_shard::{LeaseNumbers, LentLease};
use prost::Message as _;

use super::PeerError;
use crate::proto::leasehold::peer::v1 as proto;

/// Asks for leases of the shards that the receiver leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasesRequest {
    /// Those with the most units out; at most so many.
    pub most: u32,
    /// Only of this tenant's counters.
    pub tenant: Option<TenantId>,
}

/// What is out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasesReply {
    /// One a shard that the receiver leads.
    pub shards: Vec<(ShardId, LeaseNumbers)>,
    /// Of all of them, those with the most units out first, each with its shard.
    pub leases: Vec<(ShardId, LentLease)>,
    /// Whether there are more.
    pub more: bool,
}

impl LeasesRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let tenant = self.tenant.map(|tenant| tenant.0);
        proto::LeasesRequest { most: self.most, tenant }.encode_to_vec().into()
    }

    /// The request that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let proto::LeasesRequest { most, tenant } = proto::LeasesRequest::decode(from)?;
        Ok(Self { most, tenant: tenant.map(TenantId) })
    }
}

impl LeasesReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let shards = self.shards.into_iter().map(shard_to_proto).collect();
        let leases = self.leases.into_iter().map(lease_to_proto).collect();
        proto::LeasesReply { shards, leases, more: self.more }.encode_to_vec().into()
    }

    /// The reply that `from` holds.
    ///
    /// # Errors
    /// [`PeerError`] names what is wrong about it.
    pub fn decode(from: impl Buf) -> Result<Self, PeerError> {
        let proto::LeasesReply { shards, leases, more } = proto::LeasesReply::decode(from)?;
        let shards = shards.into_iter().map(shard_from_proto).collect();
        Ok(Self { shards, leases: leases.into_iter().map(lease_from_proto).collect(), more })
    }
}

fn shard_to_proto((shard, numbers): (ShardId, LeaseNumbers)) -> proto::ShardLeases {
    let LeaseNumbers { leases, entries, out, grants, granted, spent, returned, lapsed, gates, violations } =
        numbers;
    proto::ShardLeases {
        shard: shard.0,
        leases,
        entries,
        out,
        grants,
        granted,
        spent,
        returned,
        lapsed,
        gates,
        violations,
    }
}

fn shard_from_proto(proto: proto::ShardLeases) -> (ShardId, LeaseNumbers) {
    let proto::ShardLeases { shard, leases, entries, out, .. } = proto;
    let proto::ShardLeases { grants, granted, spent, returned, lapsed, gates, violations, .. } = proto;
    let numbers =
        LeaseNumbers { leases, entries, out, grants, granted, spent, returned, lapsed, gates, violations };
    (ShardId(shard), numbers)
}

fn lease_to_proto((shard, lease): (ShardId, LentLease)) -> proto::Lease {
    let LentLease { key, tenant, edge, granted, spent, returned, expires_in } = lease;
    let edge = Key::from_u128(edge.0);
    proto::Lease {
        shard: shard.0,
        key_high: key.high,
        key_low: key.low,
        tenant: tenant.0,
        edge_high: edge.high,
        edge_low: edge.low,
        granted,
        spent,
        returned,
        expires_in_ns: expires_in.0,
    }
}

fn lease_from_proto(proto: proto::Lease) -> (ShardId, LentLease) {
    let lease = LentLease {
        key: Key { high: proto.key_high, low: proto.key_low },
        tenant: TenantId(proto.tenant),
        edge: EdgeId(Key { high: proto.edge_high, low: proto.edge_low }.to_u128()),
        granted: proto.granted,
        spent: proto.spent,
        returned: proto.returned,
        expires_in: Nanos(proto.expires_in_ns),
    };
    (ShardId(proto.shard), lease)
}
