//! Edges' streams to whole nodes: the client's own, and ones that say what no edge should.

use std::sync::Arc;

use leasehold_client::stream::{Address, NodeStream, StreamConfig};
use leasehold_client::{Grant, NoGrant, Upstream, UpstreamAsk};
use leasehold_decide::{Proposal, Terms};
use leasehold_lease::{EdgeId, LeaseAsk, Leased, MilliRate, Usage};
use leasehold_limit::Ask as Units;
use leasehold_limit::check::Attribute;
use leasehold_limit::rules::Scope;
use leasehold_model::{Key, Nanos, RequestId};
use leasehold_shard::{Acquire, Batch, Command, Demand, LimitSpec, Reply, Reset, Settled};
use leasehold_wire::lease::{
    Answer, Ask, AskedLease, AskedLimit, Asks, Hello, LeaseRequest, LeaseResponse, Outcome,
    REQUEST_BYTES_MAX, Welcome, What,
};
use leasehold_wire::proto::leasehold::v1 as proto;
use leasehold_wire::proto::leasehold::v1::lease_service_client::LeaseServiceClient;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::cluster::{Three, until};
use super::*;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The session of the asks here.
const SESSION: u128 = 0xed6e;
/// Two hundred a day, all at once.
const RULES: &str = "{domain: d, limits: [{name: a, per: [user], limit: 200/day, on_unavailable: deny}]}";

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it should not take so long")
}

/// A node alone with these rules.
async fn alone(rules: &str) -> (Node, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules).expect("written");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config::dev(DevOptions { rules: Some(path), clients: Some(any), admin: Some(any) });
    (Node::start(config).await.expect("it starts"), folder)
}

fn edge_of(nodes: &[&Node]) -> NodeStream {
    let address = |node: &&Node| Address::Tcp(node.client_addr().to_string());
    NodeStream::open(StreamConfig { addresses: nodes.iter().map(address).collect(), name: "test".into() })
}

/// An edge's view of one user's counter.
#[derive(Clone)]
struct Counter {
    key: Key,
    spec: LimitSpec,
    terms: Terms,
}

/// The counter of a user by the rules that the node hands out.
async fn counter(stream: &NodeStream, user: &str) -> Counter {
    let mut rules = stream.rules();
    let known = within(rules.wait_for(Option::is_some)).await.expect("the stream is open").clone();
    let known = known.expect("they are there");
    let attributes = [Attribute { name: "user", value: user.as_bytes() }];
    let matched = known.book.matching("d", &attributes).expect("the domain").remove(0);
    let limit = matched.limit.as_ref().clone();
    let (version, since) = (known.book.version, known.book.since);
    let spec = LimitSpec { tenant: known.secret.tenant("d"), version, since, limit };
    Counter { key: matched.key.expect("a user"), spec, terms: Terms::of(&matched) }
}

fn lease_ask(edge: EdgeId, key: Key, need: u64, want: u64, usage: Vec<Usage>) -> LeaseAsk {
    let (rate, lifetime) = (MilliRate(100_000), Nanos::from_secs(5));
    LeaseAsk { edge, key, need, want, rate, lifetime, usage }
}

/// Asks for tokens and waits for the answer.
async fn lease(
    stream: &NodeStream,
    counter: &Counter,
    seq: u64,
    need: u64,
    want: u64,
    usage: Vec<Usage>,
) -> Leased {
    let (answers, mut received) = mpsc::unbounded_channel();
    let ask = lease_ask(stream.edge(), counter.key, need, want, usage);
    let id = RequestId { session: SESSION, seq };
    let ask = UpstreamAsk { id, spec: Arc::new(counter.spec.clone()), terms: counter.terms, ask };
    let settled = Settled { session: SESSION, below: seq };
    let began = Instant::now();
    loop {
        stream.lease(vec![ask.clone()], settled, Instant::now() + PATIENCE, &answers);
        match within(received.recv()).await.expect("an answer").outcome {
            Ok(Grant { leased, slot_parts }) => {
                assert_eq!(slot_parts, 1);
                return leased;
            }
            // As a wallet does: the same ask again, while its owner can't be reached.
            Err(NoGrant::Unreachable) if began.elapsed() < PATIENCE => {}
            Err(refused) => panic!("{refused:?}"),
        }
    }
}

