//! Doors on socket files.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use leasehold_tests::{TestEdge, TestNode};
use leasehold_wire::proto::leasehold::v1::{self, limiter_client::LimiterClient};
use rustix::process::Signal;
use tonic::transport::Endpoint;

use super::{STOPPED_WITHIN, THREE};

/// The status that `GET path` over the socket is answered with.
fn get(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_file_serves_http_and_grpc_and_goes_with_the_edge() {
    let node = TestNode::start(THREE);
    let mut edge = TestEdge::start(node.clients);
    let mode = fs::metadata(&edge.socket).expect("the socket is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o660);
    assert_eq!(get(&edge.socket, "/readyz"), "HTTP/1.1 200 OK");
    let endpoint = Endpoint::from_shared(format!("unix:{}", edge.socket.display())).expect("an address");
    let mut client = LimiterClient::new(endpoint.connect().await.expect("the edge accepts connections"));
    let user = v1::Attribute { name: "user".to_owned(), value: b"u".to_vec().into() };
    let request = v1::CheckRequest { domain: "api".to_owned(), attributes: vec![user], ..Default::default() };
    let answer = client.check(request).await.expect("an answer").into_inner();
    assert_eq!((answer.verdict(), answer.matched[0].remaining), (v1::Verdict::Allowed, 2));
    edge.process.signal(Signal::TERM);
    assert!(edge.process.wait(STOPPED_WITHIN).success(), "{}", edge.process.printed());
    assert!(!edge.socket.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_is_taken_over_from_the_dead_only() {
    let node = TestNode::start(THREE);
    let mut edge = TestEdge::start(node.clients);
    let config = edge.config();
    // The ports are taken as well, and other processes' sockets are looked at after them: give the second its own.
    let text = fs::read_to_string(&config).expect("the configuration is there");
    let other = config.with_file_name("other.yaml");
    let ports = text
        .replace(&edge.clients.to_string(), &leasehold_tests::own_port().to_string())
        .replace(&edge.admin.to_string(), &leasehold_tests::own_port().to_string());
    fs::write(&other, ports).expect("written");
    let mut second = TestEdge::spawn(&other);
    let ended = second.wait(STOPPED_WITHIN);
    assert_eq!(ended.code(), Some(1));
    assert!(second.printed().contains("another process listens on it"), "{}", second.printed());

    edge.process.kill();
    assert!(edge.socket.exists(), "who is killed can't remove its socket");
    let mut third = TestEdge::spawn(&other);
    third.wait_for_text("serving", Duration::from_secs(20));
    assert_eq!(get(&edge.socket, "/livez"), "HTTP/1.1 200 OK");
}
