//! A cluster that nothing happens to.

use leasehold_control::{Command as ControlCommand, Refusal as ControlRefusal, Reply as ControlReply};
use leasehold_limit::Algorithm;
use leasehold_model::{Nanos, RequestId, RulesVersion};
use leasehold_shard::{Bounds, Reset};
use leasehold_wire::peer::{Answered, AskRequest};
use tokio::task::JoinSet;

use super::super::*;
use super::nodes::*;
use crate::calls;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_answers_and_all_together_admit_exactly_the_limit() {
    let nodes = Nodes::of_three(4).await;
    let limit = quota(100);
    let mut asks = JoinSet::new();
    for (n, router) in nodes.routers().into_iter().cycle().take(600).enumerate() {
        let batch = one_of_each(None, &limit, &[key(u32::try_from(n / 3 % 4).unwrap(), 1)]);
        asks.spawn(async move { u64::from(acquire(&router, batch).await.admitted) });
    }
    assert_eq!(asks.join_all().await.into_iter().sum::<u64>(), 400);
    for shard in 0..4 {
        assert_eq!(remaining(&nodes.router(1), &limit, key(shard, 1)).await, 0);
        nodes.agree(shard).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_under_ids_of_the_node_make_no_entries() {
    let nodes = Nodes::of_three(1).await;
    let limit = quota(1);
    assert!(acquire(&nodes.router(1), one_of_each(None, &limit, &[key(0, 1)])).await.admitted);
    let before = nodes.logged();
    for router in nodes.routers() {
        for _ in 0..50 {
            assert!(!acquire(&router, one_of_each(None, &limit, &[key(0, 1)])).await.admitted);
        }
    }
    assert_eq!(nodes.logged(), before);
    assert_eq!(nodes.router(1).counts().unlogged, 150);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_under_its_id_is_charged_once_and_answered_the_same_by_any_node() {
    let nodes = Nodes::of_three(1).await;
    let limit = quota(2);
    let ask = |seq| one_of_each(Some(RequestId { session: 9, seq }), &limit, &[key(0, 1)]);
    let mut answers = Vec::new();
    for seq in [1, 2, 3] {
        let first = acquire(&nodes.router(1), ask(seq)).await;
        for router in nodes.routers() {
            assert_eq!(acquire(&router, ask(seq)).await, first);
        }
        answers.push(first.admitted);
    }
    assert_eq!(answers, [true, true, false]);
    // The denial was remembered: it stays one although there is room again.
    let reset = Command::Reset(Reset { keys: vec![key(0, 1)] });
    let batch = Batch { commands: vec![reset], ..Batch::default() };
    let done = nodes.router(2).propose(batch, Instant::now() + SOON).await;
    assert_eq!(done, Ok(vec![Reply::Reset(1)]));
    assert!(!acquire(&nodes.router(3), ask(3)).await.admitted);
    assert!(acquire(&nodes.router(3), ask(4)).await.admitted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_nobody_will_ask_for_again_are_not_kept() {
    // A tenth of the requests would be refused for want of room for their replies.
    let bounds = Bounds { replies_per_tenant_max: 5_000, ..Bounds::default() };
    let nodes = Nodes::of_three_within(1, bounds, |_, _| {}).await;
    let limit = spec(Algorithm::TokenBucket { burst: 1_000_000 }, 1, Nanos::from_secs(3600));
    let most = std::sync::atomic::AtomicUsize::new(0);
    let rounds = 100;
    for _ in 0..rounds {
        let mut asks = JoinSet::new();
        for router in nodes.routers().into_iter().cycle().take(10) {
            let mut batch = one_of_each(None, &limit, &[key(0, 1)]);
            batch.commands = vec![batch.commands[0].clone(); 100];
            asks.spawn(async move { router.propose(batch, Instant::now() + SOON).await.unwrap() });
        }
        for reply in asks.join_all().await.into_iter().flatten() {
            assert!(matches!(&reply, Reply::Acquired(acquired) if acquired.admitted), "{reply:?}");
        }
        most.fetch_max(nodes.held(1, 0).1, std::sync::atomic::Ordering::Relaxed);
    }
    let (held, most) = (nodes.held(1, 0), most.into_inner());
    assert!(most <= 3_000 && held.0 == 1, "at most {most} replies, {held:?} in the end");
    let left = remaining(&nodes.router(1), &limit, key(0, 1)).await;
    assert_eq!(left, 1_000_000 - rounds * 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_answers_who_leads() {
    let nodes = Nodes::of_three(1).await;
    let group = GroupId::of_shard(ShardId(0));
    nodes.nodes[&1].runner.transfer(group, NodeId(3), SOON).await.unwrap();
    assert_eq!(nodes.leader(0).await, 3);
    let ask = AskRequest(one_of_each(None, &quota(1), &[key(0, 1)])).encode();
    let transport = &nodes.nodes[&2].router.0.leaders.transport;
    let answer = transport.call(NodeId(1), calls::ASK, group, ask, SOON).await.unwrap();
    let expected = Answered::<Vec<Reply>>::NotLeader { hint: Some(NodeId(3)) };
    assert_eq!(Answered::decode(answer), Ok(expected));
    assert_eq!(nodes.held(3, 0).0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_shard_forgets_what_is_fresh_and_an_empty_one_gets_no_entries() {
    let bounds = Bounds { retry_window: Nanos::from_millis(50), ..Bounds::default() };
    let nodes = Nodes::of_three_within(2, bounds, |_, _| {}).await;
    let limit = spec(Algorithm::TokenBucket { burst: 1 }, 20, Nanos::from_secs(1));
    let id = Some(RequestId { session: 1, seq: 1 });
    assert!(acquire(&nodes.router(1), one_of_each(id, &limit, &[key(0, 1)])).await.admitted);
    assert_eq!(nodes.held(1, 0), (1, 1));
    until("it is empty", || {
        nodes.routers().iter().for_each(Router::tick);
        nodes.held(1, 0) == (0, 0)
    })
    .await;
    sleep_until(Instant::now() + Duration::from_millis(100)).await;
    let before = nodes.logged();
    for _ in 0..20 {
        nodes.routers().iter().for_each(Router::tick);
        sleep_until(Instant::now() + Duration::from_millis(5)).await;
    }
    assert_eq!(nodes.logged(), before);
    nodes.agree(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_conflict_with_themselves_are_in_force() {
    let nodes = Nodes::of_three(1).await;
    let rules = |text: &str| {
        ControlCommand::Rules(leasehold_control::RulesChange {
            domain: "api".into(),
            text: Some(text.into()),
            expected: Some(RulesVersion(0)),
            by: "a test".into(),
        })
    };
    let deadline = Instant::now() + SOON;
    let done = nodes.router(2).command(rules("a"), deadline).await;
    assert_eq!(done, Ok(ControlReply::Rules(RulesVersion(1))));
    let conflict = ControlReply::Refused(ControlRefusal::RulesConflict(RulesVersion(1)));
    assert_eq!(nodes.router(3).command(rules("a"), deadline).await, Ok(conflict));
    for router in nodes.routers() {
        let same = router.resolve_conflict(&rules("a"), RulesVersion(1), deadline).await;
        assert_eq!(same, ControlReply::Rules(RulesVersion(1)));
        assert_eq!(router.resolve_conflict(&rules("b"), RulesVersion(1), deadline).await, conflict);
    }
}