/// Units that the counter has left, as its owner says.
async fn left(stream: &NodeStream, counter: &Counter) -> u64 {
    let acquire = acquire(counter.key, 0);
    let specs = [counter.spec.clone()];
    let reply = stream.preview(&specs, &[counter.terms], &acquire, Instant::now() + PATIENCE).await;
    let reply = reply.expect("looked");
    let Reply::Acquired(acquired) = reply else { panic!("{reply:?}") };
    acquired.decisions[0].remaining
}

fn acquire(key: Key, cost: u64) -> Acquire {
    let demand = Demand { key, limit: 0, ask: Units::exactly(cost), shadow: false };
    Acquire { id: None, remember_denial: false, demands: vec![demand] }
}

fn proposal(counters: &[&Counter], cost: u64) -> Proposal {
    let demand = |(at, counter): (u32, &&Counter)| Demand {
        key: counter.key,
        limit: at,
        ask: Units::exactly(cost),
        shadow: false,
    };
    let demands = (0..).zip(counters).map(demand).collect();
    let limits = counters.iter().map(|counter| counter.spec.clone()).collect();
    let commands = vec![Command::Acquire(Acquire { id: None, remember_denial: false, demands })];
    let terms = counters.iter().map(|counter| counter.terms).collect();
    Proposal { batch: Batch { limits, commands, ..Batch::default() }, terms }
}

async fn admitted(stream: &NodeStream, counters: &[&Counter], cost: u64) -> bool {
    let reply = stream.propose(proposal(counters, cost), Instant::now() + PATIENCE).await.expect("answered");
    let Reply::Acquired(acquired) = reply else { panic!("{reply:?}") };
    acquired.admitted
}

/// The granting, spending and returning of a lease, with what is left at each step.
async fn lend_spend_and_return(stream: &NodeStream) {
    let counter = counter(stream, "lend").await;
    let leased = lease(stream, &counter, 1, 1, 41, Vec::new()).await;
    assert_eq!((leased.sync, leased.granted), (1, 40));
    assert_eq!(left(stream, &counter).await, 159);
    let usage = Usage { lease: leased.lease.expect("one"), spent_total: 10, returned_total: 30 };
    for seq in [2, 3] {
        // Told twice, it counts once.
        lease(stream, &counter, seq, 0, 0, vec![usage]).await;
        assert_eq!(left(stream, &counter).await, 189);
    }
    assert!(admitted(stream, &[&counter], 189).await);
    assert!(!admitted(stream, &[&counter], 1).await);
}

#[tokio::test]
async fn an_edges_lease_of_a_node_alone_is_granted_spent_and_returned() {
    let (node, _folder) = alone(RULES).await;
    let stream = edge_of(&[&node]);
    lend_spend_and_return(&stream).await;
    let (_, page) = ask(node.admin_addr(), "GET", "/metrics", "").await;
    for line in [
        "leasehold_edge_streams 1",
        "leasehold_edge_asks_total 3",
        "leasehold_edge_grants_total 1",
        "leasehold_edge_granted_units_total 40",
        "leasehold_edge_sync_units_total 1",
        "leasehold_edge_unanswered_total 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not on\n{page}");
    }
    assert!(stream.close(PATIENCE).await);
    assert!(node.drain().await);
}

/// A stream that says whatever the test wants.
struct Raw {
    requests: mpsc::Sender<proto::LeaseRequest>,
    responses: Streaming<proto::LeaseResponse>,
}

