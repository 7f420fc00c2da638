//! The stream against a node that does as the test says, over real sockets.

use std::io;
use std::time::Duration;

use leasehold_decide::{Proposal, Terms};
use leasehold_lease::{LeaseAsk, LeaseId, Leased, MilliRate};
use leasehold_limit::rules::parse;
use leasehold_model::{Key, NodeId, RulesVersion, ShardId, Stamp, TenantId};
use leasehold_shard::{Batch, Command, Reset};
use leasehold_wire::lease::{Answer, Asks, Hello, LeaseRequest, LeaseResponse, RuleSet, Welcome, What};
use leasehold_wire::proto::leasehold::v1 as proto;
use leasehold_wire::proto::leasehold::v1::lease_service_server::{LeaseService, LeaseServiceServer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream, UnixListenerStream};
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status, Streaming};

use super::*;
use crate::{Grant, UpstreamAnswer};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node at a port, whose streams are handed to the test.
struct Node {
    address: Address,
    streams: mpsc::Receiver<Talk>,
    serving: tokio::task::JoinHandle<()>,
}

/// The node's end of one stream.
struct Talk {
    requests: Streaming<proto::LeaseRequest>,
    responses: mpsc::Sender<Result<proto::LeaseResponse, Status>>,
}

struct Service(mpsc::Sender<Talk>);

#[tonic::async_trait]
impl LeaseService for Service {
    type LeaseStream = ReceiverStream<Result<proto::LeaseResponse, Status>>;

    async fn lease(
        &self,
        request: Request<Streaming<proto::LeaseRequest>>,
    ) -> Result<Response<Self::LeaseStream>, Status> {
        let (responses, received) = mpsc::channel(16);
        let talk = Talk { requests: request.into_inner(), responses };
        self.0.send(talk).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(received)))
    }
}

impl Node {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap().to_string());
        Self::serve(address, TcpListenerStream::new(listener))
    }

    fn at(path: &std::path::Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        Self::serve(Address::Unix(path.to_owned()), UnixListenerStream::new(listener))
    }

    fn serve<IO>(address: Address, incoming: impl Stream<Item = io::Result<IO>> + Send + 'static) -> Self
    where
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let (talks, streams) = mpsc::channel(16);
        let server = tonic::transport::Server::builder().add_service(LeaseServiceServer::new(Service(talks)));
        let serving = tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
        Self { address, streams, serving }
    }

    /// The next stream, greeted.
    async fn welcome(&mut self, asks_max: u32) -> (Talk, Hello) {
        let mut talk = within(self.streams.recv()).await.unwrap();
        let LeaseRequest::Hello(hello) = talk.hear().await else { panic!("no greeting") };
        talk.say(welcome(1, asks_max)).await;
        (talk, hello)
    }
}

fn welcome(feature_level: u32, asks_max: u32) -> LeaseResponse {
    let (node_name, region) = ("n1".into(), "eu".into());
    LeaseResponse::Welcome(Welcome { feature_level, node: NodeId(4), node_name, region, asks_max })
}

impl Talk {
    async fn hear(&mut self) -> LeaseRequest {
        let heard = within(self.requests.message()).await.unwrap();
        heard.expect("the edge goes on").try_into().unwrap()
    }

    async fn hear_asks(&mut self) -> Asks {
        let heard = self.hear().await;
        let LeaseRequest::Asks(asks) = heard else { panic!("no asks: {heard:?}") };
        asks
    }

    async fn say(&self, response: LeaseResponse) {
        self.responses.send(Ok(response.into())).await.unwrap();
    }

    async fn answer(&self, tag: u64, outcome: Outcome) {
        self.say(LeaseResponse::Answers(vec![Answer { tag, outcome }])).await;
    }

    async fn grant(&self, tag: u64, granted: u64) {
        self.answer(tag, Outcome::Leased { leased: leased(granted), slot_parts: 1 }).await;
    }

    /// Whether the edge says nothing for a moment.
    async fn is_quiet(&mut self) -> bool {
        timeout(Duration::from_millis(100), self.requests.message()).await.is_err()
    }
}

/// Looks every few milliseconds until it is so.
async fn eventually(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it should not take so long")
}

fn leased(granted: u64) -> Leased {
    Leased {
        lease: Some(LeaseId(7)),
        granted,
        sync: 1,
        lifetime: Nanos::from_secs(5),
        gate: None,
        retry_after: None,
        remaining: 3,
        reset_after: Nanos::ZERO,
        slot: Some(2),
        at: Stamp(9),
    }
}

fn stream(nodes: &[&Node]) -> NodeStream {
    let addresses = nodes.iter().map(|node| node.address.clone()).collect();
    NodeStream::open(StreamConfig { addresses, name: "edge-1".into() })
}

