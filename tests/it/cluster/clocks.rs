//! P1 under clocks that step, are set differently and run too fast: real processes under libfaketime.
//!
//! The bound holds on the tester's own clock, and nobody is locked out: what refills is granted.

use std::path::Path;
use std::time::Duration;

use leasehold_tests::bound::Bound;
use leasehold_tests::clock::{Deadline, Timeline, unix_ms};
use leasehold_tests::cluster::{Plan, TestCluster};
use leasehold_tests::faketime::Clocks;
use leasehold_tests::load::Recording;
use leasehold_tests::require;

use serde_json::json;

use super::{HOT, RULES, SETTLES_WITHIN, assert_replicas_become_equal, busy_shard, hot_load, take};

/// Has each node tell its calendar, too: by when a limit is at its full again.
const TELLING: &str = "http: { x_rate_limit: epoch_seconds }";

/// What a node says of its calendar is rounded, and some time on its way.
const TOLD_WITHIN_S: u64 = 5;

/// Between two steps of a clock: a few refills.
const BETWEEN_STEPS: Duration = Duration::from_secs(2);

/// Starts three nodes under the library, each with its own idea of the time.
async fn start(library: &Path, clocks: &Clocks, first: [&str; 3]) -> TestCluster {
    let mut cluster = TestCluster::prepare(telling(3)).await;
    for (node, offset) in (0..).zip(first) {
        clocks.set(node, offset);
        set_library(&mut cluster, library, clocks, node);
        cluster.restart(node);
    }
    cluster.wait_until_all_ready().await;
    for (node, offset) in (0..).zip(first) {
        wait_until_told(&cluster, node, offset).await;
    }
    cluster
}

/// A cluster of so many founders that tell their calendars.
fn telling(founders: usize) -> Plan {
    Plan { founders, config: TELLING.to_owned(), ..Plan::of_three(RULES) }
}

