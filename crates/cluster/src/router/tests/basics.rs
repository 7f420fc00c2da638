//! A cluster that nothing happens to.

use tokio::task::JoinSet;

use super::nodes::*;

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
