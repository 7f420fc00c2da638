//! The planner: on the leader of the control group, from how things are to how they should be.
//!
//! Invariant: what is done follows from the control state, what the groups' leaders say and who is heard (`decide`, pure);
//! no step depends on one that an earlier pass took. So a planner may stop between any two steps, and the next leader of
//! the control group goes on from what it finds.

mod decide;
mod members;
mod memory;
mod moves;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::types::GroupId;
use leasehold_control::{Command, Control, Reply};
use leasehold_model::NodeId;
use leasehold_wire::peer::{Change, ChangeReply, ChangeRequest, StatusRequest};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::coordinator::Parts;
use crate::{change, status};

use decide::decide;
use memory::Memory;
pub(crate) use view::{Action, GroupView, Seen, View};

/// The time between two passes, while nothing changes sooner.
const PASS_EVERY: Duration = Duration::from_millis(500);
/// A node that doesn't say within this how its replicas stand isn't counted on in this pass.
const LOOK_WITHIN: Duration = Duration::from_millis(500);
/// The control group answers within this, or the next pass tries again.
const COMMAND_WITHIN: Duration = Duration::from_secs(3);

/// Plans while this node leads the control group. Runs for ever.
pub(crate) async fn run(parts: Arc<Parts>) {
    let mut control = parts.control.clone();
    let mut memory = Memory::default();
    loop {
        tokio::select! {
            () = sleep(PASS_EVERY) => {}
            changed = control.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        let control = Arc::clone(&control.borrow_and_update());
        if parts.runner.is_leader(GroupId::CONTROL) {
            pass(&parts, &control, &mut memory).await;
        } else {
            memory = Memory::default();
        }
    }
}

async fn pass(parts: &Arc<Parts>, control: &Arc<Control>, memory: &mut Memory) {
    let now = Instant::now();
    let seen = memory.see(parts, control, now);
    let due = memory.look_is_due(parts, control, &seen, now);
    memory.control = Some(Arc::clone(control));
    if !due {
        return;
    }
    memory.looked = Some(now);
    let request = StatusRequest { groups: Vec::new(), hash: false };
    let nodes = seen.iter().filter(|(_, seen)| seen.connected).map(|(node, _)| *node).chain([parts.node]);
    let statuses = status::ask_all(parts, nodes.collect(), &request, LOOK_WITHIN).await;
    let groups = status::of_leaders(&statuses);
    let eligible: BTreeSet<NodeId> =
        control.members().iter().filter(|member| member.eligible()).map(|member| member.id).collect();
    let known = memory.eligible.get_or_insert_with(|| eligible.clone());
    let view = View {
        control,
        me: parts.node,
        groups: &groups,
        seen: &seen,
        founding: parts.founding.as_ref(),
        rules: &parts.rules,
        replace_after: parts.replace_after,
        leaders_stale: *known != eligible,
    };
    let all_led = view.all_led();
    let actions = decide(&view);
    memory.busy = !actions.is_empty();
    if carry_out(parts, actions).await && all_led {
        memory.eligible = Some(eligible);
    }
}

/// Commands one after the other, changes of different groups at once; whether all commands were answered.
async fn carry_out(parts: &Arc<Parts>, actions: Vec<Action>) -> bool {
    let mut asks: BTreeMap<GroupId, Vec<(NodeId, Change)>> = BTreeMap::new();
    let mut answered = true;
    for action in actions {
        match action {
            Action::Propose(command) => answered &= propose(parts, command).await,
            Action::Ask { group, leader, change } => {
                asks.entry(group).or_default().push((leader, change));
            }
        }
    }
    let mut asked = JoinSet::new();
    for (group, changes) in asks {
        let parts = Arc::clone(parts);
        asked.spawn(async move {
            for (leader, change) in changes {
                ask(&parts, group, leader, change).await;
            }
        });
    }
    asked.join_all().await;
    answered
}

async fn propose(parts: &Parts, command: Command) -> bool {
    tell(&command);
    match (parts.commands)(command, Instant::now() + COMMAND_WITHIN).await {
        Ok(Reply::Refused(refusal)) => {
            tracing::debug!(%refusal, "the control group refused a step of the planner");
            true
        }
        Ok(Reply::Done | Reply::Rules(_) | Reply::Map(_)) => true,
        Err(error) => {
            tracing::debug!(%error, "the control group didn't answer the planner");
            false
        }
    }
}

async fn ask(parts: &Parts, group: GroupId, leader: NodeId, change: Change) {
    let request = ChangeRequest { group: group.0, change };
    match change::ask(parts, leader, &request).await {
        ChangeReply::Done => tracing::debug!(group = group.0, change = ?request.change, "a group changed"),
        reply @ (ChangeReply::NotLeader { .. } | ChangeReply::Refused(_) | ChangeReply::Unknown) => {
            tracing::debug!(group = group.0, change = ?request.change, ?reply, "a group didn't change");
        }
    }
}

/// What an operator wants in a timeline.
fn tell(command: &Command) {
    match command {
        Command::Create { cluster, nodes, .. } => {
            tracing::info!(cluster = %cluster.id, nodes = nodes.len(), "creating the cluster");
        }
        Command::SetStanding { node, standing, .. } => {
            tracing::warn!(%node, ?standing, "a node has been silent for too long and is replaced");
        }
        Command::Moving { shard, moving } => {
            tracing::info!(%shard, to = ?moving.to, from = ?moving.from, phase = ?moving.phase, "moving a replica");
        }
        Command::Moved { shard } => tracing::info!(%shard, "the move is over"),
        Command::SetMap { map } => tracing::info!(epoch = %map.epoch, "the shard map changes"),
        Command::Register(_) | Command::Forget { .. } | Command::Rules(_) => {}
    }
}

#[cfg(test)]
mod tests;
