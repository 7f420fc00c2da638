//! Calls between peers over real sockets.

use std::net::SocketAddr;

use bytes::BytesMut;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::frame::Frame;
use super::*;

const CLUSTER: ClusterId = ClusterId(7);
const ECHO: Kind = Kind::app(1);
const SLOW: Kind = Kind::app(2);
const OPEN: Kind = Kind::app(3);
const SOON: Duration = Duration::from_secs(10);

async fn start_as(identity: Option<Identity>, at: &str) -> Transport {
    let listener = TcpListener::bind(at).await.unwrap();
    let config = TransportConfig { identity, seed: 1, secure: Arc::new(Plain) };
    let transport = Transport::start(listener, config).unwrap();
    transport.register(ECHO, Access::Members, async |call: Incoming| Ok(call.payload));
    transport.register(OPEN, Access::Anyone, async |call: Incoming| Ok(call.payload));
    transport.register(SLOW, Access::Members, async |call: Incoming| {
        tokio::time::sleep(SOON).await;
        Ok(call.payload)
    });
    transport
}

async fn start(node: u64) -> Transport {
    start_as(Some(Identity { cluster: CLUSTER, node: NodeId(node) }), "127.0.0.1:0").await
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn connect(from: &Transport, node: u64, to: SocketAddr) {
    from.set_peer(NodeId(node), &to.to_string());
    until("connected", || from.peers().contains(&(NodeId(node), true))).await;
}

async fn echo(from: &Transport, to: u64, payload: &[u8]) -> Result<Bytes, CallError> {
    from.call(NodeId(to), ECHO, GroupId(0), Bytes::copy_from_slice(payload), SOON).await
}

async fn pair() -> (Transport, Transport) {
    let (one, two) = (start(1).await, start(2).await);
    connect(&one, 2, two.address()).await;
    (one, two)
}

#[tokio::test]
async fn a_call_is_answered_by_the_node_it_names() {
    let (one, _two) = pair().await;
    assert_eq!(echo(&one, 2, b"hello").await, Ok(Bytes::from_static(b"hello")));
}

#[tokio::test]
async fn a_call_to_a_node_that_reaches_another_fails() {
    let (one, two) = (start(1).await, start(2).await);
    one.set_peer(NodeId(3), &two.address().to_string());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(echo(&one, 3, b"").await, Err(CallError::Unreachable));
}

#[tokio::test]
async fn a_call_to_another_cluster_fails() {
    let one = start(1).await;
    let other = Identity { cluster: ClusterId(8), node: NodeId(2) };
    let two = start_as(Some(other), "127.0.0.1:0").await;
    one.set_peer(NodeId(2), &two.address().to_string());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(echo(&one, 2, b"").await, Err(CallError::Unreachable));
}

#[tokio::test]
async fn a_call_to_nobody_fails_as_not_sent() {
    let error = echo(&start(1).await, 9, b"").await.unwrap_err();
    assert_eq!((error, error.unsent()), (CallError::UnknownPeer, true));
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_may_have_been_carried_out() {
    let (one, _two) = pair().await;
    let within = Duration::from_millis(30);
    let began = Instant::now();
    let error = one.call(NodeId(2), SLOW, GroupId(0), Bytes::new(), within).await.unwrap_err();
    assert_eq!((error, error.unsent()), (CallError::Deadline, false));
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_call_under_way_when_the_peer_dies_is_lost_not_refused() {
    let (one, two) = pair().await;
    let mut events = one.events();
    let call = one.call(NodeId(2), SLOW, GroupId(0), Bytes::new(), SOON);
    let killed = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        two.shutdown();
    };
    let (outcome, ()) = tokio::join!(call, killed);
    assert_eq!(outcome, Err(CallError::Lost));
    assert_eq!(events.recv().await, Ok(PeerEvent::Down(NodeId(2))));
}

#[tokio::test]
async fn the_peer_that_was_called_notices_when_the_caller_dies() {
    let (one, two) = pair().await;
    echo(&one, 2, b"").await.unwrap();
    let mut events = two.events();
    one.shutdown();
    assert_eq!(events.recv().await, Ok(PeerEvent::Down(NodeId(1))));
}

#[tokio::test]
async fn a_kind_without_a_handler_is_refused_and_surely_not_done() {
    let (one, _two) = pair().await;
    let error = one.call(NodeId(2), Kind::app(99), GroupId(0), Bytes::new(), SOON).await.unwrap_err();
    assert_eq!((error, error.unsent()), (CallError::Refused(Refusal::NotServed), true));
}

#[tokio::test]
async fn a_payload_over_the_bound_is_not_sent_and_one_at_the_bound_is_echoed() {
    let (one, _two) = pair().await;
    let longest = vec![1; PAYLOAD_BYTES_MAX];
    assert_eq!(echo(&one, 2, &longest).await.map(|echoed| echoed.len()), Ok(PAYLOAD_BYTES_MAX));
    assert_eq!(echo(&one, 2, &vec![1; PAYLOAD_BYTES_MAX + 1]).await, Err(CallError::TooLarge));
    assert!(echo(&one, 2, b"still there").await.is_ok());
}

#[tokio::test]
async fn an_answer_over_the_bound_is_a_failure_and_the_connection_stays() {
    let (one, two) = pair().await;
    two.register(ECHO, Access::Members, async |_: Incoming| Ok(Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1])));
    assert_eq!(echo(&one, 2, b"").await, Err(CallError::Refused(Refusal::Failed)));
    assert_eq!(one.peers(), [(NodeId(2), true)]);
}

