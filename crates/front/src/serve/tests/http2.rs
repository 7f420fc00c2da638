//! What an HTTP/2 peer may do, and that no bytes at all harm a server.

use h2::client::{self, SendRequest};
use proptest::prelude::*;

use super::*;

/// A bare HTTP/2 connection, and how it ends.
async fn connect(server: &Server) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let (requests, connection) = client::handshake(server.connect().await).await.unwrap();
    (requests, tokio::spawn(connection))
}

fn get_livez() -> http::Request<()> {
    http::Request::get("http://a/livez").body(()).unwrap()
}

async fn livez(requests: &SendRequest<Bytes>) -> u16 {
    let mut requests = requests.clone().ready().await.unwrap();
    requests.send_request(get_livez(), true).unwrap().0.await.unwrap().status().as_u16()
}

#[tokio::test]
async fn the_server_says_how_many_streams_it_takes() {
    let limits = ServerLimits { streams_per_connection_max: 7, ..ServerLimits::default() };
    let server = Server::start(limits).await;
    let (requests, _connection) = connect(&server).await;
    assert_eq!(livez(&requests).await, 200);
    assert_eq!(requests.current_max_send_streams(), 7);
}

#[tokio::test]
async fn a_peer_that_opens_and_resets_streams_in_a_row_is_cut() {
    let server = Server::start(ServerLimits::default()).await;
    let (mut requests, connection) = connect(&server).await;
    assert_eq!(livez(&requests).await, 200);
    let resets = async {
        // Each stream is opened and given up before the server looks at it.
        while let Ok(ready) = requests.clone().ready().await {
            requests = ready;
            for _ in 0..400 {
                let Ok((_, mut body)) = requests.send_request(get_livez(), false) else { break };
                body.send_reset(h2::Reason::CANCEL);
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, resets).await.expect("it should be cut");
    // Its GOAWAY may be lost to a reset of the connection, because the peer is still sending.
    assert!(connection.await.unwrap().is_err());
}

#[tokio::test]
async fn headers_past_their_bound_are_answered_431_on_their_stream_only() {
    let server = Server::start(ServerLimits::default()).await;
    let (requests, _connection) = connect(&server).await;
    assert_eq!(livez(&requests).await, 200);
    let mut request = get_livez();
    request.headers_mut().insert("x", "y".repeat(20 * 1024).parse().unwrap());
    let mut ready = requests.clone().ready().await.unwrap();
    let answer = ready.send_request(request, true).unwrap().0.await.unwrap();
    assert_eq!(answer.status(), 431);
    assert_eq!(livez(&requests).await, 200);
}

#[tokio::test]
async fn bodies_that_never_come_hold_no_place_and_one_that_comes_late_is_answered() {
    let server = Server::start(ServerLimits { in_flight_max: 1, ..ServerLimits::default() }).await;
    let (mut requests, _connection) = connect(&server).await;
    let mut stalled = Vec::new();
    for _ in 0..5 {
        let request = http::Request::post("http://a/v1/check").header("content-type", "application/json");
        stalled.push(requests.send_request(request.body(()).unwrap(), false).unwrap());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(status(&server.exchange(&check_request("connection: close\r\n")).await), "200");
    let (answer, mut body) = stalled.pop().unwrap();
    body.send_data(Bytes::from_static(br#"{"domain":"api","attributes":{"ip":"a"}}"#), true).unwrap();
    assert_eq!(answer.await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_body_that_comes_when_no_place_is_left_is_shed_undecided() {
    let fake = Arc::new(Fake { takes: Duration::from_millis(300), ..Fake::allowing() });
    let limits = ServerLimits { in_flight_max: 1, ..ServerLimits::default() };
    let server = Server::of(ClientDoor::new(Arc::clone(&fake), HttpConfig::default()), limits).await;
    let (mut requests, _connection) = connect(&server).await;
    let request = http::Request::post("http://a/v1/check").header("content-type", "application/json");
    let (answer, mut body) = requests.send_request(request.body(()).unwrap(), false).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut held = server.connect().await;
    held.write_all(check_request("connection: close\r\n").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    body.send_data(Bytes::from_static(br#"{"domain":"api","attributes":{"ip":"a"}}"#), true).unwrap();
    assert_eq!(answer.await.unwrap().status(), 503);
    assert_eq!(livez(&requests).await, 200, "probes need no place");
    assert_eq!(status(&all(&mut held).await), "200");
    assert_eq!(fake.asked.lock().len(), 1);
}

#[tokio::test]
async fn headers_far_past_their_bound_end_their_connection_only() {
    let server = Server::start(ServerLimits::default()).await;
    let (requests, connection) = connect(&server).await;
    let mut request = get_livez();
    request.headers_mut().insert("x", "y".repeat(100 * 1024).parse().unwrap());
    let mut ready = requests.clone().ready().await.unwrap();
    assert!(ready.send_request(request, true).unwrap().0.await.is_err());
    let ended = tokio::time::timeout(PATIENCE, connection).await.unwrap().unwrap();
    // Its reason may be lost to a reset of the connection, because the peer is still sending.
    assert!(ended.is_err());
    assert_eq!(status(&server.exchange(&get_request("/livez")).await), "200");
}

fn send_bytes(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start(ServerLimits::default()).await;
        let mut stream = server.connect().await;
        // The server may hang up in the middle of it.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        all(&mut stream).await;
        assert_eq!(status(&server.exchange(&get_request("/livez")).await), "200");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_keep_a_server_from_serving(bytes in proptest::collection::vec(any::<u8>(), 1..400)) {
        send_bytes(&bytes);
        send_bytes(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &bytes].concat());
        send_bytes(&[CHECK.as_bytes(), b"content-length: 40\r\n\r\n", &bytes].concat());
    }
}
