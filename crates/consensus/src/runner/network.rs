//! How openraft reaches a group's other replicas: its calls over the peer transport.
//!
//! Invariant: every call has a deadline and goes to the node that is meant; what a follower accepted is noted with the time it
//! was sent at, which is what a leader's lease stands on.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_model::{Nanos, NodeId, Stamp};
use leasehold_wire::raft::{self, RaftMessageError};
use openraft::error::{
    Fatal, InstallSnapshotError, NetworkError, PayloadTooLarge, RPCError, RaftError, ReplicationClosed,
    StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, LogId, Snapshot, Vote};

use super::contact::Contact;
use super::messages;
use crate::clock;
use crate::transport::{CallError, Kind, PAYLOAD_BYTES_MAX, Refusal, Transport};
use crate::types::{GroupId, RaftTypes};

/// Snapshots travel in pieces of this size, each after the answer to the one before: heartbeats fit between.
const CHUNK_BYTES: usize = 256 << 10;
/// A piece is answered in this time; the last one after the snapshot is stored and restored.
const CHUNK_MAX: Duration = Duration::from_secs(10);
const LAST_CHUNK_MAX: Duration = Duration::from_secs(60);
/// A replica that was sent entries so lately isn't told by a message of its own what of them is committed: the next entries
/// or heartbeats do. Half a heartbeat, so that neither lease nor state falls behind by more than one and a half.
const FRESH: Nanos = Nanos::from_millis(50);
/// Pause before a node that couldn't be reached is tried again.
const PAUSE: Duration = Duration::from_millis(150);

type RpcError<E = RaftError<u64>> = RPCError<u64, EmptyNode, E>;

/// Makes the connections of one group.
pub(super) struct Network {
    pub(super) transport: Transport,
    pub(super) group: GroupId,
    pub(super) contact: Arc<Contact>,
}

/// One other replica.
pub(super) struct Replica {
    transport: Transport,
    group: GroupId,
    contact: Arc<Contact>,
    node: u64,
    acknowledged: Option<Acknowledged>,
}

/// What a replica is known to have.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    /// Under which leader.
    vote: Vote<u64>,
    /// The last entry that was sent to it.
    last: LogId<u64>,
    /// When that was sent.
    sent: Stamp,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("its answer can't be used: {0}")]
    Answer(#[from] RaftMessageError),
}

impl RaftNetworkFactory<RaftTypes> for Network {
    type Network = Replica;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Replica {
        Replica {
            transport: self.transport.clone(),
            group: self.group,
            contact: Arc::clone(&self.contact),
            node: target,
            acknowledged: None,
        }
    }
}

impl Acknowledged {
    /// Whether the receiver learns nothing from `request` but how much is committed, and learnt something a moment ago.
    fn makes_needless(&self, request: &AppendEntriesRequest<RaftTypes>, now: Stamp) -> bool {
        request.entries.is_empty()
            && request.vote == self.vote
            && request.prev_log_id <= Some(self.last)
            && now < self.sent.after(FRESH)
    }
}

impl Replica {
    async fn call(&self, kind: Kind, payload: Bytes, within: Duration) -> Result<Bytes, CallError> {
        self.transport.call(NodeId(self.node), kind, self.group, payload, within).await
    }

    async fn append(&self, payload: Bytes, within: Duration) -> Result<AppendEntriesResponse<u64>, Failure> {
        let answer = self.call(Kind::APPEND, payload, within).await?;
        Ok(messages::to_append_reply(raft::decode(answer)?)?)
    }

    async fn ask_vote(&self, payload: Bytes, within: Duration) -> Result<VoteResponse<u64>, Failure> {
        let answer = self.call(Kind::VOTE, payload, within).await?;
        Ok(messages::to_vote_reply(raft::decode(answer)?)?)
    }

