//! Requests under several limits.

use std::time::Duration;

use leasehold_limit::check::{Source, Verdict};
use tokio::time::Instant;

use crate::owner::Faults;
use crate::support::{World, allowed, check, sources};

const RULES: &str = "  - { name: each, per: [user], limit: 400/8760h }
  - { name: all, limit: 1000/8760h }
  - { name: exact, per: [user], limit: 700/8760h, lease: never }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_several_limits_is_charged_for_exactly_what_was_admitted() {
    let world = World::new(RULES, Faults::default());
    let client = world.client(1);
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                let user = ["a", "b", "c", "d"][task % 4];
                let mut admitted = 0_u64;
                for _ in 0..300 {
                    admitted += u64::from(allowed(&client, user).await);
                }
                (user, admitted)
            })
        })
        .collect();
    let mut admitted = std::collections::BTreeMap::<_, u64>::new();
    for task in tasks {
        let (user, units) = task.await.expect("a task ends");
        *admitted.entry(user).or_default() += units;
    }
    assert!(client.return_all(Instant::now() + Duration::from_secs(5)).await);
    let total: u64 = admitted.values().sum();
    assert_eq!(total, 1000, "{admitted:?}");
    assert_eq!(world.left("all", &[("user", "a")]), 0);
    for (user, units) in admitted {
        assert_eq!(world.left("each", &[("user", user)]), 400 - units, "{user}");
        assert_eq!(world.left("exact", &[("user", user)]), 700 - units, "{user}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_that_are_leased_are_soon_decided_here_however_many_apply() {
    let rules = "  - { name: each, per: [user], limit: 10000/s }\n  - { name: all, limit: 10000/s }";
    let delay = Duration::from_millis(5);
    let world = World::new(rules, Faults { delay, ..Faults::default() });
    let client = world.client(1);
    for _ in 0..1_000 {
        assert!(allowed(&client, "a").await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let counts = client.counts();
    assert!(counts.by_lease > 1_900 && counts.hops < 100, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_from_one_limit_goes_back_when_another_refuses() {
    let rules = "  - { name: wide, limit: 100/8760h }
  - { name: narrow, per: [user], limit: 3/8760h, lease: never }";
    let world = World::new(rules, Faults::default());
    let client = world.client(1);
    for _ in 0..20 {
        allowed(&client, "a").await;
    }
    let answer = check(&client, "a").await;
    assert_eq!(answer.verdict, Verdict::OverLimit);
    assert_eq!(sources(&answer)[1], Source::Owner);
    assert!(client.return_all(Instant::now() + Duration::from_secs(5)).await);
    assert_eq!(world.left("wide", &[("user", "a")]), 97);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_when_the_owner_of_one_limit_is_silent() {
    let rules = "  - { name: wide, limit: 100/8760h, on_unavailable: deny }
  - { name: narrow, per: [user], limit: 50/8760h, lease: never, on_unavailable: deny }";
    let world = World::new(rules, Faults::default());
    let client = world.client(1);
    for _ in 0..10 {
        assert!(allowed(&client, "a").await);
    }
    world.owner.set(|faults| faults.silent = true);
    assert_eq!(check(&client, "a").await.verdict, Verdict::Unavailable);
    world.owner.set(|faults| faults.silent = false);
    assert!(client.return_all(Instant::now() + Duration::from_secs(5)).await);
    assert_eq!(world.left("wide", &[("user", "a")]), 90);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_known_of_one_limit_spares_the_question_of_all() {
    let rules = "  - { name: wide, limit: 10000/s }\n  - { name: narrow, per: [user], limit: 20/h }";
    let world = World::new(rules, Faults::default());
    let client = world.client(1);
    for _ in 0..200 {
        allowed(&client, "a").await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let hops = client.counts().hops;
    let answer = check(&client, "a").await;
    assert_eq!(
        (answer.verdict, sources(&answer)),
        (Verdict::OverLimit, vec![Source::Lease, Source::DenyCache])
    );
    assert_eq!(client.counts().hops, hops);
}

#[tokio::test(start_paused = true)]
async fn a_shadow_limit_is_charged_and_refuses_nobody() {
    let rules = "  - { name: wide, limit: 1000/8760h }
  - { name: trial, per: [user], limit: 30/8760h, shadow: true }";
    let world = World::new(rules, Faults::default());
    let client = world.client(1);
    for _ in 0..100 {
        assert!(allowed(&client, "a").await);
    }
    assert!(client.return_all(Instant::now() + Duration::from_secs(5)).await);
    assert_eq!(world.left("wide", &[("user", "a")]), 900);
    assert_eq!(world.left("trial", &[("user", "a")]), 0);
}
