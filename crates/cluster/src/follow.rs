//! Follows the control group: where peers are, which replicas belong here, whom the map wants to lead.
//!
//! Invariant: a replica is founded only by those that the first map named, with the voters that it named; any other starts
//! empty and waits for its leader. A replica is removed only when neither the map nor a move names this node and the
//! group's leader has said just now that it has no part in the group: the state that a node follows may be old, and so may
//! an answer that was read before the machine was suspended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::runner::{CreateError, Runner};
use leasehold_consensus::transport::Transport;
use leasehold_consensus::types::GroupId;
use leasehold_control::{Control, NodeRecord};
use leasehold_model::{Nanos, NodeId, ShardId};
use leasehold_placement::{self as placement, Layout, ShardMap, Shards, Standing};
use leasehold_wire::peer::{Founding, StatusReply, StatusRequest};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::Clock;
use crate::calls::STATUS;
use crate::data::{DataDir, blocking};

/// How often everything is looked at although nothing changed: what failed before is tried again.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a leader may take to say who has a part in its group.
const STATUS_MAX: Duration = Duration::from_secs(1);

/// How old the leader's answer may be when a replica is removed. A node that has no part in a group takes longer to vote in it
/// again: the planner has to decide on a move, the replica to catch up, the group to change its voters.
const ANSWER_AGE_MAX: Nanos = Nanos::from_millis(1_500);

/// What to do about the replica of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Found it, with these voters.
    Create(GroupId, BTreeSet<NodeId>),
    /// Start it empty.
    Join(GroupId),
    /// Remove it, if the group's leader agrees.
    Remove(GroupId),
}

/// Why a node can't follow any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// It was declared dead.
    #[error(
        "this node (id {0}) was declared dead and replaced: empty its data directory and start it again, \
         it will join as a new node"
    )]
    Dead(NodeId),
    /// A replica can't be started.
    #[error("a replica can't be started: {0}")]
    Replica(#[from] CreateError),
    /// A replica can't be removed.
    #[error("a replica can't be removed: {0}")]
    Remove(std::io::Error),
}

/// The shards' map that a founding leads to, the same on every founder.
pub(crate) fn first_map(founding: &Founding) -> Option<ShardMap> {
    let layout = Layout {
        shards: Shards::new(founding.cluster.shards).ok()?,
        replicas: usize::try_from(founding.cluster.replicas).ok()?,
    };
    let members: Vec<_> = founding.founders.iter().map(NodeRecord::member).collect();
    placement::first_map(&layout, &members).ok()
}

/// What to do about shards' replicas on `me`, which has those of `here`. `first` is the first map, where it is known.
///
/// Who is named by the map and has nothing either is a founder that never came to found, or has seen the map before the
/// move that led to it: what it was a part of from the beginning it founds, since that may be missing everywhere else too.
pub(crate) fn wanted(
    control: &Control,
    first: Option<&ShardMap>,
    me: NodeId,
    here: &BTreeSet<GroupId>,
) -> Vec<Action> {
    let about = |(shard, placement): (ShardId, &leasehold_placement::Placement)| {
        let group = GroupId::of_shard(shard);
        let moving = control.moves().get(&shard);
        let comes = moving.is_some_and(|moving| moving.to == Some(me));
        let leaves = moving.is_some_and(|moving| moving.from == Some(me));
        let stands = placement.replicas.contains(&me);
        match (here.contains(&group), stands, comes) {
            (true, false, false) if !leaves => Some(Action::Remove(group)),
            (true, _, _) | (false, false, false) => None,
            (false, _, true) => Some(Action::Join(group)),
            (false, true, false) => {
                Some(founders_of(control, first, shard).map_or(Action::Join(group), |founders| {
                    if founders.contains(&me) { Action::Create(group, founders) } else { Action::Join(group) }
                }))
            }
        }
    };
    (0..).map(ShardId).zip(&control.map().shards).filter_map(about).collect()
}

fn founders_of(control: &Control, first: Option<&ShardMap>, shard: ShardId) -> Option<BTreeSet<NodeId>> {
    let map = if control.epoch().0 == 1 { Some(control.map()) } else { first };
    let placement = map?.shards.get(usize::try_from(shard.0).ok()?)?;
    Some(placement.replicas.iter().copied().collect())
}

/// Whether the replica of `group` may be removed on a leader's answer of this age: nothing may have come of it since.
pub(crate) fn may_remove(
    control: &Control,
    first: Option<&ShardMap>,
    me: NodeId,
    group: GroupId,
    answer_age: Nanos,
) -> bool {
    let unwanted = wanted(control, first, me, &BTreeSet::from([group])).contains(&Action::Remove(group));
    unwanted && answer_age <= ANSWER_AGE_MAX
}

/// Where the other nodes are that aren't dead.
pub(crate) fn addresses(control: &Control, me: NodeId) -> BTreeMap<NodeId, Arc<str>> {
    let others = control.nodes().values().filter(|node| node.id != me && node.standing != Standing::Dead);
    others.map(|node| (node.id, Arc::clone(&node.peer_address))).collect()
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) me: NodeId,
    pub(crate) data: Arc<DataDir>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) runner: Runner,
    pub(crate) transport: Transport,
    pub(crate) control: watch::Receiver<Arc<Control>>,
    pub(crate) first: Option<ShardMap>,
    /// A node whose disk is full wants to lead nothing.
    pub(crate) full: watch::Receiver<bool>,
    /// What was told to the transport: an address that was found otherwise stands until the registered one changes.
    pub(crate) told: BTreeMap<NodeId, Arc<str>>,
    /// What was told to the runner.
    pub(crate) preferred: BTreeMap<GroupId, bool>,
}

