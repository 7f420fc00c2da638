//! Reports second by second, and what changes with them.

use super::*;

struct Watched {
    roster: Roster,
    start: Instant,
}

impl Watched {
    fn new() -> Self {
        let start = tokio::time::Instant::now().into_std();
        Self { roster: Roster::default(), start }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    /// Reports (id, boot, live) of each; what changed by that.
    fn report(&mut self, second: u64, sightings: &[(u64, u64, bool)]) -> Vec<Change> {
        let before = self.roster.members().clone();
        let sightings = sightings.iter().map(|(id, boot, live)| sighting(*id, *boot, *live)).collect();
        self.roster.report(self.at(second), sightings);
        self.roster.members().changes_since(&before)
    }

    fn liveness(&self, id: u64) -> Liveness {
        self.roster.members().get(NodeId(id)).unwrap().liveness
    }
}

fn sighting(id: u64, boot: u64, live: bool) -> Sighting {
    let gossip_address = ([127, 0, 0, 1], 7_000).into();
    Sighting { id: NodeId(id), boot: Boot(boot), gossip_address, profile: Profile::default(), live }
}

#[test]
fn since_is_when_it_became_so() {
    let mut watched = Watched::new();
    assert_eq!(watched.report(0, &[(1, 1, true)]), [Change::Joined(NodeId(1))]);
    assert_eq!(watched.report(1, &[(1, 1, true)]), []);
    assert_eq!(watched.liveness(1), Liveness::Live { since: watched.at(0) });
    assert_eq!(watched.report(2, &[(1, 1, false)]), [Change::Died(NodeId(1))]);
    assert_eq!(watched.report(9, &[(1, 1, false)]), []);
    assert_eq!(watched.liveness(1), Liveness::Dead { since: watched.at(2) });
    assert_eq!(watched.report(10, &[(1, 1, true)]), [Change::Returned(NodeId(1))]);
}

#[test]
fn a_restart_that_was_never_seen_as_death_is_a_return() {
    let mut watched = Watched::new();
    watched.report(0, &[(1, 1, true)]);
    assert_eq!(watched.report(1, &[(1, 2, true)]), [Change::Returned(NodeId(1))]);
    assert_eq!(watched.liveness(1), Liveness::Live { since: watched.at(1) });
}

#[test]
fn what_is_no_longer_reported_dies_after_a_while_and_stays() {
    let mut watched = Watched::new();
    watched.report(0, &[(1, 1, true)]);
    assert_eq!(watched.report(3, &[]), []);
    assert_eq!(watched.report(4, &[]), [Change::Died(NodeId(1))]);
    assert_eq!(watched.report(9_999, &[]), []);
}

#[test]
fn a_forgotten_node_stays_away_until_it_is_heard_again() {
    let mut watched = Watched::new();
    watched.report(0, &[(1, 1, true)]);
    assert!(!watched.roster.forget(NodeId(1)), "it is live");
    watched.report(1, &[(1, 1, false)]);
    assert!(watched.roster.forget(NodeId(1)));
    assert_eq!(watched.report(2, &[(1, 1, false)]), []);
    assert_eq!(watched.report(3, &[(1, 1, true)]), [Change::Joined(NodeId(1))]);
}

#[test]
fn a_full_table_gives_the_place_of_the_longest_dead() {
    let mut watched = Watched::new();
    let all: Vec<(u64, u64, bool)> = (0..256).map(|id| (id, 1, true)).collect();
    watched.report(0, &all);
    assert_eq!(watched.roster.report(watched.at(0), vec![sighting(900, 1, true)]), 1);
    watched.report(1, &[(7, 1, false)]);
    watched.report(2, &[(3, 1, false)]);
    assert_eq!(watched.report(2, &[(900, 1, true)]), [Change::Joined(NodeId(900)), Change::Gone(NodeId(7))]);
    assert_eq!(watched.roster.members().len(), MEMBERS_MAX);
}

#[test]
fn of_two_leader_hints_the_later_term_wins_and_the_dead_have_no_say() {
    let mut watched = Watched::new();
    let mut told = Vec::new();
    for (id, term, live) in [(1, 5, true), (2, 6, true), (3, 9, false)] {
        let mut sighting = sighting(id, 1, live);
        sighting.profile.hints = [(0, LeaderHint { leader: NodeId(id), term })].into();
        told.push(sighting);
    }
    watched.roster.report(watched.at(0), told);
    let members = watched.roster.members();
    assert_eq!(members.leader_hint(0), Some(LeaderHint { leader: NodeId(2), term: 6 }));
    assert_eq!(members.leader_hint(1), None);
}
