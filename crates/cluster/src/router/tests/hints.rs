//! Nodes that are told wrongly, or not at all, who leads.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_control::{Command as ControlCommand, Reply as ControlReply, RulesChange};
use leasehold_model::RulesVersion;

use super::super::*;
use super::nodes::*;

fn rules() -> ControlCommand {
    let text = Some("domain: api\n".into());
    ControlCommand::Rules(RulesChange { domain: "api".into(), text, expected: None, by: "a test".into() })
}

/// Names another node each time: each that is there, the one that asks, and one that nobody knows.
fn wandering() -> impl Fn(GroupId) -> Option<NodeId> {
    let asked = AtomicU64::new(0);
    move |_| {
        Some(NodeId(
            [1, 99, 2, OUTSIDER, 3][usize::try_from(asked.fetch_add(1, Ordering::SeqCst) % 5).unwrap()],
        ))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_knows_nothing_of_its_cluster_finds_the_control_leader_over_its_connections() {
    let mut nodes = Nodes::of_three(1).await;
    let router = nodes.outsider(watch::channel(Arc::default()).1, |_| None).await;
    let reply = router.command(rules(), Instant::now() + SOON).await;
    assert_eq!(reply, Ok(ControlReply::Rules(RulesVersion(1))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_at_a_node_that_does_not_lead_costs_a_detour_to_the_one_that_does() {
    let mut nodes = Nodes::of_three(1).await;
    let leader = nodes.leader(0).await;
    let router = nodes.outsider(nodes.control(1), move |_| Some(NodeId(leader % 3 + 1))).await;
    let batch = one_of_each(None, &quota(1), &[key(0, 1)]);
    assert!(acquire(&router, batch.clone()).await.admitted);
    assert!(!acquire(&router, batch).await.admitted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_hints_say_each_ask_is_answered_and_charged_once() {
    let mut nodes = Nodes::of_three(2).await;
    let router = nodes.outsider(nodes.control(1), wandering()).await;
    let mut admitted = 0;
    for n in 0..60 {
        let batch = one_of_each(None, &quota(20), &[key(n % 2, 1)]);
        admitted += u64::from(acquire(&router, batch).await.admitted);
    }
    assert_eq!(admitted, 40);
    let reply = router.command(rules(), Instant::now() + SOON).await;
    assert_eq!(reply, Ok(ControlReply::Rules(RulesVersion(1))));
}
