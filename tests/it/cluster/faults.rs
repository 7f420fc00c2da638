//! P4 and P10: disks that fail, are full, or give back something else than was written.

use std::fs;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::clock::{Deadline, Timeline};
use leasehold_tests::cluster::{Plan, TestCluster};
use leasehold_tests::disk::{damage, newest_segment};
use leasehold_tests::load::{Fate, Load, Recording};
use leasehold_tests::{Process, SmallDisk, require};

use super::{
    LOAD_MAX, QUOTA, RULES, SETTLES_WITHIN, assert_replicas_become_equal, quota_load, remaining, take, three,
};

/// Room for two segments of the log and a little.
const SMALL_DISK_MEBIBYTES: u32 = 64;

/// Bytes of one set of rules that fill a log: each change is an entry of this size.
const RULES_BYTES: usize = 60_000;

/// Changes of rules until a disk must be full: more than the room that a segment of the log reserves.
const CHANGES_MAX: usize = 1_500;

/// After all that a load got: every acknowledged unit is charged, and none twice.
fn assert_nothing_lost(recording: &Recording, left: u64) {
    let (charged, admitted) = (QUOTA - left, recording.admitted_units());
    let unknown = recording.count(Fate::Unknown) as u64;
    assert!(charged >= admitted, "{} acknowledged charges are lost", admitted - charged);
    assert!(charged <= admitted + unknown, "{} units were charged twice", charged - admitted - unknown);
}

/// Waits until so many more checks of a load have begun.
async fn go_on(load: &leasehold_tests::load::Running, checks: u64) {
    let (begun, deadline) = (load.begun(), Deadline::after(SETTLES_WITHIN));
    while load.begun() < begun + checks {
        assert!(!deadline.passed(), "{} of {checks} more checks in {SETTLES_WITHIN:?}", load.begun() - begun);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_sync_fails_ends_with_a_message_and_the_others_go_on() {
    let Some(strace) = require("strace") else { return };
    let mut cluster = three().await;
    let load = quota_load("a").start(cluster.all_clients(), Timeline::start());
    go_on(&load, 20).await;
    let failing = 2;
    let id = cluster.process_id(failing).expect("it runs").to_string();
    let mut tracer = Command::new(strace);
    tracer.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync"]);
    tracer.args(["-e", "inject=fdatasync:error=EIO", "-p", &id]);
    let tracer = Process::spawn("strace", &mut tracer);
    let status = cluster.wait_until_ended(failing).await;
    assert_eq!(status.code(), Some(70), "{status}: {}", cluster.printed(failing));
    let printed = cluster.printed(failing);
    for part in ["this node can't go on: the log failed", "Input/output error"] {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    drop(tracer);

    load.set_nodes(cluster.all_clients());
    cluster.wait_until_led(SETTLES_WITHIN).await;
    go_on(&load, 100).await;
    // The disk works again: so does the node.
    cluster.restart(failing);
    cluster.wait_until_ready(failing).await;
    let recording = load.stop().await;
    println!("{recording}");
    assert_nothing_lost(&recording, remaining(&cluster, failing, "quota", "a").await);
    assert_replicas_become_equal(&cluster).await;
}

/// Changes some rules through a node: an entry in every node's log, as long as rules can be.
async fn change_rules(cluster: &TestCluster, round: usize) {
    let text = format!("domain: extra # {round} {}\nlimits: []\n", "x".repeat(RULES_BYTES));
    let reply = cluster.admin_http(0).send(Method::PUT, "/v1/rules/extra", &[], Bytes::from(text)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// Whether a node says that its disk is full.
async fn says_full(cluster: &TestCluster, node: usize) -> bool {
    let said = cluster.readiness(node).await;
    said.is_some_and(|reply| reply.status == 503 && reply.text().contains("the disk is full"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_is_full_leaves_service_loses_nothing_and_comes_back_by_itself() {
    // It wants to write snapshots too, and keeps little log behind them.
    let plan = Plan { cluster_config: "  snapshot_every: 100".to_owned(), ..Plan::of_three(RULES) };
    let mut cluster = TestCluster::prepare(plan).await;
    let full = 2;
    let Some(disk) = SmallDisk::mount(&cluster.data(full), SMALL_DISK_MEBIBYTES) else { return };
    for node in 0..3 {
        cluster.restart(node);
    }
    cluster.wait_until_all_ready().await;
    let load = quota_load("a").start(cluster.all_clients(), Timeline::start());
    disk.fill();
    let mut round = 0;
    while !says_full(&cluster, full).await {
        assert!(round < CHANGES_MAX, "the disk never was full:\n{}", cluster.printed(full));
        change_rules(&cluster, round).await;
        round += 1;
    }
    // As behind a load balancer: the other two get all checks, and answer each.
    let others = vec![cluster.clients(0), cluster.clients(1)];
    load.set_nodes(others.clone());
    go_on(&load, 20).await;
    let served = Load { within: LOAD_MAX, checks_max: 100, ..quota_load("b") };
    let served = served.start(others, Timeline::start()).finish().await;
    println!("while it is full: {served}");
    assert_eq!(served.count(Fate::Admitted), 100, "{served}");
    assert!(says_full(&cluster, full).await && !cluster.has_ended(full), "{}", cluster.printed(full));
    assert!(cluster.is_ready(0).await && cluster.is_ready(1).await);

    disk.empty();
    cluster.wait_until_ready(full).await;
    load.set_nodes(cluster.all_clients());
    go_on(&load, 20).await;
    let recording = load.stop().await;
    println!("{recording}");
    assert_nothing_lost(&recording, remaining(&cluster, full, "quota", "a").await);
    assert_nothing_lost(&served, remaining(&cluster, full, "quota", "b").await);
    assert_replicas_become_equal(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_damaged_log_refuses_to_start_and_joins_as_a_new_one_when_its_data_is_moved_away() {
    let mut cluster = three().await;
    for turn in 0..7 {
        assert!(take(&cluster, turn % 3, "ten", "a").await);
    }
    let load = Load { checks_max: 200, ..quota_load("a") };
    let before = load.start(cluster.all_clients(), Timeline::start()).finish().await;
    let damaged = 1;
    cluster.kill(damaged);
    damage(&newest_segment(&cluster.data(damaged)));
    cluster.restart(damaged);
    let status = cluster.wait_until_ended(damaged).await;
    let printed = cluster.printed(damaged);
    assert_eq!(status.code(), Some(1), "{status}: {printed}");
    for part in ["is damaged at byte", "move its data directory away", "join as a new node"] {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }

    let data = cluster.data(damaged);
    fs::rename(&data, data.with_extension("damaged")).expect("the data directory can be moved");
    cluster.restart(damaged);
    cluster.wait_until_ready(damaged).await;
    assert_replicas_become_equal(&cluster).await;
    assert_nothing_lost(&before, remaining(&cluster, damaged, "quota", "a").await);
    let mut admitted = 0;
    for turn in 0..10 {
        admitted += u32::from(take(&cluster, turn % 3, "ten", "a").await);
    }
    assert_eq!(admitted, 3);
    assert_replicas_become_equal(&cluster).await;
}
