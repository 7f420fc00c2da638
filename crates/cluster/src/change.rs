//! Changes of a group's members and leader: carried out by its leader, asked for by the planner and by operators.
//!
//! Invariant: a change is carried out while its asker waits or not at all: one that comes late would undo what was decided
//! since. What became of it may stay unknown; the group's status tells.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_consensus::runner::{MemberError, Runner, TransferError};
use leasehold_consensus::transport::{CallError, Incoming, Refusal};
use leasehold_consensus::types::GroupId;
use leasehold_model::NodeId;
use leasehold_wire::peer::{Change, ChangeReply, ChangeRequest};
use tokio::time::Instant;

use crate::calls;
use crate::coordinator::Parts;

/// How long a change may take: two entries on a majority's disks, or a handover.
pub(crate) const WITHIN: Duration = Duration::from_secs(3);
/// Leaders that are asked in turn; each names the next. Leadership that moves faster is asked for again later.
const HOPS_MAX: usize = 4;

/// Answers another node.
pub(crate) async fn answer(parts: Arc<Parts>, call: Incoming) -> Result<Bytes, Refusal> {
    let request = ChangeRequest::decode(call.payload).map_err(|_| Refusal::Malformed)?;
    let within = call.deadline.saturating_duration_since(Instant::now());
    Ok(carry_out(&parts, &request, within).await.encode())
}

/// Asks for a change, first this node and then whom it names.
pub(crate) async fn ask(parts: &Parts, first: NodeId, request: &ChangeRequest) -> ChangeReply {
    let mut leader = first;
    for _ in 0..HOPS_MAX {
        let reply = ask_one(parts, leader, request).await;
        match reply {
            ChangeReply::NotLeader { hint: Some(hint) } if hint != leader => leader = hint,
            ChangeReply::Done
            | ChangeReply::NotLeader { .. }
            | ChangeReply::Refused(_)
            | ChangeReply::Unknown => return reply,
        }
    }
    ChangeReply::NotLeader { hint: Some(leader) }
}

/// Whether a node would lead the group, by its own word: asked to lead what it doesn't, one that can't refuses.
pub(crate) async fn would_lead(parts: &Parts, group: GroupId, node: NodeId) -> Result<(), String> {
    let request = ChangeRequest { group: group.0, change: Change::Transfer(node) };
    match ask_one(parts, node, &request).await {
        ChangeReply::Done | ChangeReply::NotLeader { .. } => Ok(()),
        ChangeReply::Refused(reason) => Err(reason),
        ChangeReply::Unknown => Err(format!("node {node} doesn't answer")),
    }
}

async fn ask_one(parts: &Parts, leader: NodeId, request: &ChangeRequest) -> ChangeReply {
    if leader == parts.node {
        return carry_out(parts, request, WITHIN).await;
    }
    let group = GroupId(request.group);
    let payload = request.clone().encode();
    match parts.transport.call(leader, calls::CHANGE, group, payload, WITHIN).await {
        Ok(answer) => ChangeReply::decode(answer).unwrap_or(ChangeReply::Unknown),
        Err(error) => uncalled(error),
    }
}

fn uncalled(error: CallError) -> ChangeReply {
    if error.unsent() { ChangeReply::Refused(error.to_string()) } else { ChangeReply::Unknown }
}

async fn carry_out(parts: &Parts, request: &ChangeRequest, within: Duration) -> ChangeReply {
    let (runner, group) = (&parts.runner, GroupId(request.group));
    match &request.change {
        Change::AddLearner(node) => changed(runner.add_learner(group, *node, within).await),
        Change::RemoveLearner(node) => changed(runner.remove_learner(group, *node, within).await),
        Change::Voters(voters) => changed(runner.change_voters(group, voters, within).await),
        Change::Transfer(to) if *to == parts.node => take_over(parts, group),
        Change::Transfer(to) => transfer(runner, group, *to, within).await,
    }
}

/// This node can't take over by itself: it says whether it leads, would, or can't.
fn take_over(parts: &Parts, group: GroupId) -> ChangeReply {
    if parts.runner.is_leader(group) {
        return ChangeReply::Done;
    }
    match parts.unfit() {
        Some(reason) => ChangeReply::Refused(reason.to_owned()),
        None => {
            ChangeReply::NotLeader { hint: parts.runner.leader(group).filter(|node| *node != parts.node) }
        }
    }
}

async fn transfer(runner: &Runner, group: GroupId, to: NodeId, within: Duration) -> ChangeReply {
    match runner.transfer(group, to, within).await {
        Ok(()) => ChangeReply::Done,
        Err(TransferError::NotLeader { hint }) => ChangeReply::NotLeader { hint },
        Err(TransferError::NoGroup) => ChangeReply::NotLeader { hint: None },
        Err(error @ (TransferError::NotVoter | TransferError::Busy)) => {
            ChangeReply::Refused(error.to_string())
        }
        Err(TransferError::Deadline) => ChangeReply::Unknown,
    }
}

fn changed(outcome: Result<(), MemberError>) -> ChangeReply {
    match outcome {
        Ok(()) => ChangeReply::Done,
        Err(MemberError::NotLeader { hint }) => ChangeReply::NotLeader { hint },
        Err(MemberError::NoGroup) => ChangeReply::NotLeader { hint: None },
        Err(MemberError::Refused(reason)) => ChangeReply::Refused(reason),
        Err(MemberError::Unknown) => ChangeReply::Unknown,
    }
}
