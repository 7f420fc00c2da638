//! P1: what nodes tell each other of themselves decides nothing. Without it, grants are the same.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use leasehold_tests::clock::Timeline;
use leasehold_tests::cluster::{Plan, TestCluster};
use leasehold_tests::load::{Fate, Load};

use super::{QUOTA, RULES, SETTLES_WITHIN, assert_replicas_become_equal, remaining};

/// Many times what is gossiped in the same time, and soon sent.
const DATAGRAMS: usize = 20_000;

/// Between two pauses of the flood, so that it meets the test's checks and not only its beginning.
const DATAGRAMS_AT_ONCE: usize = 500;

/// Checks of one counter, through all nodes: more than it admits.
const CHECKS: u64 = 40;

/// Has 20 counters of ten units each asked 40 times each, through all nodes; each admits exactly ten.
async fn assert_grants_are_exact(cluster: &TestCluster) {
    let values: Vec<String> = (0..20).map(|value| format!("v{value}")).collect();
    let checks_max = CHECKS * values.len() as u64;
    let load = Load { values: values.clone(), workers: 8, checks_max, ..Load::of("shop", "ten", "") };
    let recording = load.start(cluster.all_clients(), Timeline::start()).finish().await;
    assert_eq!(recording.count(Fate::Unknown), 0, "{recording}");
    for (place, value) in values.iter().enumerate() {
        let of_value = recording.checks.iter().filter(|check| check.value == place);
        let admitted = of_value.filter(|check| check.fate == Fate::Admitted).count();
        assert_eq!(admitted, 10, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hears_no_gossip_grants_what_the_others_grant() {
    let mut cluster = TestCluster::prepare(Plan::of_three(RULES)).await;
    let key = cluster.folder().join("another.key");
    std::fs::write(&key, format!("{}\n", "a5".repeat(32))).expect("the temporary folder can be written to");
    cluster.reconfigure(2, "gossip.key", "another.key");
    for node in 0..3 {
        cluster.restart(node);
    }
    cluster.wait_until_all_ready().await;
    assert_grants_are_exact(&cluster).await;
    let status = cluster.status_by(0).await.expect("a cluster says how it is");
    let deaf = status.members.iter().find(|member| member.name == "n2");
    assert!(deaf.is_some_and(|member| member.answers && !member.live), "{:?}", status.members);
    // Nor does a change of leaders need it.
    cluster.kill(0);
    cluster.wait_until_led(SETTLES_WITHIN).await;
    assert_eq!(remaining(&cluster, 2, "ten", "v0").await, 0);
    assert_eq!(remaining(&cluster, 1, "quota", "b").await, QUOTA);
}

/// Datagrams that a node heard and took for nothing.
async fn dropped(cluster: &TestCluster, node: usize) -> u64 {
    let metrics = cluster.admin_http(node).get("/metrics").await.text();
    let lines = metrics.lines().filter(|line| line.starts_with("leasehold_cluster_gossip_dropped_total{"));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Sends garbage of all lengths.
fn flood(to: SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("the loopback has a free port");
    let mut datagram = [0_u8; 1_400];
    for number in 0..DATAGRAMS {
        let len = number % datagram.len();
        datagram[..len].fill(u8::try_from(number % 251).expect("below 251"));
        // A full buffer is no failure of the flood.
        let _ = socket.send_to(&datagram[..len], to);
        if number % DATAGRAMS_AT_ONCE == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_garbage_on_its_gossip_port_changes_no_grant_of_a_node() {
    let cluster = TestCluster::start(Plan::of_three(RULES)).await;
    let flooded = cluster.gossip(1);
    let flooding = tokio::task::spawn_blocking(move || flood(flooded));
    assert_grants_are_exact(&cluster).await;
    flooding.await.expect("the flood ends by itself");
    let dropped = dropped(&cluster, 1).await;
    println!("{dropped} of {DATAGRAMS} datagrams were looked at");
    assert!(dropped > 1_000, "{dropped}");
    assert!(cluster.is_ready(1).await);
    assert_replicas_become_equal(&cluster).await;
}
