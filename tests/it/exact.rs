//! A limit admits exactly as many as it says, however many ask at once and over whatever protocol.

use leasehold_tests::TestNode;

use crate::clients::{Client, PROTOCOLS, Protocol, admitted};

const RULES: &str = "
domain: exact
limits:
  - name: ten
    per: [user]
    limit: 10/8760h        # no run crosses into the next window, as one could into the next hour
    algorithm: fixed_window
  - name: bucket
    per: [caller]
    limit: 10/day
";

async fn connect(protocols: &[Protocol], node: &TestNode) -> Vec<Client> {
    let mut clients = Vec::new();
    for protocol in protocols {
        for _ in 0..4 {
            clients.push(Client::connect(*protocol, node.clients).await);
        }
    }
    clients
}

/// Fifty times in a row, each with a new key: of 100 concurrent checks on a limit of 10, exactly 10 are admitted.
async fn check(protocols: &[Protocol]) {
    let node = TestNode::start(RULES);
    let clients = connect(protocols, &node).await;
    for round in 0..50 {
        let value = format!("user-{round}");
        assert_eq!(
            admitted(&clients, "exact", &["user"], &value, 100).await,
            10,
            "round {round} over {protocols:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_100_concurrent_checks_on_a_limit_of_10_exactly_10_are_admitted_over_http() {
    check(&[Protocol::Http]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_100_concurrent_checks_on_a_limit_of_10_exactly_10_are_admitted_over_grpc() {
    check(&[Protocol::Grpc]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_100_concurrent_checks_on_a_limit_of_10_exactly_10_are_admitted_over_rls() {
    check(&[Protocol::Rls]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_counter_serves_all_protocols_at_once() {
    check(&PROTOCOLS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_as_exact_as_a_window() {
    let node = TestNode::start(RULES);
    let clients = connect(&PROTOCOLS, &node).await;
    for round in 0..10 {
        assert_eq!(
            admitted(&clients, "exact", &["caller"], &format!("caller-{round}"), 100).await,
            10,
            "round {round}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_two_limits_is_charged_to_both_or_to_neither() {
    let node = TestNode::start(
        "
domain: exact
limits:
  - { name: wide, per: [user], limit: 1000/8760h, algorithm: fixed_window }
  - { name: narrow, per: [user], limit: 10/8760h, algorithm: fixed_window }
",
    );
    let clients = connect(&[Protocol::Http], &node).await;
    assert_eq!(admitted(&clients, "exact", &["user"], "u", 100).await, 10);
    let reply = node.http().post("/v1/peek", &crate::clients::check("exact", &[("user", "u")])).await;
    let policies = reply.header("ratelimit").unwrap_or_default().to_owned();
    assert!(policies.contains("\"wide\";r=990"), "90 refusals were charged to the other limit: {policies}");
}
