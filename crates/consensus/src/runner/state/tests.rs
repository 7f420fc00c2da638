//! The state machine as Raft drives it.

use std::collections::BTreeSet;

use openraft::{CommittedLeaderId, Membership};

use super::super::tests::Tape;
use super::*;
use crate::types::Proposal;

fn at(term: u64, index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(term, 1), index)
}

fn entry(term: u64, index: u64) -> Entry<RaftTypes> {
    Entry { log_id: at(term, index), payload: EntryPayload::Normal(Proposal(vec![7].into())) }
}

fn open(dir: &tempfile::TempDir, resumed: Option<Resumed>) -> StateMachine {
    let snapshots = SnapshotDir::new(dir.path().to_owned());
    StateMachine::open(Box::new(Tape::default()), snapshots, resumed, Receipts::default()).unwrap()
}

/// The term that is told after each of these entries.
async fn check(resumed: Option<Resumed>, entries: &[(u64, u64)], expected: &[u64]) {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = open(&dir, resumed);
    let mut told = Vec::new();
    for (term, index) in entries {
        machine.apply([entry(*term, *index)]).await.unwrap();
        told.push(*machine.applied_term().borrow());
    }
    assert_eq!(told, expected);
}

#[tokio::test]
async fn an_entry_of_its_own_term_shows_a_new_leader_that_it_knows_all() {
    check(None, &[(3, 8), (4, 9)], &[3, 4]).await;
}

#[tokio::test]
async fn a_leader_that_was_restarted_knows_all_only_when_its_whole_log_is_applied_again() {
    check(Some(Resumed { term: 4, last: 10 }), &[(4, 9), (4, 10), (4, 11)], &[0, 4, 4]).await;
}

#[tokio::test]
async fn a_leader_that_was_restarted_and_elected_anew_has_a_term_of_its_own() {
    check(Some(Resumed { term: 4, last: 10 }), &[(4, 8), (6, 9)], &[0, 6]).await;
}

#[tokio::test]
async fn a_machine_comes_back_from_its_snapshot_with_its_place_and_its_members() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = open(&dir, None);
    let membership = Membership::new(vec![BTreeSet::from([1, 2])], BTreeSet::from([1, 2, 3]));
    let members = Entry { log_id: at(1, 1), payload: EntryPayload::Membership(membership.clone()) };
    machine.apply([members, entry(1, 2), entry(1, 3)]).await.unwrap();
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    machine.apply([entry(1, 4)]).await.unwrap();

    let mut again = open(&dir, None);
    let (applied, stored) = again.applied_state().await.unwrap();
    assert_eq!((applied, stored.membership()), (Some(at(1, 3)), &membership));
    again.apply([entry(1, 4)]).await.unwrap();
    let hash = |machine: &StateMachine| machine.read(|state| state.machine.state_hash());
    assert_eq!(hash(&again), hash(&machine));
}
