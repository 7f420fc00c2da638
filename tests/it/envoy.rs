//! The real Envoy in front, configured by `deploy/envoy`: what clients see when a limit is reached, when it has
//! something to give again, and when the node is gone.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::example::{example, replaced, with_addresses};
use leasehold_tests::{Deadline, Http, Process, Reply, TestNode, Upstream, localhost_port, require};
use tempfile::TempDir;

/// What the example does when the node can't be asked.
const FAIL_OPEN: &str = "failure_mode_deny: false";
const FAIL_CLOSED: &str = "failure_mode_deny: true";

/// Envoy, and the application behind it.
struct Front {
    http: Http,
    _envoy: Process,
    _upstream: Upstream,
    _folder: TempDir,
}

impl Front {
    /// The example, asking the node at `node`. `None`: Envoy isn't installed.
    async fn start(node: SocketAddr, failure_mode: &str) -> Option<Self> {
        let program = require("envoy")?;
        let upstream = Upstream::start().await;
        let (ingress, admin) = (localhost_port(), localhost_port());
        let addresses = [
            ("127.0.0.1:10000", ingress),
            ("127.0.0.1:9901", admin),
            ("127.0.0.1:8080", upstream.address),
            ("127.0.0.1:7600", node),
        ];
        let text = with_addresses(&example("envoy/envoy.yaml"), ", port_value: ", &addresses);
        let text = replaced(&text, FAIL_OPEN, failure_mode);
        // An unoptimised node on a busy machine is no reason to fail open in the middle of counting.
        let text = replaced(&text, "timeout: 0.1s", "timeout: 10s");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let config = folder.path().join("envoy.yaml");
        fs::write(&config, text).expect("the temporary folder can be written to");
        let mut envoy = Process::spawn(
            "envoy",
            Command::new(program)
                .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "-c"])
                .arg(config),
        );
        envoy.wait_for_port(ingress, Duration::from_secs(30));
        Some(Self { http: Http::new(ingress), _envoy: envoy, _upstream: upstream, _folder: folder })
    }

    async fn get(&self, path: &str) -> Reply {
        self.http.get(path).await
    }

    async fn get_with_key(&self, path: &str, api_key: &str) -> Reply {
        self.http.send(Method::GET, path, &[("x-api-key", api_key)], Bytes::new()).await
    }
}

fn node() -> TestNode {
    TestNode::start(&example("envoy/rules.yaml"))
}

fn number(reply: &Reply, header: &str) -> u64 {
    let text = reply.header(header).unwrap_or_else(|| panic!("{header} is missing: {:?}", reply.headers));
    text.split(',')
        .next()
        .and_then(|first| first.trim().parse().ok())
        .unwrap_or_else(|| panic!("{header}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_lets_a_limit_through_and_answers_429_beyond_it() {
    let node = node();
    let Some(front) = Front::start(node.clients, FAIL_OPEN).await else { return };
    for left in [2, 1, 0] {
        let reply = front.get("/login").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("x-application"), Some("yes"));
        assert_eq!(number(&reply, "x-ratelimit-limit"), 3);
        assert_eq!(number(&reply, "x-ratelimit-remaining"), left);
    }
    let window = Deadline::after(Duration::from_secs(5));
    let refused = front.get("/login").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
    assert_eq!(refused.header("x-application"), None, "the application must not see a refused request");
    assert_eq!(number(&refused, "x-ratelimit-limit"), 3);
    assert_eq!(number(&refused, "x-ratelimit-remaining"), 0);
    assert!((1..=5).contains(&number(&refused, "x-ratelimit-reset")), "{:?}", refused.headers);

    assert_eq!(front.get("/").await.status, 200, "another limit has nothing to do with it");

    // All three have left the window of five seconds: each was counted before its reply came.
    while !window.passed() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(front.get("/login").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_tells_callers_apart_by_a_header() {
    let node = node();
    let Some(front) = Front::start(node.clients, FAIL_OPEN).await else { return };
    let mut admitted = 0;
    let began = Deadline::after(Duration::from_secs(20));
    while front.get_with_key("/", "alpha").await.status == 200 {
        admitted += 1;
        assert!(!began.passed(), "2/second with a burst of 10 never refused");
    }
    let refilled = began.elapsed().as_secs() * 2 + 2;
    assert!((10..=10 + refilled).contains(&admitted), "{admitted} admitted in {:?}", began.elapsed());
    assert_eq!(front.get_with_key("/", "beta").await.status, 200, "another key has a bucket of its own");
    assert_eq!(front.get("/").await.status, 200, "no key, no such limit");

    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(front.get_with_key("/", "alpha").await.status, 200, "half a second brings one back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_node_envoy_fails_open_and_counts_again_when_it_is_back() {
    let mut node = node();
    let Some(front) = Front::start(node.clients, FAIL_OPEN).await else { return };
    assert!(front.get("/login").await.header("x-ratelimit-limit").is_some());
    node.process.kill();
    for _ in 0..10 {
        let reply = front.get("/login").await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("x-ratelimit-limit"), None, "nobody counted this request");
    }
    let back = TestNode::start_with(node.clients, &example("envoy/rules.yaml"), "");
    let counted = Deadline::after(Duration::from_secs(20));
    while front.get("/").await.header("x-ratelimit-limit").is_none() {
        assert!(!counted.passed(), "Envoy doesn't ask the node that is back: {}", back.process.printed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_node_envoy_fails_closed_where_that_is_declared() {
    let mut node = node();
    let Some(front) = Front::start(node.clients, FAIL_CLOSED).await else { return };
    assert_eq!(front.get("/").await.status, 200);
    node.process.kill();
    let reply = front.get("/").await;
    assert_eq!(reply.status, 500);
    assert_eq!(reply.header("x-application"), None);
}
