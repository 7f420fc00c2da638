//! Three whole nodes in this process, over loopback and real disks.

use std::sync::atomic::AtomicU16;

use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::*;
use crate::config::{ClusterConfig, Config};

/// Whatever has not come by then never comes.
const SOON: Duration = Duration::from_secs(30);

/// One cluster at a time: more would starve each other on a small machine.
static TURN: Semaphore = Semaphore::const_new(1);

/// An address that stays free while its server is down: on an address of the loopback that is this process's alone, below
/// the ports that the system hands out.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(10_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    ([127, 0x40 | (high & 0x3f), middle, low], NEXT.fetch_add(1, Relaxed)).into()
}

/// Nodes `a`, `b` and `c` of one cluster, with the configuration that each was started with.
pub(super) struct Three {
    configs: Vec<Config>,
    pub(super) nodes: Vec<Option<Node>>,
    _data: TempDir,
    _turn: SemaphorePermit<'static>,
}

impl Three {
    async fn configured(rules: &str) -> Self {
        let turn = TURN.acquire().await.expect("never closed");
        let data = tempfile::tempdir().expect("a temporary folder");
        let path = data.path().join("rules.yaml");
        std::fs::write(&path, rules).expect("written");
        let addresses: Vec<_> = (0..3).map(|_| (own_address(), own_address())).collect();
        let seeds: Vec<_> = addresses.iter().map(|(peers, _)| peers.to_string()).collect();
        let config = |(name, (peers, gossip)): (&str, &(SocketAddr, SocketAddr))| {
            let mut cluster = ClusterConfig::new("test", data.path().join(name), seeds.clone());
            cluster.node = Some(name.to_owned());
            cluster.peers.listen = *peers;
            cluster.gossip.listen = *gossip;
            cluster.shards = 4;
            let mut config =
                Config { rules: Some(path.clone()), cluster: Some(cluster), ..Config::default() };
            config.clients.listen.set_port(0);
            config.admin.listen.set_port(0);
            config
        };
        let configs = ["a", "b", "c"].into_iter().zip(&addresses).map(config).collect();
        Self { configs, nodes: vec![None, None, None], _data: data, _turn: turn }
    }

    pub(super) async fn start(rules: &str) -> Self {
        Self::start_as(rules, |_, _| {}).await
    }

    /// The same, each after a change to its configuration.
    pub(super) async fn start_as(rules: &str, change: impl Fn(usize, &mut ClusterConfig)) -> Self {
        let mut three = Self::configured(rules).await;
        for place in 0..3 {
            let cluster = three.configs[place].cluster.as_mut().expect("it is of one");
            change(place, cluster);
            three.start_node(place).await;
        }
        three.ready().await;
        three
    }

    async fn start_node(&mut self, place: usize) {
        let node = Node::start(self.configs[place].clone()).await.expect("it starts");
        self.nodes[place] = Some(node);
    }

    fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flatten()
    }

    /// Waits until traffic may come to every node that runs.
    async fn ready(&self) {
        until(async || self.running().find_map(Node::not_ready)).await;
    }

    pub(super) async fn operate(&self, place: usize, method: &str, path: &str, body: &str) -> (u16, String) {
        let node = self.nodes[place].as_ref().expect("it runs");
        ask(node.admin_addr(), method, path, body).await
    }

    async fn check(&self, place: usize, user: &str) -> u16 {
        let node = self.nodes[place].as_ref().expect("it runs");
        let body = format!(r#"{{"domain":"d","attributes":{{"user":"{user}"}}}}"#);
        ask(node.client_addr(), "POST", "/v1/check", &body).await.0
    }

    /// Waits until the cluster is as `wanted` says, which tells what is still missing.
    async fn report(&self, place: usize, wanted: impl Fn(&str) -> bool) {
        until(async || {
            let (_, body) = self.operate(place, "GET", "/v1/cluster", "").await;
            (!wanted(&body)).then_some(body)
        })
        .await;
    }

    pub(super) async fn stop(mut self) {
        for node in self.nodes.iter_mut().filter_map(Option::take) {
            assert!(node.drain().await);
        }
    }
}

