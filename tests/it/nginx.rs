//! Debian's nginx in front, configured by `deploy/nginx`: a refusal is a 429 for the client, the application's own
//! answers pass through, and a node that is gone lets requests pass.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::example::{example, replaced, with_addresses};
use leasehold_tests::{Deadline, Http, Process, Reply, TestNode, Upstream, localhost_port, require};
use tempfile::TempDir;

/// nginx, and the application behind it.
struct Front {
    http: Http,
    _nginx: Process,
    _upstream: Upstream,
    _folder: TempDir,
}

impl Front {
    /// The example, asking the node at `node`. `None`: nginx isn't installed.
    async fn start(node: SocketAddr) -> Option<Self> {
        let program = require("nginx")?;
        let upstream = Upstream::start().await;
        let ingress = localhost_port();
        let addresses =
            [("127.0.0.1:10080", ingress), ("127.0.0.1:8080", upstream.address), ("127.0.0.1:7600", node)];
        let text = with_addresses(&example("nginx/nginx.conf"), ":", &addresses);
        // An unoptimised node on a busy machine is no reason to fail open in the middle of counting.
        let text = replaced(&text, "timeout 100ms", "timeout 10s");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        fs::create_dir(folder.path().join("tmp")).expect("the temporary folder can be written to");
        fs::write(folder.path().join("nginx.conf"), text).expect("the temporary folder can be written to");
        // One process: no worker that would run as a user who may not look into the folder.
        let mut nginx = Process::spawn(
            "nginx",
            Command::new(program)
                .args(["-g", "daemon off; master_process off;", "-e", "stderr", "-c", "nginx.conf", "-p"])
                .arg(folder.path()),
        );
        nginx.wait_for_port(ingress, Duration::from_secs(20));
        Some(Self { http: Http::new(ingress), _nginx: nginx, _upstream: upstream, _folder: folder })
    }
}

/// A node as `node.yaml` describes it.
fn node() -> TestNode {
    node_with("")
}

/// The same, with more lines in its configuration.
fn node_with(more: &str) -> TestNode {
    let config = example("nginx/node.yaml");
    // The test's node has ports and a rule file of its own; what follows the rules is the example's.
    let (_, rest) = config.split_once("rules: rules.yaml\n").expect("the example names its rules");
    TestNode::start_with(localhost_port(), &example("nginx/rules.yaml"), &format!("{rest}{more}"))
}

fn retry_after(reply: &Reply) -> u64 {
    reply.header("retry-after").and_then(|text| text.parse().ok()).expect("Retry-After is whole seconds")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_answers_429_beyond_a_limit_and_lets_pass_again_when_it_said() {
    let node = node();
    let Some(front) = Front::start(node.clients).await else { return };
    for _ in 0..3 {
        let reply = front.http.get("/login?user=a").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("x-application"), Some("yes"));
        assert!(reply.header("ratelimit").is_some(), "{:?}", reply.headers);
    }
    let refused = front.http.get("/login").await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(refused.header("x-application"), None, "the application must not see a refused request");
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert!(
        refused.header("ratelimit").is_some_and(|state| state.contains("\"login\";r=0")),
        "{:?}",
        refused.headers
    );
    assert!((1..=5).contains(&retry_after(&refused)));
    assert_eq!(front.http.get("/").await.status, 200, "another path isn't a login");

    tokio::time::sleep(Duration::from_secs(retry_after(&refused))).await;
    assert_eq!(front.http.get("/login").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_cannot_be_asked_and_says_deny_is_a_503_for_the_client() {
    let node = node_with("counters: { keys_per_domain_max: 1 }\n");
    let Some(front) = Front::start(node.clients).await else { return };
    assert_eq!(front.http.get("/").await.status, 200, "there is room for the address's counter");
    let refused = front.http.get("/login").await;
    assert_eq!(refused.status, 503, "there is none for its logins, and they say deny: {}", refused.text());
    assert_eq!(retry_after(&refused), 1);
    assert_eq!(refused.header("x-application"), None, "the application must not see a refused request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_passes_the_applications_own_403_through() {
    let node = node();
    let Some(front) = Front::start(node.clients).await else { return };
    let reply = front.http.get("/forbidden").await;
    assert_eq!(reply.status, 403);
    assert_eq!(reply.header("x-application"), Some("yes"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_nginx_cannot_choose_its_path_or_address() {
    let node = node();
    let Some(front) = Front::start(node.clients).await else { return };
    let mut statuses = Vec::new();
    for attempt in 0..5 {
        let address = format!("198.51.100.{attempt}");
        let lies = [
            ("x-forwarded-for", address.as_str()),
            ("forwarded", "for=198.51.100.77"),
            ("x-forwarded-uri", "/elsewhere"),
            ("x-forwarded-method", "PUT"),
            ("x-original-uri", "/elsewhere"),
        ];
        statuses.push(front.http.send(Method::GET, "/login", &lies, Bytes::new()).await.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_tells_callers_apart_by_a_configured_header() {
    let node = node();
    let Some(front) = Front::start(node.clients).await else { return };
    let began = Deadline::after(Duration::from_secs(20));
    let key = [("x-api-key", "alpha")];
    while front.http.send(Method::GET, "/", &key, Bytes::new()).await.status == 200 {
        assert!(!began.passed(), "2/second with a burst of 10 never refused");
    }
    let other = [("x-api-key", "beta")];
    assert_eq!(front.http.send(Method::GET, "/", &other, Bytes::new()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_node_nginx_lets_pass_as_its_configuration_says() {
    let mut node = node();
    let Some(front) = Front::start(node.clients).await else { return };
    node.process.kill();
    for _ in 0..5 {
        let reply = front.http.get("/login").await;
        assert_eq!((reply.status.as_u16(), reply.header("x-application")), (200, Some("yes")));
    }
}
