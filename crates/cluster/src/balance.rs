//! Who leads: shards go back to the replicas that the map prefers, and everything is handed over before a stop.
//!
//! Invariant: leadership is only ever passed to a voter that has everything and says that it would lead; a handover is a
//! short pause for its shard, so there is one at a time, except before a stop.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::runner::GroupStatus;
use leasehold_consensus::types::GroupId;
use leasehold_control::{Command, Control, Refusal, Reply};
use leasehold_model::{Epoch, NodeId, ShardId};
use leasehold_placement::Standing;
use leasehold_wire::peer::{Change, ChangeReply, ChangeRequest};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::change;
use crate::coordinator::Parts;

/// The pause between two handovers of a node.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A node has to be connected for so long before a shard goes back to it: one that comes and goes would cost a pause each.
const CONNECTED_MIN: Duration = Duration::from_secs(5);
/// A shard has to be led here for so long before it goes back: whoever handed it over may be about to stop.
const LED_MIN: Duration = Duration::from_secs(8);
/// A handover that failed isn't tried again for so long: others have their turn.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// How long one handover may take.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(2);
/// Handovers at once before a stop: each waits for a lease to end, and all of them share the stop's time.
const HAND_OVERS_MAX: usize = 16;
/// The control group answers a wish within this.
const COMMAND_WITHIN: Duration = Duration::from_secs(5);
/// The map changes under a wish at most so often, or the wish is refused.
const MAP_TRIES_MAX: usize = 8;

/// What one node has seen of the others and of its own groups.
#[derive(Debug, Default)]
struct Memory {
    /// Since when a connection to the node stands.
    connected: BTreeMap<NodeId, Instant>,
    /// Since when this node leads the group.
    led: BTreeMap<GroupId, Instant>,
    /// When a handover was last tried.
    tried: BTreeMap<GroupId, Instant>,
}

/// Gives back what another should lead, one shard at a time. Runs for ever.
pub(crate) async fn run(parts: Arc<Parts>) {
    let mut memory = Memory::default();
    loop {
        sleep(LOOK_EVERY).await;
        let now = Instant::now();
        let peers = parts.transport.peers().into_iter().filter(|(_, up)| *up).map(|(node, _)| node);
        keep(&mut memory.connected, peers.collect(), now);
        let led = parts.runner.groups().into_iter().filter(|group| parts.runner.is_leader(*group));
        keep(&mut memory.led, led.collect(), now);
        if let Some((group, to)) = memory.due(&parts.control(), now) {
            memory.tried.insert(group, now);
            give_back(&parts, group, to).await;
        }
    }
}

/// Those that are there now, each with the time since when.
fn keep<K: Ord>(since: &mut BTreeMap<K, Instant>, there: BTreeSet<K>, now: Instant) {
    since.retain(|key, _| there.contains(key));
    for key in there {
        since.entry(key).or_insert(now);
    }
}

impl Memory {
    /// The shard that should be given to its preferred leader now.
    fn due(&self, control: &Control, now: Instant) -> Option<(GroupId, NodeId)> {
        let long = |since: Option<&Instant>, least: Duration| {
            since.is_some_and(|since| now.saturating_duration_since(*since) >= least)
        };
        let shards = (0..).map(ShardId).zip(&control.map().shards);
        let due = shards.filter_map(|(shard, placement)| {
            let group = GroupId::of_shard(shard);
            let to = placement.leader?;
            let rested = self.tried.get(&group).is_none_or(|at| long(Some(at), RETRY_AFTER));
            let due = long(self.led.get(&group), LED_MIN)
                && long(self.connected.get(&to), CONNECTED_MIN)
                && !control.moves().contains_key(&shard)
                && rested;
            due.then_some((group, to))
        });
        due.min_by_key(|(group, _)| self.tried.get(group).copied())
    }
}

async fn give_back(parts: &Parts, group: GroupId, to: NodeId) {
    let Some(status) = parts.runner.status(group).await else { return };
    if !ready(parts, &status).contains(&to) || change::would_lead(parts, group, to).await.is_err() {
        return;
    }
    match parts.runner.transfer(group, to, HAND_OVER_WITHIN).await {
        Ok(()) => tracing::debug!(group = group.0, %to, "gave a group to its preferred leader"),
        Err(error) => tracing::debug!(group = group.0, %to, %error, "a group stays"),
    }
}

/// Other voters that could lead at once, while the voters aren't changing.
fn ready(parts: &Parts, status: &GroupStatus) -> Vec<NodeId> {
    let [voters] = status.voters.as_slice() else { return Vec::new() };
    let near = |node: &&NodeId| {
        let matched = status.matched.get(node).copied().flatten();
        **node != parts.node && parts.connected(**node) && has_most(matched, status.committed)
    };
    voters.iter().filter(near).copied().collect()
}

