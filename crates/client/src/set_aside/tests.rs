//! Shares of one shard's keys, as the rules give them.

use std::sync::Arc;

use leasehold_limit::KeySecret;
use leasehold_limit::check::Attribute;
use leasehold_limit::rules::{Matched, Rule, parse};
use leasehold_model::Nanos;

use super::*;

const SHARD: ShardId = ShardId(3);

fn matched(rule: &str, user: &str) -> Matched {
    let text = format!("domain: api\nlimits:\n  - {{ name: some, per: [user], {rule} }}");
    let domain = parse("rules", &text, &KeySecret::new([7; 16])).expect("valid rules");
    let attributes = [Attribute { name: "user", value: user.as_bytes() }];
    Rule::matched(&Arc::clone(&domain.rules[0]), &attributes).expect("it applies")
}

fn wanted(matched: &Matched, cost: u64) -> Wanted<'_> {
    Wanted {
        shard: SHARD,
        key: matched.key.expect("a counter"),
        limit: matched.owner(),
        terms: Terms::of(matched),
        cost,
        shadow: false,
    }
}

fn at(secs: u64) -> BootTime {
    BootTime(Nanos::from_secs(secs).0)
}

/// An edge with a number, and a share that has had time to fill.
fn numbered() -> SetAside {
    let set_aside = SetAside::default();
    set_aside.slot(SHARD, 0, 1, at(0));
    set_aside
}

fn allowed(decisions: &[Option<Decision>]) -> Vec<Option<(bool, u64)>> {
    decisions.iter().map(|found| found.map(|decision| (decision.allowed, decision.granted))).collect()
}

#[test]
fn without_a_number_nothing_is_set_aside() {
    let one = matched("limit: 3200/s, on_unavailable: local", "a");
    assert_eq!(allowed(&SetAside::default().stand_in(&[wanted(&one, 1)], at(9))), [None]);
}

#[test]
fn one_key_wanted_twice_pays_for_both_or_neither() {
    // Ten units at once are this edge's.
    let one = matched("limit: 3200/s, on_unavailable: local", "a");
    let set_aside = numbered();
    let both = [wanted(&one, 6), wanted(&one, 6)];
    assert_eq!(allowed(&set_aside.stand_in(&both, at(9))), [Some((true, 0)), Some((false, 0))]);
    let both = [wanted(&one, 6), wanted(&one, 4)];
    assert_eq!(allowed(&set_aside.stand_in(&both, at(9))), [Some((true, 6)), Some((true, 4))]);
}

#[test]
fn what_declares_that_it_refuses_has_the_others_keep_theirs() {
    let (local, deny) = (
        matched("limit: 3200/s, on_unavailable: local", "a"),
        matched("limit: 3200/s, on_unavailable: deny", "b"),
    );
    let set_aside = numbered();
    let several = [wanted(&local, 10), wanted(&deny, 1)];
    assert_eq!(allowed(&set_aside.stand_in(&several, at(9))), [Some((true, 0)), None]);
    assert_eq!(allowed(&set_aside.stand_in(&[wanted(&local, 10)], at(9))), [Some((true, 10))]);
}

#[test]
fn what_declares_that_it_lets_pass_hinders_nobody() {
    let (local, allow) = (
        matched("limit: 3200/s, on_unavailable: local", "a"),
        matched("limit: 3200/s, on_unavailable: allow", "b"),
    );
    let several = [wanted(&local, 10), wanted(&allow, 1)];
    assert_eq!(allowed(&numbered().stand_in(&several, at(9))), [Some((true, 10)), None]);
}

#[test]
fn what_is_on_top_stands_beside_what_is_kept_back() {
    let one = matched("limit: 3200/s, on_unavailable: local, max_overshoot: 0.1", "a");
    let set_aside = numbered();
    let ten = || allowed(&set_aside.stand_in(&[wanted(&one, 9)], at(9)));
    assert_eq!([ten(), ten(), ten()].concat(), [Some((true, 9)), Some((true, 9)), Some((false, 0))]);
}

#[test]
fn a_broker_s_edge_has_its_part_of_the_share() {
    let one = matched("limit: 3200/s, on_unavailable: local", "a");
    let set_aside = SetAside::default();
    set_aside.slot(SHARD, 0, 5, at(0));
    assert_eq!(allowed(&set_aside.stand_in(&[wanted(&one, 3)], at(9))), [Some((false, 0))]);
    assert_eq!(allowed(&set_aside.stand_in(&[wanted(&one, 2)], at(9))), [Some((true, 2))]);
}

#[test]
fn a_number_is_to_be_renewed_before_it_ends() {
    let set_aside = numbered();
    assert!(set_aside.is_numbered(SHARD, at(2_600)));
    assert!(!set_aside.is_numbered(SHARD, at(2_800)));
}
