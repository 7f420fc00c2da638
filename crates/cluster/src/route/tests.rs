//! Who is asked next.

use super::*;

const ALL: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn pick(route: &mut Route, now: Instant) -> Option<u64> {
    route.pick(None, ALL, now).map(|node| node.0)
}

#[test]
fn the_leader_by_the_last_answer_is_asked_before_the_others_and_after_the_replicas_own_word() {
    let (mut route, now) = (Route::default(), Instant::now());
    assert_eq!(pick(&mut route, now), Some(1));
    route.note(NodeId(2), Asked::Answered { took: None }, now);
    assert_eq!(pick(&mut route, now), Some(2));
    assert_eq!(route.pick(Some(NodeId(3)), ALL, now), Some(NodeId(3)));
}

#[test]
fn a_hint_is_followed_and_who_gave_it_is_passed_over_for_a_moment() {
    let (mut route, now) = (Route::default(), Instant::now());
    route.note(NodeId(1), Asked::Elsewhere { hint: Some(NodeId(3)) }, now);
    assert_eq!(pick(&mut route, now), Some(3));
    route.note(NodeId(3), Asked::Elsewhere { hint: None }, now);
    assert_eq!(pick(&mut route, now), Some(2));
    route.note(NodeId(2), Asked::Elsewhere { hint: Some(NodeId(1)) }, now);
    assert_eq!(pick(&mut route, now), None);
    assert_eq!(pick(&mut route, now + FOLLOWS_FOR), Some(1));
}

#[test]
fn a_silent_node_is_passed_over_even_when_others_name_it() {
    let (mut route, now) = (Route::default(), Instant::now());
    route.note(NodeId(3), Asked::Answered { took: None }, now);
    route.note(NodeId(3), Asked::Silent, now);
    route.note(NodeId(1), Asked::Elsewhere { hint: Some(NodeId(3)) }, now);
    assert_eq!(pick(&mut route, now), Some(2));
    assert_eq!(pick(&mut route, now + SILENT_FOR), Some(3));
}

#[test]
fn patience_with_a_node_grows_by_silences_and_not_by_asks_and_ends_with_an_answer() {
    let (mut route, mut now) = (Route::default(), Instant::now());
    for expected in [400, 800, 1600, 1600] {
        assert_eq!(route.patience(NodeId(1)), ms(expected));
        route.note(NodeId(1), Asked::Silent, now);
        // Another ask that was under way.
        route.note(NodeId(1), Asked::Silent, now);
        now += SILENT_FOR;
        pick(&mut route, now);
    }
    assert_eq!(route.patience(NodeId(2)), ms(400));
    route.note(NodeId(2), Asked::Answered { took: None }, now);
    assert_eq!(route.patience(NodeId(1)), ms(400));
}

#[test]
fn callers_in_a_hurry_find_a_silent_node_out_together() {
    let (mut route, began) = (Route::default(), Instant::now());
    let mut now = began;
    while now < began + PATIENCE_MIN {
        assert_eq!(pick(&mut route, now), Some(1), "after {:?}", now - began);
        route.note(NodeId(1), Asked::Late { since: now }, now + ms(20));
        now += ms(21);
    }
    assert_eq!(pick(&mut route, now), Some(2));
}

#[test]
fn one_answer_among_late_ones_keeps_a_slow_node_in() {
    let (mut route, began) = (Route::default(), Instant::now());
    for at in (0..2000).step_by(20) {
        let now = began + ms(at);
        let asked = if at % 300 == 0 { Asked::Answered { took: None } } else { Asked::Late { since: now } };
        route.note(NodeId(1), asked, now + ms(20));
        assert_eq!(pick(&mut route, now + ms(20)), Some(1));
    }
}

#[test]
fn a_leader_that_is_slow_with_every_answer_is_not_silent() {
    let (mut route, now) = (Route::default(), Instant::now());
    for _ in 0..40 {
        route.note(NodeId(1), Asked::Answered { took: Some(ms(300)) }, now);
    }
    let patience = route.patience(NodeId(1));
    assert!(ms(1000) < patience && patience <= ms(1200), "{patience:?}");
    // Whoever answers at once is waited for no longer than before.
    for _ in 0..40 {
        route.note(NodeId(1), Asked::Answered { took: Some(ms(3)) }, now);
    }
    assert_eq!(route.patience(NodeId(1)), PATIENCE_MIN);
    for _ in 0..40 {
        route.note(NodeId(1), Asked::Answered { took: Some(ms(3000)) }, now);
    }
    assert_eq!(route.patience(NodeId(1)), PATIENCE_MAX);
}
