//! When a peer counts as heard.

use super::*;

const LEASE: Nanos = Nanos::from_millis(300);
const START: Stamp = Stamp(10_000_000_000);

fn ms(millis: u64) -> Stamp {
    START.after(Nanos::from_millis(millis))
}

fn has_lease(accepted: &[(u64, u64, u64)], at: u64) -> bool {
    let contact = Contact::new(LEASE, Stamp::ZERO);
    accepted.iter().for_each(|(follower, term, sent)| contact.accept(*follower, *term, ms(*sent)));
    contact.has_lease(1, 5, &[BTreeSet::from([1, 2, 3])], ms(at))
}

#[test]
fn one_of_two_followers_upholds_a_lease_for_less_than_its_own_promise() {
    assert!(has_lease(&[(2, 5, 0)], 269));
    assert!(!has_lease(&[(2, 5, 0)], 270));
}

#[test]
fn nobody_upholds_a_lease_alone_in_a_group_of_three() {
    assert!(!has_lease(&[], 0));
}

#[test]
fn what_was_accepted_in_an_earlier_term_upholds_nothing() {
    assert!(!has_lease(&[(2, 4, 0), (3, 4, 0)], 1));
}

#[test]
fn what_was_sent_earlier_and_accepted_later_shortens_nothing() {
    assert!(has_lease(&[(2, 5, 100), (2, 5, 0)], 300));
}

#[test]
fn who_is_no_voter_upholds_nothing() {
    assert!(!has_lease(&[(4, 5, 0), (5, 5, 0)], 1));
}

#[test]
fn a_voter_promises_a_lease_after_it_heard_a_leader() {
    let contact = Contact::new(LEASE, Stamp::ZERO);
    assert_eq!(contact.promised_for(START, CANDIDATE), Nanos::ZERO);
    contact.hear(START);
    assert_eq!(contact.promised_for(ms(100), CANDIDATE), Nanos::from_millis(200));
    assert_eq!(contact.promised_for(ms(300), CANDIDATE), Nanos::ZERO);
}

#[test]
fn a_restarted_voter_keeps_a_promise_that_it_may_have_made() {
    let contact = Contact::new(LEASE, ms(300));
    assert_eq!(contact.promised_for(ms(100), CANDIDATE), Nanos::from_millis(200));
    assert_eq!(contact.restarted_for(ms(301)), Nanos::ZERO);
}

#[test]
fn a_candidate_that_has_a_vote_gets_the_time_to_win() {
    let contact = Contact::new(LEASE, Stamp::ZERO);
    contact.vote(START);
    assert_eq!(contact.promised_for(ms(50), CANDIDATE), Nanos(CANDIDATE.0 - Nanos::from_millis(50).0));
    assert_eq!(contact.promised_for(START.after(CANDIDATE), CANDIDATE), Nanos::ZERO);
}