fn ask(stream: &NodeStream, seq: u64) -> UpstreamAsk {
    let secret = leasehold_limit::KeySecret::new([1; 16]);
    let domain = parse("d", "{domain: d, limits: [{name: a, limit: 100/s}]}", &secret).unwrap();
    let (rule, version) = (&domain.rules[0], RulesVersion(1));
    let limit = rule.limit.as_ref().clone();
    let spec = LimitSpec { tenant: TenantId(1), version, since: Stamp::ZERO, limit };
    let matched = leasehold_limit::rules::Rule::matched(rule, &[]).unwrap();
    let terms = Terms::of(&matched);
    let ask = LeaseAsk {
        edge: stream.edge(),
        key: Key::MIN,
        need: 1,
        want: 10,
        rate: MilliRate(5),
        lifetime: Nanos::from_secs(5),
        usage: Vec::new(),
    };
    UpstreamAsk { id: RequestId { session: 77, seq }, spec: Arc::new(spec), terms, ask }
}

/// An edge whose stream a node has welcomed.
struct Open {
    node: Node,
    talk: Talk,
    hello: Hello,
    stream: NodeStream,
    wallet: Wallet,
}

/// An edge of a node of its own, which takes so many asks at once.
async fn open(asks_max: u32) -> Open {
    open_at(Node::start().await, asks_max).await
}

async fn open_at(mut node: Node, asks_max: u32) -> Open {
    let stream = stream(&[&node]);
    let wallet = Wallet::of(&stream);
    let (talk, hello) = node.welcome(asks_max).await;
    Open { node, talk, hello, stream, wallet }
}

/// Asks for tokens and takes the answers.
struct Wallet {
    stream: NodeStream,
    answers: Answers,
    received: mpsc::UnboundedReceiver<UpstreamAnswer>,
}

impl Wallet {
    fn of(stream: &NodeStream) -> Self {
        let (answers, received) = mpsc::unbounded_channel();
        Self { stream: stream.clone(), answers, received }
    }

    fn ask(&self, seqs: impl IntoIterator<Item = u64>) {
        self.ask_until(seqs, Instant::now() + PATIENCE);
    }

    fn ask_until(&self, seqs: impl IntoIterator<Item = u64>, deadline: Instant) {
        let asks = seqs.into_iter().map(|seq| ask(&self.stream, seq)).collect();
        self.stream.lease(asks, Settled { session: 77, below: 0 }, deadline, &self.answers);
    }

    async fn next(&mut self) -> (u64, Result<Grant, NoGrant>) {
        let answer = within(self.received.recv()).await.unwrap();
        (answer.id.seq, answer.outcome)
    }

    async fn granted(&mut self) -> (u64, u64) {
        let (seq, outcome) = self.next().await;
        (seq, outcome.unwrap().leased.granted)
    }
}

fn reset(keys: usize) -> Proposal {
    let commands = vec![Command::Reset(Reset { keys: vec![Key::MIN; keys] })];
    Proposal { batch: Batch { commands, ..Batch::default() }, terms: Vec::new() }
}

#[tokio::test]
async fn an_edge_says_who_it_is_and_asks_nothing_before_it_is_welcome() {
    let mut node = Node::start().await;
    let stream = stream(&[&node]);
    let wallet = Wallet::of(&stream);
    wallet.ask([1]);
    let mut talk = within(node.streams.recv()).await.unwrap();
    let LeaseRequest::Hello(hello) = talk.hear().await else { panic!("no greeting") };
    assert_eq!((hello.edge, hello.feature_level, &*hello.name), (stream.edge(), 1, "edge-1"));
    assert!(talk.is_quiet().await);
    assert_eq!(stream.peer(), None);
    talk.say(welcome(1, 8)).await;
    assert_eq!(talk.hear_asks().await.asks[0].id, RequestId { session: 77, seq: 1 });
    let peer = stream.peer().unwrap();
    assert_eq!((peer.node, &*peer.name, &*peer.region), (NodeId(4), "n1", "eu"));
}

#[tokio::test]
async fn a_slow_answer_delays_no_other() {
    let Open { mut talk, stream, mut wallet, .. } = open(8).await;
    wallet.ask([1, 2, 3]);
    let asks = talk.hear_asks().await.asks;
    assert_eq!(asks.len(), 3, "one message carries all");
    talk.grant(asks[2].tag, 30).await;
    assert_eq!(wallet.granted().await, (3, 30));
    talk.grant(asks[0].tag, 10).await;
    assert_eq!(wallet.granted().await, (1, 10));
    assert!(stream.round_trip() > Nanos::ZERO);
    assert_eq!(stream.waiting(), 1);
}

