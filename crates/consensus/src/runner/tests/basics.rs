//! Three nodes: elections, proposals, restarts.

use std::time::Duration;

use super::super::*;
use super::cluster::{Cluster, SOON, Tape, UNREADABLE, until};
use crate::machine::{Answer, Arrival, MachineError};

const GROUP: GroupId = GroupId(0);

fn in_a(time: Duration) -> Instant {
    Instant::now() + time
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposal_is_answered_by_the_machine_and_reaches_every_replica() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    assert_eq!(cluster.propose(GROUP, "one").await, 1);
    assert_eq!(cluster.propose(GROUP, "two").await, 2);
    cluster.agree(GROUP, &[1, 2, 3]).await;
    assert_eq!(cluster.tape(3, GROUP), ["one", "two"]);
    assert!(cluster.fatal.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preferred_replica_usually_leads_a_new_group() {
    let cluster = Cluster::of_three(12, |_| {}).await;
    let mut preferred = 0;
    for group in (0..12).map(GroupId) {
        preferred += u32::from(cluster.leader(group).await == u64::from(group.0 % 3) + 1);
    }
    // Chance alone makes it 4 of 12. A busy machine can be late for one or the other.
    assert!(preferred >= 8, "{preferred} of 12");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_does_not_lead_proposes_nothing_and_says_who_leads() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.leader(GROUP).await;
    let other = cluster.runner(leader % 3 + 1);
    until("it knows the leader", || other.leader(GROUP) == Some(NodeId(leader))).await;
    let refused = other.propose(GROUP, Bytes::from_static(b"x"), in_a(SOON)).await;
    assert_eq!(refused.unwrap_err(), ProposeError::NotLeader { hint: Some(NodeId(leader)) });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_not_here_and_a_proposal_that_is_too_long_are_refused() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let runner = cluster.runner(cluster.leader(GROUP).await);
    let elsewhere = runner.propose(GroupId(9), Bytes::new(), in_a(SOON)).await;
    assert_eq!(elsewhere.unwrap_err(), ProposeError::NoGroup);
    let long = Bytes::from(vec![0; PROPOSAL_BYTES_MAX + 1]);
    let refused = runner.propose(GROUP, long, in_a(SOON)).await;
    assert_eq!(refused.unwrap_err(), ProposeError::TooLarge);
    let longest = Bytes::from(vec![0; PROPOSAL_BYTES_MAX]);
    assert!(runner.propose(GROUP, longest, in_a(SOON)).await.is_ok());
    cluster.agree(GROUP, &[1, 2, 3]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_a_proposal_is_unknown_by_its_deadline_and_then_the_node_stops_serving() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.leader(GROUP).await;
    let others: Vec<u64> = [1, 2, 3].into_iter().filter(|id| *id != leader).collect();
    others.iter().for_each(|id| cluster.nodes[id].transport.isolate(true));
    let runner = cluster.runner(leader);
    let lost = runner.propose(GROUP, Bytes::from_static(b"lost?"), in_a(Duration::from_millis(100))).await;
    assert!(matches!(lost, Err(ProposeError::Unknown { .. })), "{lost:?}");
    until("its lease is over", || !runner.is_leader(GROUP)).await;
    let refused = runner.propose(GROUP, Bytes::new(), in_a(SOON)).await;
    assert!(matches!(refused, Err(ProposeError::NotLeader { .. })), "{refused:?}");
    others.iter().for_each(|id| cluster.nodes[id].transport.isolate(false));
    cluster.propose(GROUP, "after").await;
    cluster.agree(GROUP, &[1, 2, 3]).await;
    // Unknown it was: the entry is there once or not at all, and before what came after.
    let tape = cluster.tape(1, GROUP);
    assert!(tape == ["lost?", "after"] || tape == ["after"], "{tape:?}");
}

/// On one thread nothing else runs until the proposer waits, and then its time is over already: the proposal has left, and no
/// answer can have come.
#[tokio::test(flavor = "current_thread")]
async fn an_entry_whose_answer_was_lost_may_be_committed_all_the_same() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.leader(GROUP).await;
    let over = Instant::now() - Duration::from_secs(1);
    let gone = cluster.runner(leader).propose(GROUP, Bytes::from_static(b"there"), over).await;
    assert!(matches!(gone, Err(ProposeError::Unknown { .. })), "{gone:?}");
    until("it is applied", || cluster.tape(leader, GROUP) == ["there"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_the_restart_of_all_nodes() {
    let mut cluster = Cluster::of_three(2, |_| {}).await;
    for number in 0..20 {
        cluster.propose(GroupId(number % 2), &format!("entry {number}")).await;
    }
    for id in 1..=3 {
        cluster.kill(id).await;
    }
    for id in 1..=3 {
        cluster.start(id).await;
    }
    for group in [GroupId(0), GroupId(1)] {
        let leader = cluster.leader(group).await;
        assert_eq!(cluster.tape(leader, group).len(), 10);
        cluster.propose(group, "more").await;
        cluster.agree(group, &[1, 2, 3]).await;
    }
    assert!(cluster.fatal.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_proposals_at_once_are_each_applied_once_and_alike() {
    let cluster = Cluster::of_three(4, |_| {}).await;
    let mut proposals = tokio::task::JoinSet::new();
    for number in 0..400_u32 {
        let group = GroupId(number % 4);
        let runner = cluster.runner(cluster.leader(group).await).clone();
        let entry = Bytes::copy_from_slice(&number.to_le_bytes());
        proposals.spawn(async move { (number, runner.propose(group, entry, in_a(SOON)).await) });
    }
    let (mut made, mut surely_not) = (Vec::new(), Vec::new());
    for (number, outcome) in proposals.join_all().await {
        match outcome {
            Ok(_) => made.push(number),
            Err(ProposeError::Unknown { .. }) => {}
            Err(_) => surely_not.push(number),
        }
    }
    assert!(made.len() > 100, "{} of 400 were made, {} surely not", made.len(), surely_not.len());
    for group in (0..4).map(GroupId) {
        cluster.agree(group, &[1, 2, 3]).await;
    }
    let tapes: Vec<Bytes> = (0..4).flat_map(|group| cluster.tape(2, GroupId(group))).collect();
    let times = |number: &u32| tapes.iter().filter(|entry| entry[..] == number.to_le_bytes()).count();
    let wrong = |numbers: &[u32], right| {
        numbers.iter().filter(|number| times(number) != right).copied().collect::<Vec<_>>()
    };
    assert_eq!((wrong(&made, 1), wrong(&surely_not, 0)), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_told_once_the_leader_knows_all_that_was_acknowledged() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.leader(GROUP).await;
    let status = cluster.runner(leader).status(GROUP).await.unwrap();
    assert_eq!((status.role, status.leader), (Role::Leader, Some(NodeId(leader))));
    assert!(status.committed.is_some() && status.applied <= status.committed);
    let now = *cluster.runner(leader).leadership(GROUP).unwrap().borrow();
    assert!(now.serving && now.leader == Some(NodeId(leader)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_of_another_type_is_not_shown() {
    struct Other;
    impl Machine for Other {
        fn apply(&mut self, _: &[u8], _: Arrival) -> Result<Answer, MachineError> {
            Ok(Box::new(()))
        }
        fn snapshot(&self) -> Vec<u8> {
            Vec::new()
        }
        fn restore(&mut self, _: &[u8]) -> Result<(), MachineError> {
            Ok(())
        }
        fn state_hash(&self) -> u64 {
            0
        }
    }
    let cluster = Cluster::of_three(1, |_| {}).await;
    assert_eq!(cluster.runner(1).with_machine(GROUP, |_: &Other| ()), None);
    assert_eq!(cluster.runner(1).with_machine(GROUP, |_: &Tape| ()), Some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_whose_log_fails_asks_for_the_end_of_the_process() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.leader(GROUP).await;
    cluster.nodes[&leader].log.close();
    let outcome = cluster.runner(leader).propose(GROUP, Bytes::new(), in_a(Duration::from_millis(500))).await;
    assert!(matches!(outcome, Err(ProposeError::Unknown { .. })), "{outcome:?}");
    until("it was told", || !cluster.fatal.lock().is_empty()).await;
    // The others go on without it.
    until("another serves", || {
        cluster.nodes.iter().any(|(id, node)| *id != leader && node.runner.is_leader(GROUP))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_cannot_read_an_entry_ask_for_the_end_of_the_process_and_apply_nothing_more() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.leader(GROUP).await;
    let before = cluster.tape(leader, GROUP);
    let outcome = cluster.runner(leader).propose(GROUP, UNREADABLE, in_a(Duration::from_millis(500))).await;
    assert!(matches!(outcome, Err(ProposeError::Unknown { .. })), "{outcome:?}");
    until("it was told", || cluster.fatal.lock().iter().any(|why| why.contains("what language is this?")))
        .await;
    let outcome = cluster.runner(leader).propose(GROUP, Bytes::new(), in_a(Duration::from_millis(500))).await;
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(cluster.tape(leader, GROUP), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_proposals_than_a_group_bears_are_refused_as_overloaded_and_surely_not_made() {
    let cluster = Cluster::of_three(1, |_| {}).await;
    let leader = cluster.leader(GROUP).await;
    let mut proposals = tokio::task::JoinSet::new();
    for number in 0..3_000_u32 {
        let runner = cluster.runner(leader).clone();
        let entry = Bytes::copy_from_slice(&number.to_le_bytes());
        proposals.spawn(async move { (number, runner.propose(GROUP, entry, in_a(SOON)).await) });
    }
    let outcomes = proposals.join_all().await;
    let refused = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Err(ProposeError::Overloaded)));
    let refused: Vec<Bytes> =
        refused.map(|(number, _)| Bytes::copy_from_slice(&number.to_le_bytes())).collect();
    assert!(!refused.is_empty());
    cluster.agree(GROUP, &[1, 2, 3]).await;
    let tape = cluster.tape(leader, GROUP);
    assert!(!tape.is_empty() && refused.iter().all(|entry| !tape.contains(entry)));
}
