//! Histories come back as they were written, and mistakes are told where they are.

use super::sample::{SECOND, allowed, fault, limit, phase, unknown};
use super::*;

fn every_event() -> Vec<Event> {
    vec![
        Event::Run(Run { scenario: "kill".to_owned(), must_reach: vec!["x".to_owned()], ..Run::default() }),
        Event::Rules(Rules {
            version: 1,
            in_force: Some(0),
            limits: vec![limit("a", 10)],
            ..Rules::default()
        }),
        phase(0, PhaseName::Trouble),
        Event::Check(allowed(5, 1)),
        Event::Check(unknown(6, 1, "r1")),
        Event::Log(Resolved { at: 9, id: "r1".to_owned(), charged: vec!["shop/a=x".to_owned()] }),
        fault(7, "kill", "node-1", FaultPhase::Once),
        Event::State(State {
            at: 8,
            node: "node-1".to_owned(),
            shards: vec![Shard { shard: 3, applied: 7, hash: Some("00ff".to_owned()), ..Shard::default() }],
            lent: Some(Lent { granted: 3, spent: 1, outstanding: 2, ..Lent::default() }),
            ..State::default()
        }),
        Event::Reached(Reached { at: 9, name: "deposed_leader_asked".to_owned(), ..Reached::default() }),
    ]
}

fn written(events: &[Event]) -> String {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    for event in events {
        writer.write(event).expect("a vector takes all");
    }
    writer.flush().expect("a vector takes all");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

#[track_caller]
fn check_mistake(lines: &str, expected: &str) {
    let error = History::read_from(lines.as_bytes(), "h").expect_err("a mistake");
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

/// The two lines that every history has, and a third.
fn third(line: &str) -> String {
    format!("{}{line}\n", written(&every_event()[..2]))
}

#[test]
fn what_was_written_comes_back_equal() {
    let events = every_event();
    let text = written(&events);
    let back: Vec<Event> = Reader::new(text.as_bytes()).map(|event| event.expect("a good line")).collect();
    assert_eq!(back, events);
    assert_eq!(text.lines().count(), events.len());
}

#[test]
fn a_line_begins_with_the_name_of_its_event_and_has_no_empty_fields() {
    let text = written(&[Event::Check(unknown(6, 1, "r1"))]);
    assert!(text.starts_with(r#"{"event":"check","invoked":6,"client":"c""#), "{text}");
    assert!(!text.contains("null"), "{text}");
}

#[test]
fn a_history_in_memory_knows_every_name() {
    let history = History::read_from(written(&every_event()).as_bytes(), "h").expect("a good history");
    let call = history.calls[1];
    assert_eq!((call.outcome, call.returned), (Outcome::Unknown, None));
    let keys: Vec<&str> = history.keys(call.keys).iter().map(|key| history.text(*key)).collect();
    assert_eq!(keys, ["shop/a=x"]);
    assert_eq!(history.text(call.door), "node-1");
    let found = &history.resolved[&call.id.expect("it has an id")];
    assert_eq!((found.at, found.charged.as_slice()), (9, history.keys(call.keys)));
    let limit = history.limit(history.keys(call.keys)[0], &history.rules[0]).expect("its limit");
    assert_eq!((limit.amount, limit.period_ns), (10, SECOND));
    assert_eq!((history.began(PhaseName::Trouble), history.began(PhaseName::Calm)), (Some(0), None));
    assert_eq!(history.end(), 8);
}

#[test]
fn fields_that_are_not_known_are_passed_over_and_empty_lines_too() {
    let lines = third("\n{\"later\":1,\"event\":\"phase\",\"at\":3,\"name\":\"calm\",\"why\":[]}\n\n");
    let history = History::read_from(lines.as_bytes(), "h").expect("a good history");
    assert_eq!(history.began(PhaseName::Calm), Some(3));
}

#[test]
fn a_mistake_is_told_with_its_line_and_field() {
    check_mistake("{\"event\":\"run\"}", "line 1: run: missing field `scenario`");
    check_mistake(&third("{"), "line 3: not an event");
    check_mistake(&third("{\"event\":\"chekc\"}"), "line 3: no such event: chekc");
    check_mistake(
        &third("{\"event\":\"phase\",\"at\":-1,\"name\":\"calm\"}"),
        "line 3: phase.at: invalid value",
    );
    check_mistake(
        &third("{\"event\":\"phase\",\"at\":1,\"name\":\"clam\"}"),
        "line 3: phase.name: unknown variant `clam`",
    );
    let shards = "{\"event\":\"state\",\"at\":1,\"node\":\"n\",\"shards\":[{\"shard\":1}]}";
    check_mistake(&third(shards), "line 3: state.shards[0]: missing field `applied`");
    check_mistake("", "no line says what was run");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let check = |fields: &str| {
        third(&format!("{{\"event\":\"check\",\"client\":\"c\",\"door\":\"d\",\"cost\":1,{fields}}}"))
    };
    let backwards = check("\"invoked\":5,\"returned\":4,\"keys\":[\"shop/a\"],\"outcome\":\"allowed\"");
    check_mistake(&backwards, "line 3: check.returned: 4 is before 5");
    let unanswered = check("\"invoked\":5,\"keys\":[\"shop/a\"],\"outcome\":\"allowed\"");
    check_mistake(&unanswered, "line 3: check.returned: absent although");
    let stranger = check("\"invoked\":5,\"keys\":[\"shop/b=x\"],\"outcome\":\"unknown\"");
    check_mistake(&stranger, "line 3: check.keys: shop/b=x: no such limit");
}
