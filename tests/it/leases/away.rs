//! A sidecar that is cut off from its node, and limits that say what it may do then: a share that was set aside exceeds
//! nothing, and `max_overshoot` no more than it says.

use std::time::Duration;

use leasehold_tests::bound::Bound;
use leasehold_tests::{Deadline, TestNode, Timeline};

use super::fleet::Fleet;
use super::judge;
use super::traffic::{Sent, Source, Traffic};

const RULES: &str = "
domain: shop
limits:
  - { name: own, per: [own], limit: 80/second, on_unavailable: local, local_share: 0.5, edges: 2 }
  - { name: over, per: [over], limit: 80/second, on_unavailable: deny, max_overshoot: 0.25, edges: 2 }
";

/// What is set aside of it is part of it.
const OWN: Bound = Bound::bucket(80, Duration::from_secs(1));

/// (1 + x)(b + r·w), with x of a quarter.
const OVER: Bound = Bound::bucket(100, Duration::from_secs(1));

/// Until each sidecar has its number, and its share has filled.
const BEFORE: Duration = Duration::from_millis(2_500);

const CUT_OFF_FOR: Duration = Duration::from_secs(5);

/// A sidecar that was cut off has noticed.
const NOTICED_WITHIN: Duration = Duration::from_secs(4);

const AFTER: Duration = Duration::from_secs(1);

/// Above the limit of each, through each sidecar.
fn to(attribute: &'static str) -> Traffic {
    Traffic { attribute, values: 1, workers: 2, pause: Duration::from_millis(15) }
}

fn fallbacks(sent: &[Sent], from: u64, to: u64) -> usize {
    let within = sent.iter().filter(|one| (from..to).contains(&one.invoked_ns));
    within.filter(|one| one.is_by(Source::Fallback)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sidecar_that_is_cut_off_spends_its_share_or_what_a_limit_may_be_exceeded_by_and_no_more() {
    let node = TestNode::start(RULES);
    let fleet = Fleet::start(&[node.clients], 2).await;
    let clock = Timeline::start();
    let (own, over) = (to("own").start(fleet.doors(), clock), to("over").start(fleet.doors(), clock));
    tokio::time::sleep(BEFORE).await;
    let cut_at = clock.now_ns();
    fleet.cut_off(1);
    let noticed = Deadline::after(NOTICED_WITHIN);
    while fleet.degraded(1).await.is_none() {
        assert!(!noticed.passed(), "the sidecar doesn't notice that it is alone");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(fleet.degraded(0).await, None, "the other one was cut off too");
    tokio::time::sleep(CUT_OFF_FOR).await;
    let healed_at = clock.now_ns();
    fleet.heal();
    let recovered = fleet.wait_until_none_is_degraded().await;
    let recovered_at = clock.now_ns();
    tokio::time::sleep(AFTER).await;
    let ended_at = clock.now_ns();
    let (own, over) = (own.stop().await, over.stop().await);

    let (of_own, of_over) = (judge(&own, OWN), judge(&over, OVER));
    println!("own, 80/s, local: {of_own}; {} by the share", fallbacks(&own, cut_at, healed_at));
    println!("over, 80/s, max_overshoot 0.25: {of_over}; {} on top", fallbacks(&over, 0, ended_at));
    println!("not degraded {recovered:?} after the cut was healed");
    assert_eq!((of_own.overshoot, of_over.overshoot), (0, 0));
    assert!(of_own.denied > 0 && of_over.denied > 0, "no counter was at its limit");
    assert!(fallbacks(&own, cut_at, healed_at) > 0, "the share wasn't used");
    assert!(fallbacks(&over, cut_at, healed_at) > 0, "nothing was taken on top");
    assert_eq!(fallbacks(&own, recovered_at, ended_at), 0, "the share is used although the owner is back");
}
