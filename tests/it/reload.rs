//! Rules change under traffic: no request fails, used stays used, and a bad file changes nothing.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_tests::{Deadline, Http, TestNode};
use serde_json::{Value, json};

use crate::clients::check;

/// The node looks at once and must have looked by then, even on a busy machine.
const RELOADED_WITHIN: Duration = Duration::from_secs(15);

fn rules(n: u64) -> String {
    format!(
        "domain: api\nlimits:\n  - {{ name: per-user, per: [user], limit: {n}/8760h, algorithm: fixed_window }}\n"
    )
}

/// As editors and deployments do it: a new file beside the old one, renamed over it.
fn rename_over(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).expect("the temporary folder can be written to");
    fs::rename(&fresh, path).expect("the temporary folder can be written to");
}

async fn matched(http: &Http, user: &str, cost: u64) -> Value {
    let mut request = check("api", &[("user", user)]);
    request["cost"] = json!(cost);
    http.post("/v1/check", &request).await.json()["matched"][0].clone()
}

/// Waits until the limit in force is `n` a day.
async fn wait_for(http: &Http, n: u64) -> bool {
    let deadline = Deadline::after(RELOADED_WITHIN);
    while matched(http, "watcher", 0).await["n"] != json!(n) {
        if deadline.passed() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

/// Checks without a pause until told to stop; how many were answered. An answer that isn't one fails the test.
async fn traffic(http: Http, stop: Arc<AtomicBool>, answered: Arc<AtomicU64>) {
    while !stop.load(Ordering::Relaxed) {
        let reply = http.post("/v1/check", &check("api", &[("user", "busy")])).await;
        assert!([200, 429].contains(&reply.status.as_u16()), "{}: {}", reply.status, reply.text());
        assert_eq!(reply.json()["matched"][0]["rule"], json!("per-user"), "{}", reply.text());
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_renamed_over_under_traffic_take_force_and_fail_no_request() {
    let node = TestNode::start(&rules(100));
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let busy: Vec<_> = (0..4)
        .map(|_| tokio::spawn(traffic(node.http(), Arc::clone(&stop), Arc::clone(&answered))))
        .collect();
    let http = node.http();
    assert_eq!(matched(&http, "used", 40).await["remaining"], json!(60));
    for n in [200, 50, 300] {
        rename_over(&node.rules_path(), &rules(n));
        assert!(wait_for(&http, n).await, "{n} never came into force:\n{}", node.process.printed());
        assert_eq!(matched(&http, "used", 0).await["remaining"], json!(n - 40), "used stays used at {n}");
    }
    stop.store(true, Ordering::Relaxed);
    for task in busy {
        task.await.expect("no request failed");
    }
    assert!(answered.load(Ordering::Relaxed) > 10, "there was no traffic to disturb");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_rule_file_leaves_the_old_rules_in_force_and_is_counted() {
    let node = TestNode::start(&rules(100));
    let (http, admin) = (node.http(), node.admin_http());
    rename_over(&node.rules_path(), "domain: api\nlimits:\n  - { name: per-user, limit: 5/fortnight }\n");
    let refused = |page: &str| {
        page.lines().any(|line| line.contains("reload") && line.contains("refused") && !line.ends_with(" 0"))
    };
    let deadline = Deadline::after(RELOADED_WITHIN);
    while !refused(&admin.get("/metrics").await.text()) {
        assert!(!deadline.passed(), "the refusal is not counted:\n{}", admin.get("/metrics").await.text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(matched(&http, "anybody", 0).await["n"], json!(100));
    assert!(
        node.process.printed().contains("fortnight"),
        "the log must say why:\n{}",
        node.process.printed()
    );

    rename_over(&node.rules_path(), &rules(70));
    assert!(wait_for(&http, 70).await, "a mended file must come into force:\n{}", node.process.printed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sighup_reads_the_rules_again() {
    let mut node = TestNode::start(&rules(100));
    let http = node.http();
    fs::write(node.rules_path(), rules(120)).expect("the temporary folder can be written to");
    node.process.signal(rustix::process::Signal::HUP);
    assert!(wait_for(&http, 120).await, "120 never came into force:\n{}", node.process.printed());
    assert!(node.process.is_running(), "SIGHUP ended the node");
}
