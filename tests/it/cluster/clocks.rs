//! P1 under clocks that step, are set differently and run too fast: real processes under libfaketime.
//!
//! The bound holds on the tester's own clock, and nobody is locked out: what refills is granted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leasehold_tests::bound::Bound;
use leasehold_tests::clock::Timeline;
use leasehold_tests::cluster::{Plan, TestCluster};
use leasehold_tests::load::Recording;
use leasehold_tests::require;

use super::{HOT, RULES, SETTLES_WITHIN, assert_replicas_become_equal, busy_shard, hot_load};

/// Between two steps of a clock: a few refills.
const BETWEEN_STEPS: Duration = Duration::from_secs(2);

/// Starts three nodes under the library, each with its own idea of the time.
async fn start(
    library: &Path,
    clocks: &tempfile::TempDir,
    monotonic_too: bool,
    first: [&str; 3],
) -> TestCluster {
    let mut cluster = TestCluster::prepare(Plan::of_three(RULES)).await;
    for (node, offset) in (0..).zip(first) {
        set(clocks, node, offset);
        let file = clocks.path().join(node.to_string());
        let mut variables = vec![
            ("LD_PRELOAD", library.to_str().expect("a library's path is text")),
            ("FAKETIME_TIMESTAMP_FILE", file.to_str().expect("a temporary path is text")),
            ("FAKETIME_NO_CACHE", "1"),
        ];
        if !monotonic_too {
            variables.push(("FAKETIME_DONT_FAKE_MONOTONIC", "1"));
        }
        cluster.set_environment(node, &variables);
        cluster.restart(node);
    }
    cluster.wait_until_all_ready().await;
    cluster
}

/// A node's clock is so far ahead from now on.
fn set(clocks: &tempfile::TempDir, node: usize, offset: &str) {
    // Renamed into place: a reader sees the old offset or the new one.
    let (file, new) = (clocks.path().join(node.to_string()), clocks.path().join("new"));
    fs::write(&new, offset)
        .and_then(|()| fs::rename(&new, &file))
        .expect("the temporary folder can be written to");
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
async fn wall_clocks_that_step_by_an_hour_and_differ_by_30_seconds_mint_nothing_and_lock_nobody_out() {
    let Some(library) = require("libfaketime") else { return };
    let clocks = tempfile::tempdir().expect("a temporary folder can be made");
    let mut cluster = start(&library, &clocks, false, ["+30", "+0", "-30"]).await;
    let clock = Timeline::start();
    let load = hot_load("a").start(cluster.all_clients(), clock);
    for offsets in [["+3600", "+0", "-30"], ["-3600", "+3600", "+0"], ["+0", "-3600", "+3600"]] {
        tokio::time::sleep(BETWEEN_STEPS).await;
        for (node, offset) in (0..).zip(offsets) {
            set(&clocks, node, offset);
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
    let clocks = tempfile::tempdir().expect("a temporary folder can be made");
    let mut cluster = start(&library, &clocks, true, ["+0 x1.02", "+0 x0.98", "+0 x1.02"]).await;
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
