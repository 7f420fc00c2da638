//! Handing everything back.

use std::time::Duration;

use leasehold_limit::check::Source;
use tokio::time::Instant;

use crate::owner::Faults;
use crate::support::{World, allowed, check, sources};

const RULES: &str = "  - { name: some, per: [user], limit: 1000/8760h }";

#[tokio::test(start_paused = true)]
async fn everything_that_is_held_goes_back_and_the_owner_decides_from_then_on() {
    let delay = Duration::from_millis(20);
    let world = World::new(RULES, Faults { delay, ..Faults::default() });
    let client = world.client(1);
    for user in ["a", "b", "c"] {
        for _ in 0..50 {
            assert!(allowed(&client, user).await);
        }
    }
    assert!(world.owner.leases() > 0);
    assert!(client.return_all(Instant::now() + Duration::from_secs(1)).await);
    assert_eq!(world.owner.leases(), 0);
    for user in ["a", "b", "c"] {
        assert_eq!(world.left("some", &[("user", user)]), 950);
    }
    assert_eq!(sources(&check(&client, "a").await), [Source::Owner]);
    assert_eq!(world.owner.leases(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_owner_has_not_confirmed_by_the_deadline_ends_with_its_leases() {
    let world = World::new(RULES, Faults::default());
    let client = world.client(1);
    for _ in 0..50 {
        assert!(allowed(&client, "a").await);
    }
    world.owner.set(|faults| faults.silent = true);
    let started = Instant::now();
    assert!(!client.return_all(started + Duration::from_secs(1)).await);
    assert!(started.elapsed() < Duration::from_millis(1_100));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.owner.leases(), 0);
    assert!(world.left("some", &[("user", "a")]) <= 950);
}