    /// The receiver's vote, once it has all of the snapshot or doesn't want it.
    async fn send_snapshot(
        &self,
        vote: Vote<u64>,
        snapshot: Snapshot<RaftTypes>,
    ) -> Result<Vote<u64>, Failure> {
        let state = Bytes::from(snapshot.snapshot.into_inner());
        let meta = messages::snapshot_meta(&snapshot.meta);
        let checksum = crc32c::crc32c(&state);
        let mut at = 0;
        loop {
            let end = state.len().min(at + CHUNK_BYTES);
            let chunk = raft::SnapshotChunk {
                vote: Some(messages::vote(&vote)),
                meta: Some(meta.clone()),
                offset: u64::try_from(at).expect("lengths fit into 64 bits"),
                total: u64::try_from(state.len()).expect("lengths fit into 64 bits"),
                checksum,
                data: state.slice(at..end),
            };
            let within = if end == state.len() { LAST_CHUNK_MAX } else { CHUNK_MAX };
            let answer = self.call(Kind::SNAPSHOT, raft::encode(&chunk), within).await?;
            let reply: raft::SnapshotReply = raft::decode(answer)?;
            if reply.vote.is_some() {
                return Ok(messages::to_vote(reply.vote)?);
            }
            if end == state.len() {
                return Err(RaftMessageError::Missing("vote").into());
            }
            at = end;
        }
    }
}

impl RaftNetwork<RaftTypes> for Replica {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<RaftTypes>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RpcError> {
        let (sent, term) = (clock::now(), request.vote.leader_id.term);
        // What nodes do hangs on the control state that they have applied: they hear of it at once.
        let spared = self.acknowledged.as_ref().filter(|_| self.group != GroupId::CONTROL);
        if spared.is_some_and(|last| last.makes_needless(&request, sent)) {
            return Ok(AppendEntriesResponse::Success);
        }
        let last = request.entries.last().map(|entry| entry.log_id);
        let payload = raft::encode(&messages::append_request(&request));
        if payload.len() > PAYLOAD_BYTES_MAX && request.entries.len() > 1 {
            let hint = u64::try_from(request.entries.len() / 2).unwrap_or(1);
            return Err(PayloadTooLarge::new_entries_hint(hint).into());
        }
        let reply = self.append(payload, option.hard_ttl()).await.map_err(rpc_error)?;
        if !matches!(reply, AppendEntriesResponse::HigherVote(_)) {
            self.contact.accept(self.node, term, sent);
        }
        self.acknowledged = match (&reply, last) {
            (AppendEntriesResponse::Success, Some(last)) => {
                Some(Acknowledged { vote: request.vote, last, sent })
            }
            (AppendEntriesResponse::Success, None) => self.acknowledged.take(),
            _ => None,
        };
        Ok(reply)
    }

    async fn install_snapshot(
        &mut self,
        _request: InstallSnapshotRequest<RaftTypes>,
        _option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RpcError<RaftError<u64, InstallSnapshotError>>> {
        // openraft sends whole snapshots: see `full_snapshot`.
        Err(Unreachable::new(&CallError::Refused(Refusal::NotServed)).into())
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RpcError> {
        let payload = raft::encode(&messages::vote_request(&request));
        self.ask_vote(payload, option.hard_ttl()).await.map_err(rpc_error)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<u64>,
        snapshot: Snapshot<RaftTypes>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<RaftTypes, Fatal<u64>>> {
        tokio::select! {
            closed = cancel => Err(closed.into()),
            sent = self.send_snapshot(vote, snapshot) => match sent {
                Ok(vote) => Ok(SnapshotResponse::new(vote)),
                Err(failure) => Err(Unreachable::new(&failure).into()),
            },
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(PAUSE))
    }
}

/// Trying again at once helps where an answer was late or lost, and only there.
fn rpc_error(failure: Failure) -> RpcError {
    match failure {
        Failure::Call(CallError::Lost | CallError::Deadline) => NetworkError::new(&failure).into(),
        Failure::Call(_) | Failure::Answer(_) => Unreachable::new(&failure).into(),
    }
}

#[cfg(test)]
mod tests;
