//! What is admitted, to the unit.

use std::sync::Arc;
use std::time::Duration;

use leasehold_decide::{CheckError, Decider};
use leasehold_limit::check::{Attribute, Descriptor, Request, Source, Verdict};
use leasehold_shard::Command;
use tokio::time::Instant;

use crate::owner::Faults;
use crate::support::{TestClient, World, allowed, check, sources};

/// Checks from many tasks of many threads; how many were admitted.
async fn hammer(clients: Vec<TestClient>, tasks: usize, checks: usize) -> usize {
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let client = clients[task % clients.len()].clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..checks {
                    admitted += usize::from(allowed(&client, "a").await);
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.expect("a task ends");
    }
    admitted
}

fn units(admitted: usize) -> u64 {
    u64::try_from(admitted).expect("few")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_limit_admits_exactly_as_many_as_it_says() {
    let world = World::new("  - { name: few, per: [user], limit: 5/8760h }", Faults::default());
    let clients = (0..3).map(|edge| world.client(edge)).collect();
    assert_eq!(hammer(clients, 12, 20).await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_limit_that_is_leased_each_unit_is_admitted_or_still_there() {
    for limit in ["2000/8760h", "2000/8760h, algorithm: fixed_window", "2000/8760h, algorithm: sliding_log"] {
        let rule = format!("  - {{ name: many, per: [user], limit: {limit} }}");
        let world = World::new(&rule, Faults::default());
        let client = world.client(1);
        let admitted = hammer(vec![client.clone()], 8, 500).await;
        assert!(admitted > 1500, "{limit}: {admitted}");
        assert!(client.counts().by_lease > 1000, "{limit}: {:?}", client.counts());
        assert!(client.return_all(Instant::now() + Duration::from_secs(5)).await);
        assert_eq!(world.left("many", &[("user", "a")]), 2000 - units(admitted), "{limit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edges_admit_no_unit_too_many_and_strand_none_when_nothing_is_lost() {
    let world = World::new("  - { name: many, per: [user], limit: 3000/8760h }", Faults::default());
    let clients: Vec<_> = (0..4).map(|edge| world.client(edge)).collect();
    let admitted = hammer(clients.clone(), 8, 1000).await;
    assert!(admitted <= 3000, "{admitted}");
    for client in &clients {
        assert!(client.return_all(Instant::now() + Duration::from_secs(5)).await);
    }
    assert_eq!(world.left("many", &[("user", "a")]), 3000 - units(admitted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_messages_strand_units_and_make_none() {
    let faults = Faults { loses_every: 5, ..Faults::default() };
    let world = World::new("  - { name: many, per: [user], limit: 500/8760h, on_unavailable: deny }", faults);
    let clients = (0..3).map(|edge| world.client(edge)).collect();
    let admitted = hammer(clients, 6, 150).await;
    assert!((1..=500).contains(&admitted), "{admitted}");
    assert!(world.left("many", &[("user", "a")]) <= 500 - units(admitted));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_remembered_until_its_time_and_asked_for_once() {
    let delay = Duration::from_millis(5);
    let world =
        World::new("  - { name: one, per: [user], limit: 1/10s }", Faults { delay, ..Faults::default() });
    let client = world.client(1);
    assert!(allowed(&client, "a").await);
    assert_eq!(sources(&check(&client, "a").await), [Source::Owner]);
    let hops = client.counts().hops;
    for _ in 0..100 {
        let answer = check(&client, "a").await;
        assert_eq!((answer.verdict, sources(&answer)), (Verdict::OverLimit, vec![Source::DenyCache]));
    }
    assert_eq!(client.counts().hops, hops);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(allowed(&client, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_a_limit_can_never_hold_is_refused_for_good() {
    let world = World::new("  - { name: few, per: [user], limit: 5/s }", Faults::default());
    let client = world.client(1);
    let answer = client.check("api", &[("user", "a")], 6).await.expect("an answer");
    assert_eq!(answer.retry_after(), Some(leasehold_limit::RetryAfter::Never));
    assert!(allowed(&client, "a").await);
}

/// One unit for `user`, under an id.
async fn under_id(client: &TestClient, id: &str) -> Verdict {
    let attributes = vec![Attribute { name: "user", value: b"a" }];
    let descriptors = vec![Descriptor { attributes, cost: 1, limit_override: None }];
    let request_id = Some(client.request_id("api", id));
    let request = Request { domain: "api", descriptors, request_id };
    Decider::check(client, &request, None).await.expect("an answer").verdict
}

#[tokio::test(start_paused = true)]
async fn a_retry_under_an_id_is_charged_once() {
    let world = World::new("  - { name: few, per: [user], limit: 5/8760h }", Faults::default());
    let client = world.client(1);
    for _ in 0..3 {
        assert_eq!(under_id(&client, "one").await, Verdict::Allowed);
    }
    assert_eq!(world.left("few", &[("user", "a")]), 4);
}

#[tokio::test(start_paused = true)]
async fn limits_that_are_never_leased_are_decided_by_their_owner() {
    let rules = "  - { name: never, per: [user], limit: 100/s, lease: never }";
    let world = World::new(rules, Faults::default());
    let client = world.client(1);
    for _ in 0..10 {
        assert_eq!(sources(&check(&client, "a").await), [Source::Owner]);
    }
    let exact =
        world.owner.commands().iter().filter(|command| matches!(command, Command::Acquire(_))).count();
    assert_eq!((exact, client.counts().wallet.asks), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn a_shaper_is_asked_for_each_turn() {
    let rules = "  - { name: turns, per: [user], limit: 10/s, algorithm: shaper, queue: 5 }";
    let world = World::new(rules, Faults::default());
    let client = world.client(1);
    assert!(allowed(&client, "a").await);
    let answer = check(&client, "a").await;
    let decision = answer.matched().next().and_then(|matched| matched.decision()).expect("a decision");
    assert!(decision.wait.is_some(), "{decision:?}");
    assert_eq!(client.counts().wallet.asks, 0);
}

#[tokio::test(start_paused = true)]
async fn overload_is_an_error_and_lets_nobody_pass() {
    let faults = Faults { overloaded: true, ..Faults::default() };
    let world = World::new("  - { name: few, per: [user], limit: 5/s, on_unavailable: allow }", faults);
    let client = world.client(1);
    let answer = client.check("api", &[("user", "a")], 1).await;
    assert!(matches!(answer, Err(CheckError::Overloaded { .. })), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_while_waiting_leaves_nobody_waiting() {
    let delay = Duration::from_millis(50);
    let world =
        World::new("  - { name: few, per: [user], limit: 5/8760h }", Faults { delay, ..Faults::default() });
    let client = Arc::new(world.client(1));
    let waiting = tokio::spawn({
        let client = Arc::clone(&client);
        async move { allowed(&client, "a").await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    waiting.abort();
    assert!(waiting.await.is_err());
    // The ask was sent: its unit is lost, and no other.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(hammer(vec![client.as_ref().clone()], 1, 10).await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_look_takes_nothing_and_sees_what_is_held() {
    let delay = Duration::from_millis(5);
    let world =
        World::new("  - { name: some, per: [user], limit: 1000/s }", Faults { delay, ..Faults::default() });
    let client = world.client(1);
    for _ in 0..50 {
        assert!(allowed(&client, "a").await);
    }
    let before = client.counts();
    let answer = client.check("api", &[("user", "a")], 0).await.expect("an answer");
    assert_eq!((answer.verdict, sources(&answer)), (Verdict::Allowed, vec![Source::Lease]));
    assert_eq!(client.counts().hops, before.hops);
}
