//! Rules that change.

use std::time::Duration;

use crate::owner::Faults;
use crate::support::{World, allowed};

#[tokio::test(start_paused = true)]
async fn a_refusal_is_forgotten_when_rules_change() {
    let world = World::new("  - { name: few, per: [user], limit: 1/h }", Faults::default());
    let client = world.client(1);
    assert!(allowed(&client, "a").await);
    assert!(!allowed(&client, "a").await);
    world.change_rules(2, "  - { name: few, per: [user], limit: 10/h }");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(allowed(&client, "a").await);
}

#[tokio::test(start_paused = true)]
async fn used_units_stay_used_when_rules_change() {
    let world = World::new("  - { name: some, per: [user], limit: 100/8760h }", Faults::default());
    let client = world.client(1);
    for _ in 0..60 {
        assert!(allowed(&client, "a").await);
    }
    world.change_rules(2, "  - { name: some, per: [user], limit: 80/8760h }");
    tokio::time::sleep(Duration::from_millis(10)).await;
    let mut admitted = 0;
    for _ in 0..60 {
        admitted += u32::from(allowed(&client, "a").await);
    }
    // What was lent under the old numbers may still be spent.
    assert!((20..=40).contains(&admitted), "{admitted}");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_leased_no_more_goes_back_by_itself() {
    let world = World::new("  - { name: some, per: [user], limit: 100/8760h }", Faults::default());
    let client = world.client(1);
    for _ in 0..50 {
        assert!(allowed(&client, "a").await);
    }
    world.change_rules(2, "  - { name: some, per: [user], limit: 100/8760h, lease: never }");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.owner.leases(), 0);
    assert_eq!(world.left("some", &[("user", "a")]), 50);
}
