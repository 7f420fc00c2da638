//! Owners that can't be reached: what each rule declares for that.

use std::time::Duration;

use leasehold_limit::check::{Source, Verdict};
use tokio::time::Instant;

use crate::owner::Faults;
use crate::support::{TestClient, World, allowed, check, sources};

async fn cut_off(rule: &str) -> (World, TestClient) {
    let world = World::new(&format!("  - {{ name: some, per: [user], {rule} }}"), Faults::default());
    let client = world.client(1);
    allowed(&client, "warm").await;
    // What was held of it goes back.
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.owner.set(|faults| faults.away = true);
    (world, client)
}

async fn declared(rule: &str, verdict: Verdict) {
    let (world, client) = cut_off(&format!("limit: 100/s, on_unavailable: {rule}")).await;
    let started = Instant::now();
    let answer = check(&client, "a").await;
    assert_eq!((answer.verdict, answer.degraded), (verdict, true), "{rule}");
    assert_eq!(started.elapsed(), Duration::ZERO, "it is known that nobody answers");
    world.owner.set(|faults| faults.away = false);
    let answer = check(&client, "a").await;
    assert_eq!((answer.verdict, answer.degraded), (Verdict::Allowed, false), "{rule}");
}

#[tokio::test(start_paused = true)]
async fn allow_lets_pass_without_waiting_and_ends_by_itself() {
    declared("allow", Verdict::Allowed).await;
}

#[tokio::test(start_paused = true)]
async fn deny_refuses_without_waiting_and_ends_by_itself() {
    declared("deny", Verdict::Unavailable).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_owner_is_waited_for_until_the_deadline() {
    let (world, client) = cut_off("limit: 100/s, on_unavailable: deny").await;
    world.owner.set(|faults| *faults = Faults { silent: true, ..Faults::default() });
    let started = Instant::now();
    assert_eq!(check(&client, "a").await.verdict, Verdict::Unavailable);
    let waited = started.elapsed();
    assert!((Duration::from_millis(990)..Duration::from_millis(1_100)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn leases_are_spent_to_their_end_while_cut_off() {
    let world = World::new(
        "  - { name: some, per: [user], limit: 10000/s, on_unavailable: deny }",
        Faults::default(),
    );
    let client = world.client(1);
    for _ in 0..200 {
        assert!(allowed(&client, "a").await);
    }
    world.owner.set(|faults| faults.away = true);
    let answer = check(&client, "a").await;
    assert_eq!((sources(&answer), answer.degraded), (vec![Source::Lease], false));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(check(&client, "a").await.verdict, Verdict::Unavailable);
}

/// Units of one key admitted over a time, at ten attempts each 20 ms.
async fn spend_for(client: &TestClient, user: &str, time: Duration) -> u64 {
    let (started, mut admitted) = (Instant::now(), 0);
    while started.elapsed() < time {
        for _ in 0..10 {
            admitted += u64::from(allowed(client, user).await);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    admitted
}

#[tokio::test(start_paused = true)]
async fn local_spends_the_share_that_is_kept_back_and_no_more() {
    // A tenth of it over 32 edges: 100/s, and a burst of 100.
    let (_world, client) = cut_off("limit: 32000/s, on_unavailable: local").await;
    let answer = check(&client, "a").await;
    assert!(answer.degraded && sources(&answer) == [Source::Fallback], "{answer:?}");
    let admitted = spend_for(&client, "b", Duration::from_secs(10)).await;
    assert!((900..=1_100).contains(&admitted), "{admitted}");
    assert!(client.counts().by_fallback > 0);
}

#[tokio::test(start_paused = true)]
async fn edges_that_are_cut_off_exceed_a_limit_by_no_more_than_it_says() {
    let rules = "  - { name: some, per: [user], limit: 3200/s, max_overshoot: 0.5, on_unavailable: deny }";
    let world = World::new(rules, Faults::default());
    let clients: Vec<_> = (0..4).map(|edge| world.client(edge)).collect();
    for client in &clients {
        allowed(client, "warm").await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.owner.set(|faults| faults.away = true);
    for client in &clients {
        // Half of it over 32 edges: 50/s, and a burst of 50.
        let admitted = spend_for(client, "a", Duration::from_secs(4)).await;
        assert!((180..=250).contains(&admitted), "{admitted}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_an_overshoot_declared_a_cold_key_does_not_wait() {
    let delay = Duration::from_millis(50);
    let rules = "  - { name: some, per: [user], limit: 3600/h, burst: 3200, max_overshoot: 0.5 }";
    let world = World::new(rules, Faults { delay, ..Faults::default() });
    let client = world.client(1);
    assert!(allowed(&client, "warm").await);
    // A share begins empty; this one gets a unit in 64 s.
    tokio::time::sleep(Duration::from_secs(70)).await;
    let started = Instant::now();
    let answer = check(&client, "cold").await;
    assert_eq!((answer.verdict, sources(&answer)), (Verdict::Allowed, vec![Source::Fallback]));
    assert_eq!(started.elapsed(), Duration::ZERO);
    // And it is charged all the same.
    assert_eq!(world.left("some", &[("user", "cold")]), 3200);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(world.left("some", &[("user", "cold")]), 3199);
}

#[tokio::test(start_paused = true)]
async fn what_is_set_aside_for_several_limits_is_taken_of_all_or_of_none() {
    // 10/s and 1/s of them are this edge's.
    let rules = "  - { name: wide, limit: 3200/s, on_unavailable: local }
  - { name: narrow, per: [user], limit: 320/s, on_unavailable: local }";
    let world = World::new(rules, Faults::default());
    let client = world.client(1);
    allowed(&client, "warm").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.owner.set(|faults| faults.away = true);
    assert!(allowed(&client, "a").await);
    for _ in 0..50 {
        assert!(!allowed(&client, "a").await);
    }
    // The other users' share of `wide` is still there.
    for user in ["b", "c", "d", "e"] {
        assert!(allowed(&client, user).await, "{user}");
    }
}
