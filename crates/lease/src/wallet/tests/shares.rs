//! What an edge does while units are short: when it asks for its share, and what comes meanwhile.

use super::*;

/// Twenty requests at once; the owner has five units, and the edge's share after `gate` milliseconds, half a `trip` away.
fn gated(gate: u64, trip: u64) -> Edge {
    gated_after(20, gate, trip)
}

fn gated_after(requests: usize, gate: u64, trip: u64) -> Edge {
    let mut edge = edge();
    for _ in 0..requests {
        let _ticket = edge.waits(1, 0);
    }
    let asked = edge.ask(0);
    let gate = Some(Nanos::from_millis(gate));
    let answers = edge.leased(asked.id, &Leased { sync: 5, gate, remaining: 0, ..nothing() }, trip);
    assert_eq!(answers.len(), requests);
    edge
}

fn is_refused(checked: &Checked) -> bool {
    matches!(checked, Checked::Answered(Answer::Denied { asked: false, .. }))
}

#[test]
fn an_ask_for_a_share_reaches_the_owner_when_the_share_comes() {
    // The owner said so at 50 ms.
    let mut edge = gated(200, 100);
    edge.time(199);
    edge.asks_nothing(199);
    edge.time(200);
    assert_eq!(edge.ask(200).ask.need, 0);
}

#[test]
fn requests_are_refused_while_an_ask_for_a_share_is_under_way() {
    let mut edge = gated(200, 100);
    edge.time(200);
    let asked = edge.ask(200);
    assert!(is_refused(&edge.check(1, 290)));
    edge.leased(asked.id, &plenty(&asked.ask, 1), 300);
    assert!(matches!(edge.check(1, 301), Checked::Answered(Answer::Taken { .. })));
}

#[test]
fn requests_wait_again_when_the_answer_about_a_share_is_late() {
    let mut edge = gated(200, 100);
    edge.time(200);
    let _asked = edge.ask(200);
    assert!(is_refused(&edge.check(1, 312)));
    assert!(matches!(edge.check(1, 313), Checked::Waiting(_)));
}

#[test]
fn an_owner_so_far_away_that_the_share_has_come_is_asked_at_once() {
    let mut edge = gated(100, 300);
    assert!(is_refused(&edge.check(1, 301)));
    assert_eq!(edge.ask(301).ask.need, 0);
}

#[test]
fn a_gate_that_opens_when_nothing_is_wanted_any_more_keeps_nobody_busy() {
    let mut edge = gated_after(8, 980, TRIP);
    edge.time(981);
    edge.asks_nothing(981);
    assert!(edge.wallet.next_deadline().is_none_or(|due| due > ms(982)));
}

#[test]
fn while_units_are_short_what_was_spent_is_told_soon_and_more_is_asked_for_with_it() {
    let mut edge = edge();
    edge.waits_often(0);
    let asked = edge.ask(0);
    edge.leased(asked.id, &Leased { remaining: 3, ..plenty(&asked.ask, 1) }, TRIP);
    edge.spend_all(2, TRIP + 1);
    let due = edge.wallet.next_deadline().expect("word to send");
    assert!(due <= ms(TRIP + 50), "{due:?}");
    edge.time(TRIP + 50);
    let ask = edge.ask(TRIP + 50).ask;
    assert_eq!((ask.need, ask.usage[0].spent_total), (0, 2));
}
