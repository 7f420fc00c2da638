//! Keys that are asked for often.

use std::time::Duration;

use crate::owner::Faults;
use crate::support::{World, allowed};

#[tokio::test(start_paused = true)]
async fn of_a_hot_key_less_than_one_decision_in_a_hundred_asks_the_owner() {
    let delay = Duration::from_millis(5);
    let world =
        World::new("  - { name: hot, per: [user], limit: 100000/s }", Faults { delay, ..Faults::default() });
    let client = world.client(1);
    let checks = 30_000_u64;
    for _ in 0..checks / 10 {
        for _ in 0..10 {
            assert!(allowed(&client, "a").await);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let counts = client.counts();
    assert!(counts.by_lease * 100 > checks * 99, "{counts:?}");
    assert!(counts.hops * 100 < checks, "{counts:?}");
    assert!(counts.waited * 100 < checks, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_asked_for_no_more_is_handed_back_and_forgotten() {
    let world = World::new("  - { name: some, per: [user], limit: 1000/8760h }", Faults::default());
    let client = world.client(1);
    for _ in 0..100 {
        assert!(allowed(&client, "a").await);
    }
    assert_eq!(client.counts().keys, 1);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((client.counts().keys, world.owner.leases()), (0, 0));
    assert_eq!(world.left("some", &[("user", "a")]), 900);
}