/// Waits until nothing is missing.
pub(super) async fn until(missing: impl AsyncFn() -> Option<String>) {
    let started = crate::clock::boot();
    while let Some(missing) = missing().await {
        let waited = crate::clock::boot().since(started);
        assert!(u128::from(waited.0) < SOON.as_nanos(), "after {waited} still: {missing}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Never leased: what is admitted is counted to the unit here, through all nodes in turn, and right after a reset.
fn ten_by_user(limit: u64) -> String {
    format!(
        "domain: d\nlimits:\n  - {{ name: a, per: [user], limit: {limit}/day, on_unavailable: deny, lease: never }}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_admits_all_count() {
    let three = Three::start(&ten_by_user(10)).await;
    for user in ["u", "v", "w", "x"] {
        let mut statuses = Vec::new();
        for round in 0..12 {
            statuses.push(three.check(round % 3, user).await);
        }
        assert_eq!(statuses, [[200; 10].as_slice(), &[429; 2]].concat(), "{user}");
    }
    let node = three.nodes[0].as_ref().expect("it runs");
    let peek = r#"{"domain":"d","attributes":{"user":"u"}}"#;
    assert_eq!(ask(node.client_addr(), "POST", "/v1/peek", peek).await.0, 429);
    assert!(ask(node.client_addr(), "POST", "/v1/reset", peek).await.1.contains(r#""reset":1"#));
    assert_eq!(three.check(1, "u").await, 200);
    let (_, page) = three.operate(2, "GET", "/metrics", "").await;
    for line in [
        "leasehold_cluster_member 1",
        "leasehold_cluster_replicas 4",
        "leasehold_cluster_shards_leaderless 0",
        "leasehold_cluster_log_full 0",
        r#"leasehold_cluster_gossip_dropped_total{reason="forged"} 0"#,
        "leasehold_cluster_unknown_total 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not on\n{page}");
    }
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_put_at_one_node_reach_all_in_order_and_whoever_is_late_is_told() {
    let three = Three::start(&ten_by_user(1)).await;
    for (place, n) in (0..3).zip(2_u64..) {
        let (status, answer) = three.operate(place, "PUT", "/v1/rules/d", &ten_by_user(n)).await;
        assert!(status == 200 && answer.contains(&format!("etag: \"{n}\"")), "{answer}");
        let (_, here) = three.operate(place, "GET", "/v1/rules/d", "").await;
        assert!(here.contains(&format!("limit: {n}/day")), "not in force where it was put: {here}");
    }
    until(async || {
        let versions: Vec<_> = three.running().map(|node| node.rules().version.0).collect();
        (versions != [4, 4, 4]).then(|| format!("{versions:?}"))
    })
    .await;
    let wrong = ten_by_user(5).replace("/day", "/fortnight");
    assert_eq!(three.operate(1, "PUT", "/v1/rules/d", &wrong).await.0, 400);
    let late = put_if(three.nodes[1].as_ref().expect("it runs").admin_addr(), "3").await;
    assert!(late.starts_with("HTTP/1.1 412"), "{late}");
    let in_time = put_if(three.nodes[1].as_ref().expect("it runs").admin_addr(), "4").await;
    assert!(in_time.starts_with("HTTP/1.1 200"), "{in_time}");
    let (_, audit) = three.operate(2, "GET", "/v1/audit", "").await;
    assert!(
        audit.contains("operator at 127.0.0.1") && audit.contains("rules of d set, version 4"),
        "{audit}"
    );
    three.stop().await;
}

/// Puts other rules if a version is in force.
async fn put_if(admin: SocketAddr, version: &str) -> String {
    let text = ten_by_user(9);
    let mut stream = TcpStream::connect(admin).await.expect("it accepts");
    let request = format!(
        "PUT /v1/rules/d HTTP/1.1\r\nhost: node\r\nconnection: close\r\nif-match: \"{version}\"\r\n\
         content-length: {}\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_for_others_says_for_whom_and_decides_nothing() {
    let mut three = Three::configured(&ten_by_user(10)).await;
    three.start_node(0).await;
    let node = three.nodes[0].as_ref().expect("it runs");
    until(async || match ask(node.client_addr(), "GET", "/readyz", "").await {
        (503, answer) if answer.contains("waiting") => None,
        (_, answer) => Some(answer),
    })
    .await;
    assert_eq!(three.check(0, "u").await, 503);
    assert_eq!(three.operate(0, "GET", "/v1/cluster", "").await.0, 503);
    assert_eq!(three.operate(0, "PUT", "/v1/rules/d", &ten_by_user(3)).await.0, 503);
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_names_rules_gives_them_to_a_cluster_that_was_made_without_any() {
    let mut three = Three::configured(&ten_by_user(1)).await;
    let named = three.configs[2].rules.clone();
    for place in 0..3 {
        three.configs[place].rules = None;
        three.start_node(place).await;
    }
    three.ready().await;
    assert!(three.nodes[2].take().expect("it runs").drain().await);
    three.configs[2].rules = named;
    three.start_node(2).await;
    three.ready().await;
    until(async || {
        let versions: Vec<_> = three.running().map(|node| node.rules().version.0).collect();
        (versions != [1, 1, 1]).then(|| format!("{versions:?}"))
    })
    .await;
    assert_eq!([three.check(0, "u").await, three.check(1, "u").await], [200, 429]);
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_moves_and_drains() {
    let three = Three::start(&ten_by_user(10)).await;
    three.report(1, |body| !body.contains(r#""leader":null"#)).await;
    let (status, body) = three.operate(2, "GET", "/v1/cluster?hashes=true", "").await;
    assert!(status == 200 && body.matches(r#""standing":"active""#).count() == 3, "{body}");
    assert!(body.contains(r#""hash":{"#), "{body}");
    assert_eq!(three.operate(0, "POST", "/v1/shards/1/leader", "").await.0, 400);
    let (status, answer) = post(&three, "/v1/shards/9/leader", r#"{"to":"b"}"#).await;
    assert!(status == 404 && answer.contains("0 to 3"), "{answer}");
    assert_eq!(post(&three, "/v1/shards/1/leader", r#"{"to":"nobody"}"#).await.0, 404);
    let (status, answer) = post(&three, "/v1/shards/1/leader", r#"{"to":"b"}"#).await;
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = three.operate(0, "DELETE", "/v1/members/c", "").await;
    assert!(status == 409 && answer.contains("still holds"), "{answer}");
    assert_eq!(post(&three, "/v1/members/c", r#"{"standing":"draining"}"#).await.0, 200);
    three.report(1, |body| body.contains(r#""standing":"draining""#)).await;
    assert_eq!(post(&three, "/v1/members/c", r#"{"standing":"active"}"#).await.0, 200);
    three.report(1, |body| !body.contains(r#""standing":"draining""#)).await;
    three.stop().await;
}

async fn post(three: &Three, path: &str, body: &str) -> (u16, String) {
    let node = three.nodes[0].as_ref().expect("it runs");
    ask(node.admin_addr(), "POST", path, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_drained_is_not_missed_and_comes_back_with_what_was_spent() {
    let mut three = Three::start(&ten_by_user(10)).await;
    for _ in 0..4 {
        assert_eq!(three.check(0, "u").await, 200);
    }
    for place in 0..3 {
        let node = three.nodes[place].take().expect("it runs");
        assert!(node.drain().await);
        let others: Vec<_> = (0..3).filter(|other| *other != place).collect();
        let user = format!("v{place}");
        assert_eq!([three.check(others[0], &user).await, three.check(others[1], &user).await], [200, 200]);
        three.start_node(place).await;
        three.ready().await;
    }
    let mut statuses = Vec::new();
    for round in 0..7 {
        statuses.push(three.check(round % 3, "u").await);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 429]);
    three.stop().await;
}
