//! Bursts, rates and a table that is full.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn v4(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(number))
}

fn taken(budget: &mut Budget, source: IpAddr, now: u64, tries: u64) -> usize {
    (0..tries).filter(|_| budget.take(source, now)).count()
}

#[test]
fn a_source_gets_its_burst_then_its_rate() {
    let mut budget = Budget::new();
    assert_eq!(taken(&mut budget, v4(1), 0, 5_000), 2_000);
    assert_eq!(taken(&mut budget, v4(1), SECOND / 2, 5_000), 1_000);
    assert_eq!(taken(&mut budget, v4(1), 100 * SECOND, 5_000), 2_000);
}

#[test]
fn one_source_does_not_cost_another() {
    let mut budget = Budget::new();
    taken(&mut budget, v4(1), 0, 5_000);
    assert_eq!(taken(&mut budget, v4(2), 0, 10), 10);
}

#[test]
fn time_that_runs_backwards_gives_nothing() {
    let mut budget = Budget::new();
    taken(&mut budget, v4(1), SECOND, 5_000);
    assert!(!budget.take(v4(1), 0));
    assert!(!budget.take(v4(1), SECOND));
}

#[test]
fn addresses_of_one_ipv6_network_share_a_budget() {
    let mut budget = Budget::new();
    let at = |host: u128| IpAddr::V6(Ipv6Addr::from_bits((0x2001 << 112) | host));
    assert_eq!(taken(&mut budget, at(1), 0, 5_000), 2_000);
    assert!(!budget.take(at(2), 0));
    assert!(budget.take(at(1 << 64), 0));
    let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    assert_eq!(bucketed(mapped), IpAddr::V4(Ipv4Addr::LOCALHOST));
}

#[test]
fn a_full_table_shares_one_bucket_until_some_rest() {
    let mut budget = Budget::new();
    let many = u32::try_from(SOURCES_MAX).unwrap();
    for source in 0..many {
        budget.take(v4(source), 0);
    }
    let beyond = (many..many + 5_000).filter(|source| budget.take(v4(*source), 0)).count();
    assert_eq!(beyond, 2_000);
    assert_eq!(budget.sources.len(), SOURCES_MAX);
    assert!(budget.take(v4(many), SECOND));
    assert_eq!(budget.sources.len(), 1, "all others were at rest");
}
