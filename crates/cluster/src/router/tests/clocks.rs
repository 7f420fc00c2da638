//! Nodes whose clocks are off lead one after the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold_limit::Algorithm;
use leasehold_model::Nanos;
use leasehold_shard::{Acquire, Bounds, LimitSpec};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::super::*;
use super::nodes::*;

/// More than comes back in any test: nothing is lost by a full bucket, however slowly it is taken from.
const BURST: u64 = 10_000;
const PER_SECOND: u64 = 100;
const HOUR: i64 = 3_600_000_000_000;
const HALF_MINUTE: i64 = 30_000_000_000;

fn limit() -> LimitSpec {
    spec(Algorithm::TokenBucket { burst: BURST }, PER_SECOND, Nanos::from_secs(1))
}

/// Takes whatever comes back to a bucket that was emptied, from any node, until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    admitted: Arc<AtomicU64>,
    askers: Vec<JoinHandle<()>>,
    /// It was emptied after the first and before the second.
    emptied: (Instant, Instant),
}

impl Load {
    async fn on(nodes: &Nodes) -> Self {
        let before = Instant::now();
        let mut everything = one_of_each(None, &limit(), &[]);
        let demands = vec![demand(key(0, 1), 0, BURST)];
        everything.commands = vec![Command::Acquire(Acquire { demands, ..Acquire::default() })];
        assert!(acquire(&nodes.router(1), everything).await.admitted);
        let emptied = (before, Instant::now());
        let stop = Arc::new(AtomicBool::new(false));
        let admitted = Arc::new(AtomicU64::new(0));
        let askers = nodes.routers().into_iter().cycle().take(12).map(|router| {
            let (stop, admitted) = (Arc::clone(&stop), Arc::clone(&admitted));
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let one = one_of_each(None, &limit(), &[key(0, 1)]);
                    match acquire_within(&router, one, SOON).await {
                        Ok(acquired) if acquired.admitted => {
                            admitted.fetch_add(1, Ordering::SeqCst);
                        }
                        _ => sleep(Duration::from_millis(5)).await,
                    }
                }
            })
        });
        let askers = askers.collect();
        Self { stop, admitted, askers, emptied }
    }

    fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::SeqCst)
    }

    /// Checks what came back since the bucket was emptied, taken or not: no more than the limit says, and no less but for
    /// the times without a leader.
    async fn end(self, nodes: &Nodes, leaderless: Duration) {
        self.stop.store(true, Ordering::SeqCst);
        for asker in self.askers {
            asker.await.unwrap();
        }
        let least_time = self.emptied.1.elapsed().saturating_sub(leaderless);
        let left = remaining(&nodes.router(2), &limit(), key(0, 1)).await;
        let most_time = self.emptied.0.elapsed();
        let units = |time: Duration| u64::try_from(time.as_millis()).unwrap() * PER_SECOND / 1000;
        // Clocks are fast or slow by 2 %, and lean toward wall time by 0.1 %.
        let (least, most) = (units(least_time) * 978 / 1000, units(most_time) * 1022 / 1000 + 1);
        let back = self.admitted.load(Ordering::SeqCst) + left;
        assert!(back <= most, "{back} came back, at most {most} may have in {most_time:?}");
        assert!(back + 1 >= least, "only {back} of {least} came back in {least_time:?}");
    }
}

async fn move_leader(nodes: &Nodes, to: u64) {
    let group = GroupId::of_shard(ShardId(0));
    let deadline = Instant::now() + SOON;
    loop {
        let from = nodes.leader(0).await;
        if from == to {
            return;
        }
        let moved = nodes.nodes[&from].runner.transfer(group, NodeId(to), Duration::from_secs(3)).await;
        assert!(Instant::now() < deadline, "{moved:?}");
    }
}

/// Leadership goes round twice under load.
async fn check_goes_round(set_clock: fn(u64, &TestClock)) {
    let nodes = Nodes::of_three_within(1, Bounds::default(), set_clock).await;
    let load = Load::on(&nodes).await;
    for leader in [2, 3, 1, 3, 2, 1] {
        sleep(Duration::from_millis(700)).await;
        move_leader(&nodes, leader).await;
        let before = load.admitted();
        until("the new leader admits", || load.admitted() > before).await;
    }
    // The next leader goes on from when it applied the last entry, some time after the one before had.
    load.end(&nodes, Duration::from_millis(6 * 300)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_whose_wall_clocks_are_an_hour_off_neither_mint_nor_lock_out() {
    check_goes_round(|id, clock| clock.set([0, HOUR, -HOUR][usize::try_from(id - 1).unwrap()], 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_whose_clocks_are_half_a_minute_off_and_drift_neither_mint_nor_lock_out() {
    check_goes_round(|id, clock| {
        let id = usize::try_from(id - 1).unwrap();
        clock.set([-HALF_MINUTE, HALF_MINUTE, 0][id], [20_000, -20_000, 0][id]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_cut_off_and_leads_again_goes_on_with_the_line() {
    let nodes = Nodes::of_three_within(1, Bounds::default(), |id, clock| {
        clock.set(if id == 1 { HOUR } else { 0 }, if id == 1 { 20_000 } else { 0 });
    })
    .await;
    let load = Load::on(&nodes).await;
    sleep(Duration::from_millis(300)).await;
    let before = load.admitted();
    nodes.nodes[&1].silence.set(true);
    nodes.leader_but(0, 1).await;
    until("another leader admits", || load.admitted() > before).await;
    sleep(Duration::from_millis(1_000)).await;
    nodes.nodes[&1].silence.set(false);
    until("the node is back", || !nodes.nodes[&1].runner.is_leader(GroupId(1))).await;
    sleep(Duration::from_millis(300)).await;
    move_leader(&nodes, 1).await;
    sleep(Duration::from_millis(300)).await;
    load.end(&nodes, Duration::from_secs(1)).await;
    nodes.agree(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wall_clock_that_steps_under_the_leader_changes_nothing() {
    let nodes = Nodes::of_three(1).await;
    let load = Load::on(&nodes).await;
    for wall_off in [HOUR, -HOUR, HALF_MINUTE, 0] {
        nodes.nodes[&1].clock.set(wall_off, 0);
        sleep(Duration::from_millis(400)).await;
    }
    load.end(&nodes, Duration::ZERO).await;
}
