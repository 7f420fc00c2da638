//! P1, P2, P3, P8: what one request is promised, through whatever node and over whatever protocol it comes.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::TokioExecutor;
use leasehold_tests::Reply;
use leasehold_tests::clock::Deadline;
use leasehold_tests::cluster::{Plan, Status, TestCluster};
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::proto::leasehold::v1::limiter_client::LimiterClient;
use serde_json::{Value, json};

use super::{SETTLES_WITHIN, busy_shard, remaining};
use crate::clients::{Client, PROTOCOLS, admitted};

/// `wide` and `narrow` are of two attributes, so that one request meets both on shards of their own. What is admitted of them
/// is counted to the unit, so that nodes hold no leases on them; what nodes hold of `leased` comes back.
const RULES: &str = "
domain: shop
limits:
  - { name: ten, per: [ten], limit: 10/8760h, algorithm: fixed_window, on_unavailable: deny, lease: never }
  - { name: wide, per: [wide], limit: 1000/8760h, algorithm: fixed_window, on_unavailable: deny, lease: never }
  - { name: narrow, per: [narrow], limit: 3/8760h, algorithm: fixed_window, on_unavailable: deny, lease: never }
  - { name: open, per: [open], limit: 10/8760h, algorithm: fixed_window, on_unavailable: allow, lease: never }
  - { name: leased, per: [leased], limit: 500/8760h, algorithm: fixed_window, on_unavailable: deny }
";

/// Pairs of counters: of so many, some lie on two shards.
const PAIRS: usize = 8;

/// A return of what a refused request took elsewhere.
const RETURNED_WITHIN: Duration = Duration::from_secs(10);

async fn start(shards: u32) -> TestCluster {
    TestCluster::start(Plan { shards, ..Plan::of_three(RULES) }).await
}