#[tokio::test]
async fn a_handler_that_panics_costs_its_own_call_only() {
    let (one, two) = pair().await;
    two.register(
        Kind::app(5),
        Access::Members,
        |_: Incoming| -> std::future::Ready<Result<Bytes, Refusal>> { panic!("a bug of a handler") },
    );
    let within = Duration::from_millis(50);
    let outcome = one.call(NodeId(2), Kind::app(5), GroupId(0), Bytes::new(), within).await;
    assert_eq!(outcome, Err(CallError::Deadline));
    assert!(echo(&one, 2, b"").await.is_ok());
}

#[tokio::test]
async fn a_peer_that_comes_back_elsewhere_is_reached_at_its_new_address() {
    let (one, two) = pair().await;
    two.shutdown();
    until("down", || one.peers() == [(NodeId(2), false)]).await;
    assert_eq!(echo(&one, 2, b"").await, Err(CallError::Unreachable));
    let moved = start(2).await;
    connect(&one, 2, moved.address()).await;
    assert!(echo(&one, 2, b"").await.is_ok());
}

#[tokio::test]
async fn a_peer_that_comes_back_at_its_address_is_reached_again() {
    let (one, two) = pair().await;
    let address = two.address().to_string();
    two.shutdown();
    until("down", || one.peers() == [(NodeId(2), false)]).await;
    let me = Identity { cluster: CLUSTER, node: NodeId(2) };
    // The old listener may take a moment to go.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let _back = start_as(Some(me), &address).await;
    until("up", || one.peers() == [(NodeId(2), true)]).await;
    assert!(echo(&one, 2, b"").await.is_ok());
}

#[tokio::test]
async fn an_isolated_node_is_cut_off_both_ways_until_it_is_not() {
    let (one, two) = pair().await;
    connect(&two, 1, one.address()).await;
    two.isolate(true);
    until("down", || !one.peers()[0].1 && !two.peers()[0].1).await;
    assert_eq!(echo(&one, 2, b"").await, Err(CallError::Unreachable));
    two.isolate(false);
    until("up", || one.peers()[0].1 && two.peers()[0].1).await;
}