impl Raw {
    async fn open(node: &Node) -> Self {
        let to = format!("http://{}", node.client_addr());
        let mut client = LeaseServiceClient::connect(to).await.expect("it accepts");
        let (requests, sent) = mpsc::channel(16);
        let responses = client.lease(ReceiverStream::new(sent)).await.expect("it serves").into_inner();
        Self { requests, responses }
    }

    /// One that is greeted.
    async fn greeted(node: &Node, edge: EdgeId) -> (Self, Welcome) {
        let mut raw = Self::open(node).await;
        raw.say(LeaseRequest::Hello(hello(edge, 1))).await;
        let LeaseResponse::Welcome(welcome) = raw.hear().await.expect("a welcome") else { panic!("none") };
        (raw, welcome)
    }

    async fn say(&self, request: LeaseRequest) {
        self.requests.send(request.into()).await.expect("the stream is open");
    }

    async fn hear(&mut self) -> Result<LeaseResponse, Status> {
        let heard = within(self.responses.message()).await?;
        Ok(heard.expect("the node goes on").try_into().expect("understood"))
    }

    /// The next answers, past the rules.
    async fn answers(&mut self) -> Vec<Answer> {
        loop {
            if let LeaseResponse::Answers(answers) = self.hear().await.expect("it goes on") {
                return answers;
            }
        }
    }

