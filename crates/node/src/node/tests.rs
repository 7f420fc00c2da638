//! A whole node in this process.

mod cluster;
mod edges;
mod leases;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::config::DevOptions;
use crate::kept::Log;

/// The built-in examples on ports of their own.
async fn dev() -> Node {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config::dev(DevOptions { rules: None, clients: Some(any), admin: Some(any) });
    Node::start(config).await.expect("it starts")
}

/// The status and the rest of one answer.
async fn ask(addr: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(addr).await.expect("it accepts");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    let status = answer.get(9..12).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {answer}")), answer)
}

const LOGIN: &str = r#"{"domain":"api","attributes":{"path":"/api/v1/login","ip":"203.0.113.7"}}"#;

#[tokio::test]
async fn the_example_rules_let_five_logins_a_minute_pass() {
    let node = dev().await;
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(ask(node.client_addr(), "POST", "/v1/check", LOGIN).await.0);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    let (status, page) = ask(node.admin_addr(), "GET", "/metrics", "").await;
    let line = r#"leasehold_decisions_total{domain="api",rule="login",decision="allowed",source="owner"} 5"#;
    assert!(status == 200 && page.contains(line), "{page}");
    assert!(!page.contains("203.0.113.7"), "an attribute's value is on the page");
    assert!(node.drain().await);
}

#[tokio::test]
async fn a_drain_says_so_to_operators_finishes_what_is_in_flight_and_takes_nobody_new() {
    let node = dev().await;
    let (clients, admin) = (node.client_addr(), node.admin_addr());
    assert_eq!(ask(admin, "GET", "/readyz", "").await.0, 200);
    let (head, rest) = LOGIN.split_at(10);
    let mut in_flight = TcpStream::connect(clients).await.expect("it accepts");
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{head}",
        LOGIN.len()
    );
    in_flight.write_all(request.as_bytes()).await.expect("it reads");
    // A request is in flight once its headers were read; a second one, answered on a later connection, says they were.
    assert_eq!(ask(clients, "GET", "/livez", "").await.0, 200);
    tokio::time::sleep(Duration::from_millis(50)).await;

    let drained = tokio::spawn(node.drain());
    while ask(admin, "GET", "/readyz", "").await.0 != 503 {
        tokio::task::yield_now().await;
    }
    while TcpStream::connect(clients).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!drained.is_finished());
    in_flight.write_all(rest.as_bytes()).await.expect("it still reads");
    let mut answer = String::new();
    in_flight.read_to_string(&mut answer).await.expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(drained.await.expect("no panic"));
}

#[tokio::test]
async fn a_request_that_never_ends_doesnt_hold_up_the_end() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config::dev(DevOptions { rules: None, clients: Some(any), admin: Some(any) });
    let node = Node::start(Config { drain_seconds: 0, ..config }).await.expect("it starts");
    let mut stuck = TcpStream::connect(node.client_addr()).await.expect("it accepts");
    let request = "POST /v1/check HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n";
    stuck.write_all(request.as_bytes()).await.expect("it reads");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let log = Log::keep();
    assert!(!node.drain().await, "cut off, and said to have finished");
    assert!(log.text().contains("cut_off=1"), "{}", log.text());
    let mut rest = Vec::new();
    drop(stuck.read_to_end(&mut rest).await);
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_its_field() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = taken.local_addr().expect("bound");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config::dev(DevOptions { rules: None, clients: Some(any), admin: Some(addr) });
    let error = Node::start(config).await.expect_err("taken");
    assert!(matches!(error, StartError::Bind { field: "admin.listen", .. }), "{error}");
}

#[tokio::test]
async fn an_operator_changes_the_rules_of_a_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("d.yaml");
    std::fs::write(&path, "{domain: d, limits: [{name: a, limit: 1/day}]}").expect("written");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let rules = Some(folder.path().to_owned());
    let config = Config::dev(DevOptions { rules, clients: Some(any), admin: Some(any) });
    let node = Node::start(config).await.expect("it starts");
    let check = r#"{"domain":"d","attributes":{"a":"b"}}"#;
    assert_eq!(ask(node.client_addr(), "POST", "/v1/check", check).await.0, 200);
    assert_eq!(ask(node.client_addr(), "POST", "/v1/check", check).await.0, 429);
    let text = "{domain: d, limits: [{name: a, limit: 2/day}]}";
    let (status, answer) = ask(node.admin_addr(), "PUT", "/v1/rules/d", text).await;
    assert!((200..300).contains(&status), "{answer}");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
    assert_eq!(ask(node.client_addr(), "POST", "/v1/check", check).await.0, 200);
    assert_eq!(ask(node.client_addr(), "POST", "/v1/check", check).await.0, 429, "used stays used");

    std::fs::write(&path, "{domain: d, limits: [{name: a, limit: 3/fortnight}]}").expect("written");
    let status = node.reload_rules().await;
    assert_eq!((status.version.0, status.errors.len()), (2, 1));
    assert_eq!(node.rules().version.0, 2);
}

/// Also prints what a decision costs in process, from a checked request to its answer:
/// `cargo test --release -p leasehold-node every_decision_in_process -- --nocapture`
#[tokio::test]
async fn every_decision_in_process_is_taken() {
    use leasehold_front::Decider;
    use leasehold_limit::check::{Attribute, Descriptor, Request, Verdict};
    let text = "domain: d\nlimits:\n  - { name: a, per: [user], limit: 1000000000/second }\n";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, text).expect("written");
    let (core, _) = boot::core(&Config { rules: Some(path), ..Config::default() }).expect("valid");
    let users: Vec<_> = (0..10_000).map(|user| format!("user-{user}")).collect();
    let (rounds, allowed) = (if cfg!(debug_assertions) { 1 } else { 100 }, AtomicUsize::new(0));
    for _ in 0..3 {
        let started = crate::clock::boot();
        for user in users.iter().cycle().take(users.len() * rounds) {
            let attributes = vec![Attribute { name: "user", value: user.as_bytes() }];
            let descriptors = vec![Descriptor { attributes, cost: 1, limit_override: None }];
            let request = Request { domain: "d", descriptors, request_id: None };
            let answer = core.check(&request, None).await.expect("decided");
            allowed.fetch_add(usize::from(answer.verdict == Verdict::Allowed), Relaxed);
        }
        let took = crate::clock::boot().since(started).0;
        println!("{} ns a decision", took / u64::try_from(users.len() * rounds).expect("few"));
    }
    assert_eq!(allowed.load(Relaxed), 3 * users.len() * rounds);
}
