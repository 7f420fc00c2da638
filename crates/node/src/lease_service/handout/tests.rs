//! Rule sets as their messages.

use leasehold_limit::KeySecret;
use leasehold_limit::rules::{RuleBook, parse};
use leasehold_model::{RulesVersion, ShardId};

use super::*;
use crate::metrics::Metrics;

/// A set of domains whose files have about so many bytes each.
fn handout(sizes: &[usize]) -> Handout {
    let secret = KeySecret::new([7; 16]);
    let domain = |(at, size): (usize, &usize)| {
        let text = format!("domain: d{at}\nlimits: [{{name: a, limit: 5/s}}]\n# {}\n", "x".repeat(*size));
        (format!("d{at}.yaml"), parse("d", &text, &secret).expect("valid"))
    };
    let domains = sizes.iter().enumerate().map(domain).collect();
    let book = RuleBook::new(RulesVersion(3), domains).expect("valid");
    let meters = Metrics::new().meters(&book);
    let home = Home { shards: 4, here: vec![ShardId(2)] };
    Handout::new(Arc::new(Active { book: Arc::new(book), meters, secret, region: None }), home)
}

/// Checks how many files each message has, and that only the last says that it is.
fn check(sizes: &[usize], expected: &[usize]) {
    let mut handout = handout(sizes);
    let mut sets = Vec::new();
    while !handout.is_over() {
        let LeaseResponse::Rules(set) = handout.next() else { panic!("no rules") };
        sets.push(set);
    }
    let files: Vec<_> = sets.iter().map(|set| set.domains.len()).collect();
    assert_eq!(files, expected);
    let (last, others) = sets.split_last().expect("one at least");
    assert!(!last.more && others.iter().all(|set| set.more));
    assert!(sets.iter().all(|set| set.version == RulesVersion(3) && set.secret == [7; 16]));
    assert_eq!(sets[0].home_shards, [ShardId(2)]);
}

#[test]
fn a_small_set_is_one_message_and_so_is_an_empty_one() {
    check(&[10, 10, 10], &[3]);
    check(&[], &[0]);
}

#[test]
fn a_large_set_is_cut_between_its_files() {
    let half = RULES_PER_MESSAGE_BYTES_MAX / 2 - 1_000;
    check(&[half, half, half], &[2, 1]);
    check(&[half * 2, half * 2], &[1, 1]);
    check(&[half * 3, 10], &[1, 1]);
}
