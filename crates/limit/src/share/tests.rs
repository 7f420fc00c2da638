//! Parts add up to no more than the whole.

use super::*;
use crate::Window;

fn bucket(burst: u64, n: u64, period: Nanos) -> Limit {
    Limit::new(Algorithm::TokenBucket { burst }, n, period).expect("numbers that make a limit")
}

fn window(n: u64) -> Limit {
    Limit::new(Algorithm::FixedWindow(Window::Epoch), n, Nanos::from_secs(60)).expect("a window")
}

#[test]
fn a_bucket_is_shared_in_exact_rate_and_rounded_burst() {
    let share = Share::each(100_000, 32);
    let scaled = share.scale(&bucket(1_000, 7, Nanos::from_secs(1))).expect("three units");
    assert_eq!(scaled.algorithm(), &Algorithm::TokenBucket { burst: 3 });
    // 7 · 1/320 a second.
    assert_eq!((scaled.n(), scaled.period()), (7, Nanos::from_secs(320)));
}

#[test]
fn shares_and_what_the_owner_keeps_never_exceed_the_limit() {
    for (ppm, edges, n) in
        [(100_000, 32, 1_000), (333_333, 7, 1_000), (999_999, 1, 13), (1_000_000, 3, 100), (0, 5, 9)]
    {
        let of = |share: Share| share.scale(&window(n)).map_or(0, |limit| limit.n());
        let together = of(Share::without(ppm)) + u64::from(edges) * of(Share::each(ppm, edges));
        assert!(together <= n, "{ppm} ppm of {n} for {edges}: {together}");
    }
}

#[test]
fn a_share_of_nothing_whole_is_none() {
    assert_eq!(Share::each(100_000, 32).scale(&bucket(319, 100, Nanos::from_secs(1))), None);
    assert_eq!(Share::each(100_000, 0).scale(&window(100)), None);
    assert_eq!(Share::WHOLE.split(0).scale(&window(100)), None);
    let shaper = Limit::new(Algorithm::Shaper { queue: 100 }, 100, Nanos::from_secs(1)).expect("a shaper");
    assert_eq!(Share::WHOLE.scale(&shaper), None);
}

#[test]
fn a_broker_splits_its_share_among_its_children_and_itself() {
    let split = Share::each(500_000, 2).split(5);
    assert_eq!(split.scale(&window(100)).expect("five").n(), 5);
}

#[test]
fn rates_whose_exact_part_has_no_room_are_rounded_down() {
    let slow = bucket(u64::from(u32::MAX), 3, Nanos(1 << 32));
    let scaled = Share { parts: 1 << 40, of: (1 << 41) + 1 }.scale(&slow).expect("half");
    assert_eq!((scaled.n(), scaled.period()), (1, Nanos(1 << 32)));
}

#[test]
fn parts_of_a_rest_and_the_rest_never_exceed_the_limit() {
    for (ppm, edges, n) in
        [(100_000, 32, 1_000), (333_333, 7, 1_000), (500_000, 1, 13), (500_000, 3, 100), (1, 5, 9)]
    {
        let owner = Share::without(ppm).scale(&window(n)).expect("half of it at least");
        let each = Share::each_of_rest(ppm, edges).scale(&owner).map_or(0, |limit| limit.n());
        assert!(owner.n() + u64::from(edges) * each <= n, "{ppm} ppm of {n} for {edges}");
    }
}
