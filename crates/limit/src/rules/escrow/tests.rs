//! What the owner and the edges have together.

use super::super::parse;
use super::*;
use crate::{Algorithm, KeySecret};

/// What the owner decides by, and what each edge has, in units: the burst of a bucket, the count of a window.
fn check(numbers: &str, expected: (u64, Option<u64>)) {
    let text = format!("{{domain: d, limits: [{{name: a, {numbers}, on_unavailable: local}}]}}");
    let domain = parse("f", &text, &KeySecret::new([1; 16])).expect("good rules");
    let rule = &domain.rules[0];
    let found = match &rule.escrow {
        Some(Escrow { owner, each }) => (owner.cap(), each.scale(owner).map(|each| each.cap())),
        None => (rule.limit.cap(), None),
    };
    assert_eq!(found, expected, "{numbers}");
    let edges = found.1.unwrap_or(0).saturating_mul(u64::from(rule.edges));
    assert!(found.0 + edges <= rule.limit.cap(), "{numbers}");
}

#[test]
fn a_tenth_is_set_aside_for_32_edges_unless_the_rule_says_otherwise() {
    check("limit: 3200/s", (2_880, Some(10)));
    check("limit: 3200/day, algorithm: fixed_window", (2_880, Some(10)));
    check("limit: 3200/day, algorithm: sliding_log, local_share: 0.25", (2_400, Some(25)));
    check("limit: 100/min, local_share: 0.5, edges: 2", (50, Some(25)));
    check("limit: 100/min, local_share: 0.5, edges: 1", (50, Some(50)));
    check("limit: 10/s, burst: 1000, edges: 4", (900, Some(25)));
}

#[test]
fn an_owner_keeps_all_of_what_would_leave_an_edge_less_than_a_unit() {
    check("limit: 319/s", (319, None));
    check("limit: 320/s", (288, Some(1)));
    check("limit: 5/min, algorithm: sliding_log", (5, None));
    check("limit: 5000/s, algorithm: shaper, queue: 900", (900, None));
}

#[test]
fn the_rates_of_all_edges_and_the_owner_are_the_declared_one_at_most() {
    let limit = Limit::new(Algorithm::TokenBucket { burst: 640 }, 100, leasehold_model::Nanos::from_secs(1));
    let limit = limit.expect("a limit");
    let away = Away { local_share_ppm: 100_000, edges: 32, max_overshoot_ppm: 0 };
    let Escrow { owner, each } = away.escrow(&limit).expect("two units each");
    let each = each.scale(&owner).expect("two units");
    // 90 a second, and 10/32 a second for each of 32.
    let per_second = |limit: &Limit| u128::from(limit.n()) * 32_000_000_000 / u128::from(limit.period().0);
    assert_eq!((per_second(&owner), per_second(&each)), (32 * 90, 10));
}

#[test]
fn an_override_has_its_own_part_set_aside() {
    let text = "domain: d
limits:
  - { name: a, per: [k], limit: 100/s, on_unavailable: local }
overrides:
  - { limit: a, values: [gold], set: { limit: 6400/s } }
";
    let domain = parse("f", text, &KeySecret::new([1; 16])).expect("good rules");
    let rule = &domain.rules[0];
    assert_eq!(rule.escrow, None);
    let gold = rule.overrides.values().next().expect("one override");
    assert_eq!(gold.escrow.as_ref().map(|escrow| escrow.owner.cap()), Some(5_760));
}
