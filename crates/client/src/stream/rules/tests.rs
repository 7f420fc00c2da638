//! Sets of rules from their messages, and which of two is in force.

use leasehold_model::{ShardId, Stamp};

use super::*;

const ONE: &str = "{domain: one, limits: [{name: a, limit: 5/s}]}";
const TWO: &str = "{domain: two, limits: [{name: a, limit: 5/s}]}";

fn set(version: u64, domains: &[&str]) -> RuleSet {
    RuleSet {
        version: RulesVersion(version),
        since: Stamp(version),
        secret: [1; 16],
        domains: domains.iter().map(ToString::to_string).collect(),
        more: false,
        shards: 16,
        home_shards: vec![ShardId(3)],
    }
}

fn in_force(rules: &watch::Sender<Option<Arc<KnownRules>>>) -> u64 {
    rules.borrow().as_ref().map_or(0, |known| known.book.version.0)
}

fn offer(rules: &watch::Sender<Option<Arc<KnownRules>>>, set: &RuleSet) -> bool {
    publish(rules, KnownRules::read(set, "eu").unwrap())
}

#[test]
fn a_set_in_parts_is_whole_when_its_last_part_is_there() {
    let mut parts = Parts::default();
    let first = RuleSet { more: true, ..set(4, &[ONE]) };
    assert_eq!(parts.add(first), Ok(None));
    let whole = parts.add(set(4, &[TWO])).unwrap().unwrap();
    assert_eq!(whole.domains, [ONE, TWO]);
    let known = KnownRules::read(&whole, "eu").unwrap();
    assert_eq!(known.book.domains.len(), 2);
    assert_eq!((known.book.version, known.book.since), (RulesVersion(4), Stamp(4)));
    assert_eq!(known.region, Region::new(&known.secret, "eu", 16, [ShardId(3)]));
}

#[test]
fn parts_of_two_versions_are_no_set() {
    let mut parts = Parts::default();
    parts.add(RuleSet { more: true, ..set(4, &[ONE]) }).unwrap();
    let mixed = PartsError::Mixed { began: RulesVersion(4), goes_on: RulesVersion(5) };
    assert_eq!(parts.add(set(5, &[TWO])), Err(mixed));
}

#[test]
fn a_set_beyond_the_bound_is_not_taken() {
    let mut parts = Parts::default();
    let many = vec![ONE; DOMAINS_MAX];
    parts.add(RuleSet { more: true, ..set(4, &many) }).unwrap();
    assert_eq!(parts.add(set(4, &[TWO])), Err(PartsError::TooMany));
}

#[test]
fn older_rules_never_replace_newer_ones_of_the_same_cluster() {
    let rules = watch::Sender::new(None);
    assert!(offer(&rules, &set(4, &[ONE])));
    assert!(!offer(&rules, &set(3, &[ONE, TWO])));
    assert!(!offer(&rules, &set(4, &[ONE])));
    assert!(offer(&rules, &set(5, &[ONE])));
    assert_eq!(in_force(&rules), 5);
    let another = RuleSet { secret: [2; 16], ..set(1, &[TWO]) };
    assert!(offer(&rules, &another), "its counters have other names");
    assert_eq!(in_force(&rules), 1);
}

#[test]
fn rules_of_a_node_in_another_region_replace_those_that_are_known() {
    let rules = watch::Sender::new(None);
    assert!(offer(&rules, &set(4, &[ONE])));
    assert!(publish(&rules, KnownRules::read(&set(4, &[ONE]), "us").unwrap()));
}

#[test]
fn a_set_that_is_not_understood_is_none() {
    let mistakes = KnownRules::read(&set(4, &[ONE, "{domain: three, limits: [{name: a, dance: 5}]}"]), "eu");
    assert!(!mistakes.unwrap_err().is_empty());
    let twice = KnownRules::read(&set(4, &[ONE, ONE]), "eu");
    assert!(!twice.unwrap_err().is_empty());
}