/// A handover waits for the rest, with the group at a stop: it may not be much.
fn has_most(matched: Option<u64>, committed: Option<u64>) -> bool {
    const LAG_MAX: u64 = 256;
    matched.unwrap_or_default().saturating_add(LAG_MAX) >= committed.unwrap_or_default()
}

/// Hands all groups that this node leads to the best other voter of each, many at once.
pub(crate) async fn hand_over(parts: &Arc<Parts>, within: Duration) {
    let room = Arc::new(Semaphore::new(HAND_OVERS_MAX));
    let mut handed = JoinSet::new();
    for group in parts.runner.groups() {
        let (parts, room) = (Arc::clone(parts), Arc::clone(&room));
        handed.spawn(async move {
            let _place = room.acquire().await;
            if parts.runner.is_leader(group) {
                hand_over_one(&parts, group).await;
            }
        });
    }
    if timeout(within, async { while handed.join_next().await.is_some() {} }).await.is_err() {
        tracing::info!("not all groups were handed over in time; the others elect for themselves");
    }
}

async fn hand_over_one(parts: &Parts, group: GroupId) {
    let Some(status) = parts.runner.status(group).await else { return };
    let control = parts.control();
    let placement = group.shard().and_then(|shard| control.map().shards.get(usize::try_from(shard.0).ok()?));
    let stays =
        |node: NodeId| control.nodes().get(&node).is_some_and(|record| record.standing == Standing::Active);
    let preferred = |node: NodeId| placement.is_some_and(|placement| placement.leader == Some(node));
    let mut best = ready(parts, &status);
    best.sort_by_key(|node| {
        Reverse((stays(*node), preferred(*node), status.matched.get(node).copied().flatten()))
    });
    for to in best {
        if change::would_lead(parts, group, to).await.is_err() {
            continue;
        }
        match parts.runner.transfer(group, to, HAND_OVER_WITHIN).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(group = group.0, %to, %error, "a group wasn't handed over"),
        }
    }
}

/// Has a replica lead its shard now, and the map prefer it from now on.
pub(crate) async fn move_leader(parts: &Parts, shard: ShardId, to: NodeId) -> Result<(), String> {
    let control = parts.control();
    let index = usize::try_from(shard.0).unwrap_or(usize::MAX);
    let Some(placement) = control.map().shards.get(index) else {
        return Err(format!("there is no shard {shard}: the cluster has {}", control.map().shards.len()));
    };
    if !placement.replicas.contains(&to) {
        let replicas: Vec<String> = placement.replicas.iter().map(ToString::to_string).collect();
        return Err(format!(
            "node {to} has no replica of shard {shard}: choose one of {}",
            replicas.join(", ")
        ));
    }
    let group = GroupId::of_shard(shard);
    change::would_lead(parts, group, to).await?;
    let first = parts.runner.leader(group).unwrap_or(to);
    let request = ChangeRequest { group: group.0, change: Change::Transfer(to) };
    match change::ask(parts, first, &request).await {
        ChangeReply::Done => {}
        ChangeReply::NotLeader { .. } => return Err("the shard has no leader now: try again".to_owned()),
        ChangeReply::Refused(reason) => return Err(reason),
        ChangeReply::Unknown => return Err(format!("node {to} didn't take over in time")),
    }
    prefer(parts, index, to).await
}

/// Has the map prefer this leader; otherwise the shard would be given back.
async fn prefer(parts: &Parts, index: usize, to: NodeId) -> Result<(), String> {
    let deadline = Instant::now() + COMMAND_WITHIN;
    for _ in 0..MAP_TRIES_MAX {
        let mut map = parts.control().map().clone();
        match map.shards.get_mut(index) {
            Some(placement) if placement.leader == Some(to) => return Ok(()),
            Some(placement) => placement.leader = Some(to),
            None => return Err("there is no such shard any more".to_owned()),
        }
        map.epoch = Epoch(map.epoch.0 + 1);
        match (parts.commands)(Command::SetMap { map }, deadline).await {
            // This node may not have seen the newest map yet.
            Ok(Reply::Refused(Refusal::MapConflict(_))) => sleep(Duration::from_millis(100)).await,
            Ok(Reply::Refused(refusal)) => return Err(refusal.to_string()),
            Ok(Reply::Done | Reply::Map(_) | Reply::Rules(_)) => return Ok(()),
            Err(error) => return Err(format!("node {to} leads now, but not for long: {error}")),
        }
    }
    Err(format!("node {to} leads now, but not for long: the shard map is changing"))
}

#[cfg(test)]
mod tests;
