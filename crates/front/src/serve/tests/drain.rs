//! How a listener drains: what it waits for, what not, and what it says of it.

use super::*;

/// How many connections were cut off.
async fn ended(task: JoinHandle<usize>) -> usize {
    tokio::time::timeout(PATIENCE, task).await.expect("it should end").unwrap()
}

#[tokio::test]
async fn a_drain_lets_what_is_in_flight_finish() {
    let server = Server::taking(Duration::from_millis(200), ServerLimits::default()).await;
    let mut client = LimiterClient::new(server.channel().await);
    let mut http = server.connect().await;
    let mut idle = server.connect().await;
    http.write_all(check_request("").as_bytes()).await.unwrap();
    let check = tokio::spawn(async move { client.check(message()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.shutdown.cancel();
    assert_eq!(all(&mut idle).await, "");
    assert_eq!(check.await.unwrap().unwrap().get_ref().verdict(), v1::Verdict::Allowed);
    assert_eq!(status(&all(&mut http).await), "200");
    assert_eq!(ended(server.ended).await, 0);
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_drain_ends_at_its_timeout_and_says_that_it_cut_something() {
    let limits = ServerLimits { drain_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let server = Server::taking(PATIENCE * 2, limits).await;
    let mut http = server.connect().await;
    http.write_all(check_request("").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.shutdown.cancel();
    assert_eq!(ended(server.ended).await, 1, "a request was cut off");
    assert_eq!(all(&mut http).await, "");
}

/// A peer that has sent this and then keeps silent doesn't hold a drain.
async fn check_not_waited_for(sent: &[u8]) {
    let limits = ServerLimits { drain_timeout: PATIENCE * 2, ..ServerLimits::default() };
    let server = Server::start(limits).await;
    let mut stream = server.connect().await;
    stream.write_all(sent).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.shutdown.cancel();
    let said = String::from_utf8_lossy(sent);
    let cut_off = tokio::time::timeout(PATIENCE / 2, server.ended).await.expect(&said).unwrap();
    assert_eq!(cut_off, 0, "{said}");
}

#[tokio::test]
async fn a_connection_with_nothing_in_flight_does_not_hold_a_drain() {
    check_not_waited_for(b"GET /livez HTTP/1.1\r\nhost: a\r\nx-half").await;
    check_not_waited_for(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").await;
    check_not_waited_for(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\nGET /li").await;
    // An HTTP/2 peer that never answers the ping that would end its connection.
    check_not_waited_for(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
}

#[tokio::test]
async fn a_drain_that_leaves_an_answer_untaken_is_not_clean() {
    let limits = ServerLimits { drain_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let server = talkative(limits).await;
    let mut stream = server.connect().await;
    stream.write_all(get_request("/").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.shutdown.cancel();
    assert_eq!(ended(server.ended).await, 1);
}