/// A client of every node over every protocol.
async fn connect(cluster: &TestCluster) -> Vec<Client> {
    let mut clients = Vec::new();
    for protocol in PROTOCOLS {
        for node in cluster.all_clients() {
            clients.push(Client::connect(protocol, node).await);
        }
    }
    clients
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_100_concurrent_checks_through_three_nodes_on_a_limit_of_10_exactly_10_are_admitted() {
    let cluster = start(8).await;
    let clients = connect(&cluster).await;
    for round in 0..20 {
        let value = format!("user-{round}");
        assert_eq!(admitted(&clients, "shop", &["ten"], &value, 100).await, 10, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_checks_through_three_nodes_that_hold_leases_admit_all_of_a_limit_and_no_more() {
    let cluster = start(8).await;
    let clients = connect(&cluster).await;
    for value in ["a", "b"] {
        let (mut all, deadline) = (0, Deadline::after(SETTLES_WITHIN));
        while all < 500 {
            all += admitted(&clients, "shop", &["leased"], value, 200).await;
            assert!(all <= 500, "{all} of 500 were admitted");
            // What one node held while another was refused is handed back when it isn't used.
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert!(!deadline.passed(), "{all} of 500 were admitted");
        }
        assert_eq!(admitted(&clients, "shop", &["leased"], value, 50).await, 0);
    }
}

/// Counters that each shard's leader holds.
fn keys(status: &Status) -> Option<Vec<u64>> {
    status.shards.iter().map(|shard| shard.group.keys).collect()
}

/// Waits until so many units are left to a counter, whichever node is asked.
async fn wait_until_left(cluster: &TestCluster, attribute: &str, value: &str, units: u64) {
    let deadline = Deadline::after(RETURNED_WITHIN);
    for node in cluster.running() {
        loop {
            let left = remaining(cluster, node, attribute, value).await;
            if left == units {
                break;
            }
            assert!(!deadline.passed(), "{left} units are left to {attribute} {value}, not {units}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_two_limits_on_two_shards_is_charged_to_both_or_to_none() {
    let cluster = start(8).await;
    let clients = connect(&cluster).await;
    let mut apart = 0;
    for pair in 0..PAIRS {
        let value = format!("pair-{pair}");
        let before = cluster.wait_for("every shard is held", SETTLES_WITHIN, keys).await;
        assert_eq!(admitted(&clients, "shop", &["wide", "narrow"], &value, 30).await, 3, "{value}");
        // 27 refusals gave back what they had taken of the other limit.
        wait_until_left(&cluster, "wide", &value, 997).await;
        wait_until_left(&cluster, "narrow", &value, 0).await;
        let after = cluster.wait_for("every shard is held", SETTLES_WITHIN, keys).await;
        let grown = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!((1..=2).contains(&grown), "{before:?} {after:?}");
        apart += usize::from(grown == 2);
    }
    assert!(apart > 0, "no pair was on two shards: nothing was tested");
}

/// One check of `ten` under a request id, within so many ms.
async fn try_take(cluster: &TestCluster, node: usize, value: &str, id: &str, within_ms: u32) -> Reply {
    let body = json!({ "domain": "shop", "attributes": { "ten": value }, "request_id": id });
    let within = within_ms.to_string();
    let headers = [("content-type", "application/json"), ("x-request-timeout-ms", within.as_str())];
    cluster.http(node).send(Method::POST, "/v1/check", &headers, Bytes::from(body.to_string())).await
}

/// The same until the counter has answered: whether it was admitted, and what was left then.
async fn take(cluster: &TestCluster, node: usize, value: &str, id: &str) -> (Value, Value) {
    let deadline = Deadline::after(SETTLES_WITHIN);
    loop {
        let reply = try_take(cluster, node, value, id, 1_000).await;
        let answer = if [200, 429].contains(&reply.status.as_u16()) { reply.json() } else { Value::Null };
        if answer["degraded"] == json!(false) {
            return (answer["allowed"].clone(), answer["matched"][0]["remaining"].clone());
        }
        assert!(!deadline.passed(), "{}: {}", reply.status, reply.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_through_another_node_after_the_leader_was_killed_gets_the_same_answer_and_is_charged_once() {
    let mut cluster = start(8).await;
    let mut first = Vec::new();
    for number in 0..12 {
        first.push(take(&cluster, number % 3, "a", &format!("id-{number}")).await);
    }
    assert_eq!(first[9], (json!(true), json!(0)));
    assert_eq!(first[10], (json!(false), json!(0)));
    let shard = cluster.wait_for("the counter is somewhere", SETTLES_WITHIN, busy_shard).await;
    let leader = cluster.leader_of(shard).await.expect("every shard is led");
    cluster.kill(leader);
    let others = cluster.running();
    for (number, answer) in first.iter().enumerate() {
        // Never the one that was asked before.
        let node = if number % 3 == others[0] { others[1] } else { others[0] };
        assert_eq!(take(&cluster, node, "a", &format!("id-{number}")).await, *answer, "id-{number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_its_leader_took_with_it_is_charged_once_by_its_retry_through_another_node() {
    let mut cluster = start(1).await;
    for round in 0..3 {
        cluster.wait_until_led(SETTLES_WITHIN).await;
        let leader = cluster.leader_of(0).await.expect("every shard is led");
        let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
        cluster.pause(leader);
        let (value, id) = (format!("v{round}"), format!("id-{round}"));
        let unanswered = try_take(&cluster, others[0], &value, &id, 100).await;
        assert!(unanswered.status.is_server_error(), "{}: {}", unanswered.status, unanswered.text());
        cluster.kill(leader);
        assert_eq!(take(&cluster, others[1], &value, &id).await, (json!(true), json!(9)));
        cluster.restart(leader);
        cluster.wait_until_ready(leader).await;
        wait_until_left(&cluster, "ten", &value, 9).await;
    }
}

/// One check over gRPC with a deadline of 20 ms in its metadata, which the client itself doesn't enforce.
async fn check_within_20_ms(cluster: &TestCluster, node: usize, attribute: &str) -> v1::CheckResponse {
    let client =
        HyperClient::builder(TokioExecutor::new()).http2_only(true).build_http::<tonic::body::Body>();
    let origin = format!("http://{}", cluster.clients(node)).parse().expect("an address makes a URL");
    let attribute = v1::Attribute { name: attribute.to_owned(), value: Bytes::from_static(b"a") };
    let mut request = tonic::Request::new(v1::CheckRequest {
        domain: "shop".to_owned(),
        attributes: vec![attribute],
        ..Default::default()
    });
    request.set_timeout(Duration::from_millis(20));
    let answer = LimiterClient::with_origin(client, origin).check(request).await;
    answer.expect("what a rule declares is an answer").into_inner()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_that_ends_while_the_leader_is_paused_ends_in_what_the_rule_declares_and_is_counted() {
    let mut cluster = start(1).await;
    cluster.wait_until_led(SETTLES_WITHIN).await;
    let leader = cluster.leader_of(0).await.expect("every shard is led");
    let asked = (leader + 1) % 3;
    cluster.pause(leader);
    let open = check_within_20_ms(&cluster, asked, "open").await;
    let shut = check_within_20_ms(&cluster, asked, "ten").await;
    cluster.resume(leader);
    assert_eq!((open.verdict(), open.degraded), (v1::Verdict::Allowed, true));
    assert_eq!((shut.verdict(), shut.degraded), (v1::Verdict::Unavailable, true));
    let metrics = cluster.admin_http(asked).get("/metrics").await.text();
    for (rule, mode) in [("open", "allow"), ("ten", "deny")] {
        let series = format!("leasehold_degraded_total{{domain=\"shop\",rule=\"{rule}\",mode=\"{mode}\"}} 1");
        assert!(metrics.contains(&series), "no {series} in {metrics}");
    }
}
