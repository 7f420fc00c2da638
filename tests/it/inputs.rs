//! Bad input: each gets the status that says what it is, and an answer that names the field.

use std::fmt::Write;

use bytes::Bytes;
use leasehold_tests::TestNode;
use leasehold_wire::proto::leasehold::v1;
use serde_json::json;
use tonic::Code;

use crate::clients::{channel, check as body};

const RULES: &str = "
domain: api
limits:
  - { name: per-user, per: [user], limit: 1000/8760h, algorithm: fixed_window }
  - { name: strict, when: { path: /strict }, per: [ip], limit: 5/min, algorithm: sliding_log }
";

/// A request, and how it must be answered.
struct Case {
    method: &'static str,
    path: &'static str,
    body: String,
    status: u16,
    /// A word of the answer.
    names: &'static str,
}

fn case(body: impl Into<String>, status: u16, names: &'static str) -> Case {
    Case { method: "POST", path: "/v1/check", body: body.into(), status, names }
}

fn at(method: &'static str, path: &'static str, status: u16) -> Case {
    Case { method, path, body: String::new(), status, names: "" }
}

fn many_attributes(count: usize) -> String {
    let mut attributes = String::new();
    for index in 0..count {
        write!(attributes, "{}\"a{index}\":\"x\"", if index == 0 { "" } else { "," }).expect("text grows");
    }
    format!("{{\"domain\":\"api\",\"attributes\":{{{attributes}}}}}")
}

fn cases() -> Vec<Case> {
    let long = "x".repeat(5000);
    vec![
        case("", 400, "body"),
        case("{", 400, "body"),
        case("[]", 400, "object"),
        case("{\"attributes\":{}}", 400, "domain"),
        case("{\"domain\":\"\",\"attributes\":{}}", 400, "domain"),
        case("{\"domain\":7,\"attributes\":{}}", 400, "domain"),
        case("{\"domain\":\"api\",\"attributes\":7}", 400, "attributes"),
        case("{\"domain\":\"api\",\"attributes\":{\"user\":7}}", 400, "attributes"),
        case("{\"domain\":\"api\",\"attributes\":{\"\":\"x\"}}", 400, "attributes"),
        case("{\"domain\":\"api\",\"attributes\":{\"user\":\"u\"},\"cost\":-1}", 400, "cost"),
        case("{\"domain\":\"api\",\"attributes\":{\"user\":\"u\"},\"cost\":1.5}", 400, "cost"),
        case(
            "{\"domain\":\"api\",\"attributes\":{\"user\":\"u\"},\"cost\":18446744073709551616}",
            400,
            "cost",
        ),
        case("{\"domain\":\"api\",\"attributes\":{\"user\":\"u\"},\"hits\":1}", 400, "hits"),
        case("{\"domain\":\"api\",\"attributes\":{\"user\":\"u\"},\"request_id\":\"\"}", 400, "request_id"),
        case(format!("{{\"domain\":\"api\",\"attributes\":{{\"user\":\"{long}\"}}}}"), 400, "attributes"),
        case(many_attributes(65), 400, "attributes"),
        case("{\"checks\":[]}", 400, "checks"),
        case(format!("{}1{}", "[".repeat(1000), "]".repeat(1000)), 400, "body"),
        case(" ".repeat(3 << 20), 413, ""),
        at("GET", "/v1/check", 405),
        at("DELETE", "/v1/peek", 405),
        at("POST", "/readyz", 405),
        at("GET", "/nothing", 404),
        at("GET", "/v1/../../etc/passwd", 404),
        at("GET", "/v1/authorize", 400),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_gets_a_status_that_says_so_and_an_answer_that_names_the_field() {
    let node = TestNode::start(RULES);
    let http = node.http();
    for Case { method, path, body, status, names } in cases() {
        let shown: String = body.chars().take(100).collect();
        let method = method.parse().expect("a method's name");
        let json = [("content-type", "application/json")];
        let reply = http.send(method, path, &json, Bytes::from(body)).await;
        assert_eq!(reply.status.as_u16(), status, "{path} {shown}: {}", reply.text());
        assert!(reply.text().contains(names), "{path} {shown}: {names:?} isn't named in {}", reply.text());
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path} {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_the_limit_says_when_to_come_back_and_never_says_never_to_those_who_may() {
    let node = TestNode::start(RULES);
    let http = node.http();
    let request = body("api", &[("path", "/strict"), ("ip", "203.0.113.7")]);
    for left in (0..5).rev() {
        let reply = http.post("/v1/check", &request).await;
        assert_eq!(reply.status, 200);
        assert!(reply.header("ratelimit").is_some_and(|state| state.contains(&format!("r={left}"))));
        assert_eq!(reply.header("retry-after"), None);
    }
    let refused = http.post("/v1/check", &request).await;
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").and_then(|text| text.parse().ok()).expect("whole seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(refused.json()["violated-policies"], json!(["strict"]));

    let mut too_much = request.clone();
    too_much["cost"] = json!(6);
    let never = http.post("/v1/check", &too_much).await;
    assert_eq!(never.status, 429);
    assert_eq!(never.header("retry-after"), None);
    assert_eq!((&never.json()["retryable"], &never.json()["max_cost"]), (&json!(false), &json!(5)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_under_one_request_id_is_charged_once_and_answered_the_same() {
    let node = TestNode::start(RULES);
    let http = node.http();
    let mut request = body("api", &[("user", "retrying")]);
    request["request_id"] = json!("5f0c");
    let first = http.post("/v1/check", &request).await;
    for _ in 0..5 {
        let retry = http.post("/v1/check", &request).await;
        assert_eq!((retry.status, &retry.json()["matched"][0]["remaining"]), (first.status, &json!(999)));
    }
    let mut other = body("api", &[("user", "somebody-else")]);
    other["request_id"] = json!("5f0c");
    let reused = http.post("/v1/check", &other).await;
    assert_eq!(reused.status, 422, "{}", reused.text());
    let next = http.post("/v1/check", &body("api", &[("user", "retrying")])).await;
    assert_eq!(next.json()["matched"][0]["remaining"], json!(998), "the retries were charged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_refuses_bad_input_with_invalid_argument() {
    let node = TestNode::start(RULES);
    let mut client = v1::limiter_client::LimiterClient::new(channel(node.clients).await);
    let attribute = |name: &str| v1::Attribute { name: name.to_owned(), value: Bytes::from_static(b"x") };
    let cases = [
        v1::CheckRequest::default(),
        v1::CheckRequest { domain: "d".repeat(129), ..Default::default() },
        v1::CheckRequest { domain: "api".into(), attributes: vec![attribute("")], ..Default::default() },
        v1::CheckRequest { domain: "api".into(), attributes: vec![attribute("a"); 65], ..Default::default() },
    ];
    for case in cases {
        let shown = format!("{case:?}").chars().take(100).collect::<String>();
        let status = client.check(case).await.expect_err(&shown);
        assert_eq!(status.code(), Code::InvalidArgument, "{shown}: {status}");
        assert!(!status.message().is_empty(), "{shown}");
    }
    let status = client.check_batch(v1::CheckBatchRequest::default()).await.expect_err("an empty batch");
    assert_eq!(status.code(), Code::InvalidArgument);
}
