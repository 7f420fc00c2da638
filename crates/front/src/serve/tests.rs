//! Every bound of a listener, over real sockets, and how it drains.

mod drain;
mod foreign;
mod http2;

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use axum::routing::get;
use bytes::Bytes;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use leasehold_wire::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use leasehold_wire::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use leasehold_wire::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use leasehold_wire::proto::leasehold::v1;
use leasehold_wire::proto::leasehold::v1::limiter_client::LimiterClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::transport::Channel;

use super::*;
use crate::http::HttpConfig;
use crate::testing::Fake;
use tokio::net::TcpListener;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(10);
const CHECK: &str = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    ended: JoinHandle<usize>,
}

impl Server {
    async fn of(door: impl Door, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let ended = tokio::spawn(serve(listener, door, limits, shutdown.clone()));
        Self { address, shutdown, ended }
    }

    async fn start(limits: ServerLimits) -> Self {
        Self::taking(Duration::ZERO, limits).await
    }

    /// One whose checks take so long.
    async fn taking(takes: Duration, limits: ServerLimits) -> Self {
        let fake = Arc::new(Fake { takes, ..Fake::allowing() });
        Self::of(ClientDoor::new(fake, HttpConfig::default()), limits).await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    /// Sends bytes on a connection of their own; returns all that comes back until it is closed.
    async fn exchange(&self, sent: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        all(&mut stream).await
    }
}

async fn all(stream: &mut TcpStream) -> String {
    let mut got = Vec::new();
    // A reset instead of an end is an end, too.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut got)).await.expect("it should be closed");
    String::from_utf8_lossy(&got).into_owned()
}

fn get_request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
}

fn check_request(extra: &str) -> String {
    let body = r#"{"domain":"api","attributes":{"ip":"a"}}"#;
    format!("{CHECK}{extra}content-length: {}\r\n\r\n{body}", body.len())
}

fn message() -> v1::CheckRequest {
    let attributes = vec![v1::Attribute { name: "ip".into(), value: "a".into() }];
    v1::CheckRequest { domain: "api".into(), attributes, ..v1::CheckRequest::default() }
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or(response)
}

#[tokio::test]
async fn one_port_speaks_http_grpc_and_envoys_protocol() {
    let server = Server::start(ServerLimits::default()).await;
    assert_eq!(status(&server.exchange(&get_request("/livez")).await), "200");
    assert_eq!(status(&server.exchange(&check_request("connection: close\r\n")).await), "200");
    let channel = server.channel().await;
    let answer = LimiterClient::new(channel.clone()).check(message()).await.unwrap().into_inner();
    assert_eq!(answer.verdict(), v1::Verdict::Allowed);
    let entries = vec![Entry { key: "ip".into(), value: "a".into() }];
    let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
    let request = RateLimitRequest { domain: "api".into(), descriptors, hits_addend: 0 };
    let answer = RateLimitServiceClient::new(channel).should_rate_limit(request).await.unwrap().into_inner();
    assert_eq!(answer.statuses[0].limit_remaining, 9);
}

#[tokio::test]
async fn health_and_reflection_tell_of_what_the_port_offers() {
    use tonic_reflection::pb::v1 as reflection;
    let channel = Server::start(ServerLimits::default()).await.channel().await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let asked = tonic_health::pb::HealthCheckRequest { service: "leasehold.v1.Limiter".into() };
    assert_eq!(health.check(asked).await.unwrap().get_ref().status, 1);

    let asked = reflection::server_reflection_request::MessageRequest::ListServices(String::new());
    let asked = reflection::ServerReflectionRequest { host: String::new(), message_request: Some(asked) };
    let mut client = reflection::server_reflection_client::ServerReflectionClient::new(channel);
    let mut answers = client.server_reflection_info(tokio_stream::once(asked)).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let reflection::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("no list: {answer:?}");
    };
    let mut names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    let own =
        ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health", "leasehold.v1.Limiter"];
    assert_eq!(names, own);
}

#[tokio::test]
async fn handlers_know_the_peer() {
    let router = axum::Router::new()
        .route("/", get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.ip().to_string()));
    let server = Server::of(router, ServerLimits::default()).await;
    assert!(server.exchange(&get_request("/")).await.ends_with("\r\n\r\n127.0.0.1"));
}