    /// What the stream ends with.
    async fn ends(&mut self) -> Option<Status> {
        loop {
            match within(self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    }
}

fn hello(edge: EdgeId, feature_level: u32) -> Hello {
    Hello { edge, feature_level, name: "raw".into(), version: "0".into() }
}

/// One ask for tokens of a counter, which it tells by the rules.
fn one_ask(edge: EdgeId, counter: &Counter, tag: u64) -> Asks {
    let lease = AskedLease::new(&lease_ask(edge, counter.key, 1, 11, Vec::new()), 0);
    let id = RequestId { session: SESSION, seq: 1 };
    Asks {
        limits: vec![AskedLimit { spec: counter.spec.clone(), scope: Scope::Global }],
        asks: vec![Ask { tag, id, budget: None, what: What::Lease(lease) }],
        settled: Vec::new(),
    }
}

/// An ask goes out over one node, whose answer never arrives, and again over another.
async fn ask_twice(first: &Node, second: &Node, observer: &NodeStream) {
    let counter = counter(observer, "twice").await;
    let edge = EdgeId(77);
    let (mut raw, _) = Raw::greeted(first, edge).await;
    raw.say(LeaseRequest::Asks(one_ask(edge, &counter, 5))).await;
    let answered = raw.answers().await;
    drop(raw);
    let (mut raw, _) = Raw::greeted(second, edge).await;
    raw.say(LeaseRequest::Asks(one_ask(edge, &counter, 9))).await;
    let again = raw.answers().await;
    assert_eq!((answered[0].tag, again[0].tag), (5, 9));
    assert_eq!(answered[0].outcome, again[0].outcome, "the same lease");
    assert!(matches!(&again[0].outcome, Outcome::Leased { leased, .. } if leased.granted == 10));
    assert_eq!(left(observer, &counter).await, 200 - 11);
}

#[tokio::test]
async fn an_ask_that_is_sent_again_after_a_lost_connection_is_charged_once() {
    let (node, _folder) = alone(RULES).await;
    ask_twice(&node, &node, &edge_of(&[&node])).await;
    assert!(node.drain().await);
}

#[tokio::test]
async fn an_edge_of_a_later_level_is_met_at_the_nodes_own() {
    let (node, _folder) = alone(RULES).await;
    let mut raw = Raw::open(&node).await;
    raw.say(LeaseRequest::Hello(hello(EdgeId(1), 7))).await;
    let LeaseResponse::Welcome(welcome) = raw.hear().await.expect("a welcome") else { panic!("none") };
    assert_eq!(welcome.feature_level, 1);
    assert!(welcome.asks_max > 0);
    // Something that this node doesn't know is passed over.
    raw.say(LeaseRequest::Later).await;
    raw.say(LeaseRequest::Bye).await;
    assert!(raw.ends().await.is_none());
}

/// Checks how a stream ends on which this is said first.
async fn check_ends(node: &Node, greeted: bool, request: proto::LeaseRequest, code: Code, says: &str) {
    let mut raw = if greeted { Raw::greeted(node, EdgeId(1)).await.0 } else { Raw::open(node).await };
    raw.requests.send(request).await.expect("the stream is open");
    let status = raw.ends().await.expect("it ends with a status");
    assert_eq!(status.code(), code, "{status:?}");
    assert!(status.message().contains(says), "{status:?}");
}

#[tokio::test]
async fn what_no_edge_says_ends_its_own_stream_with_a_reason_and_nothing_else() {
    let (node, _folder) = alone(RULES).await;
    let bystander = edge_of(&[&node]);
    let counter = counter(&bystander, "bystander").await;
    let bye = || LeaseRequest::Bye.into();
    check_ends(&node, false, bye(), Code::InvalidArgument, "hello: a stream begins with it").await;
    let levelless = LeaseRequest::Hello(hello(EdgeId(1), 0)).into();
    check_ends(&node, false, levelless, Code::InvalidArgument, "hello.feature_level: it is 0").await;
    let again = || LeaseRequest::Hello(hello(EdgeId(1), 1)).into();
    check_ends(&node, true, again(), Code::InvalidArgument, "hello: it was said already").await;
    let mut asks = one_ask(EdgeId(1), &counter, 1);
    asks.limits.clear();
    let nowhere = LeaseRequest::Asks(asks).into();
    check_ends(&node, true, nowhere, Code::InvalidArgument, "asks.asks[0].lease.limit: 0 is no position")
        .await;
    let huge = vec![proto::Ask::default(); REQUEST_BYTES_MAX];
    let huge = proto::Asks { asks: huge, ..proto::Asks::default() };
    let huge = proto::LeaseRequest { message: Some(proto::lease_request::Message::Asks(huge)) };
    check_ends(&node, true, huge, Code::OutOfRange, "").await;
    assert_eq!(lease(&bystander, &counter, 1, 1, 1, Vec::new()).await.sync, 1);
    assert_eq!(bystander.counts().connections, 1);
    let (_, page) = ask(node.admin_addr(), "GET", "/metrics", "").await;
    assert!(page.contains("leasehold_edge_streams_malformed_total 4"), "{page}");
}

#[tokio::test]
async fn edges_are_told_of_changed_rules() {
    let (node, folder) = alone(RULES).await;
    let stream = edge_of(&[&node]);
    let mut rules = stream.rules();
    let known = within(rules.wait_for(Option::is_some)).await.expect("open").clone().expect("there");
    assert_eq!(known.book.version, node.rules().version);
    let changed = RULES.replace("200/day", "5/day");
    std::fs::write(folder.path().join("rules.yaml"), changed).expect("written");
    node.reload_rules().await;
    let version = node.rules().version;
    assert!(version > known.book.version);
    let told = |known: &Option<Arc<_>>| {
        known
            .as_ref()
            .is_some_and(|known: &Arc<leasehold_client::stream::KnownRules>| known.book.version == version)
    };
    within(rules.wait_for(told)).await.expect("open");
}

#[tokio::test]
async fn a_node_that_drains_sends_its_edges_away_and_has_them_gone_in_time() {
    let (node, _folder) = alone(RULES).await;
    let stream = edge_of(&[&node]);
    counter(&stream, "u").await;
    let (mut raw, _) = Raw::greeted(&node, EdgeId(3)).await;
    let draining = tokio::spawn(node.drain());
    until(async || stream.peer().map(|_| "the edge is still there".to_owned())).await;
    let status = raw.ends().await.expect("who stays is cut");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(within(draining).await.expect("it drains"), "nothing was cut off");
}

#[tokio::test]
async fn edges_make_counters_fresh_only_where_callers_may() {
    for allowed in [true, false] {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut config = Config::dev(DevOptions { rules: None, clients: Some(any), admin: Some(any) });
        config.http.reset = allowed;
        let node = Node::start(config).await.expect("it starts");
        let stream = edge_of(&[&node]);
        let commands = vec![Command::Reset(Reset { keys: vec![Key::MIN] })];
        let reset = Proposal { batch: Batch { commands, ..Batch::default() }, terms: Vec::new() };
        let reply = stream.propose(reset, Instant::now() + PATIENCE).await.expect("answered");
        assert_eq!(reply == Reply::Reset(0), allowed, "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_owners_decide_whichever_node_an_edge_asks() {
    let three = Three::start(RULES).await;
    let nodes: Vec<&Node> = three.nodes.iter().flatten().collect();
    let edges: Vec<NodeStream> = nodes.iter().map(|node| edge_of(&[node])).collect();
    lend_spend_and_return(&edges[0]).await;
    ask_twice(nodes[0], nodes[1], &edges[2]).await;

    // The counters of users lie on different shards.
    let mut counters = Vec::new();
    for user in ["a", "b", "c", "d", "e", "f"] {
        counters.push(counter(&edges[1], user).await);
    }
    let counters: Vec<&Counter> = counters.iter().collect();
    assert!(admitted(&edges[0], &counters, 150).await);
    assert!(!admitted(&edges[1], &counters, 150).await, "all or none");
    for (at, counter) in counters.iter().enumerate() {
        assert_eq!(left(&edges[at % 3], counter).await, 50);
        let leased = lease(&edges[at % 3], counter, 100 + u64::try_from(at).expect("few"), 5, 5, Vec::new());
        assert_eq!(leased.await.sync, 5);
    }
    for stream in &edges {
        assert!(stream.close(PATIENCE).await);
    }
    drop(nodes);
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_of_a_node_that_is_gone_goes_on_with_another_and_is_charged_once() {
    let mut three = Three::start(RULES).await;
    let nodes: Vec<&Node> = three.nodes.iter().flatten().collect();
    let stream = edge_of(&nodes);
    let counter = counter(&stream, "u").await;
    assert!(admitted(&stream, &[&counter], 10).await);
    let address = stream.peer().expect("connected").address.to_string();
    let at = nodes.iter().position(|node| address.ends_with(&node.client_addr().to_string()));
    drop(nodes);
    // Dropped, it ends without a word.
    drop(three.nodes[at.expect("one of them")].take());
    for _ in 0..9 {
        assert!(admitted(&stream, &[&counter], 10).await);
    }
    assert_eq!(left(&stream, &counter).await, 100);
    assert!(stream.counts().connections >= 2);
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lent_in_a_cluster_is_told_by_every_node_and_counts_once_over_all() {
    let three = Three::start(RULES).await;
    let nodes: Vec<&Node> = three.nodes.iter().flatten().collect();
    let stream = edge_of(&[nodes[0]]);
    let mut lent = 0;
    for (seq, user) in (1..).zip(["a", "b", "c", "d"]) {
        let counter = counter(&stream, user).await;
        lent += lease(&stream, &counter, seq, 0, 20, Vec::new()).await.granted;
    }
    assert!(lent > 0);
    let told = format!(r#""out":{lent},"#);
    for node in &nodes {
        // A node may have no connection to another yet.
        until(async || {
            let (_, body) = ask(node.admin_addr(), "GET", "/v1/leases?domain=d", "").await;
            (!body.contains(&told) || !body.contains(r#""shards_unanswered":0"#)).then_some(body)
        })
        .await;
    }
    let mut out = 0;
    for node in &nodes {
        let (_, page) = ask(node.admin_addr(), "GET", "/metrics", "").await;
        let line = page.lines().find_map(|line| line.strip_prefix("leasehold_lease_out_units "));
        out += line.and_then(|units| units.parse::<u64>().ok()).expect("it is on the page");
    }
    assert_eq!(out, lent, "each shard is told of by its leader only");
    drop(nodes);
    three.stop().await;
}
