//! A cluster's status as messages.

use leasehold_model::NodeId;
use leasehold_wire::proto::leasehold::v1;

use crate::cluster::{
    AuditEntry, ClusterStatus, GroupStatus, MemberStatus, ReplicaStatus, Role, Standing, StateHash,
};

pub(super) fn response(status: ClusterStatus) -> v1::ClusterResponse {
    v1::ClusterResponse {
        id: format!("{:032x}", status.id),
        name: status.name,
        node: status.node.0,
        epoch: status.epoch.0,
        rules_version: status.rules_version.0,
        replicas: status.replicas,
        control: Some(group(0, &status.control)),
        members: status.members.into_iter().map(member).collect(),
        shards: (0..).zip(&status.shards).map(|(shard, status)| group(shard, status)).collect(),
    }
}

pub(super) fn audit_entry(entry: AuditEntry) -> v1::AuditEntry {
    v1::AuditEntry { at_unix_nanos: entry.at.0, by: entry.by.to_string(), what: entry.what.to_string() }
}

/// `None`: unspecified.
pub(super) fn standing(standing: v1::Standing) -> Option<Standing> {
    match standing {
        v1::Standing::Unspecified => None,
        v1::Standing::Active => Some(Standing::Active),
        v1::Standing::Draining => Some(Standing::Draining),
        v1::Standing::Dead => Some(Standing::Dead),
    }
}

fn member(member: MemberStatus) -> v1::Member {
    let standing = match member.standing {
        Standing::Active => v1::Standing::Active,
        Standing::Draining => v1::Standing::Draining,
        Standing::Dead => v1::Standing::Dead,
    };
    let round_trip_micros = member.round_trip_micros();
    v1::Member {
        id: member.id.0,
        name: member.name,
        peer_address: member.peer_address,
        client_address: member.client_address,
        zone: member.zone,
        region: member.region,
        weight: member.weight,
        standing: standing.into(),
        answers: member.answers,
        live: member.live,
        votes: member.votes,
        replicas: member.replicas,
        leads: member.leads,
        keys: member.keys,
        rules_version: member.rules_version.map(|version| version.0),
        round_trip_micros,
    }
}

fn group(shard: u32, group: &GroupStatus) -> v1::ShardStatus {
    let moving = group.moving.map(|moving| v1::ReplicaMove {
        to: id(moving.to),
        from: id(moving.from),
        phase: moving.phase.to_owned(),
    });
    v1::ShardStatus {
        shard,
        leader: id(group.leader),
        preferred: id(group.preferred),
        keys: group.keys,
        replicas: group.replicas.iter().map(replica).collect(),
        r#move: moving,
        home: group.home.clone().unwrap_or_default(),
    }
}

fn replica(replica: &ReplicaStatus) -> v1::ReplicaStatus {
    let role = match replica.role {
        None => v1::Role::Unspecified,
        Some(Role::Learner) => v1::Role::Learner,
        Some(Role::Follower) => v1::Role::Follower,
        Some(Role::Candidate) => v1::Role::Candidate,
        Some(Role::Leader) => v1::Role::Leader,
    };
    v1::ReplicaStatus {
        node: replica.node.0,
        role: role.into(),
        applied: replica.applied,
        behind: replica.behind,
        hash: replica.hash.map(|StateHash { applied, hash }| v1::StateHash { applied, hash }),
    }
}

/// No node has the id 0.
fn id(node: Option<NodeId>) -> u64 {
    node.map_or(0, |node| node.0)
}
