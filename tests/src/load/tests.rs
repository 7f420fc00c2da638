//! The load against one node and a node that isn't there.

use super::*;
use crate::bound::Bound;
use crate::node::TestNode;
use crate::ports::own_port;

const RULES: &str = "domain: api\nlimits:\n  - { name: per-user, per: [user], limit: 20/1s }\n";

fn load(protocol: Protocol) -> Load {
    let load = Load::of("api", "user", "ada");
    Load { protocol, within: Duration::from_millis(2_500), give_up_within: Duration::from_secs(2), ..load }
}

/// A single node admits exactly its limit, whatever is asked of another that isn't there.
async fn check(protocol: Protocol) {
    let node = TestNode::start(RULES);
    let clock = Timeline::start();
    let recording = load(protocol).start(vec![node.clients, own_port()], clock).finish().await;
    recording.assert_within(Bound::bucket(20, Duration::from_secs(1)));
    assert!((60..=71).contains(&recording.admitted_units()), "{recording}");
    assert!(recording.count(Fate::Denied) > 100, "{recording}");
    assert_eq!(recording.count(Fate::Unknown), 0, "{recording}");
    assert!(recording.retried() > 50, "{recording}");
    assert!(recording.longest_silence() < Duration::from_secs(1), "{recording}");
    assert!(recording.granted_after(0).is_some_and(|wait| wait < Duration::from_secs(1)), "{recording}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_every_check_is_retried_until_it_is_decided() {
    check(Protocol::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_grpc_every_check_is_retried_until_it_is_decided() {
    check(Protocol::Grpc).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_ends_at_its_count_and_when_told_to() {
    let node = TestNode::start(RULES);
    let clock = Timeline::start();
    let counted = Load { checks_max: 7, ..load(Protocol::Grpc) }.start(vec![node.clients], clock);
    assert_eq!(counted.finish().await.checks.len(), 7);
    let long = Load { within: Duration::from_secs(600), ..load(Protocol::Grpc) };
    let running = long.start(vec![node.clients], clock);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(running.begun() > 0);
    assert!(!running.stop().await.checks.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_answers_is_unknown() {
    let nobody = Load { checks_max: 1, give_up_within: Duration::from_millis(50), ..load(Protocol::Http) };
    let recording = nobody.start(vec![own_port()], Timeline::start()).finish().await;
    assert_eq!((recording.count(Fate::Unknown), recording.admitted_units()), (1, 0), "{recording}");
    assert!(recording.checks[0].tries > 1, "{recording}");
}
