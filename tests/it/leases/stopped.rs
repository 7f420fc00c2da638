//! A sidecar that is stopped for longer than its leases last: what it held is none of its own any more.

use std::time::Duration;

use leasehold_tests::{Deadline, Http, TestEdge, TestNode};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;

use super::fleet::metric;
use super::traffic::{Fate, Source, ask};

/// It doesn't refill while the test runs: who is admitted has had one of four hundred.
const RULES: &str = "
domain: shop
limits:
  - { name: quota, per: [quota], limit: 400/8760h, algorithm: fixed_window, on_unavailable: deny }
";

const QUOTA: u64 = 400;

/// What the stopped one asks leases for.
const LIFETIME: Duration = Duration::from_secs(2);

/// Its owner counts them as over a little later.
const MARGIN: Duration = Duration::from_millis(500);

/// Checks that wait in the stopped one's socket while it is stopped, and those that come after.
const WAITING: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_was_stopped_past_its_leases_spends_nothing_of_them() {
    let node = TestNode::start(RULES);
    let lifetime = format!("wallet: {{ lifetime_ms: {}, idle_ms: 2000 }}", LIFETIME.as_millis());
    let mut edges = [&lifetime, ""].map(|config| TestEdge::launch(&[node.clients], config));
    for edge in &mut edges {
        edge.wait_until_ready();
    }
    let [stopped, other] = edges;
    let http = stopped.http();
    let (mut admitted, mut leased) = (0, 0);
    for _ in 0..100 {
        let fate = ask(&http, "quota", 0).await;
        leased += u64::from(fate == Fate::Admitted(Source::Lease));
        admitted += u64::from(matches!(fate, Fate::Admitted(_)));
    }
    let page = stopped.admin_http().get("/metrics").await.text();
    stopped.process.pause();
    let of = |name| metric(&page, name);
    let held =
        of("leasehold_wallet_granted_units_total") - of("leasehold_wallet_returned_units_total") - leased;
    assert!(held > 0, "it holds nothing that it could spend:\n{page}");

    let mut waiting = JoinSet::new();
    for _ in 0..WAITING {
        let http = stopped.http();
        waiting.spawn(async move { ask(&http, "quota", 0).await });
    }
    tokio::time::sleep(LIFETIME + MARGIN).await;
    admitted += drain(&node, &other).await;
    stopped.process.signal(Signal::CONT);
    // They are read at once, before or after it has looked at its clock.
    let mut fates = waiting.join_all().await;
    for _ in 0..WAITING {
        fates.push(ask(&http, "quota", 0).await);
    }
    println!(
        "stopped for {LIFETIME:?} + {MARGIN:?} with {held} units held: {fates:?}; {admitted} of {QUOTA} admitted"
    );
    assert!(
        !fates.iter().any(|fate| matches!(fate, Fate::Admitted(_))),
        "{fates:?}, with {held} held before"
    );
    assert!(fates.contains(&Fate::Denied), "nobody decided: {fates:?}");
    assert!(admitted <= QUOTA, "{admitted}");
}

/// Takes through this sidecar all that the node has, and returns how much that was.
async fn drain(node: &TestNode, edge: &TestEdge) -> u64 {
    let (http, within) = (edge.http(), Deadline::after(Duration::from_secs(20)));
    let mut admitted = 0;
    loop {
        let fate = ask(&http, "quota", 0).await;
        admitted += u64::from(matches!(fate, Fate::Admitted(_)));
        if fate == Fate::Denied && left(&node.http()).await == 0 {
            return admitted;
        }
        assert!(!within.passed(), "{admitted} admitted, and the node has some left");
    }
}

async fn left(http: &Http) -> u64 {
    let body = json!({ "domain": "shop", "attributes": { "quota": "v0" } });
    let reply = http.post("/v1/peek", &body).await.json();
    reply["matched"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("no `remaining` in {reply}"))
}