#[tokio::test]
async fn a_removed_peer_is_unknown() {
    let (one, _two) = pair().await;
    one.remove_peer(NodeId(2));
    assert_eq!(echo(&one, 2, b"").await, Err(CallError::UnknownPeer));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_calls_at_once_each_get_their_own_answer() {
    let (one, _two) = pair().await;
    let calls: Vec<_> = (0_u32..5_000)
        .map(|number| {
            let one = one.clone();
            tokio::spawn(async move {
                echo(&one, 2, &number.to_le_bytes()).await.unwrap() == number.to_le_bytes()[..]
            })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap());
    }
}

#[tokio::test]
async fn frames_that_are_held_back_keep_their_order_and_cost_no_throughput() {
    const ONE_WAY: Duration = Duration::from_millis(60);
    let (one, two) = (start(1).await, start(2).await);
    one.hold_back(Arc::new(|_| ONE_WAY));
    two.hold_back(Arc::new(|node| if node == NodeId(1) { ONE_WAY } else { Duration::ZERO }));
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&arrived);
    two.register(ECHO, Access::Members, move |call: Incoming| {
        noted.lock().push(call.payload.clone());
        async move { Ok(call.payload) }
    });
    connect(&one, 2, two.address()).await;
    until("the round trip is known", || one.round_trip(NodeId(2)).is_some()).await;
    assert!(one.round_trip(NodeId(2)).unwrap() >= 2 * ONE_WAY);
    let started = Instant::now();
    let payloads: Vec<Bytes> = (0_u32..2_000).map(|number| number.to_be_bytes().to_vec().into()).collect();
    // On one thread tasks are begun in the order in which they are spawned.
    let call = |payload: Bytes| {
        let one = one.clone();
        tokio::spawn(async move { echo(&one, 2, &payload).await == Ok(payload) })
    };
    let calls: Vec<_> = payloads.iter().cloned().map(call).collect();
    for call in calls {
        assert!(call.await.unwrap());
    }
    let took = started.elapsed();
    assert_eq!(*arrived.lock(), payloads);
    assert!(took >= 2 * ONE_WAY && took < 20 * ONE_WAY, "{took:?}");
}

#[tokio::test]
async fn more_calls_than_a_connection_bears_are_refused_as_busy_and_the_rest_answered() {
    let (one, two) = pair().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let handler_gate = Arc::clone(&gate);
    two.register(SLOW, Access::Members, move |call: Incoming| {
        let gate = Arc::clone(&handler_gate);
        async move {
            let _permit = gate.acquire().await;
            Ok(call.payload)
        }
    });
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..9_000 {
        let one = one.clone();
        calls.spawn(async move { one.call(NodeId(2), SLOW, GroupId(0), Bytes::new(), SOON).await });
    }
    let (mut served, mut refused) = (0, 0);
    while let Some(outcome) = calls.join_next().await {
        match outcome.unwrap() {
            Ok(_) => served += 1,
            Err(CallError::Refused(Refusal::Busy)) => {
                refused += 1;
                gate.add_permits(1);
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0 && served + refused == 9_000, "{served} served, {refused} refused");
}

#[tokio::test]
async fn a_stranger_is_told_who_answers_and_may_ask_only_what_is_open() {
    let (joining, member) = (start_as(None, "127.0.0.1:0").await, start(2).await);
    let address = member.address().to_string();
    let (who, said) = joining.call_address(&address, OPEN, Bytes::from_static(b"?"), SOON).await.unwrap();
    assert_eq!(who, Some(Identity { cluster: CLUSTER, node: NodeId(2) }));
    assert_eq!(said, Bytes::from_static(b"?"));
    let closed = joining.call_address(&address, ECHO, Bytes::new(), SOON).await;
    assert_eq!(closed, Err(CallError::Refused(Refusal::NotAllowed)));
}

/// Says that whoever connects has a certificate of this node.
#[derive(Debug)]
struct Proves(NodeId);

impl Secure for Proves {
    fn connect(&self, stream: TcpStream, to: Option<NodeId>) -> Wrapped<'_> {
        Plain.connect(stream, to)
    }

    fn accept(&self, stream: TcpStream) -> Wrapped<'_> {
        let accepted = Plain.accept(stream);
        Box::pin(async move { Ok(SecureStream { proven: Some(self.0), ..accepted.await? }) })
    }
}

