//! How the cluster stands: the control state, and what each node that can be reached says of its replicas.
//!
//! Invariant: a report is made of what was answered within half a second. Who didn't answer is shown as such, and a group
//! that no leader answered for as one without.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_control::{AuditEntry, Cluster, Control, NodeRecord};
use leasehold_gossip::{Load, Members};
use leasehold_model::{Epoch, NodeId, RulesVersion, ShardId};
use leasehold_placement::Move;
use leasehold_wire::peer::{ReplicaStatus, Role, StateHash, StatusRequest};

use crate::coordinator::Parts;
use crate::plan::GroupView;
use crate::status::{self, Statuses};

/// Who doesn't answer within this is shown as away.
const WITHIN: Duration = Duration::from_millis(500);
/// Hashing reads all states: who asked for that waits.
const WITHIN_HASHES: Duration = Duration::from_secs(10);
/// The newest audit entries that a report carries.
const AUDIT_MAX: usize = 50;

/// The cluster as one node sees it, with the others' help.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The cluster's name.
    pub name: String,
    /// Its constants, once it was created.
    pub cluster: Option<Cluster>,
    /// Of the shard map.
    pub epoch: Epoch,
    /// Of the rules.
    pub rules: RulesVersion,
    /// Every registered node, by id.
    pub members: Vec<MemberReport>,
    /// The control group.
    pub control: GroupReport,
    /// Every shard's group, by shard.
    pub shards: Vec<GroupReport>,
    /// Who changed what and when, oldest first; the newest 50.
    pub audit: Vec<AuditEntry>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// As it registered itself.
    pub record: NodeRecord,
    /// Whether it answered in time.
    pub answered: bool,
    /// Whether gossip hears it.
    pub live: bool,
    /// Shards that the map puts there.
    pub replicas: usize,
    /// Groups that it leads, the control group included.
    pub leads: usize,
    /// Whether it votes in the control group.
    pub votes: bool,
    /// The rules that it decides by, as gossip tells.
    pub rules: Option<RulesVersion>,
    /// How busy it is, as gossip tells.
    pub load: Option<Load>,
    /// How long a message from the reporting node to it and back takes; none while that isn't known, and for itself.
    pub round_trip: Option<Duration>,
}

/// One group: a shard, or the control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// The shard; none for the control group.
    pub shard: Option<ShardId>,
    /// Who serves it; none when nobody said so in time.
    pub leader: Option<NodeId>,
    /// The region that it is at home in.
    pub home: Option<Arc<str>>,
    /// Its newest term that anybody told of.
    pub term: u64,
    /// Who should lead it.
    pub preferred: Option<NodeId>,
    /// The nodes that hold it, or should; by id.
    pub replicas: Vec<ReplicaReport>,
    /// The replica that is on its way.
    pub moving: Option<Move>,
    /// Counters, as its leader has them.
    pub keys: Option<u64>,
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Where.
    pub node: NodeId,
    /// What it is to the group; none when its node didn't answer or has none.
    pub role: Option<Role>,
    /// The last entry applied.
    pub applied: Option<u64>,
    /// Entries that it surely has fewer than the leader has committed; none without a leader.
    pub behind: Option<u64>,
    /// The state's hash, if it was asked for.
    pub hash: Option<StateHash>,
}

impl GroupReport {
    /// Whether all replicas that gave a hash of the same place in the log gave the same.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let hashes: Vec<StateHash> = self.replicas.iter().filter_map(|replica| replica.hash).collect();
        hashes.iter().all(|a| hashes.iter().all(|b| a.applied != b.applied || a.hash == b.hash))
    }
}

/// Asks everybody.
pub(crate) async fn gather(parts: &Arc<Parts>, hashes: bool) -> Report {
    let control = parts.control();
    let nodes = control.nodes().keys().copied().filter(|node| parts.connected(*node)).chain([parts.node]);
    let request = StatusRequest { groups: Vec::new(), hash: hashes };
    let within = if hashes { WITHIN_HASHES } else { WITHIN };
    let statuses = status::ask_all(parts, nodes.collect(), &request, within).await;
    let mut report = assemble(parts.name.clone(), &control, &statuses, &(parts.members)());
    for member in &mut report.members {
        member.round_trip = parts.transport.round_trip(member.record.id);
    }
    report
}