#[tokio::test]
async fn an_ask_is_sent_again_under_its_id_after_a_lost_connection_and_answered_once() {
    let Open { mut node, mut talk, hello: first, stream, mut wallet } = open(8).await;
    wallet.ask([1]);
    let before = talk.hear_asks().await.asks;
    drop(talk);
    let (mut talk, second) = node.welcome(8).await;
    assert_eq!(first.edge, second.edge);
    let again = talk.hear_asks().await.asks;
    assert_eq!((again[0].id, &again[0].what), (before[0].id, &before[0].what));
    talk.grant(again[0].tag, 5).await;
    talk.grant(again[0].tag, 5).await;
    assert_eq!(wallet.granted().await, (1, 5));
    wallet.ask([2]);
    let tag = talk.hear_asks().await.asks[0].tag;
    talk.grant(tag, 6).await;
    assert_eq!(wallet.granted().await, (2, 6));
    assert_eq!((stream.counts().connections, stream.counts().answers), (2, 2));
}

#[tokio::test]
async fn no_more_asks_are_under_way_than_the_node_takes() {
    let Open { mut talk, wallet, .. } = open(2).await;
    wallet.ask(0..5);
    let first = talk.hear_asks().await.asks;
    assert_eq!(first.len(), 2);
    assert!(talk.is_quiet().await);
    talk.grant(first[0].tag, 1).await;
    assert_eq!(talk.hear_asks().await.asks.len(), 1);
}

#[tokio::test]
async fn an_ask_without_an_answer_ends_at_its_deadline() {
    let mut node = Node::start().await;
    let stream = stream(&[&node]);
    let mut wallet = Wallet::of(&stream);
    wallet.ask_until([1], Instant::now() + Duration::from_millis(50));
    assert_eq!(wallet.next().await, (1, Err(NoGrant::Unreachable)));
    let deadline = Instant::now() + Duration::from_millis(50);
    assert_eq!(within(stream.propose(reset(1), deadline)).await, Err(ProposeError::Unreachable));
    let (mut talk, _) = node.welcome(2).await;
    assert!(talk.is_quiet().await, "nobody waits for it any more");
    assert_eq!(stream.counts().expired, 2);
}

#[tokio::test]
async fn what_only_owners_decide_is_asked_and_answered_as_it_is() {
    let Open { mut talk, stream, .. } = open(8).await;
    let asking = {
        let stream = stream.clone();
        tokio::spawn(async move { stream.propose(reset(2), Instant::now() + PATIENCE).await })
    };
    let asked = talk.hear_asks().await.asks.remove(0);
    assert_eq!(asked.what, What::Reset(vec![Key::MIN; 2]));
    assert!(asked.budget.is_some_and(|budget| budget <= Nanos::from_secs(10)));
    talk.answer(asked.tag, Outcome::Reset(2)).await;
    assert_eq!(within(asking).await.unwrap(), Ok(Reply::Reset(2)));
    let malformed = within(stream.propose(reset(0), Instant::now() + PATIENCE)).await;
    assert_eq!(malformed, Ok(Reply::Refused(Refusal::Malformed)), "no node is bothered with it");
}

#[tokio::test]
async fn why_nobody_answers_is_told() {
    let Open { mut talk, mut wallet, .. } = open(8).await;
    wallet.ask([1, 2, 3]);
    let asks = talk.hear_asks().await.asks;
    talk.answer(asks[0].tag, Outcome::Unanswered(Unanswered::Overloaded)).await;
    assert_eq!(wallet.next().await, (1, Err(NoGrant::Overloaded)));
    talk.answer(asks[1].tag, Outcome::Unanswered(Unanswered::Unreachable)).await;
    assert_eq!(wallet.next().await, (2, Err(NoGrant::Unreachable)));
    talk.answer(asks[2].tag, Outcome::Refused(Refusal::KeysFull(TenantId(1)))).await;
    assert_eq!(wallet.next().await, (3, Err(NoGrant::Refused(Refusal::KeysFull(TenantId(1))))));
}

#[tokio::test]
async fn a_node_that_is_not_understood_is_left_and_its_asks_go_on() {
    let Open { mut node, mut talk, mut wallet, .. } = open(8).await;
    wallet.ask([1]);
    let tag = talk.hear_asks().await.asks[0].tag;
    let granted = proto::Granted { granted: 5, ..proto::Granted::default() };
    let answer = proto::LeaseAnswer { tag, answer: Some(proto::lease_answer::Answer::Granted(granted)) };
    let message = Some(proto::lease_response::Message::Answers(proto::Answers { answers: vec![answer] }));
    talk.responses.send(Ok(proto::LeaseResponse { message })).await.unwrap();
    let (mut talk, _) = node.welcome(8).await;
    let tag = talk.hear_asks().await.asks[0].tag;
    talk.grant(tag, 5).await;
    assert_eq!(wallet.granted().await, (1, 5));
}

