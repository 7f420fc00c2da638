//! Children: edges that ask another edge in their owner's place.

use std::sync::Arc;
use std::time::Duration;

use leasehold_client::{AuthoritySettings, LeaseAuthority, NoGrant, UpstreamAsk};
use leasehold_decide::Terms;
use leasehold_lease::{EdgeId, LeaseAsk, Leased, MilliRate, Usage};
use leasehold_limit::rules::{Lease, OnUnavailable, Scope};
use leasehold_model::{Nanos, RequestId};
use leasehold_shard::Settled;
use tokio::time::{Instant, sleep};

use crate::owner::{Edge, Faults};
use crate::support::World;

const LIMIT: &str = "  - { name: some, per: [user], limit: 1000/8760h }";
const TERMS: Terms = Terms {
    lease: Lease::Auto,
    scope: Scope::Global,
    on_unavailable: OnUnavailable::Deny,
    local: None,
    overshoot: None,
    edges: 32,
};

fn broker(world: &World) -> LeaseAuthority<Edge> {
    let clock = Arc::new(world.owner.clock);
    LeaseAuthority::start(Edge::new(&world.owner, 1), clock, AuthoritySettings::default())
}

/// Numbered as an edge's own wallets number theirs.
fn session(world: &World) -> u128 {
    (1 << 64) | u128::from(world.counter("some", &[("user", "a")]).0.high % 64)
}

fn ask(world: &World, child: u128, seq: u64, units: (u64, u64), usage: Vec<Usage>) -> UpstreamAsk {
    let (key, spec) = world.counter("some", &[("user", "a")]);
    let (rate, lifetime) = (MilliRate(60_000), Nanos::from_secs(5));
    let ask = LeaseAsk { edge: EdgeId(child), key, need: units.0, want: units.1, rate, lifetime, usage };
    UpstreamAsk { id: RequestId { session: session(world), seq }, spec: Arc::new(spec), terms: TERMS, ask }
}

/// Asks and waits a second for the answer.
async fn lend(broker: &LeaseAuthority<Edge>, ask: UpstreamAsk) -> Result<Leased, NoGrant> {
    broker.lend(ask, Instant::now() + Duration::from_secs(1)).await
}

#[tokio::test(start_paused = true)]
async fn a_childs_ask_that_comes_again_while_it_waits_or_later_is_answered_alike_and_charged_once() {
    let delay = Duration::from_millis(40);
    let world = World::new(LIMIT, Faults { delay, ..Faults::default() });
    let broker = broker(&world);
    let once = || ask(&world, 2, 1, (1, 11), Vec::new());
    let (first, again) = tokio::join!(lend(&broker, once()), lend(&broker, once()));
    let first = first.expect("lent");
    assert_eq!((first.sync, first.granted), (1, 10));
    assert_eq!(again, Ok(first));
    assert_eq!(lend(&broker, once()).await.map(|leased| leased.lease), Ok(first.lease));
    assert_eq!(broker.sub_leases(), (1, 1));
    broker.child_settled(Settled { session: session(&world), below: 2 });
    assert_ne!(lend(&broker, once()).await.map(|leased| leased.lease), Ok(first.lease), "forgotten");
}

#[tokio::test(start_paused = true)]
async fn what_children_hand_back_is_lent_again_or_goes_back_to_the_owner() {
    let world = World::new(LIMIT, Faults::default());
    let broker = broker(&world);
    let leased = lend(&broker, ask(&world, 2, 1, (1, 51), Vec::new())).await.expect("lent");
    let usage = Usage { lease: leased.lease.expect("one"), spent_total: 20, returned_total: 30 };
    // What is lent from here on was here.
    world.owner.set(|faults| faults.silent = true);
    assert!(lend(&broker, ask(&world, 2, 2, (0, 0), vec![usage])).await.is_ok());
    let other = lend(&broker, ask(&world, 3, 3, (1, 21), Vec::new())).await.expect("lent");
    assert_eq!((other.sync, other.granted), (1, 20));
    let usage = Usage { lease: other.lease.expect("one"), spent_total: 0, returned_total: 20 };
    assert!(lend(&broker, ask(&world, 3, 4, (0, 0), vec![usage])).await.is_ok());
    assert_eq!(broker.sub_leases(), (0, 0));
    world.owner.set(|faults| faults.silent = false);
    assert!(broker.return_all(Instant::now() + Duration::from_secs(3)).await);
    assert_eq!(world.left("some", &[("user", "a")]), 1_000 - 1 - 20 - 1);
    assert_eq!(lend(&broker, ask(&world, 2, 5, (1, 1), Vec::new())).await, Err(NoGrant::Overloaded));
}

#[tokio::test(start_paused = true)]
async fn a_child_hears_in_time_that_nobody_could_be_asked() {
    let world = World::new(LIMIT, Faults { silent: true, ..Faults::default() });
    let broker = broker(&world);
    let asked = Instant::now();
    assert_eq!(lend(&broker, ask(&world, 2, 1, (1, 1), Vec::new())).await, Err(NoGrant::Unreachable));
    assert!(asked.elapsed() < Duration::from_millis(1_100));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(broker.sub_leases(), (0, 0));
}
