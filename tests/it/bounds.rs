//! What one caller may send: at each bound a clean answer, and the next request is served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use leasehold_tests::TestNode;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::{
    RateLimitDescriptor, rate_limit_descriptor,
};
use leasehold_wire::proto::envoy::service::ratelimit::v3 as rls;
use leasehold_wire::proto::leasehold::v1;
use tonic::Code;

use crate::clients::{channel, check};

const RULES: &str = "domain: api\nlimits:\n  - { name: per-user, per: [user], limit: 1000/hour }\n";

/// Sends bytes on a connection of their own and returns all that comes back.
fn exchange(node: &TestNode, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(node.clients).expect("the node accepts connections");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    // The node may answer and close before all is sent: what it said is what counts.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

async fn still_serves(node: &TestNode) {
    let reply = node.http().post("/v1/check", &check("api", &[("user", "next")])).await;
    assert_eq!(reply.status, 200, "{}", node.process.printed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_beyond_the_bound_get_431() {
    let node = TestNode::start(RULES);
    let long = format!("GET /livez HTTP/1.1\r\nhost: node\r\nx-long: {}\r\n\r\n", "x".repeat(64 * 1024));
    let answer = exchange(&node, long.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    let many = format!("GET /livez HTTP/1.1\r\nhost: node\r\n{}\r\n", "x-many: x\r\n".repeat(200));
    let answer = exchange(&node, many.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    still_serves(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_http_is_refused_and_harms_nobody() {
    let node = TestNode::start(RULES);
    for bytes in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET\r\n\r\n", b"*1\r\n$4\r\nPING\r\n", &[0_u8; 4096]]
    {
        let mut stream = TcpStream::connect(node.clients).expect("the node accepts connections");
        stream.write_all(bytes).expect("the node reads");
        drop(stream);
    }
    still_serves(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_message_beyond_the_bound_is_refused_with_a_status() {
    let node = TestNode::start(RULES);
    let mut client = v1::limiter_client::LimiterClient::new(channel(node.clients).await);
    let attribute = v1::Attribute { name: "user".into(), value: Bytes::from(vec![b'x'; 2 << 20]) };
    let request =
        v1::CheckRequest { domain: "api".into(), attributes: vec![attribute], ..Default::default() };
    let status = client.check(request).await.expect_err("2 MiB are too many");
    assert!([Code::OutOfRange, Code::ResourceExhausted].contains(&status.code()), "{status}");
    still_serves(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_override_in_no_unit_is_invalid_and_harms_nobody() {
    let node = TestNode::start(RULES);
    let mut client = rls::rate_limit_service_client::RateLimitServiceClient::new(channel(node.clients).await);
    for unit in [0, 99, -1] {
        let limit =
            rate_limit_descriptor::RateLimitOverride { requests_per_unit: 5, unit, ..Default::default() };
        let entry = rate_limit_descriptor::Entry { key: "user".into(), value: "u".into() };
        let descriptor =
            RateLimitDescriptor { entries: vec![entry], limit: Some(limit), ..Default::default() };
        let request = rls::RateLimitRequest {
            domain: "api".into(),
            descriptors: vec![descriptor],
            ..Default::default()
        };
        let status = client.should_rate_limit(request).await.expect_err("a limit needs a unit");
        assert_eq!(status.code(), Code::InvalidArgument, "{unit}: {status}");
    }
    still_serves(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_idle_connections_keep_nobody_out() {
    let node = TestNode::start(RULES);
    let idle: Vec<TcpStream> =
        (0..500).map(|_| TcpStream::connect(node.clients).expect("the node accepts connections")).collect();
    still_serves(&node).await;
    drop(idle);
}
