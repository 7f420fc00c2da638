//! What an operator relies on: health, reflection, metrics without secrets, a configuration that is checked first.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use leasehold_tests::binary::leasehold;
use leasehold_tests::{Process, TestNode, own_port};
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::proto::leasehold::v1::limiter_client::LimiterClient;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::clients::{Client, PROTOCOLS, Protocol, channel, check};

const RULES: &str = "
domain: api
limits:
  - { name: per-user, per: [user], limit: 3/8760h, algorithm: fixed_window }
";

const SECRET: &str = "sk-very-secret-value";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_reflection_lists_what_clients_may_call() {
    let node = TestNode::start(RULES);
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(channel(node.clients).await);
    let mut answers = client
        .server_reflection_info(tokio_stream::iter([ask]))
        .await
        .expect("reflection is served")
        .into_inner();
    let answer = answers.message().await.expect("the stream goes on").expect("one answer");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("no list of services: {answer:?}")
    };
    let services: BTreeSet<String> = list.service.into_iter().map(|service| service.name).collect();
    for expected in
        ["leasehold.v1.Limiter", "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"]
    {
        assert!(services.contains(expected), "{expected} is not among {services:?}");
    }
    assert!(!services.contains("leasehold.v1.Admin"), "whoever may check must not see how to change rules");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_health_says_serving() {
    let node = TestNode::start(RULES);
    let mut client = HealthClient::new(channel(node.clients).await);
    for service in ["", "leasehold.v1.Limiter", "envoy.service.ratelimit.v3.RateLimitService"] {
        let request = Request::new(HealthCheckRequest { service: service.to_owned() });
        let answer = client.check(request).await.unwrap_or_else(|status| panic!("{service:?}: {status}"));
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving, "{service:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admin_calls_are_not_served_to_clients() {
    let node = TestNode::start(RULES);
    let http = node.http();
    for path in ["/metrics", "/v1/rules", "/v1/status"] {
        let reply = http.get(path).await;
        assert_eq!(reply.status, 404, "{path}: {}", reply.text());
    }
}

/// A sample of the metrics page.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Reads a page strictly: a line that isn't one of the format's fails.
fn samples(page: &str) -> Vec<Sample> {
    assert!(page.ends_with("# EOF\n"), "an OpenMetrics page ends with # EOF");
    page.lines().filter(|line| !line.starts_with("# ")).map(sample).collect()
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, rest)) => {
            (name, rest.strip_suffix('}').unwrap_or_else(|| panic!("unclosed labels: {line}")))
        }
    };
    let label = |pair: &str| {
        let (name, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        (name.to_owned(), value.trim_end_matches('"').to_owned())
    };
    let labels = labels.split("\",").filter(|pair| !pair.is_empty()).map(label).collect();
    Sample { name: name.to_owned(), labels, value }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_page_counts_every_decision_and_names_no_key() {
    let node = TestNode::start(RULES);
    for protocol in PROTOCOLS {
        let mut client = Client::connect(protocol, node.clients).await;
        for _ in 0..2 {
            client.admits("api", &[("user", SECRET)]).await;
        }
    }
    let reply = node.admin_http().get("/metrics").await;
    assert_eq!(reply.status, 200);
    assert!(
        reply.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    let page = reply.text();
    assert!(!page.contains(SECRET), "an attribute's value is on the page");
    let samples = samples(&page);
    let decided = |decision: &str| -> f64 {
        let wanted = [("domain", "api"), ("rule", "per-user"), ("decision", decision)];
        let has = |sample: &Sample, (name, value): (&str, &str)| {
            sample.labels.iter().any(|label| label.0 == name && label.1 == value)
        };
        let matching = samples.iter().filter(|sample| sample.name == "leasehold_decisions_total");
        matching
            .filter(|sample| wanted.iter().all(|label| has(sample, *label)))
            .map(|sample| sample.value)
            .sum()
    };
    assert_eq!((decided("allowed"), decided("over_limit")), (3.0, 3.0), "{page}");
    let names: BTreeSet<&str> = samples.iter().map(|sample| sample.name.as_str()).collect();
    for expected in ["leasehold_build_info", "leasehold_keys"] {
        assert!(names.contains(expected), "{expected} is not among {names:?}");
    }
    assert!(names.iter().any(|name| name.ends_with("_bucket")), "no histogram of decision times: {names:?}");
    assert!(names.iter().any(|name| name.contains("reload")), "no count of rule reloads: {names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_in_no_log_line_either() {
    let mut node = TestNode::start(RULES);
    for _ in 0..5 {
        node.http().post("/v1/check", &check("api", &[("user", SECRET)])).await;
    }
    node.process.signal(rustix::process::Signal::TERM);
    assert!(node.process.wait(Duration::from_secs(20)).success());
    assert!(!node.process.printed().contains(SECRET), "{}", node.process.printed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_setting_switches_resets_off_over_http_and_grpc() {
    let node = TestNode::start_with(own_port(), RULES, "http: { reset: false }\n");
    let reply = node.http().post("/v1/reset", &check("api", &[("user", "a")])).await;
    assert_eq!(reply.status, 403);
    assert!(reply.text().contains("http.reset"), "{}", reply.text());
    let request = v1::ResetRequest { domain: "api".to_owned(), ..v1::ResetRequest::default() };
    let refused =
        LimiterClient::new(channel(node.clients).await).reset(request).await.expect_err("it is off");
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("http.reset"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_level_that_shows_all_has_a_line_for_every_request() {
    let mut node = TestNode::start_with(own_port(), RULES, "log: { level: 'off,leasehold_front=trace' }\n");
    node.http().post("/v1/check", &check("api", &[("user", SECRET)])).await;
    Client::connect(Protocol::Rls, node.clients).await.admits("api", &[("user", SECRET)]).await;
    for path in ["/v1/check", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"] {
        node.process.wait_for_text(&format!("path={path:?} status=200"), Duration::from_secs(20));
    }
}

/// Runs `leasehold node` on a configuration that must be refused; what it printed.
fn refused(config: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("node.yaml");
    fs::write(&path, config).expect("the temporary folder can be written to");
    let mut node = Process::spawn("node", Command::new(leasehold()).args(["node", "--config"]).arg(path));
    let status = node.wait(Duration::from_secs(20));
    assert_eq!(status.code(), Some(2), "{config}: {}", node.printed());
    node.printed()
}

#[test]
fn a_bad_configuration_exits_2_and_names_the_field() {
    for (config, names) in [
        ("clients: { listen: nowhere }", "listen"),
        ("clientz: {}", "clientz"),
        ("drain_seconds: -1", "drain_seconds"),
        ("clients: { listen: '0.0.0.0:0' }", "plaintext"),
        ("rules: /nowhere/rules.yaml", "/nowhere/rules.yaml"),
        ("{", "node.yaml"),
    ] {
        let printed = refused(config);
        assert!(printed.contains(names), "{config}: {names:?} isn't named in {printed}");
    }
}

#[test]
fn bad_rules_exit_2_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let rules = folder.path().join("rules.yaml");
    fs::write(&rules, "domain: api\nlimits:\n  - { name: a, limit: 0/min }\n")
        .expect("the folder can be written to");
    let printed = refused(&format!("rules: '{}'\n", rules.display()));
    assert!(printed.contains("rules.yaml:3:"), "{printed}");
}
