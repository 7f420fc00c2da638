//! Starting and stopping: ready in under a second, what is in flight is finished, nobody new is taken.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use leasehold_tests::binary::{is_release, leasehold};
use leasehold_tests::{Deadline, Http, Process, TestNode, own_port, require};
use rustix::process::Signal;

use crate::clients::check;

const RULES: &str = "domain: api\nlimits:\n  - { name: per-user, per: [user], limit: 1000/hour }\n";

/// The promise is a second, for the program that users run; an unoptimised one beside other tests gets more.
fn ready_within() -> Duration {
    Duration::from_secs(if is_release() { 1 } else { 5 })
}

/// Sends what was left of a request and returns the answer.
fn finish(mut stream: TcpStream, rest: &[u8]) -> String {
    stream.write_all(rest).expect("the node still reads what is in flight");
    let mut answer = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    stream.read_to_string(&mut answer).expect("the node answers and closes");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_finishes_what_is_in_flight_takes_nobody_new_and_exits_0() {
    let mut node = TestNode::start(RULES);
    assert_eq!(node.http().get("/readyz").await.status, 200);
    let body = check("api", &[("user", "in-flight")]).to_string();
    let (sent, held_back) = body.split_at(10);
    let mut stream = TcpStream::connect(node.clients).expect("the node accepts connections");
    write!(
        stream,
        "POST /v1/check HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{sent}",
        body.len()
    )
    .expect("the node reads");
    // Until the node has read the headers the request isn't in flight.
    tokio::time::sleep(Duration::from_millis(200)).await;

    node.process.signal(Signal::TERM);
    let deadline = Deadline::after(Duration::from_secs(5));
    while is_ready(&node).await {
        assert!(!deadline.passed(), "the node is still ready after SIGTERM");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        node.process.is_running(),
        "the node ended with a request in flight:\n{}",
        node.process.printed()
    );
    let answer = finish(stream, held_back.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(node.process.wait(Duration::from_secs(10)).code(), Some(0), "{}", node.process.printed());
}

/// Whether somebody new would be served: an answer of 503 and a closed door both say no.
async fn is_ready(node: &TestNode) -> bool {
    let answer =
        Http::new(node.clients).try_send(http::Method::GET, "/readyz", &[], bytes::Bytes::new()).await;
    answer.is_ok_and(|reply| reply.status == 200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_finishes_does_not_hold_up_the_end() {
    let mut node = TestNode::start_with(own_port(), RULES, "drain_seconds: 1\n");
    let mut stream = TcpStream::connect(node.clients).expect("the node accepts connections");
    let head = "POST /v1/check HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\n";
    write!(stream, "{head}content-length: 100\r\n\r\n{{").expect("the node reads");
    tokio::time::sleep(Duration::from_millis(200)).await;
    node.process.signal(Signal::TERM);
    let terminated = Deadline::after(Duration::from_secs(8));
    let status = node.process.wait(Duration::from_secs(8));
    // It was given its second, and the exit code says that it didn't finish.
    assert!(terminated.elapsed() >= Duration::from_secs(1), "{}", node.process.printed());
    assert_eq!(status.code(), Some(1), "{}", node.process.printed());
}

/// `leasehold dev` on free ports, and how long it took to be ready.
fn dev() -> (Process, Duration) {
    let (clients, admin) = (own_port().to_string(), own_port().to_string());
    let binary = leasehold();
    let started = Deadline::after(Duration::from_secs(20));
    let mut dev =
        Process::spawn("dev", Command::new(binary).args(["dev", "--http", &clients, "--admin", &admin]));
    dev.wait_for_text("is ready", Duration::from_secs(20));
    let took = started.elapsed();
    dev.wait_for_text("Ctrl-C", Duration::from_secs(5));
    (dev, took)
}

#[test]
fn dev_is_ready_in_under_a_second_and_ctrl_c_ends_it_cleanly() {
    let (mut dev, took) = dev();
    assert!(took < ready_within(), "ready after {took:?}");
    dev.signal(Signal::INT);
    assert_eq!(dev.wait(Duration::from_secs(10)).code(), Some(0), "{}", dev.printed());
}

/// The command in what `dev` printed: from `curl` to the end of its paragraph.
fn printed_curl(printed: &str) -> &str {
    let start = printed.find("curl ").unwrap_or_else(|| panic!("no curl in {printed}"));
    printed[start..].split("\n\n").next().expect("a split has a first part")
}

#[test]
fn the_curl_that_dev_prints_works() {
    if require("curl").is_none() {
        return;
    }
    let (dev, _) = dev();
    let printed = dev.printed();
    let output = Command::new("sh").args(["-c", printed_curl(&printed)]).output().expect("a shell is there");
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}\n{printed}");
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    assert!(!answer.contains("\"matched\":[]"), "no rule applied to the example: {answer}");
}
