//! Nodes whose clocks are off lead one after the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold_limit::Algorithm;
use leasehold_model::Nanos;
use leasehold_shard::{Bounds, LimitSpec};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::super::*;
use super::nodes::*;

const BURST: u64 = 40;
const PER_SECOND: u64 = 100;
const HOUR: i64 = 3_600_000_000_000;
const HALF_MINUTE: i64 = 30_000_000_000;

fn limit() -> LimitSpec {
    spec(Algorithm::TokenBucket { burst: BURST }, PER_SECOND, Nanos::from_secs(1))
}

/// Takes whatever there is, from any node, until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    admitted: Arc<AtomicU64>,
    askers: Vec<JoinHandle<()>>,
    began: Instant,
}

impl Load {
    fn on(nodes: &Nodes) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let admitted = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
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
        Self { stop, admitted, askers, began }
    }

    fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::SeqCst)
    }

    /// Checks what was admitted since the beginning: no more than the limit, and not much less, but for `idle`.
    async fn end(self, idle: Duration) {
        self.stop.store(true, Ordering::SeqCst);
        for asker in self.askers {
            asker.await.unwrap();
        }
        let (admitted, took) = (self.admitted.load(Ordering::SeqCst), self.began.elapsed());
        let units = |time: Duration| u64::try_from(time.as_millis()).unwrap() * PER_SECOND / 1000;
        // Clocks are fast or slow by 2 %, and lean toward wall time by 0.1 %.
        let most = BURST + units(took) * 1022 / 1000;
        let least = BURST + units(took.saturating_sub(idle)) * 75 / 100;
        assert!(admitted <= most, "{admitted} admitted of {most} in {took:?}");
        assert!(admitted >= least, "only {admitted} admitted of {most} in {took:?}");
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
    let load = Load::on(&nodes);
    for leader in [2, 3, 1, 3, 2, 1] {
        sleep(Duration::from_millis(250)).await;
        move_leader(&nodes, leader).await;
        let before = load.admitted();
        until("the new leader admits", || load.admitted() > before).await;
    }
    // A few milliseconds without a leader at each.
    load.end(Duration::from_millis(500)).await;
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
    let load = Load::on(&nodes);
    sleep(Duration::from_millis(300)).await;
    let before = load.admitted();
    nodes.nodes[&1].silence.set(true);
    nodes.leader_but(0, 1).await;
    sleep(Duration::from_millis(1_000)).await;
    assert!(load.admitted() > before);
    nodes.nodes[&1].silence.set(false);
    until("the node is back", || !nodes.nodes[&1].runner.is_leader(GroupId(1))).await;
    sleep(Duration::from_millis(300)).await;
    move_leader(&nodes, 1).await;
    sleep(Duration::from_millis(300)).await;
    load.end(Duration::from_secs(2)).await;
    nodes.agree(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wall_clock_that_steps_under_the_leader_changes_nothing() {
    let nodes = Nodes::of_three(1).await;
    let load = Load::on(&nodes);
    for wall_off in [HOUR, -HOUR, HALF_MINUTE, 0] {
        nodes.nodes[&1].clock.set(wall_off, 0);
        sleep(Duration::from_millis(400)).await;
    }
    load.end(Duration::ZERO).await;
}
