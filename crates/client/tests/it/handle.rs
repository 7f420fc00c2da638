//! Counters that were resolved once.

use std::time::Duration;

use leasehold_client::AtOnce;

use crate::owner::Faults;
use crate::support::{World, allowed};

#[tokio::test(start_paused = true)]
async fn a_handle_spends_the_same_units_as_checks_do() {
    let world = World::new("  - { name: some, per: [user], limit: 1000/8760h }", Faults::default());
    let client = world.client(1);
    let handle = client.handle("api", &[("user", "a")]).expect("a handle");
    assert_eq!(handle.spend(1), AtOnce::Unknown);
    let mut admitted = 0_u64;
    for _ in 0..1_200 {
        admitted += u64::from(handle.is_allowed(1).await.expect("an answer"));
        admitted += u64::from(allowed(&client, "a").await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(admitted, 1000);
    assert!(matches!(handle.spend(1), AtOnce::Denied { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_handle_notices_that_other_rules_hold() {
    let world = World::new("  - { name: some, per: [user], limit: 1000/s }", Faults::default());
    let client = world.client(1);
    let handle = client.handle("api", &[("user", "a")]).expect("a handle");
    for _ in 0..50 {
        assert!(handle.is_allowed(1).await.expect("an answer"));
    }
    assert!(matches!(handle.spend(1), AtOnce::Allowed { .. }));
    world.change_rules(2, "  - { name: some, per: [user], limit: 1000/s, lease: never }");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(handle.spend(1), AtOnce::Unknown);
    assert!(handle.is_allowed(1).await.expect("an answer"));
}

#[tokio::test(start_paused = true)]
async fn a_handle_finds_its_key_again_after_a_pause() {
    let world = World::new("  - { name: some, per: [user], limit: 1000/s }", Faults::default());
    let client = world.client(1);
    let handle = client.handle("api", &[("user", "a")]).expect("a handle");
    for _ in 0..3 {
        for _ in 0..50 {
            assert!(handle.is_allowed(1).await.expect("an answer"));
        }
        assert!(matches!(handle.spend(1), AtOnce::Allowed { .. }));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(client.counts().keys, 0);
    }
}
