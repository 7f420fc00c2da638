//! Clusters of real processes: what is promised when nodes are killed, stopped, added, cut off and told other times.

mod clocks;
mod faults;
mod forming;
mod gossip;
mod growing;
mod kills;
mod partition;
mod requests;
mod restart;
mod rules;
mod snapshots;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_tests::bound::Bound;
use leasehold_tests::cluster::{Plan, Replica, Status, TestCluster};
use leasehold_tests::load::Load;
use serde_json::json;

/// `hot` refills quickly, so that what a fault mints would show within the test; `quota` and `ten` don't refill at all
/// while a test runs, so that what was charged can be counted: to the unit and at any moment, so that nodes hold no leases on
/// them.
const RULES: &str = "
domain: shop
limits:
  - { name: hot, per: [hot], limit: 40/second, on_unavailable: deny }
  - { name: quota, per: [quota], limit: 10000/24h, algorithm: sliding_log, on_unavailable: deny, lease: never }
  - { name: ten, per: [ten], limit: 10/8760h, algorithm: fixed_window, on_unavailable: deny, lease: never }
";

/// What `quota` admits.
const QUOTA: u64 = 10_000;

/// What `hot` may admit. The servers' line leans toward wall time by 0.1 % at most.
const HOT: Bound =
    Bound { burst: 40, units: 40, period: Duration::from_secs(1), fast_ppm: 1_000, over_ppm: 0 };

/// Every load is stopped by its test before that.
const LOAD_MAX: Duration = Duration::from_secs(600);

/// Nothing on this machine takes longer to settle.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

async fn three() -> TestCluster {
    TestCluster::start(Plan::of_three(RULES)).await
}

/// More than `hot` lets pass: its counter is at its limit all the time.
fn hot_load(value: &str) -> Load {
    Load { workers: 8, within: LOAD_MAX, ..Load::of("shop", "hot", value) }
}

/// Less than `quota` lets pass in a test's time: each check must be charged.
fn quota_load(value: &str) -> Load {
    Load {
        workers: 2,
        pause: Duration::from_millis(20),
        checks_max: 8_000,
        within: LOAD_MAX,
        ..Load::of("shop", "quota", value)
    }
}

/// Units left to one counter, by a look through one node.
async fn remaining(cluster: &TestCluster, node: usize, attribute: &str, value: &str) -> u64 {
    let body = json!({ "domain": "shop", "attributes": { attribute: value }, "cost": 0 });
    let reply = cluster.http(node).post("/v1/check", &body).await;
    assert!([200, 429].contains(&reply.status.as_u16()), "{}", reply.text());
    let rule = &reply.json()["matched"][0];
    rule["remaining"].as_u64().unwrap_or_else(|| panic!("no `remaining` in {}", reply.text()))
}

/// Takes one unit through one node; whether it was admitted.
async fn take(cluster: &TestCluster, node: usize, attribute: &str, value: &str) -> bool {
    let body = json!({ "domain": "shop", "attributes": { attribute: value } });
    let reply = cluster.http(node).post("/v1/check", &body).await;
    match reply.status.as_u16() {
        200 => true,
        429 => false,
        other => panic!("{other}: {}", reply.text()),
    }
}

/// The first shard that holds a counter.
pub(crate) fn busy_shard(status: &Status) -> Option<u32> {
    status.shards.iter().find(|shard| shard.group.keys.is_some_and(|keys| keys > 0)).map(|shard| shard.shard)
}

/// Replicas of each node that holds any; `None` while something moves.
fn settled(status: &Status) -> Option<BTreeMap<u64, usize>> {
    let mut held = BTreeMap::new();
    for shard in &status.shards {
        let group = &shard.group;
        let votes = |role: &Option<String>| role.as_deref().is_some_and(|role| role != "learner");
        let whole = group.replicas.len() == 3 && group.replicas.iter().all(|replica| votes(&replica.role));
        if !whole || group.moving.is_some() {
            return None;
        }
        for replica in &group.replicas {
            *held.entry(replica.node).or_insert(0) += 1;
        }
    }
    Some(held)
}

/// Waits until every shard has three replicas that answer.
async fn assert_replicas_exist(cluster: &TestCluster) {
    let whole = |status: &Status| {
        let there =
            |replicas: &[Replica]| replicas.len() == 3 && replicas.iter().all(|r| r.applied.is_some());
        status.shards.iter().all(|shard| there(&shard.group.replicas)).then_some(())
    };
    cluster.wait_for("three replicas of each shard", SETTLES_WITHIN, whole).await;
}

/// Waits until every shard has three replicas that have applied the same and hold the same.
async fn assert_replicas_become_equal(cluster: &TestCluster) {
    assert_replicas_exist(cluster).await;
    cluster.wait_until_equal(SETTLES_WITHIN).await;
}
