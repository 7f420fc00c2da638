//! What a node answers its peers for the groups it has a replica of.
//!
//! Invariant: a call for a group that isn't here is refused as not served; one that can't be read, or speaks for another node
//! than its caller, changes nothing.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use leasehold_model::{Nanos, NodeId};
use leasehold_wire::raft::{self, RaftMessageError};
use openraft::raft::{AppendEntriesResponse, VoteResponse};
use openraft::{Snapshot, Vote};

use super::campaign::campaign;
use super::group::Group;
use super::receive::Receiving;
use super::{Inner, messages};
use crate::clock;
use crate::transport::{Access, Incoming, Kind, Refusal, Transport};

type Served = Result<Bytes, Refusal>;

impl From<RaftMessageError> for Refusal {
    fn from(_: RaftMessageError) -> Self {
        Self::Malformed
    }
}

/// Has the calls of Raft answered as long as the runner lives.
pub(super) fn register(transport: &Transport, runner: &Arc<Inner>) {
    on(transport, runner, Kind::APPEND, append);
    on(transport, runner, Kind::VOTE, vote);
    on(transport, runner, Kind::SNAPSHOT, snapshot);
    on(transport, runner, Kind::PRE_VOTE, async |group, from, payload| pre_vote(&group, from, payload));
    on(transport, runner, Kind::ELECT, async |group, _, _| Ok(elect(group)));
}

fn on<F, A>(transport: &Transport, runner: &Arc<Inner>, kind: Kind, serve: F)
where
    F: Fn(Arc<Group>, NodeId, Bytes) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Served> + Send + 'static,
{
    let runner: Weak<Inner> = Arc::downgrade(runner);
    transport.register(kind, Access::Members, move |call: Incoming| {
        let group = runner.upgrade().and_then(|runner| runner.group(call.group));
        async move {
            match (group, call.from) {
                (Some(group), Some(from)) => serve(group, from, call.payload).await,
                (Some(_), None) => Err(Refusal::NotAllowed),
                (None, _) => Err(Refusal::NotServed),
            }
        }
    });
}

async fn append(group: Arc<Group>, from: NodeId, payload: Bytes) -> Served {
    let request = messages::to_append_request(raft::decode(payload)?)?;
    speaks_for(from, &request.vote)?;
    if request.vote >= group.vote() {
        // The leader lives, however long the disk here takes.
        group.contact.hear(clock::now());
    }
    let reply = group.raft.append_entries(request).await.map_err(|_| Refusal::Failed)?;
    if !matches!(reply, AppendEntriesResponse::HigherVote(_)) {
        group.contact.hear(clock::now());
    }
    Ok(raft::encode(&messages::append_reply(&reply)))
}

async fn vote(group: Arc<Group>, from: NodeId, payload: Bytes) -> Served {
    let request = messages::to_vote_request(raft::decode(payload)?)?;
    speaks_for(from, &request.vote)?;
    let reply = if group.contact.restarted_for(clock::now()) > Nanos::ZERO {
        let mine = group.vote();
        VoteResponse::new(mine, group.last_log(), false)
    } else {
        group.raft.vote(request).await.map_err(|_| Refusal::Failed)?
    };
    if reply.vote_granted {
        let now = clock::now();
        group.contact.vote(now);
        group.election.lock().voted(now);
    }
    Ok(raft::encode(&messages::vote_reply(&reply)))
}

/// Whether this replica would vote for the asker. Of two that ask at a time the one with the lower id gives way: if
/// both went on, neither would lead.
fn pre_vote(group: &Group, from: NodeId, payload: Bytes) -> Served {
    let request: raft::PreVoteRequest = raft::decode(payload)?;
    let now = clock::now();
    let (theirs, ours) = (request.last.map(messages::to_log_id), group.last_log());
    let mut leader_for = if !group.leads() {
        group.contact.promised_for(now, group.candidate_for())
    } else if group.serves(now) {
        // Alive: whoever asks has only lost sight of it.
        group.contact.lease()
    } else {
        Nanos::ZERO
    };
    if leader_for == Nanos::ZERO && theirs >= ours {
        if group.me < from.0 {
            group.contact.yield_to();
        } else if theirs == ours && group.election.lock().is_asking() {
            leader_for = group.candidate_for();
        }
    }
    let reply = raft::PreVoteReply { leader_for_ms: leader_for.millis_ceil(), behind: theirs < ours };
    Ok(raft::encode(&reply))
}

/// The leader hands over to this replica.
fn elect(group: Arc<Group>) -> Bytes {
    tokio::spawn(async move { campaign(&group).await });
    Bytes::new()
}

async fn snapshot(group: Arc<Group>, from: NodeId, payload: Bytes) -> Served {
    let mut chunk: raft::SnapshotChunk = raft::decode(payload)?;
    let vote = messages::to_vote(chunk.vote.take())?;
    speaks_for(from, &vote)?;
    let mine = group.vote();
    if vote < mine {
        return Ok(snapshot_reply(Some(&mine)));
    }
    let mut receiving = group.receiving.lock().await;
    let Some(state) = Receiving::take(&mut receiving, &chunk)? else { return Ok(snapshot_reply(None)) };
    let meta = messages::to_snapshot_meta(raft::required(chunk.meta, "meta")?)?;
    let snapshot = Snapshot { meta, snapshot: Box::new(std::io::Cursor::new(state)) };
    let installed = group.raft.install_full_snapshot(vote, snapshot).await.map_err(|_| Refusal::Failed)?;
    group.contact.hear(clock::now());
    Ok(snapshot_reply(Some(&installed.vote)))
}

fn snapshot_reply(vote: Option<&Vote<u64>>) -> Bytes {
    raft::encode(&raft::SnapshotReply { vote: vote.map(messages::vote) })
}

fn speaks_for(from: NodeId, vote: &Vote<u64>) -> Result<(), Refusal> {
    if vote.leader_id.node_id == from.0 { Ok(()) } else { Err(Refusal::Malformed) }
}
