//! Sidecars in front of a node, as processes: the same answers over every door, limits that hold while leases decide, what
//! happens without a node, and what comes back at the end.

mod deploy;
mod envoy;
mod sockets;

use std::time::Duration;

use leasehold_tests::bound::{Bound, Operation, worst_excess};
use leasehold_tests::{Deadline, Http, Reply, TestEdge, TestNode, Timeline, own_port};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::clients::{Client, PROTOCOLS, check};

/// An edge that was told to stop ends within this.
const STOPPED_WITHIN: Duration = Duration::from_secs(20);

const THREE: &str = "
domain: api
limits:
  - { name: three, per: [user], limit: 3/day, algorithm: fixed_window }
";

async fn asked(http: &Http, domain: &str, user: &str) -> Reply {
    http.post("/v1/check", &check(domain, &[("user", user)])).await
}

/// One field of the first rule that matched.
fn first<'a>(reply: &'a Value, field: &str) -> &'a Value {
    &reply["matched"][0][field]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_answers_as_its_node_does_over_every_door() {
    let node = TestNode::start(THREE);
    let edge = TestEdge::start(node.clients);
    for (place, protocol) in PROTOCOLS.into_iter().enumerate() {
        let user = format!("user-{place}");
        let mut clients =
            [Client::connect(protocol, node.clients).await, Client::connect(protocol, edge.clients).await];
        // Both charge the same counter: two of three through the edge, and the fourth is refused by either.
        for (through, admitted) in [(1, true), (0, true), (1, true), (1, false), (0, false)] {
            let answer = clients[through].admits("api", &[("user", &user)]).await;
            assert_eq!(answer, admitted, "{protocol:?}, {through}");
        }
    }
    let of_node = asked(&node.http(), "api", "user-0").await;
    let of_edge = asked(&edge.http(), "api", "user-0").await;
    assert_eq!((of_node.status, of_edge.status.as_u16()), (of_edge.status, 429));
    for header in ["ratelimit-policy", "retry-after"] {
        assert!(of_edge.header(header).is_some(), "{header}: {:?}", of_edge.headers);
    }
    let keys = |reply: &Value| reply.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&of_node.json()), keys(&of_edge.json()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_is_answered_by_an_edge_as_by_its_node() {
    let node = TestNode::start(
        "domain: web\nlimits:\n  - { name: one, per: [api_key], limit: 1/day, algorithm: fixed_window }\n",
    );
    let edge = TestEdge::start(node.clients);
    let ask = async |http: &Http, key: &str| {
        let headers = [("x-api-key", key)];
        http.send(http::Method::GET, "/v1/authorize?domain=web", &headers, bytes::Bytes::new())
            .await
            .status
            .as_u16()
    };
    let (node, edge) = (node.http(), edge.http());
    assert_eq!([ask(&edge, "a").await, ask(&node, "a").await, ask(&edge, "a").await], [200, 429, 429]);
    assert_eq!([ask(&node, "b").await, ask(&edge, "b").await], [200, 429]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_is_decided_by_leases_and_its_limit_is_never_exceeded() {
    let rules = "domain: api\nlimits:\n  - { name: hot, per: [user], limit: 100/s }\n";
    let node = TestNode::start(rules);
    let edges = [TestEdge::start(node.clients), TestEdge::start(node.clients)];
    let clock = Timeline::start();
    let ends = Deadline::after(Duration::from_secs(4));
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let http = edges[worker % 2].http();
        workers.spawn(async move {
            let (mut operations, mut leased, mut refused) = (Vec::new(), 0_u32, 0_u32);
            while !ends.passed() {
                let invoked = clock.now_ns();
                let reply = asked(&http, "api", "hot").await;
                let returned = clock.now_ns();
                let admitted = reply.status == 200;
                leased += u32::from(admitted && *first(&reply.json(), "source") == "lease");
                if admitted {
                    operations.push(Operation { invoked, returned, cost: 1 });
                } else {
                    refused += 1;
                }
            }
            (operations, leased, refused)
        });
    }
    let (mut operations, mut leased, mut refused) = (Vec::new(), 0, 0);
    for (of_worker, by_lease, over) in workers.join_all().await {
        operations.extend(of_worker);
        leased += by_lease;
        refused += over;
    }
    // Both clocks are this machine's.
    let excess = worst_excess(&operations, Bound::bucket(100, Duration::from_secs(1)));
    assert_eq!(excess, None, "{} admitted", operations.len());
    assert!(refused > 0, "the load stayed below the limit, so nothing was tried");
    let admitted = u32::try_from(operations.len()).expect("a few thousand");
    assert!(leased * 2 > admitted, "{leased} of {admitted} by leases");
    let page = edges[0].admin_http().get("/metrics").await.text();
    let counted = page.lines().find(|line| line.contains(r#"rule="hot",decision="allowed",source="lease""#));
    assert!(counted.is_some_and(|line| !line.ends_with(" 0")), "{page}");
}

const AWAY: &str = "
domain: api
limits:
  - { name: open, when: { kind: open }, per: [user], limit: 1000/s }
  - { name: closed, when: { kind: closed }, per: [user], limit: 1000/s, on_unavailable: deny }
  - { name: own, when: { kind: own }, per: [user], limit: 1000/s, on_unavailable: local, local_share: 0.5, edges: 1 }
";

async fn kind(edge: &TestEdge, kind: &str, user: &str) -> Reply {
    edge.http().post("/v1/check", &check("api", &[("kind", kind), ("user", user)])).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_node_rules_decide_as_they_declare_and_with_one_again_the_owner_does() {
    let mut node = TestNode::start(AWAY);
    let edge = TestEdge::start(node.clients);
    // The node gives the edge its number with a lease.
    assert_eq!(kind(&edge, "own", "before").await.status, 200);
    node.process.kill();
    let status = async || edge.admin_http().get("/v1/status").await.json();
    let away = Deadline::after(Duration::from_secs(20));
    while status().await["degraded"].is_null() {
        assert!(!away.passed(), "the edge doesn't notice that its node is gone");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(status().await["ready"], true, "cut off is no reason to send traffic away");
    let open = kind(&edge, "open", "new").await;
    assert_eq!((open.status.as_u16(), &open.json()["degraded"]), (200, &json!(true)));
    let closed = kind(&edge, "closed", "new").await;
    assert_eq!(closed.status, 503, "{}", closed.text());
    // A share begins empty and has filled since the edge got its number.
    let own = kind(&edge, "own", "new").await;
    assert_eq!(
        (own.status.as_u16(), first(&own.json(), "source")),
        (200, &json!("fallback")),
        "{}",
        own.text()
    );
    assert_eq!(own.json()["degraded"], true);

    let _back = TestNode::start_with(node.clients, AWAY, "");
    let owned = Deadline::after(Duration::from_secs(30));
    loop {
        let reply = kind(&edge, "closed", "later").await;
        if reply.status == 200 {
            break;
        }
        assert!(!owned.passed(), "the node is back and isn't asked: {}", reply.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(status().await["degraded"].is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_is_not_ready_before_a_node_has_handed_out_its_rules_and_says_so() {
    let place = own_port();
    let mut edge = TestEdge::begin(place);
    let reply = edge.admin_http().get("/readyz").await;
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("waiting for a node to hand out its rules"), "{}", reply.text());
    assert_eq!(asked(&edge.http(), "api", "u").await.status, 503, "nothing passes without rules");
    let _node = TestNode::start_with(place, THREE, "");
    edge.wait_until_ready();
    assert_eq!(asked(&edge.http(), "api", "u").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_is_told_to_stop_hands_back_all_that_it_holds() {
    let node = TestNode::start(
        "domain: api\nlimits:\n  - { name: quota, per: [user], limit: 1000/day, algorithm: fixed_window }\n",
    );
    let mut edge = TestEdge::start(node.clients);
    let mut leased = 0;
    for _ in 0..40 {
        let reply = asked(&edge.http(), "api", "u").await;
        assert_eq!(reply.status, 200);
        leased += u32::from(*first(&reply.json(), "source") == "lease");
    }
    assert!(leased > 0, "nothing was lent, so nothing can come back");
    edge.process.signal(Signal::TERM);
    let ended = edge.process.wait(STOPPED_WITHIN);
    assert!(ended.success(), "{}", edge.process.printed());
    let reply = node.http().post("/v1/peek", &check("api", &[("user", "u")])).await.json();
    assert_eq!(first(&reply, "remaining"), 960, "{reply}");
}
