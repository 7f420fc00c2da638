//! Messages of the runner, there and back.

use std::collections::BTreeSet;

use openraft::EntryPayload;
use proptest::prelude::*;

use super::*;
use crate::types::Proposal;

fn at(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(4, 2), index)
}

fn request(previous: Option<u64>, indexes: &[u64]) -> AppendEntriesRequest<RaftTypes> {
    let payloads = [
        EntryPayload::Blank,
        EntryPayload::Normal(Proposal(Bytes::from_static(b"ask"))),
        EntryPayload::Membership(Membership::new(vec![BTreeSet::from([1, 2])], BTreeSet::from([1, 2, 3]))),
    ];
    let entries = indexes.iter().zip(payloads.iter().cycle());
    AppendEntriesRequest {
        vote: Vote { leader_id: LeaderId::new(4, 2), committed: true },
        prev_log_id: previous.map(at),
        entries: entries
            .map(|(index, payload)| Entry { log_id: at(*index), payload: payload.clone() })
            .collect(),
        leader_commit: Some(at(1)),
    }
}

fn sent(request: &AppendEntriesRequest<RaftTypes>) -> Decoded<AppendEntriesRequest<RaftTypes>> {
    to_append_request(raft::decode(raft::encode(&append_request(request)))?)
}

#[test]
fn entries_of_every_kind_arrive_as_they_were_sent() {
    for request in [request(Some(7), &[8, 9, 10]), request(None, &[0, 1]), request(Some(3), &[])] {
        assert_eq!(format!("{:?}", sent(&request).unwrap()), format!("{request:?}"));
    }
}

#[test]
fn entries_that_do_not_follow_each_other_are_refused() {
    for request in
        [request(Some(7), &[9]), request(Some(7), &[8, 10]), request(None, &[1]), request(Some(7), &[8, 8])]
    {
        assert_eq!(sent(&request).unwrap_err(), RaftMessageError::Malformed);
    }
}

#[test]
fn every_answer_to_entries_arrives_as_it_was_sent() {
    let vote = Vote { leader_id: LeaderId::new(9, 3), committed: false };
    for reply in [
        AppendEntriesResponse::Success,
        AppendEntriesResponse::PartialSuccess(Some(at(5))),
        AppendEntriesResponse::PartialSuccess(None),
        AppendEntriesResponse::Conflict,
        AppendEntriesResponse::HigherVote(vote),
    ] {
        let arrived = to_append_reply(raft::decode(raft::encode(&append_reply(&reply))).unwrap());
        assert_eq!(arrived, Ok(reply));
    }
}

#[test]
fn votes_arrive_as_they_were_sent() {
    let vote = Vote { leader_id: LeaderId::new(9, 3), committed: false };
    let request = VoteRequest { vote, last_log_id: Some(at(5)) };
    assert_eq!(to_vote_request(raft::decode(raft::encode(&vote_request(&request))).unwrap()), Ok(request));
    let reply = VoteResponse { vote, vote_granted: true, last_log_id: None };
    assert_eq!(to_vote_reply(raft::decode(raft::encode(&vote_reply(&reply))).unwrap()), Ok(reply));
}

#[test]
fn a_message_without_its_vote_is_refused() {
    assert_eq!(to_vote_request(raft::VoteRequest::default()), Err(RaftMessageError::Missing("vote")));
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoders_panic(garbage in proptest::collection::vec(any::<u8>(), 0..300)) {
        let garbage = Bytes::from(garbage);
        let _ = raft::decode(garbage.clone()).and_then(to_append_request);
        let _ = raft::decode(garbage.clone()).and_then(to_append_reply);
        let _ = raft::decode(garbage.clone()).and_then(to_vote_request);
        let _ = raft::decode(garbage.clone()).and_then(to_vote_reply);
        let _ = raft::decode(garbage).and_then(to_snapshot_meta);
    }
}