#[tokio::test]
async fn a_node_that_says_it_is_another_than_its_certificate_is_refused() {
    for (proven, up) in [(NodeId(1), true), (NodeId(5), false)] {
        let one = start(1).await;
        let identity = Some(Identity { cluster: CLUSTER, node: NodeId(2) });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = TransportConfig { identity, seed: 1, secure: Arc::new(Proves(proven)) };
        let two = Transport::start(listener, config).unwrap();
        one.set_peer(NodeId(2), &two.address().to_string());
        if up {
            until("up", || one.peers() == [(NodeId(2), true)]).await;
        } else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(one.peers(), [(NodeId(2), false)]);
        }
    }
}

#[tokio::test]
async fn a_node_that_joins_is_reached_from_then_on() {
    let (one, joining) = (start(1).await, start_as(None, "127.0.0.1:0").await);
    one.set_peer(NodeId(2), &joining.address().to_string());
    joining.set_peer(NodeId(1), &one.address().to_string());
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(echo(&one, 2, b"").await, Err(CallError::Unreachable));
    joining.identify(Identity { cluster: CLUSTER, node: NodeId(2) });
    until("both up", || one.peers()[0].1 && joining.peers()[0].1).await;
    assert!(echo(&joining, 1, b"").await.is_ok());
}

#[tokio::test]
async fn garbage_on_the_port_is_closed_and_members_are_served_on() {
    let (one, two) = pair().await;
    for garbage in
        [vec![0_u8; 4096], vec![0xff; 64], b"GET / HTTP/1.1\r\n\r\nand so on and on and on".to_vec()]
    {
        let mut stream = TcpStream::connect(two.address()).await.unwrap();
        let _ = stream.write_all(&garbage).await;
        let mut rest = Vec::new();
        // An answer that refuses, or a reset: the end in any case.
        let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await.expect("closed");
    }
    assert!(echo(&one, 2, b"").await.is_ok());
}

#[tokio::test]
async fn a_frame_that_claims_more_than_the_bound_ends_its_connection() {
    let two = start(2).await;
    let mut stream = TcpStream::connect(two.address()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut hello = Vec::from(*b"LHPR");
    hello.extend(PROTOCOL_LEVEL.to_le_bytes());
    hello.extend(CLUSTER.0.to_le_bytes());
    hello.extend(1_u64.to_le_bytes());
    hello.extend(2_u64.to_le_bytes());
    writer.write_all(&hello).await.unwrap();
    writer.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(SOON, reader.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection should have been closed");
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    let refusal = prop_oneof![
        Just(Refusal::NotServed),
        Just(Refusal::Busy),
        Just(Refusal::NotAllowed),
        Just(Refusal::Malformed),
        Just(Refusal::Failed)
    ];
    prop_oneof![
        (any::<u64>(), any::<u16>(), any::<u32>(), any::<u32>(), bytes.clone()).prop_map(
            |(id, kind, group, deadline_ms, payload)| Frame::Call {
                id,
                kind: Kind(kind),
                group: GroupId(group),
                deadline_ms,
                payload
            }
        ),
        (any::<u64>(), bytes).prop_map(|(id, payload)| Frame::Reply { id, outcome: Ok(payload) }),
        (any::<u64>(), refusal).prop_map(|(id, refusal)| Frame::Reply { id, outcome: Err(refusal) }),
        Just(Frame::Ping),
        Just(Frame::Pong),
    ]
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        frames in proptest::collection::vec(any_frame(), 0..8),
        step in 1_usize..64,
    ) {
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        prop_assert_eq!(bytes.len(), frames.iter().map(Frame::len).sum::<usize>());
        let (mut arrived, mut decoded) = (BytesMut::new(), Vec::new());
        for piece in bytes.chunks(step) {
            arrived.extend_from_slice(piece);
            while let Some(frame) = Frame::decode(&mut arrived).unwrap() {
                decoded.push(frame);
            }
        }
        prop_assert_eq!(decoded, frames);
        prop_assert!(arrived.is_empty());
    }

    #[test]
    fn no_bytes_make_the_decoder_panic_or_run_on(garbage in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut bytes = BytesMut::from(&garbage[..]);
        let mut frames = 0;
        while let Ok(Some(_)) = Frame::decode(&mut bytes) {
            frames += 1;
        }
        prop_assert!(frames <= garbage.len() / 5);
    }
}
