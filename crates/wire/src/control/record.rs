//! What the control group remembers, part by part.

use leasehold_control::{Cluster, ClusterId, NodeRecord};
use leasehold_model::{Epoch, Key, NodeId, ShardId};
use leasehold_placement::{Move, Phase, Placement, ShardMap, Standing};

use crate::part::{PartError, Problem};
use crate::proto::leasehold::storage::v1 as storage;

pub(crate) fn cluster_to_proto(cluster: &Cluster) -> storage::ClusterConstants {
    let Key { high: id_high, low: id_low } = Key::from_u128(cluster.id.0);
    storage::ClusterConstants {
        id_high,
        id_low,
        secret: cluster.secret.to_vec().into(),
        shards: cluster.shards,
        replicas: cluster.replicas,
    }
}

pub(crate) fn cluster_from_proto(proto: &storage::ClusterConstants) -> Result<Cluster, PartError> {
    let secret = proto.secret.as_ref().try_into().map_err(|_| PartError {
        path: "secret".to_owned(),
        problem: Problem::Length { found: proto.secret.len(), expected: 16 },
    })?;
    let id = ClusterId(Key { high: proto.id_high, low: proto.id_low }.to_u128());
    Ok(Cluster { id, secret, shards: proto.shards, replicas: proto.replicas })
}

pub(crate) fn node_to_proto(record: &NodeRecord) -> storage::NodeRecord {
    storage::NodeRecord {
        id: record.id.0,
        name: record.name.to_string(),
        peer_address: record.peer_address.to_string(),
        gossip_address: record.gossip_address.to_string(),
        client_address: record.client_address.to_string(),
        zone: record.zone.to_string(),
        region: record.region.to_string(),
        weight: record.weight,
        standing: standing_to_proto(record.standing).into(),
    }
}

pub(crate) fn node_from_proto(proto: storage::NodeRecord) -> Result<NodeRecord, PartError> {
    Ok(NodeRecord {
        id: NodeId(proto.id),
        name: proto.name.into(),
        peer_address: proto.peer_address.into(),
        gossip_address: proto.gossip_address.into(),
        client_address: proto.client_address.into(),
        zone: proto.zone.into(),
        region: proto.region.into(),
        weight: proto.weight,
        standing: standing_from_proto(proto.standing)?,
    })
}

pub(super) fn standing_to_proto(standing: Standing) -> storage::Standing {
    match standing {
        Standing::Active => storage::Standing::Active,
        Standing::Draining => storage::Standing::Draining,
        Standing::Dead => storage::Standing::Dead,
    }
}

pub(super) fn standing_from_proto(number: i32) -> Result<Standing, PartError> {
    match storage::Standing::try_from(number) {
        Ok(storage::Standing::Active) => Ok(Standing::Active),
        Ok(storage::Standing::Draining) => Ok(Standing::Draining),
        Ok(storage::Standing::Dead) => Ok(Standing::Dead),
        Ok(storage::Standing::Unspecified) | Err(_) => Err(PartError::unknown("standing", number)),
    }
}

pub(super) fn map_to_proto(map: &ShardMap) -> storage::ShardMap {
    let placement = |placement: &Placement| storage::Placement {
        home: placement.home.as_deref().map(str::to_owned),
        replicas: placement.replicas.iter().map(|node| node.0).collect(),
        leader: placement.leader.map(|node| node.0),
    };
    storage::ShardMap { epoch: map.epoch.0, shards: map.shards.iter().map(placement).collect() }
}

pub(super) fn map_from_proto(proto: storage::ShardMap) -> ShardMap {
    let placement = |proto: storage::Placement| Placement {
        home: proto.home.map(Into::into),
        replicas: proto.replicas.into_iter().map(NodeId).collect(),
        leader: proto.leader.map(NodeId),
    };
    ShardMap { epoch: Epoch(proto.epoch), shards: proto.shards.into_iter().map(placement).collect() }
}

pub(super) fn move_to_proto(shard: ShardId, moving: &Move) -> storage::ShardMove {
    let phase = match moving.phase {
        Phase::Learning => storage::Phase::Learning,
        Phase::Changing => storage::Phase::Changing,
        Phase::Retiring => storage::Phase::Retiring,
    };
    storage::ShardMove {
        shard: shard.0,
        to: moving.to.map(|node| node.0),
        from: moving.from.map(|node| node.0),
        phase: phase.into(),
    }
}

pub(super) fn move_from_proto(proto: &storage::ShardMove) -> Result<(ShardId, Move), PartError> {
    let phase = match storage::Phase::try_from(proto.phase) {
        Ok(storage::Phase::Learning) => Phase::Learning,
        Ok(storage::Phase::Changing) => Phase::Changing,
        Ok(storage::Phase::Retiring) => Phase::Retiring,
        Ok(storage::Phase::Unspecified) | Err(_) => return Err(PartError::unknown("phase", proto.phase)),
    };
    Ok((ShardId(proto.shard), Move { to: proto.to.map(NodeId), from: proto.from.map(NodeId), phase }))
}
