//! Who answers, and whether a directory may be used.

use leasehold_consensus::transport::ClusterId;
use leasehold_model::NodeId;

use super::*;

const ME: Identity = Identity { cluster: ClusterId(1), node: NodeId(1) };

/// Seeds in the order of their answers: `.` nobody, `m` this node, `f` a member of its cluster, `s` one of another; then the
/// same of known members that are no seeds.
fn check(seeds: &str, known: &str, misplaced: bool) {
    let by = |who: char| match who {
        'm' => Some(ME),
        'f' => Some(Identity { node: NodeId(2), ..ME }),
        's' => Some(Identity { cluster: ClusterId(2), node: NodeId(3) }),
        _ => None,
    };
    let answer = |seed| {
        move |(place, who): (usize, char)| Answer { address: format!("{seed}-{place}"), seed, by: by(who) }
    };
    let answers = seeds.chars().enumerate().map(answer(true));
    let answers = answers.chain(known.chars().enumerate().map(answer(false))).collect();
    assert_eq!(judge(ME, answers).is_some(), misplaced, "{seeds:?} {known:?}");
}

#[test]
fn a_directory_among_seeds_of_another_cluster_is_misplaced() {
    check("mss", "", true);
    check("ms.", "", false);
    check("ms", "", true);
    check("ss.", "", true);
    check("mss", "..", true);
}

#[test]
fn silence_accuses_nobody() {
    check("m..", "", false);
    check("...", "..", false);
    check("m", "", false);
    check("", "", false);
}

#[test]
fn where_a_fellow_answers_a_member_may_take_part() {
    check("mfs", "", false);
    check("mss", ".f", false);
    check("ss", "f", false);
}

#[test]
fn strangers_that_are_no_seeds_have_no_say() {
    check("m..", "ss", false);
}

#[test]
fn what_is_said_names_the_directory_the_others_and_what_to_do() {
    let said = in_words(Path::new("/var/lib/leasehold"), "main", &["a:7601".to_owned(), "b:7601".to_owned()]);
    for part in ["/var/lib/leasehold", "a:7601, b:7601", "\"main\"", "an empty one", "`cluster.seeds`"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}
