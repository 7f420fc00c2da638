//! Clusters of real processes: they form, decide exactly, and go on without the node that led.

use std::time::Duration;

use leasehold_tests::bound::Bound;
use leasehold_tests::cluster::Plan;
use leasehold_tests::load::Fate;
use leasehold_tests::{Load, TestCluster, Timeline};

const RULES: &str = "domain: api\nlimits:\n  - { name: per-user, per: [user], limit: 50/1s }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_grants_no_more_than_the_limit_while_its_leader_is_killed() {
    let mut cluster = TestCluster::start(Plan { shards: 1, ..Plan::of_three(RULES) }).await;
    cluster.wait_until_led(Duration::from_secs(20)).await;
    let clock = Timeline::start();
    let load = Load { within: Duration::from_secs(40), ..Load::of("api", "user", "ada") };
    let running = load.start(cluster.all_clients(), clock);
    tokio::time::sleep(Duration::from_secs(3)).await;

    let leader = cluster.leader_of(0).await.expect("it is led");
    let killed_ns = clock.now_ns();
    cluster.kill(leader);
    running.set_nodes(cluster.all_clients());
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.restart(leader);
    cluster.wait_until_ready(leader).await;

    let recording = running.stop().await;
    // The shards' clock may run a thousandth faster than the tester's.
    recording.assert_within(Bound { fast_ppm: 1_000, ..Bound::bucket(50, Duration::from_secs(1)) });
    assert_eq!(recording.count(Fate::Unknown), 0, "{recording}");
    assert!(recording.admitted_units() > 200, "{recording}");
    let again = recording.granted_after(killed_ns).expect("granted again");
    assert!(again < Duration::from_secs(5), "granted again after {again:?}; {recording}");
    cluster.wait_until_equal(Duration::from_secs(20)).await;
    println!("granted again after {again:?}; {recording}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_grants_nothing_and_the_others_go_on() {
    let plan = Plan { shards: 1, links: true, ..Plan::of_three(RULES) };
    let mut cluster = TestCluster::start(plan).await;
    cluster.wait_until_led(Duration::from_secs(20)).await;
    let minority = cluster.leader_of(0).await.expect("it is led");
    let majority: Vec<_> = (0..3).filter(|place| *place != minority).collect();
    let (clock, bound) = (Timeline::start(), Bound::bucket(50, Duration::from_secs(1)));
    let load = |give_up_ms| Load {
        give_up_within: Duration::from_millis(give_up_ms),
        within: Duration::from_secs(60),
        ..Load::of("api", "user", "ada")
    };
    let others = load(10_000).start(majority.iter().map(|place| cluster.clients(*place)).collect(), clock);
    tokio::time::sleep(Duration::from_secs(2)).await;

    cluster.links().isolate(&[minority]);
    let cut_ns = clock.now_ns();
    // What was under way when it was cut may still end; a lease of leadership is over by then.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let alone = load(1_000).start(vec![cluster.clients(minority)], clock);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alone = alone.stop().await;
    assert_eq!(alone.admitted_units(), 0, "cut off: {alone}");
    assert!(alone.count(Fate::Unknown) > 0, "cut off: {alone}");

    cluster.links().heal();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let others = others.stop().await;
    others.assert_within(Bound { fast_ppm: 1_000, ..bound });
    let again = others.granted_after(cut_ns).expect("granted again");
    assert!(again < Duration::from_secs(5), "granted again after {again:?}; {others}");
    println!("granted again after {again:?}; {others}; cut off: {alone}");
    cluster.wait_until_ready(minority).await;
    cluster.wait_until_equal(Duration::from_secs(20)).await;
}