fn assemble(name: String, control: &Control, statuses: &Statuses, heard: &Members) -> Report {
    let leaders = status::of_leaders(statuses);
    let shards = (0..).map(ShardId).zip(&control.map().shards);
    let skipped = control.audit().count().saturating_sub(AUDIT_MAX);
    Report {
        name,
        cluster: control.cluster().cloned(),
        epoch: control.epoch(),
        rules: control.rules_version(),
        members: members(control, statuses, &leaders, heard),
        control: group(GroupId::CONTROL, control, statuses, &leaders),
        shards: shards
            .map(|(shard, _)| group(GroupId::of_shard(shard), control, statuses, &leaders))
            .collect(),
        audit: control.audit().skip(skipped).cloned().collect(),
    }
}

fn members(
    control: &Control,
    statuses: &Statuses,
    leaders: &BTreeMap<GroupId, GroupView>,
    heard: &Members,
) -> Vec<MemberReport> {
    let loads = control.map().loads();
    let voters = leaders.get(&GroupId::CONTROL).map(|group| group.voters.as_slice()).unwrap_or_default();
    let member = |record: &NodeRecord| {
        let heard = heard.get(record.id);
        MemberReport {
            record: record.clone(),
            answered: statuses.contains_key(&record.id),
            live: heard.is_some_and(leasehold_gossip::Member::is_live),
            replicas: loads.get(&record.id).copied().unwrap_or_default(),
            leads: leaders.values().filter(|group| group.leader == record.id).count(),
            votes: voters.iter().any(|voters| voters.contains(&record.id)),
            rules: heard.map(|member| member.profile.rules),
            load: heard.map(|member| member.profile.load),
            round_trip: None,
        }
    };
    control.nodes().values().map(member).collect()
}

fn group(
    id: GroupId,
    control: &Control,
    statuses: &Statuses,
    leaders: &BTreeMap<GroupId, GroupView>,
) -> GroupReport {
    let shard = id.shard();
    let placement =
        shard.and_then(|shard| control.map().shards.get(usize::try_from(shard.0).unwrap_or(usize::MAX)));
    let mut held: BTreeMap<NodeId, Option<&ReplicaStatus>> =
        placement.iter().flat_map(|placement| &placement.replicas).map(|node| (*node, None)).collect();
    for (node, replicas) in statuses {
        if let Some(replica) = replicas.iter().find(|replica| replica.group == id.0) {
            held.insert(*node, Some(replica));
        }
    }
    let leader = leaders.get(&id);
    let term = held.values().flatten().map(|replica| replica.term).max();
    let leading = leader.and_then(|leader| held.get(&leader.leader).copied().flatten());
    GroupReport {
        shard,
        leader: leader.map(|leader| leader.leader),
        home: placement.and_then(|placement| placement.home.clone()),
        term: term.unwrap_or_default(),
        preferred: placement.and_then(|placement| placement.leader),
        keys: leading.and_then(|replica| replica.keys),
        moving: shard.and_then(|shard| control.moves().get(&shard).copied()),
        replicas: held.iter().map(|(node, status)| replica(*node, *status, leader)).collect(),
    }
}

fn replica(node: NodeId, status: Option<&ReplicaStatus>, leader: Option<&GroupView>) -> ReplicaReport {
    let behind = leader.map(|leader| {
        let has = if node == leader.leader {
            leader.committed
        } else {
            leader.matched.get(&node).copied().unwrap_or_default()
        };
        leader.committed.saturating_sub(has)
    });
    ReplicaReport {
        node,
        role: status.map(|status| status.role),
        applied: status.and_then(|status| status.applied),
        behind,
        hash: status.and_then(|status| status.hash),
    }
}

#[cfg(test)]
mod tests;