#[tokio::test]
async fn a_connection_past_the_cap_is_closed_at_once_and_a_freed_place_is_taken() {
    let server = Server::start(ServerLimits { connections_max: 1, ..ServerLimits::default() }).await;
    let mut first = server.connect().await;
    first.write_all(b"GET").await.unwrap();
    assert_eq!(all(&mut server.connect().await).await, "");
    drop(first);
    let served = async { while status(&server.exchange(&get_request("/livez")).await) != "200" {} };
    tokio::time::timeout(PATIENCE, served).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_keeps_silent_or_sends_half_a_preface_is_cut() {
    let limits = ServerLimits { first_bytes_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let server = Server::start(limits).await;
    assert_eq!(server.exchange("").await, "");
    assert_eq!(server.exchange("PRI * HTTP/2.0\r\n").await, "");
}

#[tokio::test]
async fn a_peer_that_never_ends_its_headers_is_cut() {
    let limits = ServerLimits { header_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let server = Server::start(limits).await;
    server.exchange("GET / HTTP/1.1\r\nhost: a\r\n").await;
    // And so is one that idles between requests.
    assert_eq!(status(&server.exchange("GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").await), "200");
}

#[tokio::test]
async fn headers_past_their_bounds_are_answered_431() {
    let server = Server::start(ServerLimits::default()).await;
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(20 * 1024));
    assert_eq!(status(&server.exchange(&long).await), "431");
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(101));
    assert_eq!(status(&server.exchange(&many).await), "431");
    let mut request = tonic::Request::new(message());
    request.metadata_mut().insert("x", "y".repeat(20 * 1024).parse().unwrap());
    // A client may refuse to send what the server's settings forbid, or hear of it from the server.
    assert!(LimiterClient::new(server.channel().await).check(request).await.is_err());
}

#[tokio::test]
async fn a_message_past_its_bound_is_refused() {
    let server = Server::start(ServerLimits::default()).await;
    let long = v1::CheckRequest { request_id: "i".repeat(crate::bounds::MESSAGE_BYTES_MAX), ..message() };
    let refused = LimiterClient::new(server.channel().await).check(long).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    let length = 2 * crate::bounds::MESSAGE_BYTES_MAX;
    let answer =
        server.exchange(&format!("{CHECK}connection: close\r\ncontent-length: {length}\r\n\r\n")).await;
    assert_eq!(status(&answer), "413");
}

#[tokio::test]
async fn requests_past_those_in_flight_are_shed_with_a_time_to_return() {
    let limits = ServerLimits { in_flight_max: 1, ..ServerLimits::default() };
    let server = Server::taking(Duration::from_millis(300), limits).await;
    let channel = server.channel().await;
    let mut held = server.connect().await;
    held.write_all(check_request("connection: close\r\n").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let shed = server.exchange(&check_request("connection: close\r\n")).await;
    assert_eq!(status(&shed), "503");
    assert!(shed.contains("retry-after: 1\r\n"), "{shed}");
    assert!(shed.contains("content-type: application/problem+json\r\n"), "{shed}");
    assert!(shed.contains("\"type\":\"https://iana.org/assignments/http-problem-types#"), "{shed}");
    assert_eq!(LimiterClient::new(channel).check(message()).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(status(&all(&mut held).await), "200");
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered_so() {
    let limits = ServerLimits { request_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let server = Server::taking(PATIENCE, limits).await;
    let slow = LimiterClient::new(server.channel().await).check(message()).await.unwrap_err();
    assert_eq!(slow.code(), Code::DeadlineExceeded);
    let body_missing = format!("{CHECK}connection: close\r\ncontent-length: 10\r\n\r\n");
    let answer = server.exchange(&body_missing).await;
    assert!(["408", "503"].contains(&status(&answer)), "{answer}");
}

struct PanicsAtReset(ClientDoor<Fake>);

impl Door for PanicsAtReset {
    async fn answer(&self, request: http::Request<RequestBody>) -> http::Response<DoorBody> {
        assert!(!request.uri().path().ends_with("/Reset"), "as the test wants it");
        self.0.answer(request).await
    }
}

#[tokio::test]
async fn a_panic_ends_its_own_stream_only() {
    let slow = Arc::new(Fake { takes: Duration::from_millis(200), ..Fake::allowing() });
    let door = PanicsAtReset(ClientDoor::new(slow, HttpConfig::default()));
    let mut client = LimiterClient::new(Server::of(door, ServerLimits::default()).await.channel().await);
    let mut neighbour = client.clone();
    let held = tokio::spawn(async move { neighbour.check(message()).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(client.reset(v1::ResetRequest::default()).await.is_err());
    held.await.unwrap().expect("the neighbour on the same connection is answered");
}

/// Answers with more than the kernel buffers, so that somebody has to read.
async fn talkative(limits: ServerLimits) -> Server {
    let router = axum::Router::new().route("/", get(async || vec![b'x'; LONG]));
    Server::of(router, limits).await
}

const LONG: usize = 32 * 1024 * 1024;

#[tokio::test]
async fn a_peer_that_never_reads_its_answers_is_cut() {
    let limits = ServerLimits { write_timeout: Duration::from_millis(100), ..ServerLimits::default() };
    let mut stream = talkative(limits).await.connect().await;
    stream.write_all(get_request("/").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(all(&mut stream).await.len() < LONG);
}

#[tokio::test]
async fn a_peer_that_reads_slowly_gets_all_of_its_answer() {
    let write_timeout = Duration::from_millis(500);
    let server = talkative(ServerLimits { write_timeout, ..ServerLimits::default() }).await;
    let mut stream = server.connect().await;
    stream.write_all(get_request("/").as_bytes()).await.unwrap();
    let (started, mut chunk, mut total) = (Instant::now(), vec![0; 256 * 1024], 0);
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        match stream.read(&mut chunk).await.unwrap() {
            0 => break,
            read => total += read,
        }
    }
    assert!(total > LONG);
    assert!(started.elapsed() > write_timeout, "only a reader slower than the timeout proves it");
}

#[tokio::test]
async fn every_refused_connection_is_told_of_in_time() {
    let mut refusals = Refusals { connections_max: 1, unsaid: 0, said_at: None };
    refusals.note();
    assert_eq!(refusals.unsaid, 0, "the first is told of at once");
    refusals.note();
    refusals.note();
    assert_eq!(refusals.unsaid, 2);
    let due = tokio::time::timeout(Duration::from_millis(20), refusals.due()).await;
    assert!(due.is_err(), "the next line has to wait");
    refusals.said_at = Instant::now().checked_sub(REFUSAL_LOG_PERIOD);
    tokio::time::timeout(PATIENCE, refusals.due()).await.expect("the rest is told of although no more come");
    refusals.say();
    assert_eq!(refusals.unsaid, 0);
}
