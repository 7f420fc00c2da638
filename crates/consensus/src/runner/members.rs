//! Changing who has a replica of a group and who leads it.
//!
//! Invariant: members change through the log, one change at a time; a voter set passes to another through both together. A
//! leader that hands over has stopped serving before another may be elected.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_model::NodeId;
use openraft::error::{ClientWriteError, RaftError};
use openraft::{ChangeMembers, EmptyNode, LogId};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::group::Group;
use super::{Leadership, MemberError, Runner, TransferError};
use crate::clock;
use crate::transport::Kind;
use crate::types::{GroupId, RaftTypes};

/// How often the successor's progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

type Written =
    Result<openraft::raft::ClientWriteResponse<RaftTypes>, RaftError<u64, ClientWriteError<u64, EmptyNode>>>;

impl Runner {
    /// Has the log sent to a node that doesn't vote. It must have [joined](Self::join_group), or do so soon.
    ///
    /// # Errors
    /// See [`MemberError`]. Adding a learner again changes nothing.
    pub async fn add_learner(
        &self,
        group: GroupId,
        node: NodeId,
        within: Duration,
    ) -> Result<(), MemberError> {
        let group = self.serving(group)?;
        wait(within, group.raft.add_learner(node.0, EmptyNode::new(), false)).await
    }

    /// Ends what [`Self::add_learner`] began.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn remove_learner(
        &self,
        group: GroupId,
        node: NodeId,
        within: Duration,
    ) -> Result<(), MemberError> {
        let group = self.serving(group)?;
        let change = ChangeMembers::RemoveNodes(BTreeSet::from([node.0]));
        wait(within, group.raft.change_membership(change, false)).await
    }

    /// Makes these nodes the voters. Each is a voter or a learner already; who was a voter and is none now has no part in
    /// the group any more.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn change_voters(
        &self,
        group: GroupId,
        voters: &BTreeSet<NodeId>,
        within: Duration,
    ) -> Result<(), MemberError> {
        let group = self.serving(group)?;
        let voters: BTreeSet<u64> = voters.iter().map(|node| node.0).collect();
        wait(within, group.raft.change_membership(voters, false)).await
    }

    /// Has another voter lead. For about a lease nobody serves the group.
    ///
    /// # Errors
    /// See [`TransferError`]: where another than `to` has come to lead meanwhile, it says who.
    pub async fn transfer(&self, group: GroupId, to: NodeId, within: Duration) -> Result<(), TransferError> {
        let group = self.0.group(group).ok_or(TransferError::NoGroup)?;
        let now = clock::now();
        if !group.serves(now) {
            return Err(TransferError::NotLeader { hint: group.hint() });
        }
        if to.0 == group.me || !group.voter_sets().iter().all(|voters| voters.contains(&to.0)) {
            return Err(TransferError::NotVoter);
        }
        if !group.hand_over(Some(to)) {
            return Err(TransferError::Busy);
        }
        let _resume = Resume(Arc::clone(&group));
        let deadline = Instant::now() + within;
        match timeout_at(deadline, self.pass_on(&group, to)).await {
            Ok(Some(leader)) if leader != to => Err(TransferError::NotLeader { hint: Some(leader) }),
            Ok(_) => Ok(()),
            Err(_) => Err(TransferError::Deadline),
        }
    }

    /// The group has stopped serving and beating: waits until the others may vote again, then has `to` ask them. Returns
    /// who leads then: another may have asked first.
    async fn pass_on(&self, group: &Group, to: NodeId) -> Option<NodeId> {
        while !has_all(group, to) {
            sleep(LOOK_EVERY).await;
        }
        let lease = Duration::from_nanos(group.contact.lease().0);
        sleep(lease).await;
        let mut leadership = group.leadership.subscribe();
        loop {
            // A successor that doesn't hear this is asked again.
            let _ = self.0.transport.call(to, Kind::ELECT, group.id, Bytes::new(), lease).await;
            let passed =
                |leadership: &Leadership| leadership.leader.is_some_and(|leader| leader.0 != group.me);
            if let Ok(led) = timeout(lease, leadership.wait_for(passed)).await {
                return led.ok().and_then(|led| led.leader);
            }
        }
    }

    fn serving(&self, group: GroupId) -> Result<Arc<Group>, MemberError> {
        let group = self.0.group(group).ok_or(MemberError::NoGroup)?;
        if group.serves(clock::now()) {
            Ok(group)
        } else {
            Err(MemberError::NotLeader { hint: group.hint() })
        }
    }
}

/// Ends a handover however it ended.
struct Resume(Arc<Group>);

impl Drop for Resume {
    fn drop(&mut self) {
        self.0.hand_over(None);
    }
}

fn has_all(group: &Group, node: NodeId) -> bool {
    let metrics = group.raft.data_metrics();
    let metrics = metrics.borrow();
    let matched: Option<LogId<u64>> =
        metrics.replication.as_ref().and_then(|replication| replication.get(&node.0).copied()).flatten();
    matched >= metrics.last_log
}

async fn wait(within: Duration, change: impl Future<Output = Written>) -> Result<(), MemberError> {
    match timeout(within, change).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(refused)))) => {
            Err(MemberError::Refused(refused.to_string()))
        }
        Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)) | RaftError::Fatal(_))) | Err(_) => {
            Err(MemberError::Unknown)
        }
    }
}