#[tokio::test]
async fn a_node_of_a_level_that_was_not_offered_is_left() {
    let mut newer = Node::start().await;
    let stream = stream(&[&newer]);
    let mut talk = within(newer.streams.recv()).await.unwrap();
    talk.hear().await;
    talk.say(welcome(2, 8)).await;
    assert!(within(talk.requests.message()).await.is_ok_and(|heard| heard.is_none()));
    drop(stream);
    let Open { talk, stream, .. } = open(8).await;
    // What a later version says is passed over.
    talk.say(LeaseResponse::Later).await;
    assert_eq!(stream.away(), None);
}

#[tokio::test]
async fn a_node_that_stops_is_left_for_another_after_its_answers() {
    let (mut first, mut second) = (Node::start().await, Node::start().await);
    let stream = stream(&[&first, &second]);
    let mut wallet = Wallet::of(&stream);
    let (mut talk, mut other) = tokio::select! {
        (talk, _) = first.welcome(8) => (talk, second),
        (talk, _) = second.welcome(8) => (talk, first),
    };
    wallet.ask([1]);
    let tag = talk.hear_asks().await.asks[0].tag;
    talk.say(LeaseResponse::GoAway).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    wallet.ask([2]);
    assert!(talk.is_quiet().await, "nothing new is asked of it");
    talk.grant(tag, 5).await;
    assert_eq!(wallet.granted().await, (1, 5));
    let (mut talk, _) = other.welcome(8).await;
    assert_eq!(talk.hear_asks().await.asks[0].id.seq, 2);
}

#[tokio::test]
async fn rules_are_put_in_force_and_mistaken_ones_are_not() {
    let Open { talk, stream, .. } = open(8).await;
    let mut rules = stream.rules();
    let set = |version, text: &str| {
        LeaseResponse::Rules(RuleSet {
            version: RulesVersion(version),
            since: Stamp(3),
            secret: [1; 16],
            domains: vec![text.to_owned()],
            more: false,
            shards: 4,
            home_shards: vec![ShardId(1)],
        })
    };
    talk.say(set(1, "{domain: d, limits: [{name: a, limit: 5/s}]}")).await;
    within(rules.changed()).await.unwrap();
    let known = rules.borrow_and_update().clone().unwrap();
    assert_eq!((known.book.version, known.book.domains.len()), (RulesVersion(1), 1));
    talk.say(set(2, "{domain: d, limits: [{name: a, dance: 5/s}]}")).await;
    // Sets are read beside each other, and an older one that is read late is passed over: this one is awaited.
    eventually(|| stream.counts().rules_refused > 0).await;
    talk.say(set(3, "{domain: e, limits: [{name: a, limit: 5/s}]}")).await;
    within(rules.wait_for(|known| known.as_ref().is_some_and(|known| known.book.version.0 == 3)))
        .await
        .unwrap();
    assert_eq!(stream.counts().rules_refused, 1);
}

#[tokio::test]
async fn nobody_is_there_is_known_and_over_when_somebody_is() {
    let gone = {
        let node = Node::start().await;
        node.serving.abort();
        let _ = node.serving.await;
        node.address
    };
    let addresses = vec![gone];
    let alone = NodeStream::open(StreamConfig { addresses, name: String::new() });
    eventually(|| alone.away().is_some()).await;
    assert!(alone.away().unwrap().why.starts_with("connecting: "), "{:?}", alone.away());
    let Open { talk: _talk, stream, .. } = open(8).await;
    eventually(|| stream.peer().is_some()).await;
    assert_eq!(stream.away(), None);
}

#[tokio::test]
async fn a_closed_stream_has_its_answers_says_goodbye_and_takes_nothing_more() {
    let Open { mut talk, stream, mut wallet, .. } = open(8).await;
    wallet.ask([1]);
    let tag = talk.hear_asks().await.asks[0].tag;
    let closing = {
        let stream = stream.clone();
        tokio::spawn(async move { stream.close(PATIENCE).await })
    };
    assert!(talk.is_quiet().await);
    talk.grant(tag, 5).await;
    assert_eq!(talk.hear().await, LeaseRequest::Bye);
    drop(talk);
    assert!(within(closing).await.unwrap());
    assert_eq!(wallet.granted().await, (1, 5));
    wallet.ask([2]);
    assert_eq!(wallet.next().await, (2, Err(NoGrant::Overloaded)));
}

#[tokio::test]
async fn a_node_is_reached_over_a_socket_of_the_machine() {
    let folder = std::env::temp_dir().join(format!("leasehold-{}", rand::random::<u64>()));
    std::fs::create_dir(&folder).unwrap();
    let Open { mut talk, mut wallet, .. } = open_at(Node::at(&folder.join("node.sock")), 8).await;
    wallet.ask([1]);
    let tag = talk.hear_asks().await.asks[0].tag;
    talk.grant(tag, 5).await;
    assert_eq!(wallet.granted().await, (1, 5));
    std::fs::remove_dir_all(folder).unwrap();
}
