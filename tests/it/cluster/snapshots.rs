//! P4: what a snapshot holds is what its log held, on a replica that never saw the log.

use std::fs;
use std::time::Duration;

use leasehold_tests::clock::Timeline;
use leasehold_tests::cluster::{Plan, TestCluster};
use leasehold_tests::load::Load;

use super::{QUOTA, RULES, assert_replicas_become_equal, assert_replicas_exist, quota_load, remaining};

/// As in the plan; their groups are numbered from 1.
const SHARDS: u32 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_replica_catches_up_from_a_snapshot_when_the_log_is_purged_on_busy_and_idle_shards() {
    let plan = Plan { cluster_config: "  snapshot_every: 100".to_owned(), ..Plan::of_three(RULES) };
    let mut cluster = TestCluster::start(plan).await;
    // Every shard gets some counters and more entries than are kept; then all but one are idle.
    let values = (0..64).map(|value| format!("v{value}")).collect();
    let spread = Load { values, pause: Duration::ZERO, checks_max: 6_000, ..quota_load("") };
    let spread = spread.start(cluster.all_clients(), Timeline::start()).finish().await;
    println!("{spread}");
    for group in 1..=SHARDS {
        assert!(newest_snapshot(&cluster, 0, group) >= Some(100), "the log of group {group} still holds all");
    }
    let busy = quota_load("busy").start(cluster.all_clients(), Timeline::start());
    cluster.kill(2);
    cluster.wipe(2);
    cluster.restart(2);
    cluster.wait_until_ready(2).await;
    assert_replicas_exist(&cluster).await;
    let busy = busy.stop().await;
    assert_eq!(QUOTA - remaining(&cluster, 2, "quota", "busy").await, busy.admitted_units());
    assert_replicas_become_equal(&cluster).await;
    for group in 1..=SHARDS {
        assert!(newest_snapshot(&cluster, 2, group) >= Some(100), "group {group} came by its log");
    }
}

/// The last entry in a node's newest snapshot of a group: what its file is named after.
fn newest_snapshot(cluster: &TestCluster, node: usize, group: u32) -> Option<u64> {
    let folder = cluster.data(node).join("groups").join(group.to_string());
    let files = fs::read_dir(folder).ok()?.flatten();
    let index = |file: fs::DirEntry| file.file_name().to_str()?.strip_suffix(".snap")?.parse().ok();
    files.filter_map(index).max()
}