impl Follower {
    /// Follows until the control group's replica is gone.
    ///
    /// # Errors
    /// [`FollowError`]: the node can't go on.
    pub(crate) async fn run(mut self) -> Result<(), FollowError> {
        loop {
            let control = Arc::clone(&self.control.borrow_and_update());
            if control.cluster().is_some() {
                self.follow(&control).await?;
            }
            let changed = async {
                tokio::select! {
                    changed = self.control.changed() => changed.is_ok(),
                    changed = self.full.changed() => changed.is_ok(),
                }
            };
            if let Ok(false) = timeout(LOOK_EVERY, changed).await {
                return Ok(());
            }
        }
    }

    async fn follow(&mut self, control: &Control) -> Result<(), FollowError> {
        if control.nodes().get(&self.me).is_some_and(|node| node.standing == Standing::Dead) {
            return Err(FollowError::Dead(self.me));
        }
        self.tell_addresses(control).await;
        let here = self.runner.groups().into_iter().collect();
        let (removals, rest): (Vec<_>, Vec<_>) = wanted(control, self.first.as_ref(), self.me, &here)
            .into_iter()
            .partition(|action| matches!(action, Action::Remove(_)));
        for action in rest {
            self.carry_out(control, action).await?;
        }
        self.tell_preferred(control);
        for action in removals {
            self.carry_out(control, action).await?;
        }
        Ok(())
    }

    async fn tell_addresses(&mut self, control: &Control) {
        let addresses = addresses(control, self.me);
        let known: BTreeSet<NodeId> = self.transport.peers().into_iter().map(|(node, _)| node).collect();
        for (node, address) in &addresses {
            if self.told.get(node) != Some(address) || !known.contains(node) {
                self.transport.set_peer(*node, address);
            }
        }
        for gone in known.iter().filter(|node| !addresses.contains_key(node)) {
            self.transport.remove_peer(*gone);
        }
        if self.told != addresses {
            let peers: Vec<_> = addresses.iter().map(|(node, at)| (*node, Arc::clone(at))).collect();
            match blocking(&self.data, move |data| data.set_peers(&peers)).await {
                Ok(()) => self.told = addresses,
                // They are told again at the next look; until then a restart asks at the seeds.
                Err(error) => tracing::warn!(%error, "the peers' addresses can't be remembered"),
            }
        }
    }

    async fn carry_out(&mut self, control: &Control, action: Action) -> Result<(), FollowError> {
        tracing::debug!(?action, epoch = control.epoch().0, "replica");
        let outcome = match action {
            Action::Create(group, voters) => self.runner.create_group(group, &voters).await,
            Action::Join(group) => self.runner.join_group(group).await,
            Action::Remove(group) => {
                self.remove(control, group).await?;
                Ok(())
            }
        };
        match outcome {
            Ok(()) | Err(CreateError::Exists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a replica if the group's leader agrees. Where too much has passed since it was asked, that waits for the next
    /// look.
    async fn remove(&mut self, control: &Control, group: GroupId) -> Result<(), FollowError> {
        let asked_at = self.clock.boot();
        if !self.has_no_part(control, group).await {
            return Ok(());
        }
        let now = Arc::clone(&self.control.borrow());
        let answer_age = self.clock.boot().since(asked_at);
        if !may_remove(&now, self.first.as_ref(), self.me, group, answer_age) {
            tracing::debug!(group = group.0, age = answer_age.0, "a replica stays: the answer is too old");
            return Ok(());
        }
        self.runner.remove_group(group).await.map_err(FollowError::Remove)?;
        self.preferred.remove(&group);
        Ok(())
    }

    /// Whether the group's leader says that this node neither votes in it nor learns.
    async fn has_no_part(&self, control: &Control, group: GroupId) -> bool {
        let replicas = group.shard().and_then(|shard| usize::try_from(shard.0).ok());
        let replicas = replicas.and_then(|shard| control.map().shards.get(shard));
        for node in replicas.iter().flat_map(|placement| &placement.replicas) {
            let request = StatusRequest { groups: vec![group.0], hash: false }.encode();
            let answer = self.transport.call(*node, STATUS, GroupId::CONTROL, request, STATUS_MAX).await;
            let Some(reply) = answer.ok().and_then(|answer| StatusReply::decode(answer).ok()) else {
                continue;
            };
            let led = reply.replicas.into_iter().find(|replica| replica.group == group.0 && replica.serving);
            if let Some(led) = led {
                let votes = led.voters.iter().any(|voters| voters.contains(&self.me));
                return !votes && !led.learners.contains(&self.me);
            }
        }
        false
    }

    fn tell_preferred(&mut self, control: &Control) {
        let full = *self.full.borrow_and_update();
        for (shard, placement) in (0..).map(ShardId).zip(&control.map().shards) {
            let group = GroupId::of_shard(shard);
            let preferred = placement.leader == Some(self.me) && !full;
            if self.runner.leadership(group).is_none() {
                self.preferred.remove(&group);
            } else if self.preferred.insert(group, preferred) != Some(preferred) {
                self.runner.prefer(group, preferred);
            }
        }
    }
}

#[cfg(test)]
mod tests;
