//! How replicas stand: what a node says of its own, and asking all nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::runner::{self, GroupStatus, Runner};
use leasehold_consensus::transport::{Incoming, Refusal};
use leasehold_consensus::types::GroupId;
use leasehold_model::NodeId;
use leasehold_wire::peer::{ReplicaStatus, Role, StateHash, StatusReply, StatusRequest};
use tokio::task::{JoinSet, spawn_blocking};

use crate::calls;
use crate::coordinator::Parts;
use crate::machine::ShardMachine;
use crate::plan::GroupView;

/// What each node that answered says of its replicas.
pub(crate) type Statuses = BTreeMap<NodeId, Vec<ReplicaStatus>>;

/// Answers another node.
pub(crate) async fn answer(parts: Arc<Parts>, call: Incoming) -> Result<Bytes, Refusal> {
    let request = StatusRequest::decode(call.payload).map_err(|_| Refusal::Malformed)?;
    let replicas = of_this_node(&parts.runner, &request).await;
    Ok(StatusReply { replicas }.encode())
}

/// Asks these nodes, all at once. Those that don't answer in time are absent.
pub(crate) async fn ask_all(
    parts: &Arc<Parts>,
    nodes: BTreeSet<NodeId>,
    request: &StatusRequest,
    within: Duration,
) -> Statuses {
    let mut asked = JoinSet::new();
    for node in nodes {
        let (parts, request) = (Arc::clone(parts), request.clone());
        asked.spawn(async move {
            let answer = tokio::time::timeout(within, ask(&parts, node, request, within)).await;
            Some((node, answer.ok().flatten()?))
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// What the leaders among them say of their groups.
pub(crate) fn of_leaders(statuses: &Statuses) -> BTreeMap<GroupId, GroupView> {
    let mut groups: BTreeMap<GroupId, GroupView> = BTreeMap::new();
    for (node, replicas) in statuses {
        for status in replicas.iter().filter(|status| status.serving && status.role == Role::Leader) {
            let group = GroupId(status.group);
            if groups.get(&group).is_none_or(|known| known.term < status.term) {
                groups.insert(group, view(*node, status));
            }
        }
    }
    groups
}

fn view(leader: NodeId, status: &ReplicaStatus) -> GroupView {
    GroupView {
        leader,
        term: status.term,
        committed: status.committed.unwrap_or_default(),
        voters: status.voters.clone(),
        learners: status.learners.clone(),
        matched: status.matched.iter().filter_map(|(node, matched)| Some((*node, (*matched)?))).collect(),
    }
}

async fn ask(
    parts: &Parts,
    node: NodeId,
    request: StatusRequest,
    within: Duration,
) -> Option<Vec<ReplicaStatus>> {
    if node == parts.node {
        return Some(of_this_node(&parts.runner, &request).await);
    }
    let answer = parts.transport.call(node, calls::STATUS, GroupId::CONTROL, request.encode(), within).await;
    Some(StatusReply::decode(answer.ok()?).ok()?.replicas)
}

async fn of_this_node(runner: &Runner, request: &StatusRequest) -> Vec<ReplicaStatus> {
    let mut replicas = Vec::new();
    for group in runner.groups() {
        if !request.groups.is_empty() && !request.groups.contains(&group.0) {
            continue;
        }
        let Some(status) = runner.status(group).await else { continue };
        let hash = if request.hash { state_hash(runner, group).await } else { None };
        replicas.push(replica(status, hash, keys(runner, group)));
    }
    replicas
}

/// Hashing takes as long as the state is large: not on a thread that others wait for.
async fn state_hash(runner: &Runner, group: GroupId) -> Option<StateHash> {
    let runner = runner.clone();
    let hash = spawn_blocking(move || runner.state_hash(group)).await;
    hash.ok().flatten().map(|(applied, hash)| StateHash { applied, hash })
}

fn keys(runner: &Runner, group: GroupId) -> Option<u64> {
    let keys = runner.with_machine(group, |machine: &ShardMachine| machine.shard.keys())?;
    u64::try_from(keys).ok()
}

fn replica(status: GroupStatus, hash: Option<StateHash>, keys: Option<u64>) -> ReplicaStatus {
    ReplicaStatus {
        group: status.group.0,
        role: match status.role {
            runner::Role::Learner => Role::Learner,
            runner::Role::Follower => Role::Follower,
            runner::Role::Candidate => Role::Candidate,
            runner::Role::Leader => Role::Leader,
        },
        term: status.term,
        leader: status.leader,
        serving: status.serving,
        last_log: status.last_log,
        committed: status.committed,
        applied: status.applied,
        snapshot: status.snapshot,
        purged: status.purged,
        voters: status.voters,
        learners: status.learners,
        matched: status.matched,
        hash,
        keys,
    }
}
