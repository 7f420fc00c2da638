//! From a cluster's report to what the doors show of it.

use leasehold_cluster::{GroupReport, MemberReport, ReplicaReport, Report};
use leasehold_front::cluster::{
    ClusterStatus, GroupStatus, MemberStatus, MoveStatus, ReplicaStatus, Role, Standing, StateHash,
};
use leasehold_model::NodeId;
use leasehold_placement as placement;

/// As `node` tells it.
pub(super) fn status(report: Report, node: NodeId) -> ClusterStatus {
    let (id, replicas) = report.cluster.map_or((0, 0), |cluster| (cluster.id.0, cluster.replicas));
    let leads = |node| count(report.shards.iter().filter(|shard| shard.leader == Some(node)).count());
    let mut members: Vec<_> =
        report.members.iter().map(|report| member(report, leads(report.record.id))).collect();
    members.sort_by(|a, b| {
        let rank =
            |member: &MemberStatus| (member.standing == Standing::Dead, member.name.clone(), member.id);
        rank(a).cmp(&rank(b))
    });
    ClusterStatus {
        id,
        name: report.name,
        node,
        epoch: report.epoch,
        rules_version: report.rules,
        replicas,
        control: group(&report.control),
        members,
        shards: report.shards.iter().map(group).collect(),
    }
}

fn member(report: &MemberReport, leads: u32) -> MemberStatus {
    let record = &report.record;
    MemberStatus {
        id: record.id,
        name: record.name.to_string(),
        peer_address: record.peer_address.to_string(),
        client_address: record.client_address.to_string(),
        zone: record.zone.to_string(),
        region: record.region.to_string(),
        weight: record.weight,
        standing: match record.standing {
            placement::Standing::Active => Standing::Active,
            placement::Standing::Draining => Standing::Draining,
            placement::Standing::Dead => Standing::Dead,
        },
        answers: report.answered,
        live: report.live,
        votes: report.votes,
        replicas: count(report.replicas),
        leads,
        keys: report.load.as_ref().map(|load| load.keys),
        rules_version: report.rules,
        round_trip: report.round_trip,
    }
}

fn group(report: &GroupReport) -> GroupStatus {
    GroupStatus {
        leader: report.leader,
        preferred: report.preferred,
        home: report.home.as_deref().map(str::to_owned),
        keys: report.keys,
        replicas: report.replicas.iter().map(replica).collect(),
        moving: report.moving.map(|moving| MoveStatus {
            to: moving.to,
            from: moving.from,
            phase: match moving.phase {
                placement::Phase::Learning => "learning",
                placement::Phase::Changing => "changing",
                placement::Phase::Retiring => "retiring",
            },
        }),
    }
}

fn replica(report: &ReplicaReport) -> ReplicaStatus {
    ReplicaStatus {
        node: report.node,
        role: report.role.map(|role| match role {
            leasehold_cluster::Role::Learner => Role::Learner,
            leasehold_cluster::Role::Follower => Role::Follower,
            leasehold_cluster::Role::Candidate => Role::Candidate,
            leasehold_cluster::Role::Leader => Role::Leader,
        }),
        applied: report.applied,
        behind: report.behind,
        hash: report.hash.map(|hash| StateHash { applied: hash.applied, hash: hash.hash }),
    }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}
