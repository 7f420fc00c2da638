//! What a page in a browser can have sent, and what it doesn't get done.

use h2::client;
use leasehold_wire::proto::leasehold::v1::admin_client::AdminClient;

use super::*;

/// A gRPC frame with an empty message.
const FRAME: &str = "\0\0\0\0\0";

async fn admin() -> Server {
    Server::of(admin_router(Arc::new(Fake::allowing())), ServerLimits::default()).await
}

fn request_of(line: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

/// The answer of both ports to this over HTTP/1.1.
async fn check_http1(line: &str, headers: &str, expected: &str) {
    for server in [admin().await, Server::start(ServerLimits::default()).await] {
        let answer = server.exchange(&request_of(line, headers, FRAME)).await;
        assert_eq!(status(&answer), expected, "{answer}");
    }
}

#[tokio::test]
async fn grpc_is_refused_over_http_1_whatever_its_content() {
    for path in ["leasehold.v1.Admin/PutRules", "leasehold.v1.Limiter/Reset", "grpc.health.v1.Health/Check"] {
        for kind in ["text/plain", "application/grpc", "application/x-www-form-urlencoded"] {
            check_http1(&format!("POST /{path}"), &format!("content-type: {kind}\r\n"), "415").await;
        }
        check_http1(&format!("GET /{path}"), "", "415").await;
    }
}

async fn check_http2(server: &Server, kind: Option<&str>, expected: u16) {
    let (mut requests, connection) = client::handshake(server.connect().await).await.unwrap();
    tokio::spawn(connection);
    let mut request = http::Request::post("http://a/leasehold.v1.Admin/Status");
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    let (answer, mut body) = requests.send_request(request.body(()).unwrap(), false).unwrap();
    let _ = body.send_data(Bytes::from_static(FRAME.as_bytes()), true);
    assert_eq!(answer.await.unwrap().status().as_u16(), expected, "{kind:?}");
}

#[tokio::test]
async fn grpc_is_served_only_as_the_content_that_it_is() {
    let server = admin().await;
    for kind in ["application/grpc", "application/grpc+proto", "application/grpc;a=b"] {
        check_http2(&server, Some(kind), 200).await;
    }
    for kind in [None, Some("text/plain"), Some("application/grpc-web"), Some("application/grpcx")] {
        check_http2(&server, kind, 415).await;
    }
    assert!(AdminClient::new(server.channel().await).status(v1::StatusRequest {}).await.is_ok());
}

#[tokio::test]
async fn a_page_of_another_site_changes_and_reads_nothing_at_the_operators_port() {
    let server = admin().await;
    for line in ["PUT /v1/rules/api", "POST /v1/rules:validate", "GET /v1/status"] {
        let answer = server.exchange(&request_of(line, "origin: https://evil.example\r\n", "")).await;
        assert_eq!(status(&answer), "403", "{line}: {answer}");
    }
    assert_eq!(status(&server.exchange(&request_of("GET /v1/status", "", "")).await), "200");
}

#[tokio::test]
async fn a_clients_content_type_does_not_hide_its_address_from_a_proxys_question() {
    let router = axum::Router::new()
        .route("/", get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.ip().to_string()));
    let server = Server::of(router, ServerLimits::default()).await;
    let answer = server.exchange(&request_of("GET /", "content-type: application/grpc\r\n", "")).await;
    assert!(answer.ends_with("127.0.0.1"), "{answer}");
}
