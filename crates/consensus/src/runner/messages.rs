//! Between openraft's types and the messages that peers exchange.
//!
//! Invariant: what goes over comes back as it was; a message that lacks a part, or carries an entry that this version
//! doesn't know, is an error.

use bytes::{Bytes, BytesMut};
use leasehold_wire::raft::{self, RaftMessageError, append_reply, required};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use openraft::{
    CommittedLeaderId, EmptyNode, Entry, LeaderId, LogId, Membership, SnapshotMeta, StoredMembership, Vote,
};

use crate::log::codec;
use crate::types::RaftTypes;

type Meta = SnapshotMeta<u64, EmptyNode>;
type Decoded<T> = Result<T, RaftMessageError>;

pub(super) fn vote(vote: &Vote<u64>) -> raft::Vote {
    raft::Vote { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
}

pub(super) fn to_vote(vote: Option<raft::Vote>) -> Decoded<Vote<u64>> {
    let vote = required(vote, "vote")?;
    Ok(Vote { leader_id: LeaderId::new(vote.term, vote.node), committed: vote.committed })
}

pub(super) fn log_id(id: &LogId<u64>) -> raft::LogId {
    raft::LogId { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
}

pub(super) fn to_log_id(id: raft::LogId) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(id.term, id.node), id.index)
}

pub(super) fn append_request(request: &AppendEntriesRequest<RaftTypes>) -> raft::AppendRequest {
    let entry = |entry: &Entry<RaftTypes>| raft::Entry {
        id: Some(log_id(&entry.log_id)),
        payload: codec::encode_payload(&entry.payload),
    };
    raft::AppendRequest {
        vote: Some(vote(&request.vote)),
        previous: request.prev_log_id.as_ref().map(log_id),
        entries: request.entries.iter().map(entry).collect(),
        committed: request.leader_commit.as_ref().map(log_id),
    }
}

pub(super) fn to_append_request(request: raft::AppendRequest) -> Decoded<AppendEntriesRequest<RaftTypes>> {
    let previous = request.previous.map(to_log_id);
    let mut next = previous.map_or(0, |previous| previous.index.saturating_add(1));
    let mut entry = |entry: raft::Entry| {
        let log_id = to_log_id(required(entry.id, "entry.id")?);
        let payload = codec::decode_payload(entry.payload).map_err(|_| RaftMessageError::Malformed)?;
        // openraft takes it for granted that entries follow each other.
        if log_id.index != next {
            return Err(RaftMessageError::Malformed);
        }
        next = next.saturating_add(1);
        Ok(Entry { log_id, payload })
    };
    Ok(AppendEntriesRequest {
        vote: to_vote(request.vote)?,
        prev_log_id: previous,
        entries: request.entries.into_iter().map(&mut entry).collect::<Decoded<_>>()?,
        leader_commit: request.committed.map(to_log_id),
    })
}

pub(super) fn append_reply(reply: &AppendEntriesResponse<u64>) -> raft::AppendReply {
    let outcome = match reply {
        AppendEntriesResponse::Success => append_reply::Outcome::Success(append_reply::Empty {}),
        AppendEntriesResponse::PartialSuccess(matching) => {
            append_reply::Outcome::Partial(append_reply::Partial { matching: matching.as_ref().map(log_id) })
        }
        AppendEntriesResponse::Conflict => append_reply::Outcome::Conflict(append_reply::Empty {}),
        AppendEntriesResponse::HigherVote(higher) => append_reply::Outcome::HigherVote(vote(higher)),
    };
    raft::AppendReply { outcome: Some(outcome) }
}

pub(super) fn to_append_reply(reply: raft::AppendReply) -> Decoded<AppendEntriesResponse<u64>> {
    Ok(match required(reply.outcome, "outcome")? {
        append_reply::Outcome::Success(_) => AppendEntriesResponse::Success,
        append_reply::Outcome::Partial(partial) => {
            AppendEntriesResponse::PartialSuccess(partial.matching.map(to_log_id))
        }
        append_reply::Outcome::Conflict(_) => AppendEntriesResponse::Conflict,
        append_reply::Outcome::HigherVote(higher) => {
            AppendEntriesResponse::HigherVote(to_vote(Some(higher))?)
        }
    })
}

pub(super) fn vote_request(request: &VoteRequest<u64>) -> raft::VoteRequest {
    raft::VoteRequest { vote: Some(vote(&request.vote)), last: request.last_log_id.as_ref().map(log_id) }
}

pub(super) fn to_vote_request(request: raft::VoteRequest) -> Decoded<VoteRequest<u64>> {
    Ok(VoteRequest { vote: to_vote(request.vote)?, last_log_id: request.last.map(to_log_id) })
}

pub(super) fn vote_reply(reply: &VoteResponse<u64>) -> raft::VoteReply {
    raft::VoteReply {
        vote: Some(vote(&reply.vote)),
        granted: reply.vote_granted,
        last: reply.last_log_id.as_ref().map(log_id),
    }
}

pub(super) fn to_vote_reply(reply: raft::VoteReply) -> Decoded<VoteResponse<u64>> {
    Ok(VoteResponse {
        vote: to_vote(reply.vote)?,
        vote_granted: reply.granted,
        last_log_id: reply.last.map(to_log_id),
    })
}

pub(super) fn snapshot_meta(meta: &Meta) -> raft::SnapshotMeta {
    raft::SnapshotMeta {
        last: meta.last_log_id.as_ref().map(log_id),
        membership_at: meta.last_membership.log_id().as_ref().map(log_id),
        membership: membership(meta.last_membership.membership()),
        id: meta.snapshot_id.clone(),
    }
}

pub(super) fn to_snapshot_meta(meta: raft::SnapshotMeta) -> Decoded<Meta> {
    let mut from = meta.membership;
    let membership = codec::decode_membership(&mut from).map_err(|_| RaftMessageError::Malformed)?;
    Ok(Meta {
        last_log_id: meta.last.map(to_log_id),
        last_membership: StoredMembership::new(meta.membership_at.map(to_log_id), membership),
        snapshot_id: meta.id,
    })
}

fn membership(membership: &Membership<u64, EmptyNode>) -> Bytes {
    let mut out = BytesMut::new();
    codec::encode_membership(membership, &mut out);
    out.freeze()
}

#[cfg(test)]
mod tests;
