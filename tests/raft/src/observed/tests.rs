//! Each invariant notices its breach.

use leasehold_model::NodeId;

use super::*;

const GROUP: GroupId = GroupId(1);

fn names(observed: &Observed) -> Vec<&'static str> {
    observed.breaches.iter().map(|breach| breach.invariant).collect()
}

#[test]
fn two_that_serve_in_one_step_are_noticed_and_one_after_the_other_is_fine() {
    let mut observed = Observed::default();
    observed.serves(1, GROUP, true, 10, 0);
    observed.serves(1, GROUP, false, 11, 0);
    observed.serves(2, GROUP, true, 11, 0);
    assert!(observed.breaches.is_empty());
    observed.serves(1, GROUP, true, 11, 0);
    assert_eq!(names(&observed), ["one_granter"]);
}

#[test]
fn a_term_that_goes_back_and_a_term_with_two_leaders_are_noticed() {
    let mut observed = Observed::default();
    let leads = |term, leader| Leadership { term, leader: Some(NodeId(leader)), serving: false };
    observed.leads(1, GROUP, leads(3, 1), 0);
    observed.leads(2, GROUP, leads(3, 2), 0);
    observed.crashed(1);
    observed.leads(1, GROUP, leads(2, 1), 0);
    assert_eq!(names(&observed), ["one_granter", "epoch_monotonic"]);
}

#[test]
fn replicas_that_differ_after_the_same_entry_are_noticed() {
    let mut observed = Observed::default();
    observed.applied(1, GROUP, 7, 1, 0);
    observed.applied(2, GROUP, 8, 2, 0);
    observed.applied(2, GROUP, 7, 3, 0);
    assert_eq!(names(&observed), ["equal_prefix_equal_hash"]);
}
