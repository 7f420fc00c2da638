//! Who may stand, who is answered, and who yields.

use proptest::prelude::*;

use super::*;

const NONE: Opinion = Opinion { leader_for: Nanos::ZERO, behind: false };
const BEHIND: Opinion = Opinion { leader_for: Nanos::ZERO, behind: true };

const fn hears(millis: u64) -> Opinion {
    Opinion { leader_for: Nanos::from_millis(millis), behind: false }
}

/// The verdict for replica 1, which has promised nothing itself unless it is said.
fn check(voter_sets: &[&[u64]], opinions: &[(u64, Opinion)], expected: Verdict) {
    let sets: Vec<BTreeSet<u64>> = voter_sets.iter().map(|set| set.iter().copied().collect()).collect();
    let opinions = std::iter::once((1, NONE)).chain(opinions.iter().copied()).collect();
    assert_eq!(tally(&sets, &opinions), expected);
}

#[test]
fn what_the_asker_promised_a_leader_itself_counts_too() {
    // A leader may serve on this one promise, though nobody else hears it.
    check(&[&[1, 2, 3]], &[(1, hears(120)), (2, NONE)], Verdict::LeaderHeard(Nanos::from_millis(120)));
    check(&[&[1, 2, 3]], &[(1, hears(120)), (2, NONE), (3, NONE)], Verdict::Elect);
}

#[test]
fn timings_that_can_not_work_are_refused() {
    let ms = Nanos::from_millis;
    let good = Timing::default();
    assert_eq!(good.check(), Ok(()));
    for bad in [
        Timing { heartbeat: ms(200), ..good },
        Timing { election_min: ms(299), ..good },
        Timing { election_max: ms(400), ..good },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}

#[test]
fn one_of_two_others_is_a_majority_with_oneself() {
    check(&[&[1, 2, 3]], &[(2, NONE)], Verdict::Elect);
}

#[test]
fn nobody_else_is_no_majority() {
    check(&[&[1, 2, 3]], &[], Verdict::NoMajority);
}

#[test]
fn a_lone_voter_agrees_with_itself() {
    check(&[&[1]], &[], Verdict::Elect);
}

#[test]
fn a_majority_that_hears_a_leader_is_asked_again_when_the_first_that_counts_would_agree() {
    check(&[&[1, 2, 3]], &[(2, hears(200)), (3, hears(90))], Verdict::LeaderHeard(Nanos::from_millis(90)));
}

#[test]
fn a_minority_that_hears_a_leader_does_not_count() {
    check(&[&[1, 2, 3]], &[(2, hears(200)), (3, NONE)], Verdict::Elect);
}

#[test]
fn a_log_that_is_behind_a_majority_never_leads() {
    check(&[&[1, 2, 3]], &[(2, BEHIND), (3, BEHIND)], Verdict::Behind);
}

#[test]
fn a_log_that_is_behind_one_of_two_can_lead() {
    check(&[&[1, 2, 3]], &[(2, BEHIND), (3, NONE)], Verdict::Elect);
}

#[test]
fn both_sets_have_to_agree_during_a_change() {
    check(&[&[1, 2, 3], &[3, 4, 5]], &[(2, NONE), (3, NONE)], Verdict::NoMajority);
    check(&[&[1, 2, 3], &[3, 4, 5]], &[(2, NONE), (3, NONE), (4, NONE)], Verdict::Elect);
}

#[test]
fn silence_is_waited_for_between_the_bounds_and_the_preferred_asks_first() {
    let timing = Timing::default();
    for seed in 0..200 {
        let at = Stamp(1_000_000_000);
        let [preferred, other] = [true, false].map(|preferred| {
            let mut election = Election::new(timing, seed, preferred, Stamp::ZERO);
            election.heard(at);
            election.due().unwrap().since(at)
        });
        assert!(timing.election_min <= preferred && preferred < other && other <= timing.election_max);
    }
}

#[test]
fn the_preferred_replica_of_a_new_group_asks_at_once_and_later_it_waits_as_all_do() {
    let now = Stamp(5_000_000_000);
    let mut election = Election::new(Timing::default(), 3, false, now);
    assert!(election.due().unwrap() > now);
    election.prefer(true, now);
    assert_eq!(election.due(), Some(now));
    election.heard(now);
    election.prefer(true, now);
    assert!(election.due().unwrap() > now);
}

#[test]
fn a_broken_connection_brings_the_question_forward() {
    for (preferred, most) in [(true, LOST_PAUSE), (false, LOST_PAUSE_OTHERS.1)] {
        let mut election = Election::new(Timing::default(), 3, preferred, Stamp::ZERO);
        election.heard(Stamp(5_000_000_000));
        election.leader_lost(Stamp(5_000_000_000));
        assert!(election.due().unwrap().since(Stamp(5_000_000_000)) <= most);
    }
}

#[test]
fn a_leader_that_is_heard_again_puts_the_question_off() {
    let mut election = Election::new(Timing::default(), 3, false, Stamp::ZERO);
    let (lost, heard) = (Stamp(5_000_000_000), Stamp(5_000_000_001));
    election.leader_lost(lost);
    election.heard(heard);
    assert!(!election.ask(heard.after(Nanos::from_millis(299))));
    assert!(election.ask(heard.after(Nanos::from_millis(600))));
}

#[test]
fn nobody_asks_twice_at_a_time() {
    let mut election = Election::new(Timing::default(), 3, true, Stamp::ZERO);
    assert!(election.ask(Stamp::ZERO));
    assert!(!election.ask(Stamp(u64::MAX)));
    assert_eq!(election.due(), None);
    election.answered(Stamp(9), Verdict::NoMajority);
    assert!(election.due().unwrap() > Stamp(9));
}

proptest! {
    #[test]
    fn a_candidate_gets_agreement_exactly_when_no_majority_has_a_longer_log(
        logs in proptest::collection::vec(0_u8..4, 3..6),
    ) {

        let voters: BTreeSet<u64> = (0..logs.len() as u64).collect();
        for mine in &logs {
            let opinions: BTreeMap<u64, Opinion> = logs.iter().enumerate()
                .map(|(node, log)| (node as u64, Opinion { leader_for: Nanos::ZERO, behind: log > mine }))
                .collect();
            let ahead = logs.iter().filter(|log| *log > mine).count();
            let elects = tally(std::slice::from_ref(&voters), &opinions) == Verdict::Elect;
            prop_assert_eq!(elects, logs.len() - ahead > logs.len() / 2);
        }
    }
}