/// From its next start on a node gets its time from the library.
fn set_library(cluster: &mut TestCluster, library: &Path, clocks: &Clocks, node: usize) {
    let own = clocks.variables(node);
    let mut variables = vec![("LD_PRELOAD", library.to_str().expect("a library's path is text"))];
    variables.extend(own.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    cluster.set_environment(node, &variables);
}

/// When a limit is at its full again: in ms from now, on the shard's time; and in s since 1970, by the node's calendar.
async fn reset(cluster: &TestCluster, node: usize) -> Option<(u64, u64)> {
    let body = json!({ "domain": "shop", "attributes": { "ten": "told" } });
    let reply = cluster.http(node).post("/v1/peek", &body).await;
    let after_ms = reply.json()["matched"][0]["reset_after_ms"].as_u64()?;
    Some((after_ms, reply.header("x-ratelimit-reset")?.parse().ok()?))
}

/// By how many s a node's calendar is ahead of the machine's.
async fn ahead_s(cluster: &TestCluster, node: usize) -> Option<i64> {
    let (after_ms, at_s) = reset(cluster, node).await?;
    i64::try_from(at_s).ok()?.checked_sub_unsigned((unix_ms() + after_ms) / 1_000)
}

/// Waits until a node's calendar is as far ahead as was set for it: if the library had no effect, it never is.
async fn wait_until_told(cluster: &TestCluster, node: usize, offset: &str) {
    let offset = offset.split(' ').next().and_then(|offset| offset.parse::<i64>().ok());
    let offset = offset.expect("an offset begins with whole seconds");
    let deadline = Deadline::after(SETTLES_WITHIN);
    loop {
        let told = ahead_s(cluster, node).await;
        if told.is_some_and(|told| told.abs_diff(offset) <= TOLD_WITHIN_S) {
            return;
        }
        assert!(!deadline.passed(), "n{node} is {told:?} s ahead, not {offset} s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What refilled was granted, too: at least half of it, since elections take their time.
fn assert_not_locked_out(recording: &Recording, took: Duration) {
    let refilled = u64::try_from(took.as_millis()).expect("a test is short") * HOT.units / 1_000;
    let admitted = recording.admitted_units();
    assert!(admitted * 2 >= refilled, "{admitted} of {refilled} units that refilled were granted");
}

/// Has the leader of the only busy shard killed, so that another node with another clock takes over.
async fn change_leader(cluster: &mut TestCluster) {
    cluster.wait_until_led(SETTLES_WITHIN).await;
    let shard = cluster.wait_for("the counter is somewhere", SETTLES_WITHIN, busy_shard).await;
    let leader = cluster.leader_of(shard).await.expect("every shard is led");
    cluster.kill(leader);
    cluster.wait_until_led(SETTLES_WITHIN).await;
    cluster.restart(leader);
    cluster.wait_until_ready(leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_library_moves_a_nodes_calendar_and_the_rate_of_its_time() {
    let Some(library) = require("libfaketime") else { return };
    let clocks = Clocks::new(true).expect("a temporary folder can be made");
    let mut cluster = TestCluster::prepare(telling(1)).await;
    clocks.set(0, "+3600 x1.5");
    set_library(&mut cluster, &library, &clocks, 0);
    cluster.restart(0);
    cluster.wait_until_all_ready().await;
    let audit = cluster.admin_http(0).get("/v1/audit").await.json();
    let first_ms = audit["entries"][0]["at_unix_ms"].as_u64().expect("an entry says when it was made");
    let ahead_s = (first_ms / 1_000).abs_diff(unix_ms() / 1_000 + 3_600);
    assert!(ahead_s < 60, "{audit}");

    assert!(take(&cluster, 0, "ten", "told").await);
    let (before_ms, _) = reset(&cluster, 0).await.expect("a counter in use is at its full some day");
    let passed = Timeline::start();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (after_ms, _) = reset(&cluster, 0).await.expect("a counter in use is at its full some day");
    let (shard_ms, real_ms) = (u128::from(before_ms - after_ms), passed.elapsed().as_millis());
    assert!(shard_ms * 100 > real_ms * 140 && shard_ms * 100 < real_ms * 160, "{shard_ms} in {real_ms} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wall_clocks_that_step_by_an_hour_and_differ_by_30_seconds_mint_nothing_and_lock_nobody_out() {
    let Some(library) = require("libfaketime") else { return };
    let clocks = Clocks::new(false).expect("a temporary folder can be made");
    let mut cluster = start(&library, &clocks, ["+30", "+0", "-30"]).await;
    let clock = Timeline::start();
    let load = hot_load("a").start(cluster.all_clients(), clock);
    for offsets in [["+3600", "+0", "-30"], ["-3600", "+3600", "+0"], ["+0", "-3600", "+3600"]] {
        tokio::time::sleep(BETWEEN_STEPS).await;
        for (node, offset) in (0..).zip(offsets) {
            clocks.set(node, offset);
            wait_until_told(&cluster, node, offset).await;
        }
        tokio::time::sleep(BETWEEN_STEPS).await;
        change_leader(&mut cluster).await;
    }
    let (recording, took) = (load.stop().await, clock.elapsed());
    println!("{recording}");
    recording.assert_within(HOT);
    assert_not_locked_out(&recording, took);
    assert_replicas_become_equal(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_run_two_percent_fast_or_slow_mint_no_more_than_that() {
    let Some(library) = require("libfaketime") else { return };
    let clocks = Clocks::new(true).expect("a temporary folder can be made");
    let mut cluster = start(&library, &clocks, ["+600 x1.02", "+600 x0.98", "+600 x1.02"]).await;
    let clock = Timeline::start();
    let load = hot_load("a").start(cluster.all_clients(), clock);
    for _ in 0..2 {
        tokio::time::sleep(BETWEEN_STEPS * 2).await;
        change_leader(&mut cluster).await;
    }
    let (recording, took) = (load.stop().await, clock.elapsed());
    println!("{recording}");
    recording.assert_within(Bound { fast_ppm: 20_000 + HOT.fast_ppm, ..HOT });
    assert_not_locked_out(&recording, took);
    assert_replicas_become_equal(&cluster).await;
}
