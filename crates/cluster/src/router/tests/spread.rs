//! Requests whose counters lie on several shards.

use leasehold_limit::Algorithm;
use leasehold_model::{Key, Nanos, RequestId};
use leasehold_shard::{Acquire, Bounds, LimitSpec, Refusal, Reset};
use tokio::task::JoinSet;

use super::super::*;
use super::nodes::*;

/// One unit of each counter, each under its own limit.
fn one_each_of(id: Option<RequestId>, of: &[(Key, LimitSpec)]) -> Batch {
    let demands = (0..).zip(of).map(|(limit, (key, _))| demand(*key, limit, 1)).collect();
    let acquire = Acquire { id, remember_denial: false, demands };
    let limits = of.iter().map(|(_, limit)| limit.clone()).collect();
    Batch { limits, commands: vec![Command::Acquire(acquire)], ..Batch::default() }
}

fn id(seq: u64) -> Option<RequestId> {
    Some(RequestId { session: 77, seq })
}

/// Long enough for the shard that has a leader on a busy machine; all of it is waited for the one that has none.
const PATIENCE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_over_two_shards_takes_from_both_or_from_none() {
    let nodes = Nodes::of_three(4).await;
    let (wide, narrow) = ((key(0, 1), quota(50)), (key(3, 1), quota(30)));
    let mut asks = JoinSet::new();
    for router in nodes.routers().into_iter().cycle().take(200) {
        let batch = one_each_of(None, &[wide.clone(), narrow.clone()]);
        asks.spawn(async move { u64::from(acquire(&router, batch).await.admitted) });
    }
    assert_eq!(asks.join_all().await.into_iter().sum::<u64>(), 30);
    let router = nodes.router(1);
    assert_eq!(remaining(&router, &narrow.1, narrow.0).await, 0);
    assert_eq!(once_all_is_back(&router, &wide.1, wide.0, 20).await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_overlap_on_many_shards_leave_exactly_what_they_did_not_take() {
    let nodes = Nodes::of_three(4).await;
    let counters: Vec<_> = (0..4).map(|shard| (key(shard, 1), quota(20 + u64::from(shard)))).collect();
    let mut asks = JoinSet::new();
    for (n, router) in nodes.routers().into_iter().cycle().take(240).enumerate() {
        let picked = [n % 4, (n / 4 + n + 1) % 4, (n / 16) % 4];
        let mut of: Vec<_> = picked.iter().map(|&shard| counters[shard].clone()).collect();
        of.dedup();
        let batch = one_each_of(None, &of);
        asks.spawn(async move { (picked, of.len(), acquire(&router, batch).await.admitted) });
    }
    let mut taken = [0; 4];
    for (picked, _, _) in asks.join_all().await.into_iter().filter(|(_, _, admitted)| *admitted) {
        let mut of = picked.to_vec();
        of.dedup();
        of.into_iter().for_each(|shard| taken[shard] += 1);
    }
    for (shard, (key, limit)) in counters.iter().enumerate() {
        let left = 20 + u64::try_from(shard).unwrap() - taken[shard];
        let router = nodes.router(1);
        assert_eq!(once_all_is_back(&router, limit, *key, left).await, left, "shard {shard}");
    }
    assert_eq!(nodes.routers().iter().map(|router| router.counts().stranded).sum::<u64>(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_gets_all_of_it_back_and_says_so() {
    let nodes = Nodes::of_three(4).await;
    let blocked = spec(Algorithm::FixedWindow(leasehold_limit::Window::Epoch), 0, Nanos::from_secs(3600));
    let of = [(key(3, 1), blocked), (key(0, 1), quota(10)), (key(1, 1), quota(5))];
    for router in nodes.routers().into_iter().cycle().take(12) {
        let refused = acquire(&router, one_each_of(None, &of)).await;
        assert!(!refused.admitted);
        let said: Vec<_> =
            refused.decisions.iter().map(|said| (said.allowed, said.granted, said.remaining)).collect();
        assert_eq!(said, [(false, 0, 0), (true, 0, 10), (true, 0, 5)]);
        assert_eq!(remaining(&router, &of[1].1, of[1].0).await, 10);
        assert_eq!(remaining(&router, &of[2].1, of[2].0).await, 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_over_two_shards_gets_the_same_answer_and_returns_nothing_twice() {
    let nodes = Nodes::of_three(4).await;
    let of = [(key(0, 1), quota(10)), (key(1, 1), quota(1))];
    for _ in 0..5 {
        assert!(acquire(&nodes.router(1), one_each_of(None, &of[..1])).await.admitted);
    }
    for (seq, admitted, left) in [(1, true, 4), (2, false, 4)] {
        let first = acquire(&nodes.router(1), one_each_of(id(seq), &of)).await;
        assert_eq!(first.admitted, admitted);
        for router in nodes.routers() {
            assert_eq!(acquire(&router, one_each_of(id(seq), &of)).await, first);
        }
        assert_eq!(remaining(&nodes.router(2), &of[0].1, of[0].0).await, left);
    }
    // The denial is remembered although there would be room now.
    let reset = Command::Reset(Reset { keys: vec![of[1].0] });
    let batch = Batch { commands: vec![reset], ..Batch::default() };
    nodes.router(2).propose(batch, Instant::now() + SOON).await.unwrap();
    assert!(!acquire(&nodes.router(3), one_each_of(id(2), &of)).await.admitted);
    assert_eq!(remaining(&nodes.router(2), &of[0].1, of[0].0).await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_without_room_refuses_the_whole_request_and_a_retry_may_still_be_admitted() {
    let bounds = Bounds { keys_per_tenant_max: 1, ..Bounds::default() };
    let nodes = Nodes::of_three_within(4, bounds, |_, _| {}).await;
    let router = nodes.router(1);
    let (first, full) = ((key(0, 1), quota(10)), (key(1, 1), quota(10)));
    assert!(acquire(&router, one_each_of(None, &[(key(1, 2), quota(10))])).await.admitted);
    let of = [first.clone(), full];
    let ask = async |router: &Router, id| {
        let replies = router.propose(one_each_of(id, &of), Instant::now() + SOON).await;
        replies.unwrap().pop().unwrap()
    };
    assert!(matches!(ask(&router, None).await, Reply::Refused(Refusal::KeysFull(_))));
    assert_eq!(remaining(&router, &first.1, first.0).await, 10);
    // Under a caller's id nothing is returned: the retry, which finds the charge, must find it made.
    assert!(matches!(ask(&router, id(1)).await, Reply::Refused(Refusal::KeysFull(_))));
    let reset = Command::Reset(Reset { keys: vec![key(1, 2)] });
    let batch = Batch { commands: vec![reset], ..Batch::default() };
    assert_eq!(router.propose(batch, Instant::now() + SOON).await, Ok(vec![Reply::Reset(1)]));
    let retried = ask(&nodes.router(2), id(1)).await;
    assert!(matches!(&retried, Reply::Acquired(acquired) if acquired.admitted), "{retried:?}");
    assert_eq!(remaining(&router, &first.1, first.0).await, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_and_resets_go_over_all_shards() {
    let nodes = Nodes::of_three(4).await;
    let of: Vec<_> = (0..4).map(|shard| (key(shard, 1), quota(2))).collect();
    for (router, left) in [(nodes.router(1), 1), (nodes.router(3), 0)] {
        assert!(acquire(&router, one_each_of(None, &of)).await.admitted);
        let Command::Acquire(looked) = one_each_of(None, &of).commands.remove(0) else { unreachable!() };
        let limits: Vec<_> = of.iter().map(|(_, limit)| limit.clone()).collect();
        let reply = nodes.router(2).preview(&limits, &looked, Instant::now() + SOON).await;
        let Ok(Reply::Acquired(would)) = reply else { panic!("{reply:?}") };
        assert_eq!(would.admitted, left > 0);
        assert_eq!(would.decisions.len(), 4);
    }
    let keys = of.iter().map(|(key, _)| *key).chain([key(2, 9)]).collect();
    let batch = Batch { commands: vec![Command::Reset(Reset { keys })], ..Batch::default() };
    let done = nodes.router(2).propose(batch, Instant::now() + SOON).await;
    assert_eq!(done, Ok(vec![Reply::Reset(4)]));
    assert_eq!(remaining(&nodes.router(1), &of[0].1, of[0].0).await, 2);
}

/// Three nodes and two counters, the second on a shard that nobody leads and nobody ever will.
async fn with_a_leaderless_shard() -> (Nodes, [(Key, LimitSpec); 2]) {
    let nodes = Nodes::of_three(2).await;
    for node in nodes.nodes.values() {
        node.runner.remove_group(GroupId::of_shard(ShardId(1))).await.unwrap();
    }
    (nodes, [(key(0, 1), quota(10)), (key(1, 1), quota(10))])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_without_a_leader_drains_no_limit_of_the_other_shards() {
    let (nodes, of) = with_a_leaderless_shard().await;
    let router = nodes.router(1);
    for _ in 0..3 {
        let outcome = acquire_within(&router, one_each_of(None, &of), PATIENCE).await;
        assert_eq!(outcome, Err(Unanswered::Unreached));
    }
    assert_eq!(once_all_is_back(&router, &of[0].1, of[0].0, 10).await, 10);
    assert_eq!(router.counts().stranded, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_callers_id_what_was_taken_stays_for_the_retry_and_nothing_is_promised() {
    let (nodes, of) = with_a_leaderless_shard().await;
    let router = nodes.router(1);
    for _ in 0..3 {
        let outcome = acquire_within(&router, one_each_of(id(1), &of), PATIENCE).await;
        assert_eq!(outcome, Err(Unanswered::Deadline));
    }
    assert_eq!(remaining(&router, &of[0].1, of[0].0).await, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_stops_between_two_shards_does_not_say_that_nothing_was_done() {
    let (nodes, of) = with_a_leaderless_shard().await;
    let (asked, batch) = (nodes.router(1), one_each_of(None, &of));
    let ask = tokio::spawn(async move { acquire_within(&asked, batch, SOON).await });
    while remaining(&nodes.router(2), &of[0].1, of[0].0).await == 10 {}
    nodes.router(1).stop();
    assert_eq!(ask.await.unwrap(), Err(Unanswered::Deadline));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_or_a_reset_that_was_half_done_is_not_called_undone() {
    let (nodes, of) = with_a_leaderless_shard().await;
    let router = nodes.router(1);
    let mut batch = one_each_of(None, &of[..1]);
    batch.commands.push(Command::Reset(Reset { keys: vec![of[1].0] }));
    let soon = || Instant::now() + PATIENCE;
    assert_eq!(router.propose(batch, soon()).await, Err(Unanswered::Deadline));
    let reset = |keys| Batch { commands: vec![Command::Reset(Reset { keys })], ..Batch::default() };
    assert_eq!(router.propose(reset(vec![of[0].0, of[1].0]), soon()).await, Err(Unanswered::Deadline));
    assert_eq!(router.propose(reset(vec![of[1].0]), soon()).await, Err(Unanswered::Unreached));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_over_several_shards_have_the_room_of_requests_over_several_shards() {
    let nodes = Nodes::of_three(2).await;
    let of = [(key(0, 1), quota(10)), (key(1, 1), quota(10))];
    let router = nodes.router(1);
    let look = async |of: &[(Key, LimitSpec)]| {
        let Command::Acquire(looked) = one_each_of(None, of).commands.remove(0) else { unreachable!() };
        let limits: Vec<_> = of.iter().map(|(_, limit)| limit.clone()).collect();
        router.preview(&limits, &looked, Instant::now() + SOON).await
    };
    let all = router.spreading().try_acquire_many_owned(SPREAD_MAX.try_into().unwrap()).unwrap();
    assert_eq!(look(&of).await, Err(Unanswered::Overloaded));
    assert!(look(&of[..1]).await.is_ok());
    drop(all);
    assert!(look(&of).await.is_ok());
}
